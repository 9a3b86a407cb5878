"""The runs of a trace store that a question means, newest first: ids before anything else, then
sums by id, so that attributes, which hold every message, are read of few traces only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from msgspec import Struct, structs

from replay.fleet.connection import Connection
from replay.fleet.dialect import Began, Dialect, RunFact
from taxonomy.fleet.compile import Compiled, Window, compile_text

PAGE = 200
"""Ids that are read together at most."""

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
    """Does anything in the window tell an outcome?"""
    said = dialect.outcome
    sql = (
        f"SELECT 1 FROM {said.table.rows} WHERE {said.table.since(window.from_ns)}"
        f" AND {said.condition} AND {said.value} <> '' LIMIT 1"
    )
    return bool(connection.rows(sql))


def compile_query(
    connection: Connection, dialect: Dialect, text: str, window: Window
) -> Callable[[Window], Compiled]:
    """The question compiled for what is in the store, for a part of the window or all of it. Raises
    BadQuery, FleetError, both when it is compiled."""
    outcomes = cache(lambda: has_outcomes(connection, dialect, window))
    return lambda part: compile_text(text, dialect, part, outcomes)


def list_runs(
    connection: Connection, dialect: Dialect, text: str, window: Window, *, limit: int | None
) -> FleetList:
    """The newest runs that a question means. Traces without a span of a model, a tool or an agent
    are no runs. Raises BadQuery, FleetError."""
    asked = compile_query(connection, dialect, text, window)
    notes = asked(window).notes
    found: list[FleetRun] = []
    for runs in newest_first(connection, dialect, asked, window, limit):
        for run in runs:
            if limit is not None and len(found) == limit:
                return FleetList(rows=tuple(found), more=True, notes=notes)
            found.append(run)
    return FleetList(rows=tuple(found), more=False, notes=notes)


def newest_first(
    connection: Connection,
    dialect: Dialect,
    asked: Callable[[Window], Compiled],
    window: Window,
    limit: int | None,
) -> Iterator[list[FleetRun]]:
    """The runs that a question means, a page at a time. Where so many are enough, the newest part
    of the window is asked first, and the rest only if it has too few. Raises BadQuery,
    FleetError."""
    size = PAGE if limit is None else limit + 1
    for part in (window,) if limit is None else _parts(dialect, window):
        for ids in pages(connection, dialect, asked(part), part, size):
            yield sums(connection, dialect, ids, part)
            size = PAGE


def _parts(dialect: Dialect, window: Window) -> Iterator[Window]:
    """The newest 16th of a window, what is left of its newest quarter, and what is left of it.
    Spans are read to the end of the store, so that a question few runs answer reads 1/16 and 1/4 of
    the window twice. Without a table of starts a run that was under way when a part began would be
    in two of them: such a window stays whole."""
    until = window.until_ns
    if dialect.lookup is not None:
        for share in (16, 4):
            from_ns = window.until_ns - (window.until_ns - window.from_ns) // share
            if from_ns < until:
                yield Window(from_ns, until)
                until = from_ns
    yield Window(window.from_ns, until)


def pages(
    connection: Connection,
    dialect: Dialect,
    asked: Compiled,
    window: Window,
    first: int = PAGE,
) -> Iterator[Sequence[Began]]:
    """The traces that a compiled question means, newest first, a page at a time; the first page has
    `first` of them at most."""
    until, last, size = window.until_ns, "", min(first, PAGE)
    while True:
        sql = (
            f"SELECT trace, start_ns FROM ({starts(dialect, window)})"
            f" WHERE ({asked.sql}) AND (start_ns < {{until:Int64}}"
            " OR (start_ns = {until:Int64} AND trace > {last:String}))"
            f" ORDER BY start_ns DESC, trace LIMIT {size}"
        )
        rows = connection.rows(sql, {**asked.values, "until": until, "last": last})
        if rows:
            yield [(str(trace), int(start)) for trace, start in rows]
            last, until = str(rows[-1][0]), int(rows[-1][1])
        if len(rows) < size:
            return
        size = PAGE


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
SELECT trace, argMin(span_name, (child, began)), argMin(service, (child, began)),
  argMinIf(agent, began, kind = 'agent' AND agent <> ''),
  arrayStringConcat(arraySort(groupUniqArrayIf(model, kind = 'model' AND model <> '')), ','),
  multiIf(countIf(outcome = 'failed') > 0, 'failed',
    countIf(outcome = 'passed') > 0, 'passed', 'unknown'),
  toUnixTimestamp64Nano(toDateTime64(min(began), 9)),
  toUnixTimestamp64Nano(toDateTime64(max(ended), 9)),
  count(), countIf(kind = 'model'), countIf(kind = 'tool'),
  countIf(kind IN ('model', 'tool') AND bad),
  sumIf(tokens_in, kind = 'model'), sumIf(tokens_out, kind = 'model'),
  countIf(kind IN ('model', 'tool', 'agent'))
FROM (
  SELECT {d.trace} AS trace, {d.span_name} AS span_name, {d.service} AS service,
    {d.parent} <> '' AS child, {d.start} AS began, {d.end} AS ended, {d.failed} AS bad,
    {d.kind} AS kind, {d.agent} AS agent, {d.model} AS model, {outcome} AS outcome,
    {d.input_tokens} AS tokens_in, {d.output_tokens} AS tokens_out
  FROM {spans}
)
GROUP BY trace
"""
"""What is read of each span stands once, by its own name: a store takes as long to understand a
question as to answer it where the same long expressions stand in it again and again."""


def sums(
    connection: Connection, dialect: Dialect, ids: Sequence[Began], window: Window
) -> list[FleetRun]:
    """What the spans of those of these traces add up to that are runs and began in the window, the
    newest first."""
    said = dialect.outcome
    told_by_spans = said.table == dialect.table
    sql = _SUMS.format(
        d=dialect,
        spans=dialect.table.of_traces(_IDS, _first_seen(dialect)),
        outcome=f"if({said.condition}, {said.value}, '')" if told_by_spans else "''",
    )
    values = {"ids": [trace for trace, _ in ids], "least": min(start for _, start in ids)}
    known = {row[0]: row for row in connection.rows(sql, values)}
    found = [_run(trace, known[trace]) for trace, _ in ids if trace in known and known[trace][14]]
    if not told_by_spans:
        outcomes = _outcomes(connection, said, values)
        found = [structs.replace(run, outcome=outcomes.get(run.trace, "unknown")) for run in found]
    inside = [run for run in found if window.from_ns <= run.start_ns < window.until_ns]
    return sorted(inside, key=lambda run: -run.start_ns)


_IDS, _LEAST = "{ids:Array(String)}", "{least:Int64}"


def _outcomes(
    connection: Connection, said: RunFact, values: Mapping[str, Any]
) -> dict[str, Literal["passed", "failed"]]:
    """What another table says of how these traces ended; a single "failed" outweighs the rest."""
    sql = (
        f"SELECT {said.table.trace}, min({said.value}) FROM {said.table.of_traces(_IDS, _LEAST)}"
        f" WHERE {said.condition} AND {said.value} <> '' GROUP BY {said.table.trace}"
    )
    return {str(trace): outcome for trace, outcome in connection.rows(sql, values)}


def _first_seen(dialect: Dialect) -> str:
    """When the first of these traces began, also where that was long before it was seen here: a
    table of starts, which is sorted by trace, tells it."""
    if dialect.lookup is None:
        return _LEAST
    return (
        "assumeNotNull((SELECT toUnixTimestamp64Nano(toDateTime64(min(Start), 9))"
        f" FROM {dialect.lookup} WHERE TraceId IN {_IDS}))"
    )


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
