"""Who does the tasks of an import: this process, or others beside it.

Others read, mask and digest files or shares of them; they diagnose what was read while they wait
for it to be written, and what is left after all is read. This process writes.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain, islice
from typing import Any, TypeVar

from msgspec import structs

from arc_tui.import_tasks import (
    LEAST_SPANS,
    DiagnoseRun,
    ImportSetup,
    ReadFile,
    ReadShare,
    SearchPart,
    join_shares,
)
from arc_tui.workers import Forked, Lost, Task, Workers, cores
from replay import files, formats, prices
from replay.errors import ArcError
from replay.formats.otlp import shares as file_shares
from replay.formats.otlp.shares import Found
from replay.formats.source import Source
from replay.store.encryption import is_encrypted
from replay.store.handle import Store
from replay.store.write import Finished
from replay.trace import Usage
from taxonomy.judgements import diagnoses
from taxonomy.judgements.scores import judge_sets

LEAST_BYTES = 4 * 1024 * 1024
"""To start a process takes about as long as to read so much, and to diagnose `LEAST_SPANS`."""

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
        yield from self._run(tasks, self._cut(apart), LEAST_BYTES, meanwhile)

    def _cut(self, files: Sequence[ReadFile | None]) -> Sequence[Sequence[ReadFile | ReadShare]]:
        """What others do in place of each file: all of it, its shares, or nothing."""
        of = self._jobs
        many = [each.shares() if each and of > 1 else 1 for each in files]
        parts = [
            SearchPart(file=file, number=number, of=of)
            for file, shares in zip(files, many, strict=True)
            if file is not None and shares > 1
            for number in range(of)
        ]
        given = self._start().run(parts) if parts else iter(())
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

    def _start(self) -> Workers:
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
        given = self._start().run(all_moved, meanwhile, start=many or not running)
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
