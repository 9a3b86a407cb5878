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
from typing import TypeVar

from msgspec import Struct, structs

from arc_tui.workers import Forked, Lost, Task, Workers, cores
from replay import files, formats, prices
from replay.errors import ArcError, StoreUnusable
from replay.formats import otlp
from replay.formats.otlp.shares import SHARE_BYTES, Shares
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
        self._shares: tuple[tuple[Path, int, int], Shares] | None = None

    def __reduce__(self) -> tuple[type[ImportSetup], tuple[Redactor, Path | None]]:
        return ImportSetup, (self.redactor, self.database)

    @cached_property
    def masks(self) -> Masks:
        return Masks(self.redactor)

    def shares(self, source: Source, size: int, many: int) -> Shares | None:
        """The shares of a file, searched for once; None where it is to be read as a whole."""
        asked = (source.path, size, many)
        if self._shares is None or self._shares[0] != asked:
            self._shares = (asked, Shares(source, size, many))
        return None if self._shares[1].whole else self._shares[1]

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
        return self.read(setup, 0, 1)

    def read(self, setup: ImportSetup, share: int, many: int) -> Iterator[Given]:
        """The same of one of so many shares, with what each trace says of itself before it. What is
        not to be shared comes as a whole with the first."""
        tally = Tally()
        cut: Shares | None = None
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
                cut = setup.shares(source, self.size, many) if many > 1 else None
                if cut is None and share:
                    return
                batches = formats.load(
                    source,
                    tally,
                    format=claimed,
                    task_from=self.task_from,
                    pins=self.pins,
                    read=partial(cut.read, share) if cut is not None else None,
                )
                preparer = Preparer(setup.masks)
                if cut is None:
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
            places=tuple(tally.places) if cut is not None else None,
        )

    def shares(self) -> Sequence[ReadShare]:
        """What it is cut into for several processes, empty where it is read by one."""
        many = 1
        with boundary(f"{self.source.display}: cannot be cut", []), suppress(ArcError):
            if self.size >= 2 * SHARE_BYTES and self.format in (None, otlp.NAME):
                claimed = formats.named(self.format) if self.format else formats.sniff(self.source)
                if claimed is not None and claimed.NAME == otlp.NAME:
                    many = Shares.count(self.source, self.size)
        return [ReadShare(file=self, number=each, of=many) for each in range(many)]


class ReadShare(Struct, frozen=True, kw_only=True):
    """Read one of so many shares of a file."""

    file: ReadFile
    number: int
    of: int

    @property
    def size(self) -> int:
        return self.file.size // self.of

    def run(self, setup: ImportSetup) -> Iterator[Given]:
        return self.file.read(setup, self.number, self.of)


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
        last = ends[-1]
        if last.places is None or last.error is not None:
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

    They are held until all is read: what comes later may change a run, and what is kept is kept in
    the order of import, however much was done early. A run whose judges have scored it is left for
    then, because what counts of them hangs on other runs.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._setup = ImportSetup(store.redactor, store.path, store)
        self._waiting: deque[str] = deque()
        self._made: dict[str, bytes] = {}
        self._bytes = 0

    def __contains__(self, key: str) -> bool:
        return key in self._made

    def note(self, done: Finished) -> None:
        """A run was read: what the rules said of it as it was before counts no more."""
        self._bytes -= len(self._made.pop(done.id, b""))
        if done.verdict in ("new", "grown", "replaced"):
            self._waiting.append(done.id)

    def work(self) -> bool:
        """Let the rules look at the next run; was there one?"""
        if not self._waiting or self._bytes > EARLY_BYTES:
            return False
        key = self._waiting.popleft()
        if key not in self._made and not judge_sets(self._store, key):
            made = tuple(DiagnoseRun(key=key, size=0).run(self._setup))
            self._made[key] = pickle.dumps(made, pickle.HIGHEST_PROTOCOL)
            self._bytes += len(self._made[key])
        return True

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
        moved: list[Sequence[ReadFile | ReadShare]] = []
        for task in tasks:
            alone = task.source.alone
            apart = structs.replace(task, source=alone) if alone is not None else None
            moved.append(() if apart is None else [apart] if self._jobs == 1 else apart.shares())
        return self._run(tasks, moved, LEAST_BYTES, meanwhile)

    def diagnose(
        self, tasks: Sequence[DiagnoseRun]
    ) -> Iterator[tuple[DiagnoseRun, Iterator[object]]]:
        """Each run and what is to be kept of it, in their order. What is encrypted is read here
        alone: no other process is told its key."""
        path = self._store.path
        alone = path is None or is_encrypted(path) or self._store.read_only
        return self._run(tasks, [() if alone else (each,) for each in tasks], LEAST_SPANS)

    def close(self) -> None:
        """End the processes."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def _run(
        self,
        tasks: Sequence[T],
        moved: Sequence[Sequence[Task]],
        least: int,
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[T, Iterator[object]]]:
        """What each gives, where it is `moved`, that is of what others do in its place."""
        setup = ImportSetup(self._store.redactor, self._store.path, self._store)
        all_moved = list(chain.from_iterable(moved))
        many = sum(task.size for task in all_moved) >= least
        running = self._workers is not None
        if self._jobs == 1 or not all_moved or not (many or running or self._always):
            yield from ((task, task.run(setup)) for task in tasks)
            return
        if self._workers is None:
            self._workers = Workers(self._jobs, setup, self._forked)
        given = self._workers.run(all_moved, meanwhile, start=many or not running)
        for task, parts in zip(tasks, moved, strict=True):
            found = islice(given, len(parts))
            if not parts:
                yield task, task.run(setup)
            elif isinstance(task, ReadFile) and len(parts) > 1:
                yield task, join_shares(task, found, setup)
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
