"""The runs of a trace store that a question means, newest first: ids before anything else, then
sums by id, so that attributes, which hold every message, are read of few traces only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from replay.fleet.connection import Connection
from replay.fleet.dialects import Dialect
from taxonomy.fleet.compile import Compiled, Window, compile_text

PAGE = 200
"""Ids that are read together."""

_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS


class FleetRun(Struct, frozen=True, kw_only=True):
    """A run of a store, counted by its spans. Counts that no span tells are None."""

    trace: str
    name: str
    service: str
    agent: str | None
    models: str | None
    outcome: Literal["passed", "failed", "unknown"]
    start_ns: int
    duration_ns: int
    spans: int
    steps: int
    calls: int
    errors: int
    input_tokens: int | None
    output_tokens: int | None


class FleetList(Struct, frozen=True, kw_only=True):
    """The runs found, newest first; `more` tells that older ones fit too. `notes` say what the
    answer is not."""

    rows: tuple[FleetRun, ...]
    more: bool
    notes: tuple[str, ...]


def has_outcomes(connection: Connection, dialect: Dialect, window: Window) -> bool:
    """Does any root of the window tell an outcome?"""
    sql = (
        f"SELECT 1 FROM {dialect.spans} WHERE {dialect.since(window.from_ns)}"
        f" AND {dialect.parent} = '' AND {dialect.outcome} <> '' LIMIT 1"
    )
    return bool(connection.rows(sql))


def compile_query(connection: Connection, dialect: Dialect, text: str, window: Window) -> Compiled:
    """The question compiled for what is in the store. Raises BadQuery, FleetError."""
    return compile_text(text, dialect, window, lambda: has_outcomes(connection, dialect, window))


def list_runs(
    connection: Connection, dialect: Dialect, text: str, window: Window, *, limit: int | None
) -> FleetList:
    """The newest runs that a question means. Traces without a span of a model, a tool or an agent
    are no runs. Raises BadQuery, FleetError."""
    asked = compile_query(connection, dialect, text, window)
    found: list[FleetRun] = []
    for ids in pages(connection, dialect, asked, window):
        for run in sums(connection, dialect, ids, window):
            if limit is not None and len(found) == limit:
                return FleetList(rows=tuple(found), more=True, notes=asked.notes)
            found.append(run)
    return FleetList(rows=tuple(found), more=False, notes=asked.notes)


Began = tuple[str, int]
"""A trace and when its first span began, in ns."""


def pages(
    connection: Connection, dialect: Dialect, asked: Compiled, window: Window
) -> Iterator[Sequence[Began]]:
    """The traces that a compiled question means, newest first, a page at a time."""
    until, last = window.until_ns, ""
    while True:
        sql = (
            f"SELECT trace, start_ns FROM ({starts(dialect, window)})"
            f" WHERE ({asked.sql}) AND (start_ns < {{until:Int64}}"
            " OR (start_ns = {until:Int64} AND trace > {last:String}))"
            f" ORDER BY start_ns DESC, trace LIMIT {PAGE}"
        )
        rows = connection.rows(sql, {**asked.values, "until": until, "last": last})
        if rows:
            yield [(str(trace), int(start)) for trace, start in rows]
            last, until = str(rows[-1][0]), int(rows[-1][1])
        if len(rows) < PAGE:
            return


def starts(dialect: Dialect, window: Window) -> str:
    """When each trace of a window began, to the second. What is seen a day before tells those that
    only went on in it."""
    table, trace, start = dialect.spans, dialect.trace, dialect.start
    seen = window.from_ns - _DAY_NS
    since = dialect.since(seen)
    if dialect.lookup is not None:
        table, trace, start = dialect.lookup, "TraceId", "Start"
        since = f"Start >= fromUnixTimestamp64Nano(toInt64({seen}))"
    least = window.from_ns // _SECOND_NS * _SECOND_NS
    nanoseconds = f"toUnixTimestamp64Nano(toDateTime64(min({start}), 9))"
    return (
        f"SELECT {trace} AS trace, {nanoseconds} AS start_ns FROM {table}"
        f" WHERE {since} AND {start} < fromUnixTimestamp64Nano(toInt64({window.until_ns}))"
        f" GROUP BY {trace} HAVING start_ns >= {least}"
    )


_SUMS = """
SELECT {d.trace} AS trace,
  argMin({d.span_name}, ({d.parent} <> '', {d.start})),
  argMin({d.service}, ({d.parent} <> '', {d.start})),
  argMinIf({agent} AS agent, {d.start}, agent <> ''),
  arrayStringConcat(arraySort(
    groupUniqArrayIf({model} AS model, kind = 'model' AND model <> '')), ','),
  multiIf(countIf({outcome} AS outcome = 'failed') > 0, 'failed',
    countIf(outcome = 'passed') > 0, 'passed', 'unknown'),
  toUnixTimestamp64Nano(toDateTime64(min({d.start}), 9)),
  toUnixTimestamp64Nano(toDateTime64(max({d.end}), 9)),
  count(), countIf({kind} AS kind = 'model'), countIf(kind = 'tool'),
  countIf(kind = 'tool' AND {d.failed}),
  sumIf({input_tokens}, kind = 'model'), sumIf({output_tokens}, kind = 'model'),
  countIf(kind IN ('model', 'tool', 'agent'))
FROM (
  SELECT * FROM {d.spans}
  WHERE {d.trace} IN {{ids:Array(String)}} AND {since}
  LIMIT 1 BY {d.trace}, {d.span}
)
GROUP BY trace
"""
"""Each span once: exporters that had no answer send it again."""


def sums(
    connection: Connection, dialect: Dialect, ids: Sequence[Began], window: Window
) -> list[FleetRun]:
    """What the spans of those of these traces add up to that are runs and began in the window, the
    newest first."""
    sql = _SUMS.format(
        d=dialect,
        since=dialect.since("{least:Int64}"),
        kind=dialect.kind,
        model=dialect.model,
        agent=dialect.agent,
        outcome=dialect.outcome,
        input_tokens=dialect.input_tokens,
        output_tokens=dialect.output_tokens,
    )
    began = _first_seen(connection, dialect, ids)
    values = {"ids": list(began), "least": min(began.values())}
    known = {row[0]: row for row in connection.rows(sql, values)}
    found = [_run(trace, known[trace]) for trace, _ in ids if trace in known and known[trace][14]]
    inside = [run for run in found if window.from_ns <= run.start_ns < window.until_ns]
    return sorted(inside, key=lambda run: -run.start_ns)


def _first_seen(connection: Connection, dialect: Dialect, ids: Sequence[Began]) -> dict[str, int]:
    """When each trace began, also where that was long before it was seen here: a table of starts,
    which is sorted by trace, tells it."""
    began = dict(ids)
    if dialect.lookup is not None:
        sql = (
            "SELECT TraceId, toUnixTimestamp64Nano(toDateTime64(min(Start), 9))"
            f" FROM {dialect.lookup} WHERE TraceId IN {{ids:Array(String)}} GROUP BY TraceId"
        )
        began |= {
            str(trace): int(start) for trace, start in connection.rows(sql, {"ids": list(began)})
        }
    return began


def _run(trace: str, row: Sequence[Any]) -> FleetRun:
    return FleetRun(
        trace=trace,
        name=row[1],
        service=row[2],
        agent=row[3] or None,
        models=row[4] or None,
        outcome=row[5],
        start_ns=row[6],
        duration_ns=row[7] - row[6],
        spans=row[8],
        steps=row[9],
        calls=row[10],
        errors=row[11],
        input_tokens=row[12],
        output_tokens=row[13],
    )
