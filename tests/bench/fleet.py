"""A trace store of a team at a million spans: ClickHouse itself on disk, asked as `arc fleet` asks.

The store is made by SQL inside the engine, by a seed: 50 000 runs of a support agent with 6 to 14
steps, whose contexts grow by each result, in the exporter's own tables. A sample of the runs is
pulled into a database here, and both must tell the same of each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from arc_tui.features.fleet import run as fleet_run
from arc_tui.importing import ImportReport
from replay.fleet.connection import Bounds, Connection
from replay.fleet.stores import FleetStore, keep_store, variable
from replay.store.read import load
from taxonomy.classes import class_label
from taxonomy.fleet.compile import Window
from taxonomy.fleet.failures import count_failures
from taxonomy.fleet.listing import list_runs
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.compile import runs_meant
from taxonomy.query.listing import run_rows
from taxonomy.rules import findings
from taxonomy.rules.rule import RuleContext
from tests.bench.measure import Row
from tests.bench.scanning import measure_scan
from tests.fleet import exporter
from tests.fleet.conftest import PASSWORD, USER, Store, serving

RUNS = 50_000
DAYS = 7
BEGAN_NS = 1_795_219_200_000_000_000
"""The first day begins here, at midnight UTC."""

DAY_NS = 86_400 * 10**9
SEED = 27
_STEP_NS = DAYS * DAY_NS // RUNS

WORDS = (
    "order parcel carrier depot address label refund card payment invoice customer request state"
    " shipped sent waiting returned partial stock item size colour quantity price total tax voucher"
    " discount account email phone street city country region window morning evening tomorrow"
    " delivery attempt signature neighbour locker code scan weight volume pallet route driver hub"
    " customs form value origin batch serial warranty repair exchange store counter pickup note"
    " comment policy rule limit approval manager agent team queue ticket priority reply message"
    " template language draft copy history event time stamp zone record field update change version"
    " check result list page search filter match first second third last next open closed done kept"
).split()

_H = "cityHash64({seed}, r, {of})"
_RUNS = """
SELECT number AS r, cityHash64({seed}, number, 'kind') % 100 AS sort,
  6 + cityHash64({seed}, number, 'steps') % 9 AS steps,
  lower(hex(sipHash128({seed}, number))) AS trace,
  ['claude-sonnet-4-5', 'gpt-4o-mini'][1 + cityHash64({seed}, number, 'model') % 2] AS model,
  toInt64({began} + number * {step} + cityHash64({seed}, number, 'start') % 1000000000) AS began
FROM numbers({runs})
"""
"""`sort` says what becomes of a run, in hundredths: see `_CALLS` and `_VERDICT`."""

_CALLS = """
SELECT r, sort, steps, trace, model, began, j,
  multiIf(
    sort < 4 AND j BETWEEN 2 AND 4, 'search_orders',
    sort BETWEEN 4 AND 7 AND j = steps - 2, 'refund_order',
    sort = 14 AND j BETWEEN 1 AND 2, 'lookup_parcel',
    ['get_order', 'get_customer', 'list_parcels', 'search_docs', 'get_policy']
      [1 + cityHash64({seed}, r, j, 'tool') % 5]) AS tool,
  if(sort < 4 AND j BETWEEN 2 AND 4, 2, j) AS same,
  multiIf(
    sort BETWEEN 4 AND 7 AND j = steps - 2, 'Error: invalid argument: amount is missing',
    sort = 14 AND j BETWEEN 1 AND 2, 'Error: unknown tool',
    sort >= 25 AND cityHash64({seed}, r, j, 'bad') % 25 = 0,
      'Error: 503 Service Unavailable, try again later', '') AS error,
  concat('{{"order_id":"W', toString(r), '","page":', toString(same), '}}') AS arguments,
  if(error <> '', error, concat('order W', toString(r), ' ', toString(same), ': ',
    arrayStringConcat(arrayMap(i -> {words}[1 + cityHash64({seed}, r, same, i) % {vocabulary}],
      range(130 + cityHash64({seed}, r, same, 'n') % 120)), ' '))) AS result
FROM bench.runs ARRAY JOIN range(steps - 1) AS j
"""

_PIECE = (
    """concat('{{"role":"assistant","parts":[{{"type":"tool_call","id":"c', toString(r), '_',"""
    """ toString(j), '","name":"', tool, '","arguments":', arguments, '}}]}}')"""
)
_SHOWN = (
    """concat('{{"role":"tool","parts":[{{"type":"tool_call_response","id":"c', toString(r), '_',"""
    """ toString(j), '","response":"', result, '"}}]}}')"""
)
_GATHERED = """
SELECT r, sort, steps, trace, model, began,
  arraySort(x -> x.1, groupArray((j, {piece}, {shown}))) AS told
FROM bench.calls GROUP BY r, sort, steps, trace, model, began
"""

_COLUMNS = (
    "Timestamp, TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName,"
    " ResourceAttributes, SpanAttributes, Duration, StatusCode, StatusMessage,"
    " `Events.Timestamp`, `Events.Name`, `Events.Attributes`"
)
_RESOURCE = "map('service.name', 'support', 'deployment.environment.name', 'prod')"
_NONE = "[]::Array(DateTime64(9)), []::Array(String), []::Array(Map(String, String))"
_SPAN = "lower(hex(sipHash64({seed}, r, {of})))"
_TURN_NS = 6_000_000_000
_MODEL_NS = "toUInt64(1500000000 + cityHash64({seed}, r, k, 'took') % 3000000000)"

_ROOTS = """
SELECT fromUnixTimestamp64Nano(began), trace, {root}, '', 'invoke_agent support', 'Internal',
  'support', {resource},
  mapFilter((name, v) -> v <> '', map('gen_ai.operation.name', 'invoke_agent',
    'gen_ai.agent.name', 'support', 'gen_ai.conversation.id', concat('s', toString(r)),
    'arc.outcome', if(r % 2 = 0, verdict, ''))),
  toUInt64(steps * {turn}), 'Unset', '',
  if(said, [fromUnixTimestamp64Nano(began + toInt64(steps * {turn}))], []),
  if(said, ['gen_ai.evaluation.result'], []),
  if(said, [map('gen_ai.evaluation.name', 'resolved',
    'gen_ai.evaluation.score.label', if(verdict = 'failed', 'fail', 'pass'))], [])
FROM (SELECT *, {verdict} AS verdict, r % 2 = 1 AND verdict <> '' AS said FROM bench.runs)
"""
_VERDICT = (
    "multiIf(sort = 24 OR cityHash64({seed}, r, 'told') % 20 = 0, '', sort < 25, 'failed',"
    " 'passed')"
)

_TOOLS = """
SELECT fromUnixTimestamp64Nano(began + toInt64(j * {turn} + 5000000000)), trace,
  lower(hex(sipHash64({seed}, r, 'tool', j))), {root}, concat('execute_tool ', tool), 'Internal',
  'support', {resource},
  map('gen_ai.operation.name', 'execute_tool', 'gen_ai.tool.name', tool,
    'gen_ai.tool.call.id', concat('c', toString(r), '_', toString(j)),
    'gen_ai.tool.call.arguments', arguments, 'gen_ai.tool.call.result', result),
  toUInt64(100000000 + cityHash64({seed}, r, j, 'tool took') % 800000000),
  if(error = '', 'Unset', 'Error'), error, {none}
FROM bench.calls
"""

_CHATS = """
SELECT fromUnixTimestamp64Nano(began + toInt64(k * {turn} + 1000000)), trace,
  lower(hex(sipHash64({seed}, r, 'chat', k))), {root}, concat('chat ', model), 'Client',
  'support', {resource},
  mapFilter((name, v) -> v <> '', map(
    'gen_ai.operation.name', 'chat', 'gen_ai.provider.name', 'anthropic',
    'gen_ai.request.model', model, 'gen_ai.response.model', if(refused, '', model),
    'gen_ai.usage.input_tokens', if(refused, '', toString(intDiv(length(input), 4))),
    'gen_ai.usage.output_tokens', if(refused, '', '60'),
    'gen_ai.request.max_tokens', '1024',
    'gen_ai.response.finish_reasons', multiIf(refused, '', NOT last, '["tool_calls"]',
      sort BETWEEN 8 AND 9, '["length"]', '["stop"]'),
    'gen_ai.system_instructions', {system}, 'gen_ai.tool.definitions', {definitions},
    'gen_ai.input.messages', input,
    'gen_ai.output.messages', multiIf(refused, '', NOT last, concat('[', told[k + 1].2, ']'),
      concat('[{{"role":"assistant","parts":[{{"type":"text","content":"',
        if(sort BETWEEN 12 AND 13, '', 'Your order is on its way and comes tomorrow.'),
        '"}}]}}]')))),
  {model_ns}, if(refused, 'Error', 'Unset'),
  if(refused, 'overloaded_error: the service is overloaded', ''), {none}
FROM (
  SELECT *, k, k = steps - 1 AS last, last AND sort BETWEEN 10 AND 11 AS refused,
    concat('[{{"role":"user","parts":[{{"type":"text","content":"Where is order W', toString(r),
      '?"}}]}}', arrayStringConcat(arrayMap(x -> concat(',', x.2, ',', x.3),
      arraySlice(told, 1, k))), ']') AS input
  FROM bench.gathered ARRAY JOIN range(steps) AS k
  WHERE r >= {{least:UInt64}} AND r < {{most:UInt64}}
)
"""
_SYSTEM = (
    '[{"type":"text","content":"You are the support agent of a shop. '
    + "Look before you answer, change nothing that was not asked for, and say what you did. " * 12
    + '"}]'
)
_DEFINITIONS = (
    "["
    + ",".join(
        f'{{"type":"function","name":"{name}","description":"{name} of the shop","parameters":'
        '{"type":"object","properties":{"order_id":{"type":"string"},"page":{"type":"integer"}}}}'
        for name in (
            "get_order", "get_customer", "list_parcels", "search_docs", "get_policy",
            "search_orders", "refund_order",
        )
    )
    + "]"
)  # fmt: skip
_AT_ONCE = 5_000
"""Runs whose model calls are inserted together: their contexts stand in memory."""


def fill(client: Any, runs: int) -> int:
    """Make the store of so many runs in the database `bench`; returns how many spans it has."""
    client.command("CREATE DATABASE bench")
    for statement in exporter.tables("bench.otel_traces"):
        client.command(statement)
    given = {
        "seed": SEED, "began": BEGAN_NS, "step": _STEP_NS, "runs": runs, "turn": _TURN_NS,
        "words": "[" + ", ".join(f"'{word}'" for word in WORDS) + "]", "vocabulary": len(WORDS),
        "resource": _RESOURCE, "none": _NONE, "system": f"'{_SYSTEM}'",
        "definitions": f"'{_DEFINITIONS}'",
    }  # fmt: skip
    given["piece"], given["shown"] = _PIECE.format(), _SHOWN.format()
    given["root"] = _SPAN.format(seed=SEED, of="'root'")
    given["model_ns"] = _MODEL_NS.format(**given)
    given["verdict"] = _VERDICT.format(**given)
    for table, made in (("runs", _RUNS), ("calls", _CALLS), ("gathered", _GATHERED)):
        client.command(
            f"CREATE TABLE bench.{table} ENGINE = MergeTree ORDER BY r AS {made.format(**given)}"
        )
    insert = f"INSERT INTO bench.otel_traces ({_COLUMNS}) "
    client.command(insert + _ROOTS.format(**given))
    client.command(insert + _TOOLS.format(**given))
    chats = insert + _CHATS.format(**given)
    for least in range(0, runs, _AT_ONCE):
        client.command(chats, {"least": least, "most": least + _AT_ONCE})
    for table in ("runs", "calls", "gathered"):
        client.command(f"DROP TABLE bench.{table}")
    while int(client.command("SELECT count() FROM system.merges")):
        time.sleep(0.5)  # what was just written is still being put together, on the same cores
    return int(client.command("SELECT count() FROM bench.otel_traces"))


SAMPLE = 500
"""Runs that are pulled, to be compared with what the store says of them."""

SCANNED = 5_000
"""Runs that one worker scans, and then two."""

OPENED = 5
"""Runs that are opened, one after another."""

NAME = "bench"
BOUNDS = Bounds(seconds=300)


def rows(folder: Path) -> Iterator[Row]:
    """Questions to the store, each as if it were the first; then the sample, run by run."""
    os.environ |= {"ARC_CONFIG_DIR": str(folder), variable(NAME): PASSWORD}
    with serving(folder / "clickhouse", "--user", USER, "--password", PASSWORD) as store:
        began = time.perf_counter()
        spans = fill(store.client, RUNS)
        size = f"{RUNS:,} runs, {spans:,} spans"
        yield Row(f"{size}: made by SQL", f"{time.perf_counter() - began:.0f} s", "no goal")
        keep_store(fleet_run.stores_file(), NAME, FleetStore(url=store.url("bench")))
        yield from _questions(store, size)
        yield from _opened(folder / "opened.db")
        yield from _scanned(folder / "scanned.db")
        yield from _sample(folder / "arc.db")


def _questions(store: Store, size: str) -> Iterator[Row]:
    window = Window(BEGAN_NS, BEGAN_NS + DAYS * DAY_NS)
    with fleet_run.open_fleet(NAME, BOUNDS) as fleet:
        ask, dialect = fleet.connection, fleet.dialect
        for what, query, goal in (
            ("newest 100 runs", "", "no goal"),
            ("newest 100 failed runs", "outcome:failed", "goal 1 s"),
            ("newest 100 with a failed call of a tool", "tool.error:refund_order", "goal 0.5 s"),
        ):
            listed = partial(list_runs, ask, dialect, query, window, limit=100)
            yield Row(f"{size}: {what}", _taken(store, ask, listed), goal)
        counted = partial(count_failures, ask, dialect, "", window)
        yield Row(f"{size}: failed runs by class", _taken(store, ask, counted), "goal 3 s")


def _taken(store: Store, ask: Connection, work: Callable[[], object]) -> str:
    """The fastest of three, what the store remembers of conditions forgotten before each."""
    times: list[float] = []
    for _ in range(3):
        store.client.command("SYSTEM DROP QUERY CONDITION CACHE")
        read, began = ask.read.bytes_read, time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return f"{min(times):.2f} s, {(ask.read.bytes_read - read) / 1e6:,.0f} MB read"


def _newest(runs: int, limit: int | None) -> fleet_run.FleetRequest:
    """What asks for the newest runs, by a window that holds so many."""
    until = BEGAN_NS + DAYS * DAY_NS
    window = Window(until - runs * _STEP_NS, until)
    return fleet_run.FleetRequest(
        fleet=NAME, query="", window=window, bounds=BOUNDS, limit=limit
    )  # fmt: skip


def _opened(path: Path) -> Iterator[Row]:
    """Runs of a list, each as if it were opened alone: connected, read, masked, kept, diagnosed,
    loaded."""
    times: list[float] = []
    with open_ledger(path) as store:
        listed = fleet_run.list_fleet(store, _newest(2 * OPENED, OPENED)).runs
        for each in listed:
            began = time.perf_counter()
            *_, report = fleet_run.pull_listed(store, NAME, BOUNDS, [each.run])
            assert isinstance(report, ImportReport)
            load(store, report.files[0].traces[0].id)
            times.append(time.perf_counter() - began)
    yield Row(
        f"one run opened: pulled, diagnosed, loaded (median of {OPENED})",
        f"{median(times) * 1000:.0f} ms ({min(times) * 1000:.0f}-{max(times) * 1000:.0f})",
        "goal 500 ms",
    )


def _scanned(path: Path) -> Iterator[Row]:
    """The same window scanned by one worker and by two, by the CPU time of the workers."""
    with open_ledger(path) as store:
        one, two = (measure_scan(store, _newest(SCANNED, None), workers) for workers in (1, 2))
    yield Row(
        f"scan of {one.runs:,} runs by one worker",
        f"{one.runs_per_cpu_s:.0f} runs a second of its CPU",
        "goal 20",
    )
    yield Row(
        f"scan of {two.runs:,} runs by two workers",
        f"{two.runs_per_cpu_s:.0f} runs a second of their CPU; {two.speedup(one):.2f}× one,"
        " by the CPU of the busier",
        "goal 1.7×",
    )


def _sample(path: Path) -> Iterator[Row]:
    """The newest runs, pulled: the store's sums, and its classes, against those of the rules."""
    asked = _newest(2 * SAMPLE, SAMPLE)
    window = asked.window
    with open_ledger(path) as store, fleet_run.open_fleet(NAME, BOUNDS) as fleet:
        began = time.perf_counter()
        for _ in fleet_run.pull(store, asked, lambda note: None):
            pass
        took = (time.perf_counter() - began) / SAMPLE
        yield Row(f"{SAMPLE} runs pulled and diagnosed", f"{took * 1000:.0f} ms a run", "no goal")
        there = list_runs(fleet.connection, fleet.dialect, "", window, limit=SAMPLE).rows
        here = {row.source_id: row for row in run_rows(store, runs_meant(store, ""))}
        names = ("spans", "steps", "calls", "errors", "input_tokens", "output_tokens", "outcome")
        same = sum(
            all(getattr(run, name) == getattr(here[run.trace], name) for name in names)
            for run in there
        )
        yield Row("runs with the same counts in store and pull", f"{same} of {len(here)}", "all")
        counted: dict[str, set[str]] = {}
        for each in count_failures(fleet.connection, fleet.dialect, "", window).rows:
            for trace in each.traces:
                counted.setdefault(trace, set()).add(each.label)
        failed = [row for row in here.values() if row.outcome == "failed"]
        agree = 0
        for row in failed:
            said = findings(RuleContext(load(store, row.trace)))
            labels = {class_label(each.failure, each.sub) for each in said}
            agree += counted.get(row.source_id or "", set()) <= labels
        yield Row(
            "failed runs whose SQL classes a rule finds too", f"{agree} of {len(failed)}", "all"
        )
