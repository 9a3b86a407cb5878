"""The parts of an import that write nothing, done here or by a worker: a file read, masked and
digested, and a run diagnosed.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, structs

from arc_tui.workers import Forked, Lost, Task, Workers, cores
from replay import files, formats, prices
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
from replay.store.encryption import is_encrypted
from replay.store.handle import Store, now_ns
from replay.store.prepare import Prepared, Preparer, Refused
from replay.store.trouble import is_of_file
from replay.store.write import Finished
from replay.trace import Usage
from taxonomy.calibration.approval import counts_until, trusted_scores
from taxonomy.diagnosis import diagnose
from taxonomy.judgements import diagnoses
from taxonomy.judgements.golds import with_own_gold
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import judge_sets

LEAST_BYTES = 4 * 1024 * 1024
LEAST_SPANS = 3000
"""To start a process takes about as long as to read so much, and to diagnose so many."""


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
            if self.size >= LEAST_SPANS:  # what reading left free is wanted in other pieces
                setup.store.forget_pages()
                give_back()
            yield diagnosis_of(setup.store, self.key, setup.redactor)
        yield from bugs


EARLY_BYTES = 64 * 1024 * 1024
"""So much of what the rules said is held in memory until all is read."""


class EarlyDiagnoses:
    """Diagnoses of runs that are complete while others are still read.

    They are made here while there is nothing to write, and by workers that have nothing to read or
    wait for what they read to be written. They are held until all is read: what comes later may
    change a run, and what is kept is kept in the order of import, however much was done early. A
    run whose judges have scored it is left for then, because what counts of them hangs on other
    runs.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._setup = ImportSetup(store.redactor, store.path, store)
        self._waiting: deque[Finished] = deque()
        self._handed: dict[str, Finished] = {}
        self._made: dict[str, bytes] = {}
        self._bytes = 0

    def __contains__(self, key: str) -> bool:
        return key in self._made

    def note(self, done: Finished) -> None:
        """A run was read: what the rules said of it as it was before counts no more."""
        self._bytes -= len(self._made.pop(done.id, b""))
        self._handed.pop(done.id, None)
        if done.verdict in ("new", "grown", "replaced"):
            self._waiting.append(done)

    def work(self) -> bool:
        """Let the rules look at the next run here; was there one?"""
        done = self._next()
        if done is None:
            return False
        self._hold(done.id, tuple(DiagnoseRun(key=done.id, size=0).run(self._setup)))
        return True

    def hand_out(self, runner: TaskRunner) -> None:
        """Have workers look at as many as they take. A long run is left until all is read: it would
        be in memory beside what is read."""
        while runner.has_room and (done := self._next()) is not None:
            if done.spans < LEAST_SPANS:
                self._handed[done.id] = done
                runner.hand(DiagnoseRun(key=done.id, size=done.spans), partial(self._take, done))

    def _next(self) -> Finished | None:
        """The next run that may be looked at, None where there is none."""
        while self._waiting and self._bytes <= EARLY_BYTES:
            done = self._waiting.popleft()
            known = done.id in self._made or done.id in self._handed
            if not known and not judge_sets(self._store, done.id):
                return done
        return None

    def _take(self, done: Finished, made: Sequence[diagnoses.Kept | str]) -> None:
        """What a worker's rules said, unless the run was read again since."""
        if self._handed.get(done.id) is done:
            del self._handed[done.id]
            self._hold(done.id, tuple(made))

    def _hold(self, key: str, made: tuple[diagnoses.Kept | str, ...]) -> None:
        self._made[key] = pickle.dumps(made, pickle.HIGHEST_PROTOCOL)
        self._bytes += len(self._made[key])

    def pop(self, key: str) -> tuple[diagnoses.Kept | str, ...]:
        """What is to be kept of a run, or the sentence of a bug; it is held no longer."""
        data = self._made.pop(key)
        self._bytes -= len(data)
        found: tuple[diagnoses.Kept | str, ...] = pickle.loads(data)
        return found


def fork_workers(sources: Iterable[Source], jobs: int | None) -> Forked:
    """As many processes as an import of these will want, with all loaded that they need; none
    where there is too little to do, or where they cannot be forked safely."""
    many = cores() if jobs is None else jobs
    enough = False
    size = 0
    for source in sources if many > 1 else ():
        size += files.size(source.path)
        if size >= LEAST_BYTES:
            with suppress(ArcError):
                formats.sniff(source)
            enough = True
            break
    if enough:
        prices.price(Usage(input_tokens=1, output_tokens=1), "gpt-4o")  # loads the table of prices
    return Forked(many if enough else 0)


T = TypeVar("T", ReadFile, DiagnoseRun)


class TaskRunner:
    """Runs tasks in `jobs` processes beside this one, or here where that is 1. None: as many as
    there are cores, and here where there is too little to do for a process to be worth starting.
    Those that are `forked` already are made use of first.

    `close` ends them.
    """

    def __init__(self, store: Store, jobs: int | None = None, forked: Forked | None = None) -> None:
        self._store = store
        self._forked = forked
        self._jobs = cores() if jobs is None else jobs
        self._always = jobs is not None
        self._workers: Workers | None = None

    def read(
        self, tasks: Sequence[ReadFile], meanwhile: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[ReadFile, Iterator[object]]]:
        """Each file and what it gives, in their order. Where others read them, `meanwhile` does a
        little of other work here while nothing has come, and says whether there was any."""
        apart: list[ReadFile | None] = []
        for task in tasks:
            alone = task.source.alone
            apart.append(structs.replace(task, source=alone) if alone is not None else None)
        return self._run(tasks, self._shared(apart), LEAST_BYTES, meanwhile)

    def _shared(self, files: Sequence[ReadFile | None]) -> Sequence[Sequence[ReadFile | ReadShare]]:
        """What others do in place of each file: all of it, its shares, or nothing."""
        of = self._jobs
        many = [each.shares() if each and of > 1 else 1 for each in files]
        parts = [
            SearchPart(file=file, number=number, of=of)
            for file, shares in zip(files, many, strict=True)
            if file is not None and shares > 1
            for number in range(of)
        ]
        given = self._started().run(parts) if parts else iter(())
        found = iter([next(each, None) for each in given])
        moved: list[Sequence[ReadFile | ReadShare]] = []
        for file, shares in zip(files, many, strict=True):
            if file is None or shares == 1:
                moved.append(() if file is None else [file])
                continue
            told = [each if isinstance(each, Found) else None for each in islice(found, of)]
            cut = file_shares.cut(told, file.size, shares)
            moved.append([ReadShare(file=file, share=each, of=shares) for each in cut] or [file])
        return moved

    def diagnose(
        self, tasks: Sequence[DiagnoseRun]
    ) -> Iterator[tuple[DiagnoseRun, Iterator[object]]]:
        """Each run and what is to be kept of it, in their order. What is encrypted is read here
        alone: no other process is told its key."""
        return self._run(tasks, [() if self._alone else (each,) for each in tasks], LEAST_SPANS)

    @cached_property
    def _alone(self) -> bool:
        """Does nobody else read the database?"""
        path = self._store.path
        return path is None or is_encrypted(path) or self._store.read_only

    @property
    def has_room(self) -> bool:
        """May `hand` be called? Never where the database is encrypted, as of `diagnose`."""
        return self._workers is not None and self._workers.has_room and not self._alone

    def hand(self, task: DiagnoseRun, done: Callable[[list[Any]], None]) -> None:
        """As `Workers.hand`."""
        assert self._workers is not None
        self._workers.hand(task, done)

    def settle(self) -> None:
        """As `Workers.settle`."""
        if self._workers is not None:
            self._workers.settle()

    def close(self) -> None:
        """End the processes."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    @cached_property
    def _setup(self) -> ImportSetup:
        return ImportSetup(self._store.redactor, self._store.path, self._store)

    def _started(self) -> Workers:
        if self._workers is None:
            self._workers = Workers(self._jobs, self._setup, self._forked)
        return self._workers

    def _run(
        self,
        tasks: Sequence[T],
        moved: Sequence[Sequence[Task]],
        least: int,
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[T, Iterator[object]]]:
        """What each gives, where it is `moved`, that is of what others do in its place."""
        all_moved = list(chain.from_iterable(moved))
        many = sum(task.size for task in all_moved) >= least
        running = self._workers is not None
        if self._jobs == 1 or not all_moved or not (many or running or self._always):
            yield from ((task, task.run(self._setup)) for task in tasks)
            return
        given = self._started().run(all_moved, meanwhile, start=many or not running)
        for task, parts in zip(tasks, moved, strict=True):
            found = islice(given, len(parts))
            if not parts:
                yield task, task.run(self._setup)
            elif isinstance(task, ReadFile) and len(parts) > 1:
                yield task, join_shares(task, found, self._setup)
            else:
                yield task, next(found)
            for _ in found:  # where not all of it was wanted
                pass
        for _ in given:  # what the last one gave is taken to its end
            pass


def describe_loss(task: str, what: Lost) -> str:
    """The sentence of a task whose process was ended."""
    by = "" if what.by is None else f" (signal {what.by})"
    return f"{task}: the process that worked on it ended twice{by}. Try: --jobs 1"


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
