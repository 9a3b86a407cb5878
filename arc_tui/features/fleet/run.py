"""What `arc fleet` does: open a store by its name, list its runs, copy runs from it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct, structs

from arc_tui import config, importing
from arc_tui.importing import ImportReport, Progress
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
from taxonomy.fleet.compile import Window
from taxonomy.fleet.listing import FleetRun, compile_query, list_runs, pages, sums


class FleetRequest(Struct, frozen=True, kw_only=True):
    """What is asked of which store, and what a query may take; `limit` None: all runs."""

    fleet: str
    query: str
    window: Window
    bounds: Bounds
    limit: int | None


def stores_file() -> Path:
    """Where the stores are kept: beside the settings."""
    return config.config_file().with_name(NAME)


class OpenFleet(Struct, frozen=True):
    """A store that can be asked."""

    connection: Connection
    dialect: Dialect


@contextmanager
def open_fleet(name: str, bounds: Bounds, store: FleetStore | None = None) -> Iterator[OpenFleet]:
    """The store of that name, or `store` under it. Raises NotFound, BadFleet, FleetError."""
    known = store or find_store(stores_file(), name)
    if is_server(known.url):
        raise BadFleet(
            f"'{name}' is a server of traces, not a store in ClickHouse",
            f"Try: arc pull {name} --since 1d",
        )
    ca = None if known.ca is None else Path(known.ca)
    with closing(
        Connection(name, address_of(known.url), password_of(name), bounds, ca)
    ) as connection:
        yield OpenFleet(connection, find_dialect(connection, known))


class Listed(Struct, frozen=True, kw_only=True):
    """A run of a store, and the id of its recording here where it was pulled."""

    run: FleetRun
    local: str | None


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


def list_fleet(store: Store, request: FleetRequest) -> FleetView:
    """The newest runs of a store that a question means. Raises BadQuery, BadFleet, FleetError."""
    window = request.window
    with open_fleet(request.fleet, request.bounds) as fleet:
        found = list_runs(
            fleet.connection, fleet.dialect, request.query, window, limit=request.limit
        )
        read = fleet.connection.read
        local = spans_here(store, [run.trace for run in found.rows])
    return FleetView(
        fleet=request.fleet,
        dialect=fleet.dialect.title,
        query=request.query,
        from_ns=window.from_ns,
        until_ns=window.until_ns,
        runs=tuple(
            Listed(run=run, local=local[run.trace][0] if run.trace in local else None)
            for run in found.rows
        ),
        more=found.more,
        notes=found.notes,
        queries=read.queries,
        bytes_read=read.bytes_read,
    )


def pull(
    store: Store, request: FleetRequest, tell: Callable[[str], None]
) -> Generator[Progress | ImportReport, None, None]:
    """Copy runs of a store, newest first, through the ordinary importer: masked, indexed, and
    diagnosed at the end. What is here with as many spans is not read again, so a pull that was
    stopped goes on where it was. `tell` is given what the answer is not, and whether older runs
    match too. Yields progress, at last the report.

    Raises BadQuery, BadFleet, FleetError.
    """
    reports: list[importing.FileReport] = []
    window, limit, path = request.window, request.limit, f"{FLEET}{request.fleet}"
    with open_fleet(request.fleet, request.bounds) as fleet:
        asked = compile_query(fleet.connection, fleet.dialect, request.query, window)
        for note in asked.notes:
            tell(note)
        seen = 0
        for ids in pages(fleet.connection, fleet.dialect, asked, window):
            runs = sums(fleet.connection, fleet.dialect, ids, window)
            taken = runs if limit is None else runs[: limit - seen]
            seen += len(taken)
            tally = Tally()
            batches = read_traces(fleet.connection, fleet.dialect, _not_here(store, taken), tally)
            now = Progress(done=seen, total=limit or seen, path=path, traces=seen)
            reports.append(
                (
                    yield from importing.take_batches(
                        store, batches, tally, now, format=fleet.dialect.format
                    )
                )
            )
            if len(taken) < len(runs):
                tell(f"older runs match too; --limit {limit} was reached")
                break
    undiagnosed = yield from importing.diagnose_new(store)
    yield ImportReport(files=join_pages(reports), undiagnosed=undiagnosed)


def _not_here(store: Store, runs: Sequence[FleetRun]) -> list[tuple[str, int]]:
    """The runs whose recording is not here, or had fewer spans."""
    local = spans_here(store, [run.trace for run in runs])
    return [
        (run.trace, run.start_ns)
        for run in runs
        if run.trace not in local or local[run.trace][1] < run.spans
    ]


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
