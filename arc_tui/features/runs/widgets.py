"""The parts of the runs screen: the list, the Pareto of failures, the progress of an import, and
the choice of what is here to be opened.

The list has the names of all runs and the rows of some: it asks for those that come near.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static
from typing_extensions import override

from arc_tui.navigation import OpenTrace
from arc_tui.places import author
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.format import fit, spread
from arc_tui.ui.keys import stops
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import StyledWidget, progress_bar
from arc_tui.views.columns import GAP, NAME, SETS, WHY, Layout, layout, mark
from arc_tui.views.runs import LOADING, NOT_AGENTS, Listed, bar_cells
from replay.stop_order import resume, stop, stop_order
from replay.store.handle import now_ns
from taxonomy.failures import UNTAGGED, Bar, Pareto

if TYPE_CHECKING:
    from arc_tui.features.runs.offers import Offer

MARK = 4
MARKED = "»"
NOT_READ = "…"
AHEAD = 100
"""Rows above and below the visible ones that are asked for before they are seen."""


class RunTable(RowList):
    """Runs, one a line, under a head that names the columns."""

    HELP = "the list of runs"
    HEAD = 1

    STYLES = {
        "passed": "$good",
        "warned": "$warning",
        "failed": "$bad",
        "unknown": "$quiet",
        "quiet": "$quiet",
        "marked": "bold $primary",
    }

    BINDINGS = [
        bind("enter", "open_row", id="runs.open", tooltip="Open the run under the cursor"),
    ]  # fmt: skip

    listed: reactive[Listed] = reactive(Listed(), repaint=False)
    columns: reactive[str] = reactive(next(iter(SETS)), repaint=False)
    sorted_by: reactive[str] = reactive("")
    marked: reactive[str] = reactive("")
    """The run that others are compared with, "" for none."""

    class Marked(Message):
        """Another run is marked, or "" none."""

        def __init__(self, trace: str) -> None:
            super().__init__()
            self.trace = trace

    class RowsNeeded(Message):
        """Runs of a list come into sight whose rows were not read."""

        def __init__(self, listed: Listed, traces: tuple[str, ...]) -> None:
            super().__init__()
            self.listed = listed
            self.traces = traces

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, RunTable.RowsNeeded)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._columns = Layout()
        self._columns_for: object = None
        """What they were laid out for."""
        self._requested: tuple[str, ...] = ()
        self.nothing = LOADING

    @property
    def row_count(self) -> int:
        return len(self.listed.traces)

    @property
    def at(self) -> str:
        """The run under the cursor, "" where there is none."""
        return self._run(self.listed, self.cursor)

    @staticmethod
    def _run(listed: Listed, index: int) -> str:
        return listed.traces[index] if index < len(listed.traces) else ""

    def watch_listed(self, old: Listed, new: Listed) -> None:
        """Keep the cursor on its run where that is still there."""
        if old.traces is new.traces:  # more of it was read
            self.refresh()
            return
        at = self._run(old, self.cursor)
        self._requested = ()
        self.rows_changed()
        if at in new.traces:
            self.cursor = new.traces.index(at)
        self._ask_for_rows()

    def watch_columns(self) -> None:
        self.rows_changed()

    @override
    def rows_changed(self) -> None:
        laid_out_for = self.listed.first_page, self.columns, self.row_width - MARK
        if laid_out_for != self._columns_for:
            self._columns_for = laid_out_for
            self._columns = layout(*laid_out_for)
        super().rows_changed()

    @override
    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._ask_for_rows()

    @override
    def on_resize(self) -> None:
        self._ask_for_rows()  # Textual calls what the list does by itself

    def _ask_for_rows(self) -> None:
        """Once for the same rows: a run that is gone has none."""
        top = self.scroll_offset.y
        traces = self.listed.missing(top - AHEAD, top + self.page_rows + AHEAD)
        if traces and traces != self._requested:
            self._requested = traces
            self.post_message(self.RowsNeeded(self.listed, traces))

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line, width
        text = Text(" " * MARK)
        for column, heading in self._columns.cells(None):
            chosen = column.id == self.sorted_by
            text.append(heading, "bold underline" if chosen else "").append(" " * GAP)
        return text

    def draw(self, index: int, width: int) -> Text:
        del width  # known by the columns
        row = self.listed.rows.get(self.listed.traces[index])
        if row is None:
            return Text(" " * MARK + NOT_READ)
        warned = "warned" if row.outcome == "passed" and row.warnings else row.outcome
        text = Text.assemble(
            (MARKED if row.trace == self.marked else " ", self.style_of("marked")),
            (f"{mark(row).plain:<{MARK - 1}}", self.style_of(warned)),
        )
        quiet = self.style_of("quiet")
        for column, cell in self._columns.cells(row):
            strong = (column is WHY and row.outcome == "failed") or column is NAME
            text.append(cell, "" if strong else quiet).append(" " * GAP)
        return text

    def action_open_row(self) -> None:
        if self.at:
            self.post_message(OpenTrace(self.at))

    def stand_on(self, trace: str) -> bool:
        """Put the cursor on a run; False where it is not listed."""
        if trace not in self.listed.traces:
            return False
        self.cursor = self.listed.traces.index(trace)
        return True

    def toggle_mark(self) -> None:
        """Mark the run under the cursor in place of another; one that is marked is not any more."""
        self.marked = "" if self.at == self.marked else self.at
        self.post_message(self.Marked(self.marked))

    def next_columns(self) -> None:
        """Show the next set of columns."""
        names = list(SETS)
        self.columns = names[(names.index(self.columns) + 1) % len(names)]


LABEL = 20
"""The widest label at the right of the runs; a longer one is cut with `…`."""

BARS = 60
"""The longest bar under the runs, where labels are whole."""


class ParetoPanel(VerticalScroll, StyledWidget, can_focus=False):
    """The Pareto: full blocks for tags, hatched ones for suggestions nobody accepted yet."""

    ALLOW_SELECT = False
    STYLES = {
        "tagged": "$primary",
        "suggested": "$primary",
        "apart": "$secondary",
        "quiet": "$quiet",
    }

    pareto: reactive[Pareto | None] = reactive(None, repaint=False)
    """None until the runs are loaded."""

    note: reactive[str] = reactive(LOADING, repaint=False)
    """What stands in the panel until then."""

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    def on_mount(self) -> None:
        self.border_title = "failures"
        self.app.theme_changed_signal.subscribe(self, lambda _: self._redraw())

    def watch_pareto(self) -> None:
        self._redraw()

    def watch_note(self) -> None:
        self._redraw()

    def on_resize(self, _: events.Resize) -> None:
        self._redraw()

    def _redraw(self) -> None:
        """Say it in the cells that there are, once that is known."""
        if width := self.scrollable_content_region.width:
            self.query_one(Static).update(Text("\n").join(self.lines(width)))

    def lines(self, width: int) -> list[Text]:
        """The panel's lines at a width."""
        counted = self.pareto
        quiet = self.style_of("quiet")
        if counted is None:
            return [Text(self.note, quiet)]
        if not counted.failed:
            return [Text("No failed runs.", quiet)]
        bars = counted.all_bars
        most = max([bar.count for bar in bars] + [counted.untagged])
        widest = max(LABEL, width - BARS)
        label = min(max([len(bar.label) for bar in bars] + [len(UNTAGGED)]), widest)
        room = min(width - label - len(str(most)) - 3, BARS)
        lines = [self._bar(bar, most, label, room, "tagged") for bar in counted.bars]
        if counted.apart:
            lines += [Text(), Text(NOT_AGENTS, quiet)]
            lines += [self._bar(bar, most, label, room, "apart") for bar in counted.apart]
        if counted.untagged:
            blocks = "░" * len(format.bar(counted.untagged / most, room))
            lines.append(_line(UNTAGGED, label, (blocks, quiet), counted.untagged))
        lines += [Text(), Text("█ tag  ▒ suggested tag", quiet)]
        if counted.unknown:
            unknown = format.count(counted.unknown, "run")
            lines.append(Text(f"{unknown} with unknown outcome not counted", quiet))
        return lines

    def _bar(self, bar: Bar, most: int, label: int, room: int, style: str) -> Text:
        tagged, suggested = bar_cells(bar.tagged, bar.count, most, room)
        line = _line(bar.label, label, ("█" * tagged, self.style_of(style)), None)
        line.append("▒" * suggested, self.style_of("suggested"))
        return line.append(f" {bar.count}")


def _line(label: str, width: int, blocks: tuple[str, Style], runs: int | None) -> Text:
    line = Text(fit(format.one_line(label), width) + "  ").append(*blocks)
    return line if runs is None else line.append(f" {runs}")


class ImportBar(StyledWidget):
    """One line at the foot of the list, there only while an import runs."""

    ALLOW_SELECT = False
    STYLES = {"done": "$primary", "left": "$faint"}

    done: reactive[int] = reactive(0)
    total: reactive[int] = reactive(0)
    path: reactive[str] = reactive("")
    traces: reactive[int] = reactive(0)
    diagnoses: reactive[bool] = reactive(False)
    stopping: reactive[bool] = reactive(False)

    def render(self) -> Text:
        styles = self.style_of("done"), self.style_of("left")
        line = progress_bar(self.done, self.total, *styles).append("  ")
        ends = stops(self.screen, "runs.stop", stopping=self.stopping)
        line.append(self._what(self.size.width - line.cell_len - len(ends) - 2))
        return spread(line, Text(ends), self.size.width)

    def _what(self, width: int) -> str:
        if self.diagnoses:
            return f"Analysing run {min(self.done + 1, self.total)} of {self.total}"
        file = f"Importing file {self.done + 1} of {max(self.total, 1)} · "
        return file + format.import_words(self.path, self.traces, width - len(file))


ALL, DEMO = ".", "arc demo"
"""Answers that are no file: the folder itself, and the bundled runs."""


def offers_dialog(offers: tuple[Offer, ...], folder: Path) -> AskBox:
    """Asks which file of a folder to open."""
    where = format.one_line(str(folder))
    return AskBox(
        "open",
        "" if offers else f"No agent sessions or traces found for {where}.",
        hint="path of a file or folder",
        choices=options(offers, folder),
    )


def options(offers: tuple[Offer, ...], folder: Path) -> list[Option]:
    """The offers as choices, newest first; then all of the folder's own, and the demo."""
    from arc_tui.features.runs.offers import offer_words

    now = now_ns()
    words = [offer_words(offer, folder, now) for offer in offers]
    rows = [
        (offer.path, offer.format, text.age, f"{text.title} · {text.size} · {text.file}")
        for offer, text in zip(offers, words, strict=True)
    ]
    if sum(Path(offer.path).is_relative_to(folder) for offer in offers) > 1:
        rows.append((ALL, "this folder", "", "all traces in it"))
    rows.append((DEMO, "the demo", "", "bundled runs and a demo model: no key, no network"))
    formats, ages = (max(map(len, column)) for column in list(zip(*rows, strict=True))[1:3])
    return [
        Option(answer, about, f"{name:<{formats}}  {age:<{ages}}")
        for answer, name, age, about in rows
    ]


NEW_RUNS, EVERY_CALL, RESUME = "new runs", "every call", "resume"
WIDEST = len(EVERY_CALL)


def stop_dialog(database: Path) -> AskBox:
    """Asks what recorders of a database are to refuse, or whether they may go on."""
    order = stop_order(database)
    every = Option(EVERY_CALL, "runs under way too; calls in flight finish")
    if order is None:
        choices = [Option(NEW_RUNS, "runs under way finish", f"{NEW_RUNS:<{WIDEST}}"), every]
        return AskBox(
            "stop recording into this database",
            hint="or a reason, which stops new runs and is told to whoever is refused",
            choices=choices,
        )
    resumed = Option(RESUME, "new runs and calls pass again", f"{RESUME:<{WIDEST}}")
    return AskBox(
        "recording is stopped",
        f"{order.text}. {order.scope}",
        choices=[resumed] if order.at_once else [resumed, every],
    )


def change_recording(database: Path, answer: str) -> str:
    """Do what was answered; a sentence of what holds then. Raises ArcError where it cannot be."""
    if answer == RESUME:
        order = resume(database)
        return f"Recording goes on. It was {order.text}." if order else "Recording goes on."
    because = None if answer in (NEW_RUNS, EVERY_CALL) else answer
    order = stop(database, by=author(), because=because, at_once=answer == EVERY_CALL)
    return f"Recording is {order.text}. {order.scope}"
