"""A library that calls back, drained like a generator: it runs in a thread of its own, and what its
callbacks ask is answered in the thread that drains it, for stores and models are of one thread.

One of the two threads runs at a time: the same answers give the same calls in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
Progress = TypeVar("Progress")

_WAIT_S = 0.05


class _Call(NamedTuple):
    """Work that the library's thread waits for."""

    work: Callable[[], Generator[Any, None, Any]]
    answer: SimpleQueue[_End]


class _End(NamedTuple):
    """What came of something, or what it raised."""

    value: Any = None
    error: BaseException | None = None

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class Closed(Exception):
    """Nobody drains it any more: the callback is to give up."""


class LibraryThread(Generic[Progress]):
    """A library's run, and the calls it makes back."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | _End] = SimpleQueue()
        self._closed = False

    def ask(self, work: Callable[[], Generator[Progress, None, T]]) -> T:
        """From a callback: have `work` done in the thread that drains, and wait for what comes of
        it. Raises what it raises, and Closed."""
        if self._closed:
            raise Closed
        answer: SimpleQueue[_End] = SimpleQueue()
        self._calls.put(_Call(work, answer))
        found: T = answer.get().get()
        return found

    def run(self, library: Callable[[], T]) -> Generator[Progress, None, T]:
        """What the library returns; yields what the calls back yield. Closed early, its next call
        back raises Closed, and it is waited for."""

        def whole() -> None:
            try:
                self._calls.put(_End(library()))
            except BaseException as error:
                self._calls.put(_End(error=error))

        thread = Thread(target=whole, name="library", daemon=True)
        thread.start()
        try:
            while isinstance(asked := self._calls.get(), _Call):
                yield from self._answer(asked)
            found: T = asked.get()
            return found
        finally:
            self._closed = True
            while thread.is_alive():  # it may wait for an answer, or be about to ask
                self._refuse()

    def _refuse(self) -> None:
        with suppress(Empty):
            asked = self._calls.get(timeout=_WAIT_S)
            if isinstance(asked, _Call):
                asked.answer.put(_End(error=Closed()))

    def _answer(self, asked: _Call) -> Generator[Progress]:
        end = _End(error=Closed())
        try:
            end = _End((yield from asked.work()))
        except Exception as error:
            end = _End(error=error)
        finally:
            asked.answer.put(end)
