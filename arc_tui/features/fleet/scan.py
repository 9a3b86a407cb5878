"""What `arc fleet scan` does: partitions of a store's runs are pulled, masked and diagnosed in
other processes, and what the rules say of them is kept here.

A worker keeps nothing: runs are written to a database in its memory, a few at a time, and looked at
by the same code as an import's. This process is the only one that writes.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from arc_tui.cli import require
from arc_tui.features.fleet.run import FleetRequest, find_clickhouse, open_fleet
from arc_tui.import_tasks import DiagnoseRun, ImportSetup, boundary
from arc_tui.workers import Lost, Workers
from replay.errors import ArcError
from replay.fleet.connection import Bounds, Connection, WritingConnection
from replay.fleet.dialect import Dialect
from replay.fleet.dialects import find_dialect
from replay.fleet.spans import TOGETHER, read_traces
from replay.fleet.stores import FleetStore, address_of, password_of
from replay.formats.source import Problem, Tally
from replay.redact.redactor import Redactor
from replay.store.content import Masks
from replay.store.handle import Store
from replay.store.prepare import Preparer, Refused, key_of
from replay.store.rows import TraceRow, trace_rows
from replay.store.write import Writer
from replay.trace import Batch
from taxonomy.classes import Attribution, FailureClass
from taxonomy.findings import Evidence
from taxonomy.fleet.compile import Window, compile_text
from taxonomy.fleet.findings_table import FindingsTable, check_table_name
from taxonomy.fleet.listing import FleetRun, has_outcomes
from taxonomy.fleet.partitions import list_partitions, runs_of_partition
from taxonomy.judgements import diagnoses, scans
from taxonomy.judgements.golds import KeptGold, TaskGold, keep_gold, kept_gold
from taxonomy.judgements.scans import Partition, Scan, ScanFinding, ScannedRun, ScanQuestion
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.failures import first_tools, verdicts

ASSUMED_S = 0.02
"""CPU seconds that a run takes, until a scan of its store was measured."""

TRIES = 3
"""A partition is tried so often before it is listed as failed."""


# --- in a worker


class ScanSetup(Struct, frozen=True, kw_only=True):
    """What a worker is told, once. `password` None: it finds it where it runs, in the environment
    or the keyring. `golds` are those that users wrote for tasks."""

    fleet: str
    store: FleetStore
    bounds: Bounds
    query: str
    window: Window
    has_outcomes: bool
    redactor: Redactor
    golds: tuple[KeptGold, ...] = ()
    password: str | None = None


class PartitionFound(Struct, frozen=True, kw_only=True):
    """What was found in a partition, the CPU time it took, and the version of the rules that
    looked."""

    runs: tuple[ScannedRun, ...]
    cpu_ns: int
    engine: str


class ScanPartition(Struct, frozen=True, kw_only=True):
    """Look at the runs of one partition: gives a `PartitionFound`. Raises FleetError."""

    part: Partition

    @property
    def size(self) -> int:
        return self.part.traces

    def run(self, setup: ScanSetup) -> Iterator[PartitionFound]:
        began = time.thread_time_ns()
        address = address_of(setup.store.url)
        password = password_of(setup.fleet) if setup.password is None else setup.password
        ca = None if setup.store.ca is None else Path(setup.store.ca)
        found: list[ScannedRun] = []
        masks = Masks(setup.redactor)
        with closing(Connection(setup.fleet, address, password, setup.bounds, ca)) as connection:
            dialect = find_dialect(connection, setup.store)
            for runs in runs_of_partition(
                connection, dialect, setup.query, setup.window, self.part,
                has_outcomes=setup.has_outcomes,
            ):  # fmt: skip
                left = iter(runs)
                while group := list(islice(left, TOGETHER)):
                    found += _look(setup, connection, dialect, masks, group)
        yield PartitionFound(
            runs=tuple(found),
            cpu_ns=time.thread_time_ns() - began,
            engine=diagnoses.engine_version(),
        )


def _look(
    setup: ScanSetup,
    connection: Connection,
    dialect: Dialect,
    masks: Masks,
    runs: Sequence[FleetRun],
) -> list[ScannedRun]:
    """What the rules say of some runs. Where a bug or bad data comes to light they are looked at
    one by one, so that it costs one run only."""
    bugs: list[str] = []
    with boundary(f"{setup.fleet}: cannot be read", bugs):
        traces = [(run.trace, run.start_ns) for run in runs]
        tally = Tally()
        batches = list(read_traces(connection, dialect, traces, tally))
        return _judge(setup, masks, runs, batches, tally.problems)
    if len(runs) > 1:
        return [each for run in runs for each in _look(setup, connection, dialect, masks, [run])]
    return [_unread(setup, runs[0], bugs[0])]


def _judge(
    setup: ScanSetup,
    masks: Masks,
    runs: Sequence[FleetRun],
    batches: Sequence[Batch],
    left_out: Sequence[Problem],
) -> list[ScannedRun]:
    sources = {key_of(batch): batch.header.source_id for batch in batches}
    prepared = list(Preparer(masks).prepare(batches))
    problems = {each.key: str(each.error) for each in prepared if isinstance(each, Refused)}
    found: dict[str, ScannedRun] = {}
    with open_ledger(":memory:") as memory:
        memory.redactor = setup.redactor
        _put_golds(memory, setup.golds, batches)
        Writer(memory).keep(each for each in prepared if each.key not in problems)
        rows = trace_rows(memory, every=True)
        work = ImportSetup(setup.redactor, None, memory)
        kept: list[diagnoses.Kept] = []
        for row in rows:
            for said in DiagnoseRun(key=row.trace, size=row.spans).run(work):
                if isinstance(said, str):
                    problems[row.trace] = said
                else:
                    kept.append(said)
        diagnoses.keep_all(memory, kept)
        by_trace = {each.trace: each for each in kept}
        firsts = verdicts(memory)
        for row in rows:
            if row.trace in by_trace:
                first = firsts[row.trace]
                found[sources[row.trace]] = _run_of(
                    row, _findings(memory, by_trace[row.trace]), first.why, first.why_step
                )
    said_of = {each.where.removeprefix("trace "): each.why for each in left_out}
    said_of |= {sources[key]: why for key, why in problems.items()}
    return [
        found.get(run.trace) or _unread(setup, run, said_of.get(run.trace) or NOT_READ)
        for run in runs
    ]


NOT_READ = "the store gave none of its spans"


def _put_golds(memory: Store, golds: Sequence[KeptGold], batches: Sequence[Batch]) -> None:
    tasks = {batch.header.task for batch in batches}
    for gold in golds:
        if gold.task in tasks:
            given = msgspec.convert({"task": gold.task, **gold.body}, TaskGold)
            keep_gold(memory, [given], gold.name, gold.first_seen_ns)


def _unread(setup: ScanSetup, run: FleetRun, why: str) -> ScannedRun:
    mask = setup.redactor.text
    return ScannedRun(trace=mask(run.trace), start_ns=run.start_ns, problem=mask(why))


def _run_of(
    row: TraceRow, findings: tuple[ScanFinding, ...], why: str | None, why_step: int | None
) -> ScannedRun:
    return ScannedRun(
        trace=row.source_id,
        key=row.trace,
        title=row.title,
        task=row.task,
        trial=row.trial,
        agent=row.agent,
        models=row.models,
        variant=row.variant,
        outcome=row.outcome,
        start_ns=row.start_ns,
        steps=row.steps,
        calls=row.calls,
        errors=row.errors,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cost_usd=row.cost_usd,
        why=why,
        why_step=why_step,
        findings=findings,
    )


def _findings(memory: Store, kept: diagnoses.Kept) -> tuple[ScanFinding, ...]:
    tools = first_tools(memory, ((kept.trace, row[3]) for row in kept.suggestions))
    found: list[ScanFinding] = []
    for row in kept.suggestions:
        _, place, span, step, failure, sub, fault, why, by, confidence, evidence = row
        found.append(
            ScanFinding(
                place=place, step=step, span=span, failure=FailureClass(failure), sub=sub,
                attribution=Attribution(fault) if fault else None, why=why, by=by,
                confidence=confidence,
                evidence=msgspec.json.decode(evidence, type=tuple[Evidence, ...]),
                tool=tools.get((kept.trace, step)),
            )
        )  # fmt: skip
    return tuple(found)


def scan_on_cluster(setup: ScanSetup, task: ScanPartition) -> PartitionFound | tuple[str, str]:
    """One partition, in a worker of dask; what is raised as a message and a hint."""
    try:
        (found,) = task.run(setup)
    except ArcError as error:
        return error.message, error.hint
    return found


# --- in this process


class ScanPlan(Struct, frozen=True, kw_only=True):
    """What is to be done: the `partitions` left of a scan that goes on (`begun`), or all of a new
    one. `pace_s` is the CPU seconds that a run takes, `measured` on runs of this store or assumed.
    `notes` say what the answer will not be."""

    question: ScanQuestion
    setup: ScanSetup
    dialect: str
    partitions: tuple[Partition, ...]
    begun: Scan | None
    pace_s: float
    measured: bool
    notes: tuple[str, ...] = ()

    @property
    def traces(self) -> int:
        return sum(part.traces for part in self.partitions)

    @property
    def cpu_s(self) -> float:
        """The CPU seconds that it is expected to take."""
        return self.traces * self.pace_s


class FailedPartition(Struct, frozen=True, kw_only=True):
    """A partition that failed each time it was tried, and why."""

    partition: Partition
    why: str


class UnreadRun(Struct, frozen=True, kw_only=True):
    """A run that could not be read or diagnosed, and why."""

    trace: str
    why: str


class ScanProgress(Struct, frozen=True, kw_only=True):
    """Where a scan stands: `done` of the partitions that it had to do."""

    done: int
    total: int


class ScanReport(Struct, frozen=True, kw_only=True):
    """What a scan came to; `table` is where its findings were written beside this database."""

    scan: Scan
    table: str | None
    failed: tuple[FailedPartition, ...]
    unread: tuple[UnreadRun, ...]

    @property
    def exit_code(self) -> int:
        return 2 if self.failed else 0


def plan_scan(
    store: Store, request: FleetRequest, since: str, until: str | None, *, anew: bool = False
) -> ScanPlan:
    """What a scan would do; nothing is kept yet. `since` and `until` are what the window was
    written as: an unfinished scan of the same question goes on with the window that it had, unless
    it is to begin `anew`. Raises BadQuery, BadFleet, NotFound, FleetError."""
    question = ScanQuestion(
        fleet=request.fleet, query=request.query, since=since, until=until,
        engine=diagnoses.engine_version(),
    )  # fmt: skip
    known = find_clickhouse(request.fleet)
    begun = None if anew else scans.unfinished_scan(store, question)
    window = request.window if begun is None else Window(begun.from_ns, begun.until_ns)
    with open_fleet(request.fleet, request.bounds, known) as fleet:
        title = fleet.dialect.title
        if begun is None:
            connection, dialect = fleet.connection, fleet.dialect
            known_outcomes = cache(lambda: has_outcomes(connection, dialect, window))
            asked = compile_text(request.query, dialect, window, known_outcomes)
            notes = asked.notes
            outcomes = known_outcomes() if known_outcomes.cache_info().currsize else True
            left = list_partitions(connection, dialect, asked, window)
        else:
            notes, outcomes = (), begun.has_outcomes
            left = scans.partitions_left(store, begun.id)
    pace = scans.measured_pace(store, request.fleet)
    return ScanPlan(
        question=question,
        setup=ScanSetup(
            fleet=request.fleet,
            store=known,
            bounds=request.bounds,
            query=request.query,
            window=window,
            has_outcomes=outcomes,
            redactor=store.redactor,
            golds=kept_gold(store),
        ),
        dialect=title,
        partitions=tuple(left),
        begun=begun,
        pace_s=ASSUMED_S if pace is None else pace,
        measured=pace is not None,
        notes=notes,
    )


@contextmanager
def open_findings(fleet: str, into: str | None, bounds: Bounds) -> Iterator[FindingsTable | None]:
    """The table that findings of a store are written to: `into` is its name, after the name of a
    store and a slash where that is another one. Nothing is written yet. Raises NotFound, BadFleet,
    FleetError."""
    if into is None:
        yield None
        return
    require("arc fleet", "clickhouse_connect", extra="fleet")
    before, _, table = into.rpartition("/")
    check_table_name(table)
    name = before or fleet
    known = find_clickhouse(name)
    ca = None if known.ca is None else Path(known.ca)
    address = address_of(known.url)
    with closing(WritingConnection(name, address, password_of(name), bounds, ca)) as connection:
        yield FindingsTable(connection, table, fleet, diagnoses.engine_version())


Outcome = tuple[int, PartitionFound | str]
"""The number of a task, and what was found, or why it failed each time it was tried."""


def run_scan(
    store: Store, plan: ScanPlan, given: Iterable[Outcome], table: FindingsTable | None = None
) -> Generator[ScanProgress, None, ScanReport]:
    """Keep what executors give of a plan's partitions; yields progress and returns the report. What
    was kept stays whatever happens next, and the same question goes on from there.

    Findings go to the table before they are kept: of a scan that is ended between the two they are
    written again. What an unfinished scan found before is written too, for it may have had no
    table. Raises BadFleet, FleetError where the table cannot be written."""
    window = plan.setup.window
    scan = plan.begun or scans.begin_scan(
        store, plan.question, (window.from_ns, window.until_ns), plan.partitions,
        has_outcomes=plan.setup.has_outcomes,
    )  # fmt: skip
    failed: list[FailedPartition] = []
    total = len(plan.partitions)
    if table is not None:
        table.create()
        for runs in scans.kept_runs(store, scan.id):
            table.put(runs)
    yield ScanProgress(done=0, total=total)
    for done, (number, found) in enumerate(given, 1):
        part = plan.partitions[number]
        if isinstance(found, PartitionFound) and found.engine != plan.question.engine:
            found = f"the worker has other rules ({found.engine}): install the same arc there"
        if isinstance(found, PartitionFound):
            if table is not None:
                table.put(found.runs)
            scans.keep_partition(store, scan.id, part.place, found.runs, found.cpu_ns)
        else:
            failed.append(FailedPartition(partition=part, why=store.redactor.text(found)))
        yield ScanProgress(done=done, total=total)
    if not failed:
        scans.finish_scan(store, scan.id)
    unread = scans.scanned_runs(store, scan.id, "problem IS NOT NULL")
    return ScanReport(
        scan=scans.scan_of(store, scan.id),
        table=None if table is None else table.name,
        failed=tuple(sorted(failed, key=lambda each: each.partition.place)),
        unread=tuple(UnreadRun(trace=run.trace, why=run.problem or "") for run, _ in unread),
    )


def in_processes(plan: ScanPlan, workers: int) -> Iterator[Outcome]:
    """What processes of this machine give. They are told the password in their memory."""
    setup = structs.replace(plan.setup, password=password_of(plan.question.fleet))
    with closing(Workers(workers, setup)) as running:
        for number, items in running.run_unordered(_tasks(plan), TRIES):
            if isinstance(items, Lost):
                by = "" if items.by is None else f" (signal {items.by})"
                yield number, f"its process was ended{by}"
            elif isinstance(items, ArcError):
                yield number, str(items)
            else:
                yield number, items[0]


def on_cluster(plan: ScanPlan, address: str) -> Iterator[Outcome]:
    """What the workers of a dask scheduler give, each of which finds the password where it runs.
    Raises ArcError where the scheduler does not answer, or answers no more."""
    import distributed

    cluster: Any = distributed  # it says nothing of its types
    try:
        client = cluster.Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ArcError(
            f"no dask scheduler answers at {address}", "Try: dask scheduler, then its address"
        ) from error
    with closing(client):
        tasks = _tasks(plan)
        tried = dict.fromkeys(range(len(tasks)), 1)
        numbers = {_submit(client, plan, task): number for number, task in enumerate(tasks)}
        coming = cluster.as_completed(numbers, loop=client.loop)
        for future in coming:
            number = numbers.pop(future)
            if future.status not in ("finished", "error"):
                raise ArcError(
                    f"the dask scheduler at {address} answers no more",
                    "Try: the same command again, which goes on where this one was",
                )
            found = future.result() if future.status == "finished" else _why(future.exception())
            if not isinstance(found, PartitionFound) and tried[number] < TRIES:
                tried[number] += 1
                again = _submit(client, plan, tasks[number])
                numbers[again] = number
                coming.add(again)
                continue
            yield number, found if isinstance(found, PartitionFound) else " ".join(found)


def _submit(client: Any, plan: ScanPlan, task: ScanPartition) -> Any:
    return client.submit(scan_on_cluster, plan.setup, task, pure=False)


def _why(error: BaseException) -> tuple[str, str]:
    """What a cluster says of a task that it gave up."""
    return type(error).__name__, str(error).partition("\n")[0]


def _tasks(plan: ScanPlan) -> list[ScanPartition]:
    return [ScanPartition(part=part) for part in plan.partitions]
