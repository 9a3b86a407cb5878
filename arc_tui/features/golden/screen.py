"""The golden screen: the tasks of a set with their runs, what was found of it, and the classes of
failures that no task came from. From a run a task is made here: nothing is written before enter.
"""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.features.golden.command import today
from arc_tui.features.golden.text import (
    check_line,
    draft_lines,
    finding_line,
    head_line,
    rate_cell,
)
from arc_tui.features.golden.view import GoldenRow, GoldenView, Prefilled, build_golden, prefill
from arc_tui.navigation import OpenTrace
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.dialogs import AskBox
from arc_tui.ui.document import Block, Document, document_text
from arc_tui.ui.format import fit, pack_lines
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from arc_tui.ui.screen import ArcScreen
from arc_tui.ui.styles import SummaryLines, fold_sentence
from replay.store.handle import Store
from taxonomy.classes import class_label
from taxonomy.golden.changes import add_tasks
from taxonomy.golden.checks import FORMS
from taxonomy.golden.sets import BadGolden, read_or_new

CLASS, RUNS, K = 18, 7, 3

FOLDER = Path("golden")
"""Where the app looks for the set: in the folder that it was started in."""


class GoldenList(RowList):
    """The tasks, then what was found of the set as a whole."""

    HELP = "the golden tasks"
    HEAD = 1
    STYLES = {"bad": "$bad", "quiet": "$quiet"}

    BINDINGS = [
        bind("enter", "open_row", id="golden.open", label="open run",
             tooltip="Open the run that the task came from"),
    ]  # fmt: skip

    found: reactive[GoldenView | None] = reactive(None, repaint=False)

    class Chosen(Message):
        """The run that a task came from is to be shown."""

        def __init__(self, trace: str, step: int | None) -> None:
            super().__init__()
            self.trace = trace
            self.step = step

    @property
    def row_count(self) -> int:
        return len(self.found.rows) if self.found is not None else 0

    @property
    def row(self) -> GoldenRow | None:
        """The one under the cursor."""
        return self.found.rows[self.cursor] if self.found is not None and self.row_count else None

    def watch_found(self) -> None:
        self.nothing = "" if self.found is None else _nothing(self.found)
        self.rows_changed()
        self.post_message(self.Moved(self))

    def draw_head(self, line: int, width: int) -> Text:
        del line
        cells = (fit("class", CLASS), fit("k", K, right=True), fit("passed", RUNS, right=True))
        return Text(fit("  ".join((*cells, "task")), width))

    def draw(self, index: int, width: int) -> Text:
        assert self.found is not None
        each = self.found.rows[index]
        row = each.row
        if row is None:
            line = finding_line(each.findings[0])
            return Text(fit(line, width), self.style_of("bad" if each.is_problem else "quiet"))
        named = row.failure.value if row.failure else format.UNKNOWN
        cells = (
            fit(named, CLASS), fit(str(row.k), K, right=True),
            fit(rate_cell(row.passed), RUNS, right=True),
        )  # fmt: skip
        line_ = Text("  ".join(cells) + "  ")
        room = width - line_.cell_len
        problems = f" · {', '.join(row.findings)}" if row.findings else ""
        line_.append(fit(f"{format.one_line(row.id)}{problems}", room),
                     self.style_of("bad") if each.is_problem else "")  # fmt: skip
        return line_

    def action_open_row(self) -> None:
        origin = self.row.task.origin if self.row is not None and self.row.task else None
        if origin is not None:
            self.post_message(self.Chosen(origin.run, origin.step))


def _nothing(found: GoldenView) -> str:
    if found.trouble:
        return "The set cannot be read."
    return f"No golden tasks in {format.one_line(str(found.folder))} yet.\nOpen a run and make one."


class GoldenHead(SummaryLines):
    """The set in a line."""

    STYLES = {"sentence": "bold"}

    found: reactive[GoldenView | None] = reactive(None, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        if self.found is None:
            return [Text("Reading the set")]
        said = self.found.audit
        words = self.found.trouble or (head_line(said) if said else "No golden set yet")
        bold = self.style_of("sentence")
        return [Text(line, bold) for line in fold_sentence(words, width)]


class GoldenFoot(SummaryLines):
    """The classes by failed runs and tasks, then what could not be told."""

    found: reactive[GoldenView | None] = reactive(None, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        said = self.found.audit if self.found is not None else None
        if said is None:
            return [Text("")]
        shown = [each for each in said.coverage if each.tasks]
        facts = [
            f"{each.failure.value}: {format.count(each.runs, 'failed run')},"
            f" {format.count(each.tasks, 'task')}"
            for each in shown
        ]
        return [Text(line) for line in pack_lines([*facts, *said.notes], width)]


def golden_page(each: GoldenRow) -> Document:
    """A task in full with what was found of it, or a finding of the set."""
    found = [
        Block(
            text=format.plain(finding.text),
            label=finding.kind,
            style="" if finding.is_advice else "error",
            aside=format.plain(finding.hint),
        )
        for finding in each.findings
    ]
    task, row = each.task, each.row
    if task is None or row is None:
        return tuple(found)
    origin = task.origin
    named = class_label(origin.failure, origin.sub) if origin and origin.failure else ""
    parts = [Block(text=format.one_line(task.id), style="head", aside=named), *found]
    parts += [Block(text=format.plain(check_line(check)), label="check") for check in task.check]
    parts += [Block(text=format.plain(task.reason), label="reason")]
    if origin is not None and origin.why:
        by = f"{origin.by}" + (f" · step {origin.step}" if origin.step is not None else "")
        parts.append(Block(text=format.plain(origin.why), label="failure", aside=by))
    runs = (
        f"{format.count(row.runs, 'run')}: {rate_cell(row.passed)} passed, {rate_cell(row.met)} met"
        f" the checks; to be run {row.k}×"
    )
    parts.append(Block(text=runs, label="runs"))
    said = (task.text, *task.then)
    parts += [Block(text=format.plain(text), label="user", key=f"user {at}", shown=600)
              for at, text in enumerate(said)]  # fmt: skip
    pins = [f"{name} {digest[:8]}" for name, digest in
            (("prompt", task.pin.prompt), ("tools", task.pin.tools)) if digest]  # fmt: skip
    parts.append(Block(text=", ".join(pins) or format.UNKNOWN, label="pinned"))
    return tuple(parts)


class GoldenScreen(ArcScreen):
    """The golden set; where a `trace` is given, a task is made of it first."""

    CSS_PATH = "golden.tcss"
    HELP = "the golden tasks"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        bind("y", "copy", id="golden.copy", tooltip="Copy what is shown in full as text"),
        *pane_keys("golden", "Switch between the tasks and the one in full"),
        bind("esc", "back", id="golden.back", tooltip="Back to the tasks, then to where you were"),
    ]  # fmt: skip

    found: reactive[GoldenView | None] = reactive(None, repaint=False)

    tasks = query_one(GoldenList)
    page = query_one("#task", Page)

    class Loaded(Message):
        """The set was read; `added` is the task that was written before."""

        def __init__(self, found: GoldenView, added: str = "") -> None:
            super().__init__()
            self.found = found
            self.added = added

    class Drafted(Message):
        """A task was made of a run and is not written."""

        def __init__(self, found: Prefilled) -> None:
            super().__init__()
            self.found = found

    def __init__(
        self, path: Path, trace: str | None = None, step: int | None = None, folder: Path = FOLDER
    ) -> None:
        super().__init__(path)
        self.trace = trace
        self.step = step
        self.folder = folder
        self._check: str | None = None

    def compose(self) -> ComposeResult:
        yield GoldenHead().data_bind(GoldenScreen.found)
        with Container(id="golden"):
            yield GoldenList(id="tasks").data_bind(GoldenScreen.found)
            yield Page(id="task")
        yield GoldenFoot().data_bind(GoldenScreen.found)
        yield KeyBar()

    def on_mount(self) -> None:
        self.tasks.focus()
        self.ask(lambda store: build_golden(store, self.folder), self.Loaded, group="golden")
        if self.trace is not None:
            self._draft(None)

    def _draft(self, name: str | None) -> None:
        trace, step, check = self.trace, self.step, self._check
        assert trace is not None
        self.hold_keys(
            self.ask(
                lambda store: prefill(store, trace, step, name, check), self.Drafted, group="draft"
            )
        )

    def on_golden_screen_loaded(self, event: Loaded) -> None:
        self.found = event.found
        ids = [each.row.id if each.row else "" for each in event.found.rows]
        if event.added and event.added in ids:
            self.tasks.cursor = ids.index(event.added)
            self.say(f"added: task {event.added}")

    def on_golden_screen_drafted(self, event: Drafted) -> None:
        draft = event.found.draft
        if draft is None:
            words = f"{event.found.lacks}\n\nOne of: {FORMS}"
            self.app.push_screen(
                AskBox("Golden task: what has to hold?", words, hint="contains:TEXT"), self._take
            )
            return
        words = "\n".join(format.one_line(line) for line in draft_lines(draft))
        said = f"{words}\n\nWritten to {self.folder} under this name:"
        self.app.push_screen(
            AskBox("Golden task of this run", said, answer=draft.task.id), self._write
        )

    def _take(self, check: str | None) -> None:
        """A check where none could be prefilled."""
        if check is not None:
            self._check = check
            self._draft(None)

    def _write(self, name: str | None) -> None:
        trace, step, check, folder = self.trace, self.step, self._check, self.folder
        if name is None or trace is None:
            return

        def write(store: Store) -> GoldenView:
            draft = prefill(store, trace, step, name, check).draft
            if draft is None:
                raise BadGolden("the run has nothing to check any more", "Try it again")
            add_tasks(read_or_new(folder), [(draft.task, draft.pinned)], today())
            return build_golden(store, folder)

        self.hold_keys(
            self.ask(write, lambda found: self.Loaded(found, added=name), group="golden")
        )

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.tasks:
            row = self.tasks.row
            self.page.document = () if row is None else golden_page(row)

    def on_golden_list_chosen(self, event: GoldenList.Chosen) -> None:
        self.post_message(OpenTrace(event.trace, event.step))

    def action_pane(self) -> None:
        pane = self.tasks if self.focused is self.page else self.page
        pane.focus()

    def action_copy(self) -> None:
        text = document_text(self.page.document)
        self.app.copy_to_clipboard(text)
        self.say(f"copied as text, {len(text)} characters")

    def action_back(self) -> None:
        if self.focused is self.page:
            self.tasks.focus()
        else:
            self.dismiss()
