"""A model that a server serves: a plain, synchronous face on what happens concurrently behind it,
one request or several at once. Which answers are kept, and where, is `cached`'s concern.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import closing
from types import TracebackType
from typing import Self

from replay.budget import Budget
from replay.errors import RequestRefused
from replay.models.line import ATTEMPTS, Arrival, Body, Call, Flight, Line, Loop, SharedClient, cost
from replay.models.protocol import POLL_S, killed
from replay.models.wire import Wire
from replay.providers import Rates
from replay.trace import Cost

MOST_AT_ONCE = 8


class Live:
    """A live model. Use as a context manager, or `close` it.

    `base_url` is where `wire` is spoken, `where` that place for a person (its address unless
    given); `rates` are prices that a person configured. `most_at_once` calls are in flight at a
    time. `sleep`, `jitter` (0..1), `clock` (seconds since the epoch) and `killed` (why nothing may
    be asked, looked at every `poll_s` seconds) are the world outside. One thread asks; any thread
    may `stop`. What is asked after that, or under a kill file, raises Stopped.
    """

    def __init__(
        self,
        name: str,
        *,
        budget: Budget,
        wire: Wire,
        base_url: str,
        where: str | None = None,
        rates: Rates | None = None,
        timeout_s: float = 600.0,
        attempts: int = ATTEMPTS,
        most_at_once: int = MOST_AT_ONCE,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.time,
        killed: Callable[[], str | None] = killed,
        poll_s: float = POLL_S,
    ) -> None:
        self.name = name
        self.budget = budget
        self._most_at_once = most_at_once
        self._loop = Loop(killed, poll_s)
        self._line = Line(
            name,
            base_url,
            budget=budget,
            timeout_s=timeout_s,
            attempts=attempts,
            world=SharedClient(sleep, jitter, clock),
            wire=wire,
            where=where,
            rates=rates,
        )
        self._rates = rates

    def complete(self, body: Body, sample: int) -> Body:
        """The message that answers `body`.

        Raises RequestRefused where the server declines this request, ModelRefused where it
        declines altogether, stays unreachable, or the budget would be exceeded.
        """
        del sample  # the next answer is another one: no API has a seed that holds
        with closing(self.complete_all([body])) as arrivals:
            _, answer = next(arrivals)
        if isinstance(answer, RequestRefused):
            raise answer
        return answer

    def complete_all(
        self,
        bodies: Iterable[Body],
        *,
        keep: Callable[[int, Body], Body] = lambda _, answer: answer,
        marked: bool = False,
    ) -> Generator[Arrival]:
        """The message that answers each body, or its refusal, by its place, as they come.

        Bodies are taken as calls become free. `keep` is called with an answer in the moment it
        came, whatever becomes of the others, and its result is what is given. `marked` puts a
        marker for the provider's prefix cache on each request. Closing cancels what is in flight.

        Raises ModelRefused as `complete`, after what is in flight then has come.
        """
        flight = Flight(
            map(self.with_marker, bodies) if marked else bodies,
            ready=lambda body: Call(self._line, body),
            keep=keep,
            most=self._most_at_once,
        )
        try:
            while arrived := self._loop.run(flight.arrivals()):
                yield from arrived
        finally:
            if flight.under_way:
                self._loop.finish(flight.cancel())

    def with_marker(self, body: Body) -> Body:
        """The body with a marker for the provider's prefix cache, where it wants one."""
        return body

    def pause(self, seconds: float) -> None:
        """Wait while somebody else asks. Raises Stopped as a call does, and ModelRefused where the
        minutes allowed are over."""
        self.budget.refuse_late()
        self._loop.run(asyncio.sleep(seconds))

    def cost(self, answer: Body) -> Cost | None:
        """What an answer cost, None where no price is known for who gave it."""
        return cost(answer, self.name, self._rates)

    def stop(self) -> None:
        """Cancel what is in flight and refuse further calls. From any thread."""
        self._loop.stop()

    def close(self) -> None:
        """Close the connection. From the thread that asked."""
        self._loop.close(self._line.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
