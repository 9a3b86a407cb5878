"""Which columns the list of runs has, what stands in them, and how wide they are. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from msgspec import Struct
from rich.cells import cell_len

from arc_tui.ui import format
from arc_tui.ui.format import fit
from arc_tui.views.runs import reason
from taxonomy.query.listing import RunRow

MEASURED = 500
"""Rows looked at to choose widths; a longer value further down is cut with `…`."""


class Column(Struct, frozen=True, eq=False, kw_only=True):
    """A column: its title, its text for a row, at most `most` cells wide.

    `tail` is the end of the text that is kept where the rest is cut.
    """

    title: str
    text: Callable[[RunRow], str]
    most: int
    right: bool = False
    tail: Callable[[RunRow], str] | None = None

    def cell(self, row: RunRow, width: int) -> str:
        """The text of a row in exactly `width` cells."""
        text = self.text(row)
        tail = self.tail(row) if self.tail is not None else ""
        if tail and cell_len(text) + cell_len(tail) > width:
            return fit(text, width - cell_len(tail)) + tail
        return fit(text + tail, width, right=self.right)


def name(row: RunRow) -> str:
    """What a run is called: its task, else its title, else the source's id."""
    return format.one_line(row.task or row.title or row.source_id)


def mark(row: RunRow) -> str:
    return format.outcome_mark(row.outcome, warned=bool(row.warnings), live=row.live).plain


NAME = Column(title="task", text=name, most=30)
TRIAL = Column(title="trial", text=lambda row: format.one_line(row.trial), most=12)

ALWAYS = (
    NAME,
    TRIAL,
    Column(title="outcome", text=lambda row: _outcome(row), most=10),
    Column(title="steps", text=lambda row: format.number(row.steps), most=7, right=True),
)

WHY = Column(
    title="why",
    text=lambda row: reason(row)[0],
    tail=lambda row: "" if reason(row)[1] is None else f" · {row.why_step}",
    most=10_000,
)

SETS: dict[str, tuple[Column, ...]] = {
    "why": (WHY,),
    "figures": (
        Column(title="tokens", text=lambda row: format.tokens(row.input_tokens), most=7,
               right=True),
        Column(title="cost", text=lambda row: format.usd(row.cost_usd, complete=row.cost_complete),
               most=11, right=True),
        Column(title="time", text=lambda row: format.duration(row.duration_ns), most=11,
               right=True),
        Column(title="shape", text=lambda row: row.shape.value if row.shape else format.UNKNOWN,
               most=18),
    ),
    "source": (
        Column(title="variant", text=lambda row: format.one_line(row.variant) or format.UNKNOWN,
               most=16),
        Column(title="model", text=lambda row: format.one_line(row.models) or format.UNKNOWN,
               most=24),
        Column(title="fidelity", text=lambda row: row.fidelity or format.UNKNOWN, most=8),
        Column(title="title", text=lambda row: format.one_line(row.title) or format.UNKNOWN,
               most=10_000),
    ),
}  # fmt: skip
"""The columns a person switches between, by the name of the set."""


def _outcome(row: RunRow) -> str:
    if row.live:
        return "live"
    return format.one_line(row.outcome_value) if row.outcome_value else row.outcome


class Layout(Struct, frozen=True, kw_only=True):
    """Columns with their widths; the last one takes what is left of a line."""

    columns: tuple[Column, ...]
    widths: tuple[int, ...]

    def cells(self, row: RunRow | None, width: int) -> list[tuple[Column, str]]:
        """The texts of a row, or of the head where there is none, each as wide as its column.

        A run without a trial lends that column to its name.
        """
        found: list[tuple[Column, str]] = []
        wide = self._squeezed(width)
        left = width
        for column in self.columns:
            room = wide[column] if column is not self.columns[-1] else left
            if row is not None and column is NAME and TRIAL in wide and not row.trial:
                room += wide[TRIAL] + GAP
            elif row is not None and column is TRIAL and not row.trial:
                continue
            room = max(min(room, left), 0)
            head = fit(column.title, room, right=column.right)
            found.append((column, head if row is None else column.cell(row, room)))
            left -= room + GAP
        return found

    def _squeezed(self, width: int) -> dict[Column, int]:
        """The widths, those of name and trial cut back where the last column would be left without
        its share."""
        wide = dict(zip(self.columns, self.widths, strict=True))
        last = self.columns[-1]
        share = max(wide[last], LEAST, int(width * SHARE) if last.most > LONG else 0)
        taken = sum(cells + GAP for column, cells in wide.items() if column is not last)
        short = max(taken + share - width, 0)
        for column, least in ((NAME, LEAST), (TRIAL, LEAST_OF_TRIAL)):
            if column in wide:
                given = min(short, max(wide[column] - least, 0))
                wide[column] -= given
                short -= given
        return wide


GAP = 2

LEAST = 12
"""Cells that the name and the last column keep in a narrow terminal."""

LEAST_OF_TRIAL = 6

SHARE = 0.4
"""Of a line, for a last column of sentences."""

LONG = 1000
"""A column that may be wider holds sentences, and takes what is left of the line."""

TITLED = 24
"""Cells that runs named by a title get in a list where others have a task."""


def layout(rows: Sequence[RunRow], chosen: str) -> Layout:
    """The columns of a set, as wide as these rows need; a trial column only where there are
    trials."""
    columns = tuple(
        column
        for column in (*ALWAYS, *SETS[chosen])
        if column is not TRIAL or any(row.trial for row in islice(rows, MEASURED))
    )
    return Layout(columns=columns, widths=tuple(_width(column, rows) for column in columns))


def _width(column: Column, rows: Sequence[RunRow]) -> int:
    if column.most > LONG:
        return 0
    measured = list(islice(rows, MEASURED))
    longest = max((cell_len(column.text(row)) for row in measured), default=0)
    if column is NAME and any(row.task for row in measured):
        tasks = max(cell_len(name(row)) for row in measured if row.task)
        longest = max(tasks, min(longest, TITLED))
    return min(max(longest, cell_len(column.title)), column.most)
