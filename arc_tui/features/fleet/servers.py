"""What `arc pull` does: find the server, list its runs, copy those that are not here."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from msgspec import Struct, structs

from arc_tui import importing
from arc_tui.features.fleet.run import join_pages, stores_file
from arc_tui.importing import ImportReport, Progress
from replay.errors import ArcError, BadTrace
from replay.fleet.stores import BadFleet, FleetStore, find_store, is_server, server_url
from replay.formats.source import Tally
from replay.servers.connection import Connection, CursorLost, ListedRun, Project, Refused
from replay.servers.products import Product, every_run, find_product, find_project, use_key
from replay.store.handle import Store
from replay.store.rows import spans_here
from replay.trace import FLEET, Batch

TOGETHER = 20
"""Runs that are listed, then read and written, before the next are listed."""


class ServerRequest(Struct, frozen=True, kw_only=True):
    """Which runs of which server are to be copied. `store` is the name it is kept under, None where
    a URL was given; `until_ns` None: to the newest; `limit` None: all runs; with `replace` runs
    that are here are read again, and one that contradicts its copy takes its place."""

    server: FleetStore
    store: str | None = None
    project: str | None = None
    from_ns: int
    until_ns: int | None = None
    limit: int | None = None
    replace: bool = False

    @property
    def name(self) -> str:
        return self.store or self.server.url


def server_named(target: str, given: FleetStore) -> tuple[str | None, FleetStore]:
    """(name, server) of a URL, or of a name under which one is kept; what is `given` beside it goes
    before what is kept. Raises BadFleet, NotFound."""
    if "://" in target:
        return None, structs.replace(given, url=server_url(target, allow_http=given.allow_http))
    kept = find_store(stores_file(), target)
    if not is_server(kept.url):
        raise BadFleet(
            f"'{target}' is a store in ClickHouse", f"Try: arc fleet pull {target} --since 1d"
        )
    changed = structs.replace(
        kept,
        ca=given.ca or kept.ca,
        server=given.server or kept.server,
        allow_http=given.allow_http or kept.allow_http,
    )
    return target, structs.replace(changed, url=server_url(kept.url, allow_http=changed.allow_http))


def connect(name: str, server: FleetStore) -> Connection:
    """A connection, nothing asked yet. Raises ServerError."""
    return Connection(name, server.url, ca=None if server.ca is None else Path(server.ca))


def check_server(name: str, server: FleetStore) -> tuple[str, str, int]:
    """(product, its title, how many projects the key may read) of a server under that name. Raises
    ArcError."""
    with closing(connect(name, server)) as connection:
        product = find_product(connection, server.server)
        use_key(connection, product, name)
        return product.NAME, product.TITLE, len(product.projects(connection, None))


def pull_from_server(
    store: Store, request: ServerRequest, tell: Callable[[str], None]
) -> Generator[Progress | ImportReport, None, None]:
    """Copy runs of a server, the newest first, through the ordinary importer: masked, indexed, and
    diagnosed at the end. What is here with as many spans as the server lists is not read again.

    A server that stops answering ends the pull with what was copied so far. `tell` is given which
    project is read, and whether older runs are left. Yields progress, at last the report.

    Raises ArcError before the first run.
    """
    reports: list[importing.FileReport] = []
    path, limit = f"{FLEET}{request.name}", request.limit
    with closing(connect(request.name, request.server)) as connection:
        product = find_product(connection, request.server.server)
        use_key(connection, product, request.store)
        project = find_project(connection, product, request.project)
        tell(f"{product.TITLE}, project {project.name}")
        listed = every_run(connection, product, project, request.from_ns, request.until_ns)
        seen = 0
        while limit is None or seen < limit:
            wanted = TOGETHER if limit is None else min(TOGETHER, limit - seen)
            reading = _Reading(connection, product, project, path)
            page = reading.take(islice(listed, wanted))
            if not page and reading.failure is None:
                break
            done, seen = seen, seen + len(page)
            brought = sum(len(each.traces) for each in reports)
            now = Progress(done=done, total=limit or seen, path=path, traces=brought)
            lacking = page if request.replace else _not_here(store, page)
            report = yield from importing.take_batches(
                store,
                reading.batches(lacking),
                reading.tally,
                now,
                format=product.FORMAT,
                replace=request.replace,
            )
            if reading.failure is not None and report.error is None:
                report = structs.replace(report, error=store.redactor.text(str(reading.failure)))
            reports.append(report)
            if reading.failure is not None or len(page) < wanted:
                break
        else:
            if _has_more(listed):
                tell(f"older runs are there too; --limit {limit} was reached")
    undiagnosed = yield from importing.diagnose_new(store)
    yield ImportReport(files=join_pages(reports), undiagnosed=undiagnosed)


class _Reading:
    """Some runs that are listed and read. A server that fails leaves its error in `failure`."""

    def __init__(
        self, connection: Connection, product: Product, project: Project, path: str
    ) -> None:
        self._connection, self._product = connection, product
        self._project, self._path = project, path
        self.tally = Tally()
        self.failure: ArcError | None = None

    def take(self, listed: Iterator[ListedRun]) -> list[ListedRun]:
        """The runs that are listed, as far as the server lists them."""
        found: list[ListedRun] = []
        try:
            for run in listed:
                found.append(run)  # noqa: PERF402 (what came before an error is kept)
        except ArcError as error:
            self.failure = error
        return found

    def batches(self, runs: Sequence[ListedRun]) -> Iterator[Batch]:
        """The runs; one that cannot be read is a problem of its own."""
        for run in runs:
            try:
                yield from self._read(run.id)
            except BadTrace as error:
                self.tally.problem(f"trace {run.id}", str(error))
            except ArcError as error:
                if isinstance(error, Refused) and error.is_absent:  # deleted since it was listed
                    self.tally.problem(f"trace {run.id}", str(error))
                    continue
                self.failure = error
                return

    def _read(self, run: str) -> Sequence[Batch]:
        """A run, from the start once more where the server lost its place in it."""
        asked = (self._connection, self._project, run, self._path, self.tally)
        try:
            return tuple(self._product.read(*asked))
        except CursorLost:
            return tuple(self._product.read(*asked))


def _not_here(store: Store, runs: Sequence[ListedRun]) -> list[ListedRun]:
    """The runs whose recording is not here, or has another number of spans than is listed."""
    local = spans_here(store, [run.id for run in runs])
    return [run for run in runs if run.id not in local or local[run.id][1] != run.spans]


def _has_more(listed: Iterator[ListedRun]) -> bool:
    """Does the server list another run? What was asked for is copied, so a failure is none here."""
    try:
        return next(listed, None) is not None
    except ArcError:
        return False
