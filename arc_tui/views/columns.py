"""What can a list show of a run? One table of columns: the app's list of runs, `arc ls`, `arc
search`, their `--json` and `arc help columns` read it. Pure.

A new column is an entry of `COLUMNS`, and where it is shown by default an id below that. One that
is stored needs its sum in the database too: `replay.store` counts it, `RunRow` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from arc_tui.ui import format
from arc_tui.ui.format import fit
from replay.store.rows import TraceRow
from replay.trace import CAP_LABEL, CAPS_LABEL, STOP_LABEL
from taxonomy.query.listing import ORDERS, Order, RunRow

MEASURED = 500
"""Rows that choose the widths; a longer value further down is cut with `…`."""

SENTENCES = 10_000
"""The width of a column of sentences: as last column it takes the rest of a line."""


class Column(Struct, frozen=True, eq=False, kw_only=True):
    """A column: its name in `--json`, what it is, for help, and its heading in a list, "" where
    only programs get it.

    `value` is what programs get, None where that is unknown; the field of a row that is named like
    the column, unless it says otherwise. `text` is what people read: at `most` so many cells in the
    app, `printed` characters in a table (None: all of it). `blank` tells where that text adds
    nothing to a row. A list can be sorted by what has an `order`, by `rank` where that is not the
    value itself.
    """

    id: str
    means: str
    heading: str = ""
    value: Callable[[RunRow], Any] | None = None
    text: Callable[[RunRow], str] | None = None
    blank: Callable[[RunRow], bool] | None = None
    rank: Callable[[RunRow], Any] | None = None
    most: int = 16
    printed: int | None = None
    right: bool = False
    order: Order = ()

    def value_of(self, row: RunRow) -> Any:
        """What stands in `--json`."""
        return getattr(row, self.id) if self.value is None else self.value(row)

    def rank_of(self, row: RunRow) -> Any:
        """What a list is sorted by, None where it is unknown."""
        return self.value_of(row) if self.rank is None else self.rank(row)

    def text_of(self, row: RunRow) -> str:
        """What people read."""
        if self.text is not None:
            return self.text(row)
        value = self.value_of(row)
        return format.UNKNOWN if value in (None, "") else format.one_line(str(value))

    def is_blank(self, row: RunRow) -> bool:
        """Does the column add nothing to this row?"""
        if self.blank is not None:
            return self.blank(row)
        return self.text_of(row) in ("", format.UNKNOWN)

    def cell(self, row: RunRow, width: int) -> str:
        """The text of a row in exactly `width` cells."""
        return fit(self.text_of(row), width, right=self.right)

    def printed_cell(self, row: RunRow) -> str:
        """The text of a row in a printed table."""
        text = self.text_of(row)
        return text if self.printed is None else format.cut(text, self.printed)


def run_name(row: TraceRow, between: str = " · ") -> str:
    """What a run is called: its task and trial, else its title, else the source's id."""
    parts = (row.task, row.trial) if row.task else (row.title or row.source_id,)
    return between.join(filter(None, map(format.one_line, parts))) or row.trace[:8]


def task_name(row: TraceRow) -> str:
    """The task of a run, else its title, else the source's id."""
    return format.one_line(row.task or row.title or row.source_id)


def mark(row: RunRow) -> Text:
    """The outcome of a run, as a sign before its line."""
    return format.outcome_mark(row.outcome, warned=bool(row.warnings), live=row.live)


def _outcome(row: RunRow) -> str:
    if row.live:
        return "live"
    value = row.outcome_value
    if not value and row.outcome == "unknown" and _cap(row) is not None:
        return "cap hit"
    if not value or value.lower() in _OF_MARK[row.outcome]:
        return row.outcome
    return format.one_line(value)


_OF_MARK = {
    "passed": ("passed", "pass", "1", "1.0", "true"),
    "failed": ("failed", "fail", "0", "0.0", "false"),
    "unknown": ("unknown",),
}
"""Words for an outcome that say no more than the mark does."""


def _label(row: RunRow, name: str) -> str | None:
    if name not in row.labels:  # of most runs nothing has to be decoded
        return None
    found = msgspec.json.decode(row.labels).get(name)
    return found if isinstance(found, str) else None


def _cap(row: RunRow) -> str | None:
    """The cap of `arc record` that refused a call of the run."""
    return _label(row, CAP_LABEL)


def environment_lines(row: TraceRow) -> Iterator[str]:
    """The versions and pins that a run was recorded with."""
    from replay.pins import PIN, VERSION, is_version

    labels = msgspec.json.decode(row.labels, type=dict[str, str])
    versions = {
        "agent" if name == VERSION else name.removeprefix(f"{VERSION}."): value
        for name, value in labels.items()
        if is_version(name)
    }
    pins = {name.removeprefix(PIN): value for name, value in labels.items() if name.startswith(PIN)}
    for title, found in (("versions", versions), ("pins", pins)):
        if found:
            said = ", ".join(f"{name} = {value}" for name, value in sorted(found.items()))
            yield f"{title}: {format.one_line(said)}"


def caps_text(row: RunRow) -> str:
    """What `arc record` refused a call of the run for, else its caps; "" where it has none."""
    for label, words in ((CAP_LABEL, "cap hit: "), (STOP_LABEL, ""), (CAPS_LABEL, "caps: ")):
        found = _label(row, label)
        if found is not None:
            return f"{words}{format.one_line(found)}"
    return ""


def _outcome_is_mark(row: RunRow) -> bool:
    return _outcome(row) == row.outcome


def _outcome_rank(row: RunRow) -> int | None:
    """Failed runs first, then those that passed with warnings; unknown ones have no rank."""
    if row.outcome == "unknown":
        return None
    return 0 if row.outcome == "failed" else 1 if row.warnings else 2


def _why(row: RunRow) -> str:
    """The first candidate, with its step; of a run that passed, what is wrong all the same."""
    if row.outcome == "passed":
        return f"warning: {format.one_line(row.warnings[0])}" if row.warnings else format.UNKNOWN
    if row.why is None:
        return format.UNKNOWN
    step = "" if row.why_step is None else f"step {row.why_step} · "
    return step + format.one_line(row.why)


COLUMNS = (
    Column(id="trace", heading="id", means="id of this recording of the run",
           text=lambda row: row.trace[:8]),
    Column(id="run", means="id shared by all recordings of one run"),
    Column(id="title", heading="title", means="subject of the run, as its source has it",
           most=SENTENCES),
    Column(id="task", heading="task",
           means="task; in tables, else the title or the source's id",
           text=task_name, most=30, printed=32, order=ORDERS["task"]),
    Column(id="trial", heading="trial", means="trial number or name, of several runs of one task",
           text=lambda row: format.one_line(row.trial), most=12, printed=16),
    Column(id="variant", heading="variant", means="variant of the agent, such as a prompt version"),
    Column(id="agent", means="name of the agent"),
    Column(id="models", heading="model", means="models that responded", most=24),
    Column(id="outcome", heading="outcome",
           means="passed, failed or unknown; in tables, the value recorded by the source where it"
           " says more; sorted: failed, passed with warnings, passed, unknown",
           text=_outcome, blank=_outcome_is_mark, rank=_outcome_rank, most=10,
           order=ORDERS["outcome"]),
    Column(id="outcome_value", means="recorded score or word of the outcome"),
    Column(id="outcome_by", means="what decided the outcome"),
    Column(id="steps", heading="steps", means="number of steps (model calls, with their tool"
           " calls and results)",
           text=lambda row: format.number(row.steps), most=7, right=True, order=ORDERS["steps"]),
    Column(id="spans", means="number of spans (recorded operations)"),
    Column(id="calls", means="number of tool calls"),
    Column(id="errors", means="number of tool calls that failed"),
    Column(id="start_ns", means="start time (ns since 1970)"),
    Column(id="end_ns", means="end time (ns since 1970)"),
    Column(id="duration_ns", heading="time", means="duration (ns)",
           text=lambda row: format.duration(row.duration_ns), most=11, right=True,
           order=ORDERS["time"]),
    Column(id="input_tokens", heading="tokens", means="input tokens, as far as known",
           text=lambda row: format.tokens(row.input_tokens), most=7, right=True),
    Column(id="output_tokens", means="output tokens, as far as known"),
    Column(id="tokens_complete", means="whether the tokens of all its model calls are known"),
    Column(id="cost_usd", heading="cost", means="cost (USD), as far as known",
           text=lambda row: format.usd(row.cost_usd, complete=row.cost_complete), most=11,
           right=True, order=ORDERS["cost"]),
    Column(id="cost_complete", means="whether the cost of all its model calls is known"),
    Column(id="reported_cost_usd", means="total cost reported by its source (USD)"),
    Column(id="fidelity", heading="fidelity",
           means="how completely its requests were recorded: that of the weakest step", most=8),
    Column(id="masked", means="number of secrets masked in its requests"),
    Column(id="prompt", means="digest of its system prompt"),
    Column(id="format", means="trace format it was imported from"),
    Column(id="source_id", means="id given by its source"),
    Column(id="item", means="position in its file, where that has several runs"),
    Column(id="path", means="file it was imported from"),
    Column(id="labels", means="other attributes recorded by its source (JSON)"),
    Column(id="problems", means="problems of the recording found by the import (JSON)"),
    Column(id="imported_ns", means="time of import (ns since 1970)"),
    Column(id="preferred", means="whether it is the fullest of several recordings of the run"),
    Column(id="live", means="whether the run is still in progress"),
    Column(id="shape", heading="shape", means="shape of its step scores over the run", most=18),
    Column(id="why", heading="why",
           means="evidence of the first break candidate; in tables, with its step, or the first"
           " warning of a run that passed",
           text=_why, most=SENTENCES),
    Column(id="why_step", means="step of the first break candidate"),
    Column(id="warnings", means="problems found in a run that passed"),
    Column(id="cap", heading="cap", means="cap of `arc record` that refused a call of the run,"
           " with its value", value=_cap),
)  # fmt: skip
"""All columns, as `--json` has them."""

BY_ID = {column.id: column for column in COLUMNS}


def _columns(ids: str) -> tuple[Column, ...]:
    return tuple(BY_ID[each] for each in ids.split())


IDENTITY = _columns("trace task trial")
"""Which run it is, in every printed list."""

PRINTED = (
    *IDENTITY,
    *_columns("variant outcome steps input_tokens cost_usd duration_ns why"),
)
"""What `arc ls` shows, after the mark."""

NAME, TRIAL, VARIANT, WHY = _columns("task trial variant why")

SETS: dict[str, tuple[Column, ...]] = {
    "why": (WHY,),
    "figures": _columns("steps input_tokens cost_usd duration_ns shape"),
    "source": _columns("variant models fidelity title"),
}
"""The columns a person switches between, by the name of the set."""

BY_WORTH = _columns("steps outcome cost_usd duration_ns models trial variant input_tokens why")
"""What else is shown where a line has room for it, what is worth most first."""

SHOWN = _columns(
    "task trial variant outcome steps input_tokens cost_usd duration_ns shape models fidelity"
    " title why"
)
"""What the app can show of a run after the mark, from left to right."""

SORTED = _columns("outcome task steps cost_usd duration_ns")
"""What a person sorts by, one after the other."""


def column_named(name: str) -> Column | None:
    """The column of that id, else the only one with that heading."""
    headed = [column for column in COLUMNS if column.heading == name]
    return BY_ID.get(name, headed[0] if len(headed) == 1 else None)


def sorted_by(rows: Sequence[RunRow], column: Column, *, reverse: bool) -> list[RunRow]:
    """The rows by the value of a column, those without one last."""
    keyed = [(column.rank_of(row), row) for row in rows]
    known = [(value, row) for value, row in keyed if value not in (None, "")]
    if not all(isinstance(value, (int, float)) for value, _ in known):
        known = [(str(value).casefold(), row) for value, row in known]
    known.sort(key=lambda pair: pair[0], reverse=reverse)
    return [row for _, row in known] + [row for value, row in keyed if value in (None, "")]


def json_of(row: RunRow, columns: Sequence[Column] = COLUMNS) -> dict[str, Any]:
    """A run for programs, by the ids of the columns."""
    return {column.id: column.value_of(row) for column in columns}


def described() -> Iterator[tuple[str, str, str]]:
    """(its name in `--json`, its heading, what it is) of each column."""
    for column in COLUMNS:
        yield column.id, column.heading, column.means


GAP = 2

LEAST = 12
"""Cells that the name keeps in a narrow terminal."""

LEAST_WHY = 24
"""Cells that the reason keeps in a narrow terminal."""

SHARE = 0.5
"""Of a line, for a last column of sentences that needs so much."""

READABLE = 70
"""Cells of a sentence before another column takes the rest of a line."""

TITLED = 24
"""Cells that runs named by a title get in a list where others have a task."""


class Layout(Struct, frozen=True, kw_only=True):
    """Columns with their widths."""

    columns: tuple[Column, ...] = ()
    widths: tuple[int, ...] = ()

    def cells(self, row: RunRow | None) -> list[tuple[Column, str]]:
        """The texts of a row, or the headings where there is none, each as wide as its column.

        A run without trial and variant lends the room of these columns to its name.
        """
        found: list[tuple[Column, str]] = []
        for column, width in zip(self.columns, self.widths, strict=True):
            if row is None:
                found.append((column, fit(column.heading, width, right=column.right)))
            elif found and found[-1][0] is NAME and column in _TELL_APART and column.is_blank(row):
                name = NAME.cell(row, cell_len(found[-1][1]) + GAP + width)
                found[-1] = (NAME, name)
            else:
                found.append((column, column.cell(row, width)))
        return found


_TELL_APART = (TRIAL, VARIANT)
"""What tells runs of one task apart."""


def layout(rows: Sequence[RunRow], chosen: str, width: int) -> Layout:
    """The columns of a set on a line of so many cells, as wide as these rows need.

    Trial and variant are there where the runs of a task differ in them. Columns that add nothing to
    any row are left out; others follow by worth while the sentences of the set keep their room.
    """
    measured = rows[:MEASURED]
    if not measured:
        return Layout()
    telling = [column for column in _TELL_APART if _differs(column, measured)]
    asked = [each for each in SETS[chosen] if any(not each.is_blank(row) for row in measured)]
    if WHY in asked:  # in a very narrow line it is worth more than what tells runs apart
        named = LEAST + GAP + LEAST_WHY
        while telling and named + sum(_width(each, measured) + GAP for each in telling) > width:
            telling.pop()
    taken = {column: _width(column, measured) for column in (NAME, *telling, *asked)}
    room = width - sum(min(cells, READABLE) + GAP for cells in taken.values())
    for column in BY_WORTH:
        if column in taken or all(column.is_blank(row) for row in measured):
            continue
        cells = _width(column, measured)
        if min(cells, READABLE) + GAP <= room:
            taken[column] = cells
            room -= min(cells, READABLE) + GAP
    columns = tuple(column for column in SHOWN if column in taken)
    return Layout(columns=columns, widths=_fitted(columns, taken, width))


def _differs(column: Column, rows: Sequence[RunRow]) -> bool:
    """Do runs of one task differ in it?"""
    values: dict[str, str] = {}
    named = ((row.task, column.text_of(row)) for row in rows if row.task)
    return any(values.setdefault(task, text) != text for task, text in named)


def _fitted(columns: Sequence[Column], taken: Mapping[Column, int], width: int) -> tuple[int, ...]:
    """The widths of columns in a line: what identifies a run is cut back where the sentences would
    be left without their share; the last column takes no more than what is left."""
    last = columns[-1]
    before = [column for column in columns if column is not last]
    wide = {column: min(taken[column], READABLE) for column in before} | {last: taken[last]}
    share = min(wide[last], int(width * SHARE)) if last.most == SENTENCES else wide[last]
    short = sum(wide[column] + GAP for column in before) + share - width
    for column in (NAME, VARIANT, TRIAL):
        if column in before and short > 0:
            given = min(short, max(wide[column] - LEAST, 0))
            wide[column] -= given
            short -= given
    widths = []
    left = width
    for column in columns:
        cells = left if column is last and last.most == SENTENCES else wide[column]
        widths.append(max(min(cells, left), 0))
        left -= widths[-1] + GAP
    return tuple(widths)


def _width(column: Column, rows: Sequence[RunRow]) -> int:
    longest = max(map(cell_len, {column.text_of(row) for row in rows}), default=0)
    if column is NAME and any(row.task for row in rows):
        tasks = max(cell_len(task_name(row)) for row in rows if row.task)
        longest = max(tasks, min(longest, TITLED))
    return min(max(longest, cell_len(column.heading)), column.most)
