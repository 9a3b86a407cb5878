"""The matrix screen: tasks by variant and model, what each column comes to above them.

The rows are tasks, and a cursor goes both ways. The runs of the cell under it are listed by the
query that means them, so that a person can change it. Counted in a worker, again whenever the
screen comes back into view.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs
from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.navigation import FilterRuns
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.format import fit
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.screen import ArcScreen, ViewSwitch
from arc_tui.ui.styles import Headline
from arc_tui.ui.tables import short
from arc_tui.views.matrix import (
    EMPTY,
    SORTED,
    MatrixView,
    build_matrix,
    change_text,
    cost_text,
    golden_text,
    model_name,
    runs_text,
    trials_text,
    variant_name,
)
from arc_tui.views.runs import held_out_text
from replay.statistics import Rate
from taxonomy.stats.matrix import ORDERS, Matrix, Order, Row, sort_rows

NO_TASKS = """No runs of a task{query}.

A task has a row where its runs name it: benchmarks do, and
arc record --task NAME -- COMMAND.

{back}   back"""

LEAST, MOST = 10, 20
"""Cells of a column; a longer name is cut with `…`."""

TASK = 28
"""The widest name of a task; at most so much of it, and a third of the line."""

COLUMN = Binding.Group("column", compact=True)
CHANGE = 6
GAP = 2


class MatrixTable(RowList):
    """A row a task, under what each column comes to over all of them."""

    HELP = "the matrix"
    STYLES = {"quiet": "$quiet", "lost": "$bad", "kept": "$good", "mixed": "$warning"}

    BINDINGS = [
        bind("h", "column(-1)", id="matrix.left", group=COLUMN,
             tooltip="Move the cursor one column to the left"),
        bind("l", "column(1)", id="matrix.right", group=COLUMN,
             tooltip="Move the cursor one column to the right"),
        bind("enter", "open_row", id="matrix.open", label="runs of the cell",
             tooltip="List the runs of the cell under the cursor"),
    ]  # fmt: skip

    matrix: reactive[Matrix] = reactive(EMPTY.matrix, repaint=False)
    column: reactive[int] = reactive(0, repaint=False)
    """The column under the cursor."""

    class Chosen(Message):
        """The runs of a cell are wanted; `query` means them."""

        def __init__(self, query: str) -> None:
            super().__init__()
            self.query = query

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._first = 0
        self._width = LEAST
        self._head: list[tuple[str, list[str]]] = []

    @property
    def row_count(self) -> int:
        return len(self.matrix.rows)

    @property
    def row(self) -> Row | None:
        return self.matrix.rows[self.cursor] if self.cursor < self.row_count else None

    def validate_column(self, column: int) -> int:
        return max(0, min(column, len(self.matrix.columns) - 1))

    def watch_matrix(self, old: Matrix, new: Matrix) -> None:
        """Keep the cursor on its task and column where these are still there."""
        row = old.rows[self.cursor].task if self.cursor < len(old.rows) else ""
        at = old.columns[self.column] if self.column < len(old.columns) else None
        names = [(each.variant, each.models) for each in new.columns]
        self._head = _head(new) if new.rows else []
        self.HEAD = len(self._head)
        widest = [cell_len(text) for _, texts in self._head for text in texts]
        self._width = min(max([LEAST, *widest]), MOST)
        if at is not None and (at.variant, at.models) in names:
            self.column = names.index((at.variant, at.models))
        else:
            self.column = 0
        self.rows_changed()
        self.cursor = next((i for i, each in enumerate(new.rows) if each.task == row), 0)
        self._say_columns()

    def watch_column(self) -> None:
        self.refresh()
        self._say_columns()

    @override
    def on_resize(self) -> None:
        self._say_columns()  # Textual calls what the list does by itself

    @property
    def _label(self) -> int:
        """Cells of the names at the left."""
        names = [cell_len(format.one_line(row.task)) for row in self.matrix.rows[:500]]
        labels = [cell_len(label) for label, _ in self._head]
        return min(max([*names, *labels, LEAST]), max(min(TASK, self.row_width // 3), LEAST))

    @property
    def in_sight(self) -> range:
        """The columns that a line has room for, the one under the cursor among them."""
        room = self.row_width - 1 - self._label - GAP - CHANGE
        fitting = max(room // (self._width + GAP), 1)
        many = len(self.matrix.columns)
        first = min(self._first, max(many - fitting, 0))
        first = max(min(first, self.column), self.column - fitting + 1)
        self._first = first
        return range(first, min(first + fitting, many))

    def _say_columns(self) -> None:
        """Which columns are in sight, where not all are."""
        seen, many = self.in_sight, len(self.matrix.columns)
        hidden = many > len(seen)
        self.border_subtitle = (
            f"columns {seen.start + 1}–{seen.stop} of {many}" if hidden and self.row_count else ""
        )

    @override
    def draw_head(self, line: int, width: int) -> Text:
        label, texts = self._head[line]
        text = Text(f" {fit(label, self._label)}")
        text.append(" " * GAP + fit("change" if line == 0 else "", CHANGE, right=True))
        for at in self.in_sight:
            cell = fit(texts[at], self._width, right=True)
            here = at == self.column and line < 2
            text.append(" " * GAP).append(cell, "bold underline" if here else "")
        text.truncate(width)
        return text

    @override
    def draw(self, index: int, width: int) -> Text:
        row = self.matrix.rows[index]
        text = Text(f" {fit(format.one_line(row.task), self._label)}")
        change = fit(change_text(row), CHANGE, right=True)
        text.append(" " * GAP).append(change, self.style_of("quiet"))
        for at in self.in_sight:
            cell = row.cells[at]
            words = trials_text(cell)
            if index == self.cursor and at == self.column:
                words = f"[{words or format.UNKNOWN}]"
            share = cell.share if cell is not None else None
            style = "quiet" if share is None else "kept" if share == 1 else "mixed"
            style = "lost" if share == 0 else style
            text.append(" " * GAP).append(fit(words, self._width, right=True), self.style_of(style))
        text.truncate(width)
        return text

    def action_column(self, by: int) -> None:
        self.column += by

    def action_open_row(self) -> None:
        row = self.row
        if row is not None and row.cells[self.column] is not None:
            self.post_message(self.Chosen(self.matrix.cell_query(self.column, row.task)))
        elif row is not None:
            self.notify("No run of this task in this column.", markup=False)


def _head(found: Matrix) -> list[tuple[str, list[str]]]:
    """The lines above the tasks: a label, and a text for each column."""
    columns = found.columns
    lines = [
        ("variant", [variant_name(each) for each in columns]),
        ("model", [model_name(each) for each in columns]),
        ("runs", [runs_text(each) for each in columns]),
        ("tasks", [format.number(each.pass_one.n) for each in columns]),
        ("pass@1", [short(each.pass_one.value) for each in columns]),
        ("95 % interval", [_interval(each.pass_one) for each in columns]),
    ]
    if found.k > 1:
        lines += [
            (f"pass^{found.k}", [short(each.pass_hat.value) for each in columns]),
            ("95 % interval", [_interval(each.pass_hat) for each in columns]),
        ]
    return [
        *lines,
        ("per resolved task", [cost_text(each) for each in columns]),
        ("", [""] * len(columns)),
    ]


def _interval(rate: Rate) -> str:
    return "" if rate.value is None else f"{short(rate.low)}–{short(rate.high)}"


class MatrixScreen(ArcScreen):
    """The runs that a query means, as tasks by variant and model."""

    CSS_PATH = "matrix.tcss"
    HELP = "the matrix of tasks by variant and model"

    BINDINGS = [
        bind("S", "sort", id="matrix.sort",
             tooltip="Sort the tasks: most changed, by name, least passed"),
        bind("v", "view_menu", id="matrix.view", tooltip="Show or hide the runs of held-out tasks"),
        bind("^r", "refresh", id="matrix.refresh", tooltip="Read the database again"),
        bind("esc", "back", id="matrix.back", tooltip="Back to the list of runs"),
    ]  # fmt: skip

    view: reactive[MatrixView] = reactive(EMPTY, repaint=False)

    table = query_one(MatrixTable)

    class Loaded(Message):
        """The runs were counted."""

        def __init__(self, view: MatrixView) -> None:
            super().__init__()
            self.view = view

    def __init__(self, path: Path, query: str = "", *, with_held_out: bool = False) -> None:
        super().__init__(path)
        self._query = query
        self._with_held_out = with_held_out
        self._order: Order = "changed"

    def compose(self) -> ComposeResult:
        yield Headline(id="head")
        yield MatrixTable(id="matrix")
        yield KeyBar()

    def on_mount(self) -> None:
        self.table.focus()
        self.load()

    def on_screen_resume(self) -> None:
        if self.view is not EMPTY:
            self.load()

    def load(self) -> None:
        """Count as it is asked now."""
        query, shown = self._query, self._with_held_out
        self.ask(
            lambda store: build_matrix(store, query, with_held_out=shown),
            self.Loaded,
            group="load",
        )

    def on_matrix_screen_loaded(self, event: Loaded) -> None:
        self.view = event.view

    def watch_view(self, view: MatrixView) -> None:
        if self.is_mounted and view is not EMPTY:
            self._show()

    def _show(self) -> None:
        view = self.view
        found = view.matrix
        words = format.one_line(view.query)
        facts = [
            format.count(len(found.rows), "task"),
            format.count(len(found.columns), "column"),
            f"{format.count(found.taskless, 'run')} without a task left out"
            if found.taskless
            else "",
            golden_text(found),
            f"{held_out_text(view.held_out)} ({self.key_of('matrix.view')})"
            if view.held_out.runs
            else "",
        ]
        head = self.query_one("#head", Headline)
        head.left = Text.assemble((" matrix", "bold"), "  ", " · ".join(filter(None, facts)))
        head.right = Text(format.one_line(view.database))
        table = self.table
        about = f" match '{words}'" if words else ""
        table.nothing = NO_TASKS.format(query=about, back=self.key_of("matrix.back"))
        unknown = any(column.unknown for column in found.columns)
        marks = "passed/runs of known outcome" + (", 1? unknown" if unknown else "")
        shown = " · ".join(filter(None, [marks, SORTED[self._order], words]))
        table.border_title = Text(shown)
        rows = sort_rows(found.rows, self._order)
        table.matrix = structs.replace(found, rows=rows)
        self.refresh_bindings()

    def on_matrix_table_chosen(self, event: MatrixTable.Chosen) -> None:
        words = f"({self._query}) {event.query}" if self._query else event.query
        self.post_message(FilterRuns(words, self._with_held_out))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        if action in {"held_out", "view_menu"}:
            return bool(self.view.held_out.runs)
        return bool(self.view.matrix.rows) if action == "sort" else True

    @override
    def view_switches(self) -> Sequence[ViewSwitch]:
        return (ViewSwitch("held_out", "held-out", "count the runs of held-out tasks, or not"),)

    def action_held_out(self) -> None:
        self._with_held_out = not self._with_held_out
        self.load()

    def action_sort(self) -> None:
        self._order = ORDERS[(ORDERS.index(self._order) + 1) % len(ORDERS)]
        self._show()
        self.table.cursor = 0

    def action_refresh(self) -> None:
        self.load()

    def action_back(self) -> None:
        self.dismiss()
