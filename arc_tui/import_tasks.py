"""The parts of an import that write nothing, done here or by a worker: a file read, masked and
digested, and a run diagnosed.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import chain
from operator import itemgetter
from pathlib import Path

from msgspec import Struct, structs

from arc_tui.workers import Lost
from replay import formats
from replay.errors import ArcError, StoreUnusable
from replay.formats import otlp
from replay.formats.otlp import shares as file_shares
from replay.formats.otlp.shares import SHARE_BYTES, Found, Share
from replay.formats.otlp.twins import TraceCalls, Twins, trace_calls
from replay.formats.source import Problem, Source, Tally
from replay.memory import give_back
from replay.redact.redactor import Redactor
from replay.store import read
from replay.store.content import Masks
from replay.store.handle import Store, now_ns
from replay.store.prepare import Prepared, Preparer, Refused
from replay.store.trouble import is_of_file
from taxonomy.calibration.approval import counts_until, trusted_scores
from taxonomy.diagnosis import diagnose
from taxonomy.judgements import diagnoses
from taxonomy.judgements.golds import with_own_gold
from taxonomy.judgements.schema import open_ledger

LEAST_SPANS = 3000
"""A run of so many is long: to diagnose them takes about as long as to start a process."""


class ImportSetup:
    """What tasks work with: the redactor and the file of the database they work for."""

    def __init__(
        self, redactor: Redactor, database: Path | None, store: Store | None = None
    ) -> None:
        self.redactor = redactor
        self.database = database
        self._store = store

    def __reduce__(self) -> tuple[type[ImportSetup], tuple[Redactor, Path | None]]:
        return ImportSetup, (self.redactor, self.database)

    @cached_property
    def masks(self) -> Masks:
        return Masks(self.redactor)

    @property
    def store(self) -> Store:
        """The database, in a worker opened to be read."""
        if self._store is None:
            assert self.database is not None
            self._store = open_ledger(self.database, to_read=True)
        return self._store


class FileRead(Struct, frozen=True, kw_only=True):
    """How the reading of a file ended. `error` is the sentence of one that could not be read,
    `bug` says that it was arc that failed. `places` are those of the problems beside those of other
    shares, None where it was read as a whole."""

    format: str | None = None
    counts: dict[str, float] = {}
    unknown: dict[str, int] = {}
    problems: tuple[Problem, ...] = ()
    error: str | None = None
    bug: bool = False
    places: tuple[int, ...] | None = None


Given = Prepared | Refused | TraceCalls | FileRead


class ReadFile(Struct, frozen=True, kw_only=True):
    """Read one file of `size` bytes and prepare what it holds: the batches, then a `FileRead`.
    Nothing comes of a file that nobody `named` or claims; `format` is the one it is read as, None:
    what it is."""

    source: Source
    named: bool
    size: int
    format: str | None = None
    task_from: str | None = None
    pins: Mapping[str, str] | None = None

    def run(self, setup: ImportSetup) -> Iterator[Given]:
        return self.read(setup, None)

    def read(self, setup: ImportSetup, share: Share | None) -> Iterator[Given]:
        """The same, or one share of it, with what each trace says of itself before it."""
        tally = Tally()
        bugs: list[str] = []
        error: str | None = None
        source = self.source
        claimed = formats.named(self.format) if self.format else None
        with boundary(f"{source.display}: cannot be read", bugs):
            try:
                if source.is_special and not self.named:
                    return
                claimed = claimed or formats.sniff(source)
                if claimed is None and not self.named:
                    return
                batches = formats.load(
                    source,
                    tally,
                    format=claimed,
                    task_from=self.task_from,
                    pins=self.pins,
                    read=partial(share.read, source, self.size) if share is not None else None,
                )
                preparer = Preparer(setup.masks)
                if share is None:
                    yield from preparer.prepare(batches)
                else:
                    for batch in batches:
                        yield trace_calls(batch)
                        yield from preparer.prepare((batch,))
            except StoreUnusable:
                raise
            except ArcError as refused:
                error = str(refused)
        yield FileRead(
            format=claimed.NAME if claimed else None,
            counts=dict(tally.counts),
            unknown=dict(tally.unknown),
            problems=tuple(tally.problems),
            error=next(iter(bugs), error),
            bug=bool(bugs),
            places=tuple(tally.places) if share is not None else None,
        )

    def shares(self) -> int:
        """Into how many shares it may be cut for several processes, 1 where one reads it."""
        with boundary(f"{self.source.display}: cannot be cut", []), suppress(ArcError):
            if self.size >= 2 * SHARE_BYTES and self.format in (None, otlp.NAME):
                claimed = formats.named(self.format) if self.format else formats.sniff(self.source)
                if claimed is not None and claimed.NAME == otlp.NAME:
                    return file_shares.count(self.source, self.size)
        return 1


class SearchPart(Struct, frozen=True, kw_only=True):
    """Find the traces in one of so many parts of a file: gives them, None where it cannot be
    shared or searched."""

    file: ReadFile
    number: int
    of: int

    @property
    def size(self) -> int:
        return self.file.size // self.of

    def run(self, setup: ImportSetup) -> Iterator[Found | None]:
        found: Found | None = None
        source = self.file.source
        with boundary(f"{source.display}: cannot be searched", []), suppress(ArcError):
            found = file_shares.search(source, self.file.size, self.number, self.of)
        yield found


class ReadShare(Struct, frozen=True, kw_only=True):
    """Read one of so many shares of a file."""

    file: ReadFile
    share: Share
    of: int

    @property
    def size(self) -> int:
        return self.file.size // self.of

    def run(self, setup: ImportSetup) -> Iterator[Given]:
        return self.file.read(setup, self.share)


def join_shares(
    task: ReadFile, shares: Iterator[Iterator[object]], setup: ImportSetup
) -> Iterator[object]:
    """What the shares of a file give, in their order, as the file gives it as a whole."""
    twins = Twins[list[object]]()
    ends: list[FileRead] = []
    came = False
    for items in shares:
        told: TraceCalls | None = None
        lone: list[object] = []
        for each in items:
            if isinstance(each, TraceCalls):
                told, lone = each, []
                found: Iterable[list[object]] = () if told.lone else twins.add([], told)
            elif isinstance(each, FileRead):
                ends.append(each)
                found = ()
            elif told is None or not told.lone:
                found = [[each]]
            else:
                lone.append(each)
                whole = not isinstance(each, Prepared) or each.last
                found = twins.add(lone, told) if whole else ()
            for piece in chain.from_iterable(found):
                came = True
                yield piece
            if isinstance(each, Lost):
                return
        if ends[-1].error is not None:
            yield _whole(ends, 0)
            return
    for piece in chain.from_iterable(twins.rest()):
        came = True
        yield piece
    if came:
        yield _whole(ends, twins.dropped)
    else:  # and nobody said why
        yield from task.run(setup)


def _whole(ends: Sequence[FileRead], told_elsewhere: int) -> FileRead:
    """How the reading of a file ended, of which these are shares up to where it did."""
    if len(ends) == 1:
        return ends[0]
    counts, unknown = defaultdict[str, float](int), Counter[str]()
    for end in ends:
        for name, many in end.counts.items():
            counts[name] += many
        unknown.update(end.unknown)
    places = chain.from_iterable(end.places or () for end in ends)
    problems = chain.from_iterable(end.problems for end in ends)
    told = sorted(zip(places, problems, strict=True), key=itemgetter(0))
    if told_elsewhere:
        counts["traces_of_calls_told_elsewhere"] += told_elsewhere
    return structs.replace(
        ends[-1],
        counts=dict(counts),
        unknown=dict(unknown),
        problems=tuple(problem for _, problem in told),
        places=None,
    )


class DiagnoseRun(Struct, frozen=True, kw_only=True):
    """Let the rules look at one run of `size` spans: gives what is to be kept, or the sentence of
    a bug."""

    key: str
    size: int

    def run(self, setup: ImportSetup) -> Iterator[diagnoses.Kept | str]:
        bugs: list[str] = []
        with boundary(f"run {self.key[:8]}: cannot be diagnosed", bugs):
            if self.size >= LEAST_SPANS:
                free_memory(setup.store)
            yield diagnosis_of(setup.store, self.key, setup.redactor)
        yield from bugs


def free_memory(store: Store) -> None:
    """Give back what is left of the reading and writing of a long run: its diagnosis needs memory
    of its own, in this process or another one."""
    store.forget_pages()
    gc.collect()  # the lines of a session refer to one another
    give_back()


def diagnosis_of(store: Store, key: str, redactor: Redactor) -> diagnoses.Kept:
    """Diagnose one trace, writing nothing; what is said of it is masked by the redactor."""
    with store.reading():
        content = read.content_digest(store, key)
        trace, now = with_own_gold(store, read.load(store, key)), now_ns()
        given = tuple(
            score
            for score in trusted_scores(store, key, now)
            if score.source not in ("import", "rule")  # what the trace itself gives again
        )
        source_scores, until_ns = read.scores(store, key), counts_until(store, given, now)
    said = diagnose(trace, source_scores, given)
    spans = {step.index: step.ask.id for step in trace.steps}
    return diagnoses.prepare(redactor, said, spans, until_ns, content)


@contextmanager
def boundary(doing: str, said: list[str]) -> Iterator[None]:
    """The one place where whatever goes wrong is caught: a bug that one file or one run brings to
    light ends nothing else. Its traceback is kept, and a sentence about it `said`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ArcError) or is_of_file(error):
            raise
        from arc_tui import ending  # only a bug needs it

        said.append(ending.keep(error, doing))
