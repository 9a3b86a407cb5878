"""The parts of an import that write nothing, done here or by a worker: a file read, masked and
digested, and a run diagnosed.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from arc_tui.workers import Lost, Workers, cores
from replay import formats
from replay.errors import ArcError, StoreUnusable
from replay.formats.source import Problem, Source, Tally
from replay.redact.redactor import Redactor
from replay.store import read
from replay.store.content import Masks
from replay.store.encryption import is_encrypted
from replay.store.handle import Store, now_ns
from replay.store.prepare import Prepared, Preparer, Refused
from replay.store.trouble import is_of_file
from replay.store.write import Finished
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
    `bug` says that it was arc that failed."""

    format: str | None = None
    counts: dict[str, float] = {}
    unknown: dict[str, int] = {}
    problems: tuple[Problem, ...] = ()
    error: str | None = None
    bug: bool = False


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

    def run(self, setup: ImportSetup) -> Iterator[Prepared | Refused | FileRead]:
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
                    source, tally, format=claimed, task_from=self.task_from, pins=self.pins
                )
                yield from Preparer(setup.masks).prepare(batches)
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
        )


class DiagnoseRun(Struct, frozen=True, kw_only=True):
    """Let the rules look at one run of `size` spans: gives what is to be kept, or the sentence of
    a bug."""

    key: str
    size: int

    def run(self, setup: ImportSetup) -> Iterator[diagnoses.Kept | str]:
        bugs: list[str] = []
        with boundary(f"run {self.key[:8]}: cannot be diagnosed", bugs):
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


T = TypeVar("T", ReadFile, DiagnoseRun)


class TaskRunner:
    """Runs tasks in `jobs` processes beside this one, or here where that is 1. None: as many as
    there are cores, and here where there is too little to do for a process to be worth starting.

    `close` ends them.
    """

    def __init__(self, store: Store, jobs: int | None = None) -> None:
        self._store = store
        self._jobs = cores() if jobs is None else jobs
        self._always = jobs is not None
        self._workers: Workers | None = None

    def read(
        self, tasks: Sequence[ReadFile], meanwhile: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[ReadFile, Iterator[object]]]:
        """Each file and what it gives, in their order. Where others read them, `meanwhile` does a
        little of other work here while nothing has come, and says whether there was any."""
        moved = [structs.replace(t, source=alone) for t in tasks if (alone := t.source.alone)]
        own = [task.source.alone is None for task in tasks]
        return self._run(tasks, moved, own, LEAST_BYTES, meanwhile)

    def diagnose(
        self, tasks: Sequence[DiagnoseRun]
    ) -> Iterator[tuple[DiagnoseRun, Iterator[object]]]:
        """Each run and what is to be kept of it, in their order. What is encrypted is read here
        alone: no other process is told its key."""
        path = self._store.path
        alone = path is None or is_encrypted(path) or self._store.read_only
        moved = [] if alone else tasks
        return self._run(tasks, moved, [alone] * len(tasks), LEAST_SPANS)

    def close(self) -> None:
        """End the processes."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def _run(
        self,
        tasks: Sequence[T],
        moved: Sequence[T],
        own: Sequence[bool],
        least: int,
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[T, Iterator[object]]]:
        setup = ImportSetup(self._store.redactor, self._store.path, self._store)
        many = sum(task.size for task in moved) >= least
        running = self._workers is not None
        if self._jobs == 1 or not moved or not (many or running or self._always):
            yield from ((task, task.run(setup)) for task in tasks)
            return
        if self._workers is None:
            self._workers = Workers(self._jobs, setup)
        given = self._workers.run(moved, meanwhile, start=many or not running)
        for task, here in zip(tasks, own, strict=True):
            yield task, task.run(setup) if here else next(given)
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
