"""The list of runs: a mark, what the run is called, how it ended, and why in one phrase."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.widgets.rows import RowList
from arc_tui.widgets.run_columns import GAP, SETS, WHY, Layout, layout, mark
from taxonomy.query.listing import RunRow

MARK = 4


class RunTable(RowList):
    """Runs, one a line, under a head that names the columns."""

    HELP = "the list of runs"
    HEAD = 1

    COMPONENT_CLASSES = {
        "run-table--passed", "run-table--warned", "run-table--failed", "run-table--unknown",
        "run-table--quiet",
    }  # fmt: skip

    BINDINGS = [
        Binding("enter", "open", "open", id="runs.open", tooltip="Open the run under the cursor"),
    ]  # fmt: skip

    rows: reactive[tuple[RunRow, ...]] = reactive((), repaint=False)
    columns: reactive[str] = reactive(next(iter(SETS)), repaint=False)
    sorted_by: reactive[str] = reactive("")

    class Opened(Message):
        """A run was chosen."""

        def __init__(self, trace: str) -> None:
            super().__init__()
            self.trace = trace

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._columns: Layout = layout((), self.columns)

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def watch_rows(self, old: tuple[RunRow, ...], new: tuple[RunRow, ...]) -> None:
        """Keep the cursor on its run where that is still there."""
        at = old[self.cursor].trace if self.cursor < len(old) else ""
        self._lay_out()
        self.cursor = next((i for i, row in enumerate(new) if row.trace == at), self.cursor)

    def watch_columns(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        self._columns = layout(self.rows, self.columns)
        self.rows_changed()

    @override
    def draw_head(self, line: int, width: int) -> Text:
        text = Text(" " * MARK)
        for column, title in self._columns.cells(None, width - MARK):
            chosen = column.title == self.sorted_by
            text.append(title, "bold underline" if chosen else "").append(" " * GAP)
        return text

    def draw(self, index: int, width: int) -> Text:
        row = self.rows[index]
        warned = "warned" if row.outcome == "passed" and row.warnings else row.outcome
        text = Text.assemble((f" {mark(row):<{MARK - 1}}", self.ink(f"run-table--{warned}")))
        quiet = self.ink("run-table--quiet")
        for column, cell in self._columns.cells(row, width - MARK):
            strong = (column is WHY and row.outcome == "failed") or column.title == "task"
            text.append(cell, "" if strong else quiet).append(" " * GAP)
        return text

    def action_open(self) -> None:
        if self.cursor < len(self.rows):
            self.post_message(self.Opened(self.rows[self.cursor].trace))

    def next_columns(self) -> None:
        """Show the next set of columns."""
        names = list(SETS)
        self.columns = names[(names.index(self.columns) + 1) % len(names)]

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.row_at(event.y - self.gutter.top) is not None:
            self.action_open()
