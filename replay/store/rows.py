"""Rows of the documented views, typed: what lists, screens and `--json` are made of.

Also how long calls take, by tool and by model, and for how long more is expected of a trace that is
under way.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import accumulate, groupby
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, convert

from replay.errors import ArcError, NotFound
from replay.store.handle import Store
from replay.trace import Level, Status, Stop, TimeQuality

T = TypeVar("T", bound=Struct)

_SHOWN = 5
_NONE_YET = "No runs yet. Try: arc import PATH"

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


# --- traces


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


def source_ids(store: Store) -> list[str]:
    """The id that its source gave each trace, also in a database of an arc before 0.1, which lacks
    columns of a row."""
    return [name for (name,) in store.db.execute("SELECT source_id FROM trace_summary")]


def spans_here(store: Store, sources: Sequence[str]) -> dict[str, tuple[str, int]]:
    """(trace, how many spans it has) of the preferred recordings with these ids of their source."""
    found = store.db.execute(
        "SELECT source_id, trace, spans FROM trace_summary WHERE preferred"
        " AND source_id IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(sources).decode(),),
    )
    return {source: (trace, spans) for source, trace, spans in found}


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
    raise ArcError(f"{name!r} matches {len(found)} runs", f"Try: one of {several}{more}")


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


def span_counts(store: Store, keys: Sequence[str]) -> dict[str, int]:
    """How many spans each of these traces has."""
    found = store.db.execute(
        "SELECT t.key, t.spans FROM json_each(?) k JOIN trace t ON t.key = k.value AND t.complete",
        (msgspec.json.encode(keys).decode(),),
    )
    return dict(found.fetchall())


# --- steps and spans


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


# --- how long calls take


class Latency(Struct, frozen=True, kw_only=True):
    """How long the `spans` of a name took, as far as their ends are known.

    Percentiles are cut to two digits: at least that, and less than a tenth more. `name` None:
    the model is not known.
    """

    kind: str
    name: str | None
    spans: int
    p50_ns: int
    p90_ns: int
    p99_ns: int


def latencies(store: Store, traces: Collection[str] | None = None) -> list[Latency]:
    """By kind and name, the preferred recordings of all runs; or of the spans of some traces.

    For all runs the stored histogram is read; for some traces the same is counted from their spans.
    """
    if traces is None:
        found = store.db.execute(
            "SELECT kind, name, latency_ns, spans FROM latency ORDER BY kind, name, latency_ns"
        )
    else:
        found = store.db.execute(
            "SELECT kind, name, latency_ns, count(*) FROM span_latency WHERE trace IN ("
            "  SELECT id FROM trace WHERE complete AND key IN (SELECT value FROM json_each(?)))"
            " GROUP BY kind, name, latency_ns ORDER BY kind, name, latency_ns",
            (msgspec.json.encode(sorted(traces)).decode(),),
        )
    return [
        _latency(kind, name, [(row[2], row[3]) for row in own])
        for (kind, name), own in groupby(found, key=lambda row: (row[0], row[1]))
    ]


def spans_named(store: Store, traces: Collection[str]) -> dict[tuple[str, str | None], int]:
    """How many spans some traces have of each kind and name, whether their times are known or
    not."""
    found = store.db.execute(
        "SELECT s.kind, CASE s.kind WHEN 'model'"
        "   THEN nullif(coalesce(m.response_model, m.model), '') ELSE s.name END AS name, count(*)"
        " FROM span s LEFT JOIN model_call m ON m.span = s.id WHERE s.trace IN ("
        "   SELECT id FROM trace WHERE complete AND key IN (SELECT value FROM json_each(?)))"
        " GROUP BY 1, 2",
        (msgspec.json.encode(sorted(traces)).decode(),),
    )
    return {(kind, name): spans for kind, name, spans in found}


class LatencyRank(Struct, frozen=True, kw_only=True):
    """A call among the `spans` of its tool that have a time, over all runs: `faster` of them took
    less, as far as two digits tell."""

    tool: str
    spans: int
    faster: int

    @property
    def percent(self) -> int:
        """Of all these, itself among them, how many are faster; rounded down."""
        return self.faster * 100 // self.spans


def standing(store: Store, tool: str, took_ns: int) -> LatencyRank:
    """Where a call of a tool stands that took so long."""
    spans, faster = store.db.execute(
        "SELECT coalesce(sum(spans), 0), coalesce(sum(spans) FILTER (WHERE latency_ns < ?), 0)"
        " FROM latency WHERE kind = 'tool' AND name = ?",
        (two_digits(took_ns), tool),
    ).fetchone()
    return LatencyRank(tool=tool, spans=spans, faster=faster)


def two_digits(took_ns: int) -> int:
    """A latency cut as the histogram has it."""
    digits = str(took_ns)
    return int(digits[:2].ljust(len(digits), "0"))


def _latency(kind: str, name: str, counts: Sequence[tuple[int, int]]) -> Latency:
    return Latency(
        kind=kind,
        name=name or None,
        spans=sum(spans for _, spans in counts),
        p50_ns=percentile(counts, 50),
        p90_ns=percentile(counts, 90),
        p99_ns=percentile(counts, 99),
    )


def percentile(counts: Sequence[tuple[int, int]], percent: int) -> int:
    """The least value that `percent` of all are not above (nearest rank), of at least one
    ascending pair (value, how many)."""
    wanted = sum(many for _, many in counts) * percent
    upto = accumulate(many for _, many in counts)
    return next(
        value for (value, _), many in zip(counts, upto, strict=True) if many * 100 >= wanted
    )


# --- traces under way


def keep_live(store: Store, keys: Iterable[str], until_ns: int | None) -> None:
    """What is live among these traces stays so until a time (None: is over now)."""
    with store.writing() as db:
        db.executemany(
            "UPDATE trace SET live_until_ns = ?"
            " WHERE key = ? AND complete AND live_until_ns IS NOT NULL",
            ((until_ns, key) for key in keys),
        )


def next_end_ns(store: Store, at_ns: int) -> int | None:
    """When the first of the traces that are live at a time ceases to be, None where none is."""
    found = store.db.execute(
        "SELECT min(live_until_ns) FROM trace WHERE live_until_ns > ?", (at_ns,)
    )
    end: int | None = found.fetchone()[0]
    return end
