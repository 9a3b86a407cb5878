"""Rows of the documented views, typed: what lists, screens and `--json` are made of."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

from msgspec import Struct, convert

from replay.errors import ArcError, NotFound
from replay.store.handle import Store
from replay.trace import Level, Status, Stop, TimeQuality

T = TypeVar("T", bound=Struct)

_SHOWN = 5
_NONE_YET = "there are no runs yet: `arc import` reads some"

_ALL = (1 << 63) - 1
"""More rows than any trace has."""

_OF_FEW = ("thread", "time_quality", "model", "stop", "cost_source", "fidelity_reasons", "status")
"""Columns of steps with few different values: rows share them, each would come as a new one."""


class TraceRow(Struct, frozen=True, kw_only=True):
    """A row of the view `trace_summary`. Sums leave out what is unknown and say so."""

    trace: str
    run: str
    title: str | None
    task: str | None
    trial: str | None
    variant: str | None
    agent: str | None
    models: str | None
    outcome: Literal["passed", "failed", "unknown"]
    outcome_value: str | None
    outcome_by: str | None
    steps: int
    spans: int
    calls: int
    errors: int
    start_ns: int | None
    end_ns: int | None
    duration_ns: int | None
    input_tokens: int | None
    output_tokens: int | None
    tokens_complete: bool
    cost_usd: float | None
    cost_complete: bool
    reported_cost_usd: float | None
    fidelity: Level | None
    masked: int
    prompt: str | None
    format: str
    source_id: str
    item: str | None
    path: str | None
    labels: str
    problems: str
    imported_ns: int
    preferred: bool
    live: bool


class StepRow(Struct, frozen=True, gc=False):
    """A row of the view `steps`; `latency_ns` is the model's own time, tools not included.

    As many as a trace has are held at once: like all that is, it holds nothing that could hold it,
    and so is not looked through for that.
    """

    trace: str
    step: int
    thread: str
    span: str
    start_ns: int | None
    end_ns: int | None
    latency_ns: int | None
    time_quality: TimeQuality
    model: str | None
    stop: Stop | None
    calls: int
    errors: int
    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost_usd: float | None
    cost_source: str | None
    fidelity: Level
    fidelity_reasons: str | None
    masked: int
    status: Status
    error: str | None
    place_span: str | None
    place_message: int | None
    place_line: int | None


class SpanRow(Struct, frozen=True, gc=False):
    """What a tree shows of a span; `brief` is its first words, `asked_by` a tool's model span.

    `again`: a tool call with the name and arguments of the tool call before it under its parent.
    """

    span_id: str
    parent: str | None
    kind: Literal["agent", "model", "tool", "retriever", "other"]
    name: str
    status: Status
    step: int | None
    brief: str | None
    asked_by: str | None = None
    again: bool = False


def rows(cursor: sqlite3.Cursor, type_: type[T]) -> Iterator[T]:
    """The rows of a cursor whose columns are named like the fields of `type_`."""
    names = [column[0] for column in cursor.description]
    for values in cursor:
        yield convert(dict(zip(names, values, strict=True)), type_, strict=False)


def columns(type_: type[Struct]) -> str:
    """The column list that fills a row type."""
    return ", ".join(type_.__struct_fields__)


def trace_rows(
    store: Store, where: str = "1", values: Sequence[Any] = (), *, every: bool = False
) -> list[TraceRow]:
    """Traces, newest import last; of several recordings of a run the preferred one, or `every`."""
    chosen = "1" if every else "preferred"
    cursor = store.db.execute(
        f"SELECT {columns(TraceRow)} FROM trace_summary WHERE {chosen} AND ({where})"
        " ORDER BY imported_ns, trace",
        list(values),
    )
    return list(rows(cursor, TraceRow))


def trace_row(store: Store, name: str) -> TraceRow:
    """The trace of that name: an id, a unique prefix of one, `last`, `task/trial`, the id its
    source gave it, or the task or title of one run alone.

    Raises NotFound with what is near, ArcError with the runs where a task or title has several.
    """
    if name == "last":
        found = trace_rows(
            store, "imported_ns = (SELECT max(imported_ns) FROM trace_summary)", every=True
        )[-1:]
    else:
        found = trace_rows(store, "substr(trace, 1, ?) = ?", (len(name), name), every=True)
        found = found or trace_rows(store, "task || '/' || trial = ?", (name,))
        found = found or trace_rows(store, "source_id = ?", (name,), every=True)
        found = found or _called(store, name)
    if len(found) == 1:
        return found[0]
    near = found or _alike(store, name) or trace_rows(store)[-3:]
    raise NotFound("trace", name, [_shown(row) for row in near[:3]], hint=_NONE_YET)


def _called(store: Store, name: str) -> list[TraceRow]:
    """The one run whose task or title that is, [] where there is none."""
    found = name and (
        trace_rows(store, "task = ?", (name,)) or trace_rows(store, "title = ?", (name,))
    )
    if not found or len(found) == 1:
        return found or []
    several = ", ".join(map(_told_apart, found[:_SHOWN]))
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise ArcError(f"{name!r} means {len(found)} runs", f"say which: {several}{more}")


def _told_apart(row: TraceRow) -> str:
    trial = f"trial {row.trial}, " if row.trial else ""
    outcome = "outcome unknown" if row.outcome == "unknown" else row.outcome
    return f"{row.trace[:8]} ({trial}{outcome})"


def _alike(store: Store, name: str) -> list[TraceRow]:
    """The runs whose task or title begins or nearly reads so."""
    known = {word: row for row in trace_rows(store) for word in (row.title, row.task) if word}
    begun = [row for word, row in known.items() if name and word.lower().startswith(name.lower())]
    return begun or [known[word] for word in get_close_matches(name, known)]


def _shown(row: TraceRow) -> str:
    return f"{row.trace[:8]} ({row.task or row.title or row.source_id})"


def step_rows(store: Store, trace: str, first: int | None = None) -> list[StepRow]:
    """The steps of a trace, in order; only those before step `first`, where that is given."""
    fields = StepRow.__struct_fields__
    cursor = store.db.execute(
        f"SELECT {', '.join(fields[1:])} FROM steps WHERE trace = ? AND step < ? ORDER BY step",
        (trace, _ALL if first is None else first),
    )
    level, levels = fields.index("fidelity"), {each.value: each for each in Level}
    told = [fields.index(name) for name in _OF_FEW]
    share = dict[Any, Any]().setdefault
    found = []
    for values in cursor:
        made = [trace, *values]
        for at in told:
            made[at] = share(made[at], made[at])
        made[level] = levels[made[level]]
        found.append(StepRow(*made))
    return found


def span_rows(store: Store, trace: str, first: int | None = None) -> list[SpanRow]:
    """The spans of a trace in source order; only those before step `first`, where that is given."""
    cursor = store.db.execute(
        "WITH told AS (SELECT id FROM trace WHERE key = :trace AND complete)"
        " SELECT span_id, parent, kind, name, status, s.step, brief, asked_by, arguments"
        " FROM span s LEFT JOIN tool_call t ON s.kind = 'tool' AND t.span = s.id"
        " WHERE s.trace = (SELECT id FROM told) AND s.seq < coalesce("
        "  (SELECT a.seq FROM step p JOIN span a ON a.id = p.ask"
        "   WHERE p.trace = (SELECT id FROM told) AND p.step = :first), :all)"
        " ORDER BY s.seq",
        {"trace": trace, "first": first, "all": _ALL},
    )
    return list(_spans(cursor))


def _spans(cursor: sqlite3.Cursor) -> Iterator[SpanRow]:
    before: dict[str | None, tuple[str, str]] = {}
    share = dict[Any, Any]().setdefault
    for span, parent, kind, name, status, step, brief, asked_by, arguments in cursor:
        again = False
        if kind == "tool":
            call = (name, arguments)
            again = arguments is not None and before.get(parent) == call
            before[parent] = call
        yield SpanRow(
            span, share(parent, parent), share(kind, kind), share(name, name),
            share(status, status), step, brief, asked_by, again,
        )  # fmt: skip
