"""What `arc fleet` does: open a store by its name, list its runs, copy runs from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct, structs

from arc_tui import config, importing
from arc_tui.cli import require
from arc_tui.importing import ImportReport, Progress
from replay.errors import ArcError
from replay.fleet.connection import Bounds, Connection
from replay.fleet.dialect import Dialect
from replay.fleet.dialects import find_dialect
from replay.fleet.spans import read_traces
from replay.fleet.stores import (
    NAME,
    BadFleet,
    FleetStore,
    address_of,
    find_store,
    is_server,
    password_of,
)
from replay.formats.source import Tally
from replay.store.handle import Store
from replay.store.rows import spans_here
from replay.trace import FLEET
from taxonomy.fleet.compile import Window, compile_text
from taxonomy.fleet.listing import FleetRun, compile_query, list_runs, newest_first
from taxonomy.judgements.diagnoses import undiagnosed
from taxonomy.query.compile import bounds, known_field, named_moment
from taxonomy.query.fields import Time
from taxonomy.query.language import And, Asks, parse
from taxonomy.query.values import SPANS_NS, moment, number

SECOND_NS = 1_000_000_000


class FleetRequest(Struct, frozen=True, kw_only=True):
    """What is asked of which store, and what a query may take; `limit` None: all runs."""

    fleet: str
    query: str
    window: Window
    bounds: Bounds
    limit: int | None


def read_window(since: str, until: str = "") -> Window:
    """The stretch of time between two moments, each a day or a time before now; "" is now. Raises
    ArcError where one is none, or nothing is between them."""
    now = time.time_ns()
    window = Window(_when(since, now), _when(until, now) if until else now)
    if window.from_ns >= window.until_ns:
        raise ArcError("since is not before until", "Try: an earlier since, such as 7d")
    return window


def _when(text: str, now_ns: int) -> int:
    named = moment(text)
    if named is not None:
        return named.from_ns
    ago = number(text, {unit: worth for unit, worth in SPANS_NS.items() if unit})
    if ago is None:
        raise ArcError(f"'{text}' is no time", "Try: 7d, 12h, 2026-11-20 or 2026-11-20T09:30")
    return now_ns - int(ago)


def window_of(query: str, window: Window) -> Window:
    """The window of a query: where all of it depends on when a run began (since, before, start),
    that moves the ends of `window`, which keeps its length where only its end is named. Raises
    BadQuery."""
    tree = parse(query)
    least, end = None, window.until_ns
    for part in tree.parts if isinstance(tree, And) else (tree,):
        field = known_field(part) if isinstance(part, Asks) else None
        if isinstance(part, Asks) and isinstance(field, Time) and field.column == "start_ns":
            operator = field.always or part.operator
            first, late = bounds(operator, named_moment(field, part))
            least = least if operator in ("<", "<=") else max(first, least or 0)
            end = min(late, end)
    if least is None:
        least = window.from_ns - (window.until_ns - end)
    return Window(min(least, end - 1), end)


def stores_file() -> Path:
    """Where the stores are kept: beside the settings."""
    return config.config_file().with_name(NAME)


class OpenFleet(Struct, frozen=True):
    """A store that can be asked."""

    connection: Connection
    dialect: Dialect


def find_clickhouse(name: str) -> FleetStore:
    """The store of that name, in ClickHouse. Raises NotFound, BadFleet."""
    known = find_store(stores_file(), name)
    if is_server(known.url):
        raise BadFleet(
            f"'{name}' is a server of traces, not a store in ClickHouse",
            f"Try: arc pull {name} --since 1d",
        )
    return known


@contextmanager
def open_fleet(name: str, bounds: Bounds, store: FleetStore | None = None) -> Iterator[OpenFleet]:
    """The store of that name, or `store` under it. Raises NotFound, BadFleet, FleetError, and
    ArcError where the extra is not installed."""
    require("arc fleet", "clickhouse_connect", extra="fleet")
    known = store or find_clickhouse(name)
    ca = None if known.ca is None else Path(known.ca)
    with closing(
        Connection(name, address_of(known.url), password_of(name), bounds, ca)
    ) as connection:
        yield OpenFleet(connection, find_dialect(connection, known))


class Listed(Struct, frozen=True, kw_only=True):
    """A run of a store, the id of its recording here where it was pulled, and how many of its
    spans are not here."""

    run: FleetRun
    local: str | None
    missing_spans: int


def find_local(store: Store, runs: Sequence[FleetRun]) -> tuple[Listed, ...]:
    """Runs of a store with what of them is here."""
    here = spans_here(store, [run.trace for run in runs])
    found = [(run, *here.get(run.trace, (None, 0))) for run in runs]
    return tuple(
        Listed(run=run, local=local, missing_spans=max(run.spans - spans, 0))
        for run, local, spans in found
    )


class FleetView(Struct, frozen=True, kw_only=True):
    """The runs of a store that a question means, and what the answer took and is not."""

    fleet: str
    dialect: str
    query: str
    from_ns: int
    until_ns: int
    runs: tuple[Listed, ...]
    more: bool
    notes: tuple[str, ...]
    queries: int
    bytes_read: int

    @property
    def window(self) -> Window:
        return Window(self.from_ns, self.until_ns)


def list_fleet(store: Store, request: FleetRequest) -> FleetView:
    """The newest runs of a store that a question means. Raises BadQuery, BadFleet, FleetError."""
    with open_fleet(request.fleet, request.bounds) as fleet:
        return list_open(store, fleet, request)


def list_open(store: Store, fleet: OpenFleet, request: FleetRequest) -> FleetView:
    """The same of a store that is open already."""
    window = request.window
    found = list_runs(fleet.connection, fleet.dialect, request.query, window, limit=request.limit)
    read = fleet.connection.read
    return FleetView(
        fleet=request.fleet,
        dialect=fleet.dialect.title,
        query=request.query,
        from_ns=window.from_ns,
        until_ns=window.until_ns,
        runs=find_local(store, found.rows),
        more=found.more,
        notes=found.notes,
        queries=read.queries,
        bytes_read=read.bytes_read,
    )


def list_older(
    store: Store, fleet: OpenFleet, request: FleetRequest, shown: Sequence[Listed]
) -> FleetView:
    """The runs after those that are shown. The store is asked for what began no later than the last
    of these, to the second: finer it does not order runs."""
    oldest = min(each.run.start_ns for each in shown)
    until_ns = min((oldest // SECOND_NS + 1) * SECOND_NS, request.window.until_ns)
    again = sum(each.run.start_ns < until_ns for each in shown)
    window = Window(request.window.from_ns, until_ns)
    limit = None if request.limit is None else request.limit + again
    view = list_open(store, fleet, structs.replace(request, window=window, limit=limit))
    known = {each.run.trace for each in shown}
    return structs.replace(
        view,
        until_ns=request.window.until_ns,
        runs=tuple(each for each in view.runs if each.run.trace not in known),
    )


def check_query(query: str, dialect: Dialect | None, window: Window) -> None:
    """Can it be asked? Where the store is not known yet: can it be read? Asks nobody. Raises
    BadQuery."""
    if dialect is None:
        parse(query)
    else:
        compile_text(query, dialect, window_of(query, window), lambda: True)


def pull(
    store: Store, request: FleetRequest, tell: Callable[[str], None], *, replace: bool = False
) -> Generator[Progress | ImportReport, None, None]:
    """Copy runs of a store, newest first, through the ordinary importer: masked, indexed, and
    diagnosed at the end. What is here with as many spans is not read again, so a pull that was
    stopped goes on where it was; with `replace` all are, and those that contradict their copy here
    take its place. `tell` is given what the answer is not, and whether older runs match too. Yields
    progress, at last the report.

    Raises BadQuery, BadFleet, FleetError.
    """
    reports: list[importing.FileReport] = []
    window, limit, path = request.window, request.limit, f"{FLEET}{request.fleet}"
    with open_fleet(request.fleet, request.bounds) as fleet:
        asked = compile_query(fleet.connection, fleet.dialect, request.query, window)
        for note in asked(window).notes:
            tell(note)
        seen = 0
        for runs in newest_first(fleet.connection, fleet.dialect, asked, window, limit):
            taken = runs if limit is None else runs[: limit - seen]
            done, seen = seen, seen + len(taken)
            brought = sum(len(each.traces) for each in reports)
            now = Progress(done=done, total=limit or seen, path=path, traces=brought)
            reports.append((yield from _copy(store, fleet, taken, now, replace=replace)))
            if len(taken) < len(runs):
                tell(f"older runs match too; --limit {limit} was reached")
                break
    undiagnosed = yield from importing.diagnose_new(store)
    yield ImportReport(files=join_pages(reports), undiagnosed=undiagnosed)


def pull_listed(
    store: Store, fleet: str, limits: Bounds, runs: Sequence[FleetRun]
) -> Generator[Progress | ImportReport, None, None]:
    """Copy these runs of a store, and let the rules look at them. Yields progress, at last the
    report. Raises BadFleet, FleetError."""
    start = Progress(done=0, total=len(runs), path=f"{FLEET}{fleet}", traces=0)
    yield start
    with open_fleet(fleet, limits) as opened:
        report = yield from _copy(store, opened, runs, start)
    brought = {trace.id for trace in report.traces}
    waiting = [trace for trace in undiagnosed(store) if trace in brought]
    bugs = yield from importing.diagnose_each(store, waiting)
    yield ImportReport(files=(report,), undiagnosed=bugs)


def _copy(
    store: Store,
    fleet: OpenFleet,
    runs: Sequence[FleetRun],
    now: Progress,
    *,
    replace: bool = False,
) -> Generator[Progress, None, importing.FileReport]:
    """Import those of the runs of which spans are not here, or with `replace` all, undiagnosed."""
    lacking = [
        (each.run.trace, each.run.start_ns)
        for each in find_local(store, runs)
        if each.missing_spans or replace
    ]
    tally = Tally()
    batches = read_traces(fleet.connection, fleet.dialect, lacking, tally)
    report = yield from importing.take_batches(
        store, batches, tally, now, format=fleet.dialect.format, replace=replace
    )
    return report


def join_pages(pages_: Sequence[importing.FileReport]) -> tuple[importing.FileReport, ...]:
    """The pages of a pull as one report."""
    if not pages_:
        return ()
    return (
        structs.replace(
            pages_[0],
            traces=tuple(each for page in pages_ for each in page.traces),
            problems=tuple(each for page in pages_ for each in page.problems),
            error=next((page.error for page in pages_ if page.error), None),
            bug=any(page.bug for page in pages_),
        ),
    )
