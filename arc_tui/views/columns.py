"""What can a list show of a run? One table of columns: the app's list of runs, `arc ls`, `arc
find`, their `--json` and `arc help columns` read it. Pure.

A new column is an entry of `COLUMNS`, and where it is shown unasked an id below that. One that is
stored needs its sum in the database too: `replay.store` counts it, `RunRow` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from arc_tui.ui import format
from arc_tui.ui.format import fit
from replay.store.rows import TraceRow
from taxonomy.query.listing import ORDERS, Order, RunRow

MEASURED = 500
"""Rows looked at to choose widths; a longer value further down is cut with `…`."""

SENTENCES = 10_000
"""The width of a column of sentences, which takes what is left of a line."""


class Column(Struct, frozen=True, eq=False, kw_only=True):
    """A column: its name in `--json`, what it is, for help, and what stands above it in a list, ""
    where only programs get it.

    `value` is what programs get, None where that is unknown; the field of a row that is named like
    the column, unless it says otherwise. `text` is what people read, `tail` the end of it that is
    kept where the rest is cut: at `most` so many cells in the app, `printed` characters in a table
    (None: all of it). A list can be sorted by what has an `order`.
    """

    id: str
    means: str
    heading: str = ""
    value: Callable[[RunRow], Any] | None = None
    text: Callable[[RunRow], str] | None = None
    tail: Callable[[RunRow], str] | None = None
    most: int = 16
    printed: int | None = None
    right: bool = False
    order: Order = ()

    def value_of(self, row: RunRow) -> Any:
        """What stands in `--json`."""
        return getattr(row, self.id) if self.value is None else self.value(row)

    def text_of(self, row: RunRow) -> str:
        """What people read, without its tail."""
        if self.text is not None:
            return self.text(row)
        value = self.value_of(row)
        return format.UNKNOWN if value in (None, "") else format.one_line(str(value))

    def cell(self, row: RunRow, width: int) -> str:
        """The text of a row in exactly `width` cells."""
        text, tail = self.text_of(row), self._tail_of(row)
        if tail and cell_len(text) + cell_len(tail) > width:
            return fit(text, width - cell_len(tail)) + tail
        return fit(text + tail, width, right=self.right)

    def printed_cell(self, row: RunRow) -> str:
        """The text of a row in a printed table."""
        text = self.text_of(row) + self._tail_of(row)
        return text if self.printed is None else format.cut(text, self.printed)

    def _tail_of(self, row: RunRow) -> str:
        return "" if self.tail is None else self.tail(row)


def run_name(row: TraceRow, between: str = " · ") -> str:
    """What a run is called: its task and trial, else its title, else the source's id."""
    parts = (row.task, row.trial) if row.task else (row.title or row.source_id,)
    return between.join(filter(None, map(format.one_line, parts))) or row.trace[:8]


def task_name(row: TraceRow) -> str:
    """The task of a run, else its title, else the source's id."""
    return format.one_line(row.task or row.title or row.source_id)


def mark(row: RunRow) -> Text:
    """How a run ended, as a sign before its line."""
    return format.outcome_mark(row.outcome, warned=bool(row.warnings), live=row.live)


def _outcome(row: RunRow) -> str:
    if row.live:
        return "live"
    return format.one_line(row.outcome_value) if row.outcome_value else row.outcome


def _reason(row: RunRow) -> tuple[str, int | None]:
    """Why a run is as it is: its first candidate and that step, or what is wrong where it
    passed."""
    if row.outcome == "passed" and row.warnings:
        return f"passed; {format.one_line(row.warnings[0])}", None
    if row.outcome == "passed" or row.why is None:
        return format.UNKNOWN, None
    return format.one_line(row.why), row.why_step


def _step_of_reason(row: RunRow) -> str:
    step = _reason(row)[1]
    return "" if step is None else f" · {step}"


COLUMNS = (
    Column(id="trace", heading="id", means="the id of this recording of the run",
           text=lambda row: row.trace[:8]),
    Column(id="run", means="what all recordings of one run have in common"),
    Column(id="title", heading="title", means="what the run is about, in its source's words",
           most=SENTENCES),
    Column(id="task", heading="task",
           means="the task; for people, else the title or the source's id",
           text=task_name, most=30, printed=32, order=ORDERS["task"]),
    Column(id="trial", heading="trial", means="which try at its task the run is",
           text=lambda row: format.one_line(row.trial), most=12, printed=16),
    Column(id="variant", heading="variant", means="which setup of the agent ran"),
    Column(id="agent", means="which agent ran"),
    Column(id="models", heading="model", means="the models that answered", most=24),
    Column(id="outcome", heading="outcome",
           means="passed, failed or unknown; for people, what the source says of that",
           text=_outcome, most=10, order=ORDERS["outcome"]),
    Column(id="outcome_value", heading="outcome", means="the score or word behind the outcome",
           text=lambda row: format.outcome_value(row.outcome_value)),
    Column(id="outcome_by", means="who says how it ended"),
    Column(id="steps", heading="steps", means="how many model calls, with what came of each",
           text=lambda row: format.number(row.steps), most=7, right=True, order=ORDERS["steps"]),
    Column(id="spans", means="how many operations were recorded"),
    Column(id="calls", means="how many tool calls"),
    Column(id="errors", means="how many tool calls failed"),
    Column(id="start_ns", means="when it began (ns since 1970)"),
    Column(id="end_ns", means="when it ended (ns since 1970)"),
    Column(id="duration_ns", heading="time", means="how long it took (ns)",
           text=lambda row: format.duration(row.duration_ns), most=11, right=True,
           order=ORDERS["time"]),
    Column(id="input_tokens", heading="tokens", means="input tokens, as far as they are known",
           text=lambda row: format.tokens(row.input_tokens), most=7, right=True),
    Column(id="output_tokens", means="output tokens, as far as they are known"),
    Column(id="tokens_complete", means="are the tokens of all its model calls known?"),
    Column(id="cost_usd", heading="cost", means="what it cost, as far as that is known (USD)",
           text=lambda row: format.usd(row.cost_usd, complete=row.cost_complete), most=11,
           right=True, order=ORDERS["cost"]),
    Column(id="cost_complete", means="is the cost of all its model calls known?"),
    Column(id="reported_cost_usd", means="what its source says it cost in all (USD)"),
    Column(id="fidelity", heading="fidelity",
           means="how completely its requests are known, by the weakest step", most=8),
    Column(id="masked", means="secrets masked in its requests"),
    Column(id="prompt", means="the digest of its system prompt"),
    Column(id="format", means="the format it was read in"),
    Column(id="source_id", means="what its source calls it"),
    Column(id="item", means="which run of its file it is, where that has several"),
    Column(id="path", means="the file it was read from"),
    Column(id="labels", means="what else its source says of it (JSON)"),
    Column(id="problems", means="what was wrong with the recording when it was read (JSON)"),
    Column(id="imported_ns", means="when it was imported (ns since 1970)"),
    Column(id="preferred", means="is it the fullest of several recordings of the run?"),
    Column(id="live", means="is it still going on?"),
    Column(id="shape", heading="shape", means="how the scores of its steps go", most=18),
    Column(id="why", heading="why",
           means="the evidence of the first break candidate; for people, with its step, or what is"
           " wrong though the run passed",
           text=lambda row: _reason(row)[0], tail=_step_of_reason, most=SENTENCES),
    Column(id="why_step", means="the step of the first break candidate"),
    Column(id="warnings", means="what is wrong though the run passed"),
)  # fmt: skip
"""All columns, as `--json` has them."""

BY_ID = {column.id: column for column in COLUMNS}


def _columns(ids: str) -> tuple[Column, ...]:
    return tuple(BY_ID[each] for each in ids.split())


IDENTITY = _columns("trace task trial")
"""Which run it is, in every printed list."""

PRINTED = (
    *IDENTITY,
    *_columns("variant outcome_value steps input_tokens cost_usd duration_ns why"),
)
"""What `arc ls` shows, after the mark."""

NAME, TRIAL, VARIANT, WHY = _columns("task trial variant why")

ALWAYS = _columns("task trial variant outcome steps")
"""What the app shows of every run, after the mark; the variant only where runs differ in it."""

SETS: dict[str, tuple[Column, ...]] = {
    "why": (WHY,),
    "figures": _columns("input_tokens cost_usd duration_ns shape"),
    "source": _columns("variant models fidelity title"),
}
"""The columns a person switches between, by the name of the set."""

SORTED = _columns("outcome task steps cost_usd duration_ns")
"""What a person sorts by, one after the other."""


def column_named(name: str) -> Column | None:
    """The column of that id, else the only one with that heading."""
    headed = [column for column in COLUMNS if column.heading == name]
    return BY_ID.get(name, headed[0] if len(headed) == 1 else None)


def sorted_by(rows: Sequence[RunRow], column: Column, *, reverse: bool) -> list[RunRow]:
    """The rows by the value of a column, those without one last."""
    keyed = [(column.value_of(row), row) for row in rows]
    known = [(value, row) for value, row in keyed if value not in (None, "")]
    if not all(isinstance(value, (int, float)) for value, _ in known):
        known = [(str(value).casefold(), row) for value, row in known]
    known.sort(key=lambda pair: pair[0], reverse=reverse)
    return [row for _, row in known] + [row for value, row in keyed if value in (None, "")]


def json_of(row: RunRow, columns: Sequence[Column] = COLUMNS) -> dict[str, Any]:
    """A run for programs, by the ids of the columns."""
    return {column.id: column.value_of(row) for column in columns}


def described() -> Iterator[tuple[str, str, str]]:
    """(its name in `--json`, what stands above it, what it is) of each column."""
    for column in COLUMNS:
        yield column.id, column.heading, column.means


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
            head = fit(column.heading, room, right=column.right)
            found.append((column, head if row is None else column.cell(row, room)))
            left -= room + GAP
        return found

    def _squeezed(self, width: int) -> dict[Column, int]:
        """The widths, those of name and trial cut back where the last column would be left without
        its share."""
        wide = dict(zip(self.columns, self.widths, strict=True))
        last = self.columns[-1]
        share = max(wide[last], LEAST, int(width * SHARE) if last.most == SENTENCES else 0)
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

TITLED = 24
"""Cells that runs named by a title get in a list where others have a task."""


def layout(rows: Sequence[RunRow], chosen: str) -> Layout:
    """The columns of a set, as wide as these rows need; a trial column only where there are
    trials, a variant column only where there are several variants."""
    measured = list(islice(rows, MEASURED))
    trials, variants = {row.trial for row in measured}, {row.variant for row in measured}
    shown = {
        TRIAL: any(trials),
        VARIANT: len(variants) > 1 and VARIANT not in SETS[chosen],
    }
    columns = (*(column for column in ALWAYS if shown.get(column, True)), *SETS[chosen])
    return Layout(columns=columns, widths=tuple(_width(column, rows) for column in columns))


def _width(column: Column, rows: Sequence[RunRow]) -> int:
    if column.most == SENTENCES:
        return 0
    measured = list(islice(rows, MEASURED))
    longest = max((cell_len(column.text_of(row)) for row in measured), default=0)
    if column is NAME and any(row.task for row in measured):
        tasks = max(cell_len(task_name(row)) for row in measured if row.task)
        longest = max(tasks, min(longest, TITLED))
    return min(max(longest, cell_len(column.heading)), column.most)
