"""Processes beside this one that do tasks, and what these give in the order of the tasks.

A worker is a fresh interpreter, for whoever starts it may have threads; or it was forked before
there were any (`Forked`), and has loaded what was loaded here. Tasks are dealt out at once, in
their order, each to the worker that has least to do, so that what comes back does not depend on how
fast anybody was. What a worker gives waits in it, up to `WAITING_BYTES`, until it is asked for.

While so much waits, a worker does what else it was handed (`hand`): work that anybody may do at any
time, and that nobody misses where its worker ends.

A worker that is ended from outside is started again where it stood, and told one task at a time:
tasks give the same each time, so what came already is left out. A task at which workers end twice
is `Lost`.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from replay.errors import ArcError, StoreUnusable

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess

WAITING_BYTES = 4 * 1024 * 1024
"""So much of what a worker gave waits in its memory; the last piece may be larger."""

TRIES = 2
"""So many workers may end at one task."""

HANDED_AT_ONCE = 32
"""So many tasks that were handed to a worker beside its own wait for it at most: few enough that to
send them never waits for it, and that hardly anybody waits for the last of them."""

_LOOK_S = 0.01
"""A worker that waits until less of what it gave is waiting looks so often."""

_FULL_COLLECTIONS = 1_000
"""All that a worker holds is looked through for garbage after so many smaller looks, not after ten:
what a long run is made of stays until it is read, and hardly any of it refers back."""

_START = "import sys; sys.path[:] = sys.argv[2:]; from arc_tui.workers import serve; serve()"
"""With the path of whoever starts it, and not with the folder he stands in, as `-c` has it."""


class Task(Protocol):
    """What a worker does. It must give the same values each time it is run, and the same as here.

    `size` says how much work it is, beside others.
    """

    @property
    def size(self) -> int: ...

    def run(self, setup: Any) -> Iterator[object]: ...


class Lost(Struct, frozen=True):
    """In place of what else a task would have given: its worker was ended from outside, twice.
    `by` is the signal."""

    by: int | None


class _Raised(Struct, frozen=True):
    """In place of what else a task would have given: it raised this."""

    message: str
    hint: str


class _Beside(Struct, frozen=True):
    """On its way: a task that is handed to a worker beside its own, or all that it gave, None where
    it raised."""

    number: int
    what: Any


def cores() -> int:
    """How many processes can compute at once here."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Forked:
    """Processes forked from this one, which wait to be workers: what is loaded here they need not
    load, which takes most of a second each.

    They are made before there is a thread or an open database here, for a fork would copy the locks
    of both and nobody would open them again; where there are threads, or forks are not known to be
    safe, none is made. Those that no worker was made of end with `close`.
    """

    def __init__(self, many: int) -> None:
        self._waiting: list[tuple[Connection, ForkProcess]] = []
        threads = Path("/proc/self/task")
        if many == 0 or sys.platform != "linux" or len(list(threads.iterdir())) > 1:
            return
        from multiprocessing import get_context  # only who forks needs it

        gc.freeze()  # what is looked at for garbage is copied
        for _ in range(many):
            pipe, theirs = Pipe()
            others = [each for each, _ in self._waiting] + [pipe]
            process = get_context("fork").Process(target=_begin, args=(theirs, others), daemon=True)
            with theirs:
                process.start()
            self._waiting.append((pipe, process))
        gc.unfreeze()

    def take(self) -> tuple[Connection, ForkProcess] | None:
        """One of them and the connection to it, None where none is left."""
        return self._waiting.pop(0) if self._waiting else None

    def close(self) -> None:
        while (left := self.take()) is not None:
            _end(*left)


class Workers:
    """At most so many processes, which are told `setup` once and end with `close`. Those that are
    `forked` are made use of first."""

    def __init__(self, most: int, setup: object, forked: Forked | None = None) -> None:
        self._most = most
        self._setup = setup
        self._forked = forked
        self._running: list[_Worker] = []
        self._one_by_one = set[int]()
        """Places at which a worker ended: how far it was is not known of tasks that are dealt out
        together, for what it gave may have been lost with it."""

    def run(
        self,
        tasks: Sequence[Task],
        meanwhile: Callable[[], bool] = lambda: False,
        *,
        start: bool = True,
    ) -> Generator[Iterator[Any], None, None]:
        """What each task gives, in the order of the tasks. Raises what a task raised, as a
        StoreUnusable.

        While what comes next is not there yet, `meanwhile` is called; it does a little of other
        work here and says whether there was any. Unless they are to `start`, those do the tasks
        that run already.
        """
        queues = _deal(tasks, self._most if start else max(1, len(self._running)))
        while len(self._running) < len(queues):
            self._running.append(self._start())
        for place, given in enumerate(queues):
            if place not in self._one_by_one:
                self._running[place].send([(0, tasks[number]) for number in given])
        whose = {number: place for place, given in enumerate(queues) for number in given}
        for number in range(len(tasks)):
            items = self._of(tasks[number], whose[number], meanwhile)
            yield items
            for _ in items:  # where not all of it was wanted
                pass

    def run_unordered(
        self, tasks: Sequence[Task], tries: int
    ) -> Iterator[tuple[int, list[Any] | ArcError | Lost]]:
        """The number of each task and all it gave, as they come to their end: a worker is handed
        its next task when it is done with one. A task that raises, or whose worker is ended, is
        tried again after the others, so often in all; then comes why it failed."""
        waiting = deque((number, 1) for number in range(len(tasks)))
        busy: dict[_Worker, tuple[int, int, list[Any]]] = {}
        while waiting or busy:
            while waiting and len(busy) < self._most:
                worker = next((each for each in self._running if each not in busy), None)
                if worker is None:
                    worker = self._start()
                    self._running.append(worker)
                number, tried = waiting.popleft()
                worker.send([(0, tasks[number])])
                busy[worker] = number, tried, []
            by_pipe = {worker.pipe: worker for worker in busy}
            for pipe in wait(list(by_pipe)):
                worker = by_pipe[pipe]  # type: ignore[index]
                number, tried, items = busy[worker]
                try:
                    item = worker.next()
                except (EOFError, OSError):
                    self._running.remove(worker)
                    item, items[:] = None, [Lost(worker.end())]
                if item is not None:
                    items.append(item)
                    continue
                del busy[worker]
                last = items[-1] if items else None
                if not isinstance(last, (Lost, _Raised)):
                    yield number, items
                elif tried < tries:
                    waiting.append((number, tried + 1))
                elif isinstance(last, Lost):
                    yield number, last
                else:
                    yield number, ArcError(last.message, last.hint)

    @property
    def has_room(self) -> bool:
        """May a task be handed out? Not where all have enough of them, or one was ended."""
        return not self._one_by_one and any(each.pending < HANDED_AT_ONCE for each in self._running)

    def hand(self, task: Task, done: Callable[[list[Any]], None]) -> None:
        """Have a task done by one of those that run, when it has nothing else to do or too much of
        what it gave waits. Only where one `has_room`.

        What it gives `done` is told when it comes, which is while the others are asked for what
        they give, or in `settle`; never where it raises or its worker ends.
        """
        min(self._running, key=lambda each: each.pending).hand(task, done)

    def settle(self) -> None:
        """Wait for what was handed out. All that was asked for in `run` must have been taken."""
        for worker in self._running:
            worker.settle()

    def close(self) -> None:
        """End them, whatever they do."""
        for worker in self._running:
            worker.end()
        self._running.clear()

    def _start(self) -> _Worker:
        return _Worker(self._setup, self._forked.take() if self._forked else None)

    def _of(self, task: Task, place: int, meanwhile: Callable[[], bool]) -> Iterator[Any]:
        """What one task gives, the next of the worker at a place."""
        came = 0
        if place in self._one_by_one:
            self._running[place].send([(0, task)])
        for tried in range(1, TRIES + 1):
            try:
                while (item := self._running[place].next(meanwhile)) is not None:
                    if isinstance(item, _Raised):
                        raise StoreUnusable(item.message, item.hint)
                    came += 1
                    yield item
                return
            except (EOFError, OSError):
                by = self._running[place].end()
                self._running[place] = self._start()
                self._one_by_one.add(place)
                if tried < TRIES:
                    self._running[place].send([(came, task)])
        yield Lost(by)


def _deal(tasks: Sequence[Task], most: int) -> list[list[int]]:
    """The places of tasks by worker: each task to the one with least to do."""
    queues: list[list[int]] = [[] for _ in range(min(most, len(tasks)))]
    load = [0] * len(queues)
    for number, task in enumerate(tasks):
        place = load.index(min(load))
        queues[place].append(number)
        load[place] += task.size + 1
    return queues


class _Worker:
    """One of the processes, and the connection to it."""

    def __init__(self, setup: object, forked: tuple[Connection, ForkProcess] | None = None) -> None:
        self._process: ForkProcess | subprocess.Popen[bytes]
        self._handed: dict[int, Callable[[list[Any]], None]] = {}
        self._number = 0
        if forked is not None:
            self.pipe, self._process = forked
        else:
            self.pipe, theirs = Pipe()
            own = str(theirs.fileno())
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _START, own, *filter(None, sys.path)],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # ctrl-c is for whoever started it
                )
        self.send(setup)

    def send(self, value: object) -> None:
        with suppress(OSError):  # that it has ended shows where it is read
            self.pipe.send_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def next(self, meanwhile: Callable[[], bool] = lambda: False) -> Any:
        """The next value of its task, None at its end. Raises EOFError where the process ended."""
        while True:
            while not self.pipe.poll() and meanwhile():
                pass
            item = pickle.loads(self.pipe.recv_bytes())
            if not isinstance(item, _Beside):
                return item
            self._was_done(item)

    @property
    def pending(self) -> int:
        """How many tasks it was handed and has not done."""
        return len(self._handed)

    def hand(self, task: Task, done: Callable[[list[Any]], None]) -> None:
        """As of `Workers`."""
        self._number += 1
        self._handed[self._number] = done
        self.send(_Beside(self._number, task))

    def settle(self) -> None:
        """Wait for what it was handed, unless it ends."""
        with suppress(EOFError, OSError):  # that it has ended shows when it is asked again
            while self._handed:
                self._was_done(pickle.loads(self.pipe.recv_bytes()))

    def _was_done(self, told: _Beside) -> None:
        done = self._handed.pop(told.number)
        if told.what is not None:
            done(told.what)

    def end(self) -> int | None:
        """End the process; the signal that had ended it before, None where none had."""
        return _end(self.pipe, self._process)


def _end(pipe: Connection, process: ForkProcess | subprocess.Popen[bytes]) -> int | None:
    """End a process; the signal that had ended it before, None where none had."""
    pipe.close()
    code = _code(process, 0.2)  # of one that ended by itself, or was ended
    if code is None:
        process.kill()
        _code(process, None)
        return None
    return -code if code < 0 else None


def _code(process: ForkProcess | subprocess.Popen[bytes], timeout_s: float | None) -> int | None:
    """How a process ended, None where it has not in so many seconds."""
    if not isinstance(process, subprocess.Popen):
        process.join(timeout_s)
        return process.exitcode
    with suppress(subprocess.TimeoutExpired):
        return process.wait(timeout_s)
    return None


# --- in the process of a worker


def serve() -> None:
    """Be the worker at the other end of the connection that the arguments name."""
    _serve(Connection(int(sys.argv[1])))


def _begin(pipe: Connection, others: Sequence[Connection]) -> None:
    """Be a worker that was forked; the `others` are ends of connections that are not its own."""
    for each in others:
        each.close()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()  # ctrl-c is for whoever forked it
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    _serve(pipe)


def _serve(pipe: Connection) -> None:
    """Do tasks as they come over the connection, until whoever sends them closes it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(*gc.get_threshold()[:2], _FULL_COLLECTIONS)
    try:
        setup = pickle.loads(pipe.recv_bytes())
        out = _Outbox(pipe, setup)
        while True:
            told = pickle.loads(pipe.recv_bytes())
            if isinstance(told, _Beside):
                out.do_beside(told)
                continue
            for skip, task in told:
                _do(task, skip, setup, out)
    except (EOFError, OSError):
        pass
    finally:
        os._exit(0)  # nobody reads what is still to be sent


def _do(task: Task, skip: int, setup: object, out: _Outbox) -> None:
    try:
        for place, item in enumerate(task.run(setup)):
            if place >= skip:
                out.put(item)
    except ArcError as error:
        out.put(_Raised(error.message, error.hint))
    out.put(None)


class _Outbox:
    """What is sent by a thread of its own while the next is made."""

    def __init__(self, pipe: Connection, setup: object) -> None:
        self._pipe = pipe
        self._setup = setup
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._send, daemon=True).start()

    def put(self, item: object) -> None:
        """Have it sent; while too much waits already, what was handed here is done."""
        while self._bytes > WAITING_BYTES:
            if self._pipe.poll(_LOOK_S):  # in the middle of a task nothing else is told
                self.do_beside(pickle.loads(self._pipe.recv_bytes()))
        self._add(item)

    def do_beside(self, told: _Beside) -> None:
        """Do a task that was handed here, and have all that it gives sent together, before what
        waits; None where it raises, which it will again for who has to do it."""
        try:
            given = list(told.what.run(self._setup))
        except ArcError:
            given = None
        self._add(_Beside(told.number, given), first=True)

    def _add(self, item: object, *, first: bool = False) -> None:
        data = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
        with self._changed:
            if first:
                self._waiting.appendleft(data)
            else:
                self._waiting.append(data)
            self._bytes += len(data)
            self._changed.notify()

    def _send(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                data = self._waiting.popleft()
            try:
                self._pipe.send_bytes(data)
            except OSError:
                os._exit(0)  # whoever asked is gone
            with self._changed:
                self._bytes -= len(data)
