"""The audit screen: a rate a probe, the findings below, and the one under the cursor in full.

What was audited before is shown at once; the rest is audited when a person says so, in a worker
that can be stopped. Enter opens the run at the step, and a tag is given with the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event

from msgspec import structs
from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.worker import Worker, WorkerState
from typing_extensions import override

from arc_tui.features.audit.declared import declared_sentences
from arc_tui.features.audit.text import (
    RATES,
    no_findings,
    notes,
    rate_cells,
    sentence,
)
from arc_tui.features.audit.view import (
    EMPTY,
    AuditRequest,
    AuditRow,
    AuditView,
    kept_audit,
    run_audit,
    tag_row,
)
from arc_tui.importing import Progress
from arc_tui.navigation import OpenTrace
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.document import Block, Document, document_text
from arc_tui.ui.format import fit
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from arc_tui.ui.screen import ArcScreen, ViewSwitch
from arc_tui.ui.styles import SummaryLines, fold_sentence
from arc_tui.views.runs import audit_text, held_out_text
from replay.store.handle import Store
from taxonomy.audit.exploits import NAME as EXPLOITS

RUN, STEP, RESULT = 24, 4, 11
"""Cells of the columns before what was found."""


class AuditRows(RowList):
    """A row a finding: `█` tagged by this person, `▒` a suggestion."""

    HELP = "the findings of an audit"
    HEAD = 1
    STYLES = {"tagged": "$primary", "suggested": "$secondary", "quiet": "$quiet"}

    BINDINGS = [
        bind("enter", "open_row", id="audit.open",
             tooltip="Open the run under the cursor at the step of the finding"),
    ]  # fmt: skip

    found: reactive[tuple[AuditRow, ...]] = reactive((), repaint=False)

    class Chosen(Message):
        """The run of a finding is to be shown at its step."""

        def __init__(self, row: AuditRow) -> None:
            super().__init__()
            self.row = row

    @property
    def row_count(self) -> int:
        return len(self.found)

    @property
    def row(self) -> AuditRow | None:
        """The one under the cursor."""
        return self.found[self.cursor] if self.cursor < self.row_count else None

    def watch_found(self) -> None:
        self.rows_changed()
        self.post_message(self.Moved(self))

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line
        return Text(self._line("run", "step", "result", "what", width))

    @override
    def draw(self, index: int, width: int) -> Text:
        row = self.found[index]
        mark = "█ " if row.is_tagged else "▒ "
        style = self.style_of("tagged" if row.is_tagged else "suggested")
        what = format.one_line(row.what)
        cells = self._line(row.run, str(row.step), row.result, what, width)
        return Text.assemble((mark, style), cells[2:])

    def _line(self, run: str, step: str, result: str, what: str, width: int) -> str:
        names = [cell_len(row.run) for row in self.found[:500]]
        room = max(min(max(names, default=RUN), RUN, width // 4), 8)
        cells = f"  {fit(run, room)}  {fit(step, STEP, right=True)}  {fit(result, RESULT)}  {what}"
        return fit(cells, width)

    def action_open_row(self) -> None:
        if self.row is not None:
            self.post_message(self.Chosen(self.row))


class AuditHead(SummaryLines):
    """What was audited and when, then a line a probe."""

    STYLES = {"sentence": "bold", "stale": "$warning", "quiet": "$quiet"}

    view: reactive[AuditView] = reactive(EMPTY, layout=True)
    progress: reactive[str] = reactive("", layout=True)
    hint: reactive[str] = reactive("")
    """What to press where runs were not audited yet."""

    @override
    def lines(self, width: int) -> list[Text]:
        view = self.view
        if view is EMPTY:
            return [Text("")]
        hint = self.hint if view.age.new and not self.progress else ""
        age = f"{audit_text(view.age)}{hint}" if view.age.last_ns is not None else ""
        held = held_out_text(view.held_out) if view.held_out.runs else ""
        words = " · ".join(filter(None, [sentence(view), format.one_line(view.query), held]))
        if view.is_declared_due and not self.progress:
            age = f"{age}; {EXPLOITS}: not looked at yet{'' if view.age.new else self.hint}"
        said = self.progress or age
        return [
            *self.styled_lines(
                [
                    ("sentence", fold_sentence(words, width)),
                    (
                        "stale" if view.age.is_stale else "",
                        fold_sentence(said, width) if said else [],
                    ),
                ]
            ),
            *(Text(fit(line, width), self.style_of(style)) for style, line in _table(view, width)),
        ]


_GIVE_WAY = ("not read", "checked")
"""The columns that a narrow terminal has no room for, the first to go first."""


def _table(view: AuditView, width: int) -> list[tuple[str, str]]:
    """The rates as lines, each with the name of its style; none before anything was audited."""
    if not view.audited:
        return []
    rows = [RATES, *(rate_cells(each) for each in view.rates)]
    columns = {
        column[0]: (column, max(map(cell_len, column))) for column in zip(*rows, strict=True)
    }
    for name in _GIVE_WAY:
        if sum(wide for _, wide in columns.values()) + 2 * (len(columns) - 1) > width:
            del columns[name]
    lines = [
        "  ".join(fit(column[at], wide) for column, wide in columns.values()).rstrip()
        for at in range(len(rows))
    ]
    return [("quiet", lines[0]), *(("", line) for line in lines[1:])]


def finding_page(row: AuditRow | None, view: AuditView) -> Document:
    """A finding with its evidence, then what has to be known of all."""
    declared = () if view.declared is None else declared_sentences(view.declared)
    known = notes(view) if view.audited else ()
    said = [
        *(Block(text=line) for line in declared),
        *(Block(text=line, style="quiet") for line in known),
    ]
    if row is None:
        return tuple(said)
    where = f"step {row.step}{f' · other / {row.sub}' if row.sub else ''}"
    evidence = [
        Block(
            text=format.plain(each.text),
            label=each.role,
            aside=format.one_line(each.place)
            or (f"step {each.step}" if each.step is not None else ""),
            key=f"evidence {place}",
            shown=600,
        )
        for place, each in enumerate(row.evidence)
    ]
    return (
        Block(text=format.one_line(row.run), style="head", aside=where),
        Block(text=format.plain(row.what), label=row.result),
        *evidence,
        Block(text=""),
        *said,
    )


class AuditScreen(ArcScreen):
    """What the agent of some runs says, is told and claims, held against what it does."""

    CSS_PATH = "audit.tcss"
    HELP = "an audit"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        bind("t", "tag", id="audit.tag",
             tooltip="Tag the step other / what was found, with its evidence"),
        bind("u", "untag", id="audit.undo", tooltip="Take back your tag of this finding"),
        bind("r", "run", id="audit.run", label="audit",
             tooltip="Audit the runs that no audit has seen as they are"),
        bind("x", "stop", id="audit.stop", tooltip="Stop the audit; what was audited stays"),
        bind("v", "view_menu", id="audit.view", tooltip="Show or hide the runs of held-out tasks"),
        *pane_keys("audit", "Switch between the findings and the one in full"),
        bind("y", "copy", id="audit.copy", tooltip="Copy the finding with its evidence as text"),
        bind("^r", "refresh", id="audit.refresh", show=False, tooltip="Read the database again"),
        bind("esc", "back", id="audit.back",
             tooltip="Back to the findings, then to where you were; what was audited stays"),
    ]  # fmt: skip

    view: reactive[AuditView] = reactive(EMPTY, repaint=False)

    head = query_one(AuditHead)
    rows = query_one(AuditRows)
    page = query_one("#finding", Page)

    class Loaded(Message):
        """The runs were read, or audited."""

        def __init__(self, view: AuditView) -> None:
            super().__init__()
            self.view = view

    class Progressed(Message):
        """One more run was audited."""

        def __init__(self, done: int, total: int) -> None:
            super().__init__()
            self.done = done
            self.total = total

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, AuditScreen.Progressed)

    class Tagged(Message):
        """A finding was tagged, or its tag taken back."""

        def __init__(self, row: AuditRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self, path: Path, query: str = "", *, with_held_out: bool = False) -> None:
        super().__init__(path)
        self._request = AuditRequest(query=query, with_held_out=with_held_out)
        self._stop = Event()
        self._is_auditing = False

    def compose(self) -> ComposeResult:
        yield AuditHead().data_bind(AuditScreen.view)
        with Container(id="audit"):
            yield AuditRows(id="findings")
            yield Page(id="finding")
        yield KeyBar()

    def on_mount(self) -> None:
        self.rows.focus()
        self.load()

    def on_screen_resume(self) -> None:
        """Tags may have been given in a run that was opened from here."""
        if self.view is not EMPTY and not self._is_auditing:
            self.load()

    def load(self) -> None:
        """Read what is known; what a file declares is in no database, so it is kept here."""
        request, declared = self._request, self.view.declared
        self.ask(lambda store: kept_audit(store, request, declared), self.Loaded, group="audit")

    @property
    @override
    def has_job(self) -> bool:
        return self._is_auditing

    def action_run(self) -> None:
        """Audit what no audit has seen."""
        request, stop = self._request, Event()
        self._stop, self._is_auditing = stop, True
        self._say_progress(0, self.view.age.new)

        def work(store: Store) -> AuditView:
            view = EMPTY
            for event in run_audit(store, request):
                if isinstance(event, Progress):
                    if stop.is_set():
                        return kept_audit(store, request)
                    self.post_message(self.Progressed(event.done, event.total))
                else:
                    view = event
            return view

        self.ask(work, self.Loaded, group="audit")
        self.refresh_bindings()

    def on_audit_screen_progressed(self, event: Progressed) -> None:
        if self._is_auditing:
            self._say_progress(event.done, event.total)

    def _say_progress(self, done: int, total: int) -> None:
        of = f"{format.number(done)} of {format.number(total)}"
        self.head.progress = f"Auditing run {of} · {self.key_of('audit.stop')} stop"

    def action_stop(self) -> None:
        self._stop.set()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """An audit that could not go on is over; what was audited until then is shown."""
        is_audit = self._is_auditing and event.worker.group == "audit"
        if is_audit and event.state is WorkerState.ERROR:
            self._is_auditing = False
            self.head.progress = ""
            self.load()

    def on_audit_screen_loaded(self, event: Loaded) -> None:
        self._is_auditing = False
        self.head.progress = ""
        self.view = event.view
        for error in event.view.failed:
            self.say(error, severity="error")

    def watch_view(self, view: AuditView) -> None:
        if not self.is_mounted or view is EMPTY:
            return
        self.head.hint = f" · {self.key_of('audit.run')} audit"
        self.rows.nothing = no_findings(view, self.key_of("audit.run"), self.key_of("audit.back"))
        self.rows.found = view.rows
        self.refresh_bindings()

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.rows:
            self.page.document = finding_page(self.rows.row, self.view)
            self.refresh_bindings()

    def on_audit_rows_chosen(self, event: AuditRows.Chosen) -> None:
        self.post_message(OpenTrace(event.row.trace, event.row.step))

    # --- tags

    def action_tag(self) -> None:
        self._change_tag()

    def action_untag(self) -> None:
        self._change_tag()

    def _change_tag(self) -> None:
        row = self.rows.row
        if row is not None:
            self.hold_keys(self.ask(lambda store: tag_row(store, row), self.Tagged, group="tag"))

    def on_audit_screen_tagged(self, event: Tagged) -> None:
        """The same rows, one of them changed: the cursor stays."""
        row = event.row
        self.view = structs.replace(
            self.view,
            rows=tuple(
                row if structs.replace(each, is_tagged=row.is_tagged) == row else each
                for each in self.view.rows
            ),
        )
        done = f"tagged; {self.key_of('audit.undo')} undo" if row.is_tagged else "tag removed"
        self.say(f"step {row.step}: other / {row.sub}: {done}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        row = self.rows.row if self.is_mounted else None
        match action:
            case "run":
                return self.view.is_due and not self._is_auditing
            case "stop":
                return self._is_auditing
            case "tag":
                return row is not None and not row.is_tagged
            case "untag":
                return row is not None and row.is_tagged
            case "copy" | "pane":
                return row is not None
            case "held_out" | "view_menu":
                return bool(self.view.held_out.runs)
            case _:
                return True

    @override
    def view_switches(self) -> Sequence[ViewSwitch]:
        return (ViewSwitch("held_out", "held-out", "count the runs of held-out tasks, or not"),)

    def action_held_out(self) -> None:
        shown = not self._request.with_held_out
        self._request = structs.replace(self._request, with_held_out=shown)
        self.view = structs.replace(self.view, declared=None)
        self.load()

    def action_refresh(self) -> None:
        if not self._is_auditing:
            self.load()

    def action_pane(self) -> None:
        (self.rows if self.focused is self.page else self.page).focus()

    def action_copy(self) -> None:
        text = document_text(self.page.document)
        self.app.copy_to_clipboard(text)
        self.say(f"copied as text, {len(text)} characters")

    def action_back(self) -> None:
        if self.focused is self.page:
            self.rows.focus()
        else:
            self.dismiss()
