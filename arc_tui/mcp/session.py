"""One session of `arc mcp`: its database, what it may spend, and the calls that are under way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from replay.budget import Budget, Limits
from replay.errors import Stopped
from replay.store.handle import Store
from taxonomy.judgements.schema import open_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from arc_tui.experiments.models import ModelPool


class Call:
    """A call under way. It is worked on in one thread and may be stopped from another. `report` is
    told how far it is: done, of how many, and a sentence."""

    def __init__(self, report: Callable[[int, int, str], None] | None = None) -> None:
        self.report = report
        self._over = threading.Event()
        self._pool: ModelPool | None = None

    def is_over(self) -> bool:
        """Was it stopped?"""
        return self._over.is_set()

    def ask(self, pool: ModelPool) -> None:
        """These models are asked for it: they stop with it. Raises Stopped where it was stopped."""
        self._pool = pool
        if self.is_over():
            raise Stopped("stopped before the first call")

    def stop(self) -> None:
        """End it soon: what was answered by then is kept."""
        self._over.set()
        if self._pool is not None:
            self._pool.stop()


class Session:
    """What all calls of a session share. `budget` None: nothing may be spent."""

    def __init__(self, path: Path, allowed_usd: float | None = None) -> None:
        self.path = path
        self.budget = None if allowed_usd is None else Budget(Limits(usd=allowed_usd))
        self._turn = threading.Lock()
        self._spending = threading.Lock()
        self._calls: set[Call] = set()

    @property
    def idle(self) -> bool:
        """Is no call under way?"""
        return not self._calls

    def begin(self, call: Call) -> None:
        """It is under way."""
        self._calls.add(call)

    def end(self, call: Call) -> None:
        """It is answered."""
        self._calls.discard(call)

    def stop(self) -> None:
        """Stop every call."""
        for each in tuple(self._calls):
            each.stop()

    @contextmanager
    def turn(self, call: Call) -> Iterator[None]:
        """One call at a time, but for what waits for a model.

        msgspec puts together what it knows of a type when that is first met; a second thread that
        meets it meanwhile crashes the process. Raises Stopped.
        """
        with _hold(self._turn, call):
            yield

    @contextmanager
    def spend(self, call: Call) -> Iterator[Budget]:
        """The budget, for one call at a time. Raises Stopped."""
        assert self.budget is not None, "what spends is not offered without"
        with _hold(self._spending, call):
            yield self.budget

    @contextmanager
    def store(self, call: Call, *, to_read: bool = True) -> Iterator[Store]:
        """The database, opened for this call alone and to be read only, unless something is to be
        kept. Neither makes or upgrades one.

        Raises StoreUnusable where it is not there, too old, or cannot be read.
        """
        if not to_read:
            open_ledger(self.path, to_read=True).close()
        with open_ledger(self.path, to_read=to_read) as store:
            store.stop_when(call.is_over)
            yield store


@contextmanager
def _hold(lock: threading.Lock, call: Call) -> Iterator[None]:
    """The lock, once it is free; nobody waits for a call that was stopped."""
    while not lock.acquire(timeout=0.1):
        if call.is_over():
            raise Stopped("stopped before it began")
    try:
        yield
    finally:
        lock.release()
