"""A model behind the Messages API: Claude, or anything that a compatible server serves.

A plain, synchronous face on what happens concurrently behind it: one request, several at once, or
a batch of them. Which answers are kept, and where, is `cached`'s concern.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import closing
from types import TracebackType
from typing import Any

import msgspec

from replay.budget import Budget
from replay.errors import RequestRefused, Stopped
from replay.models import line, protocol
from replay.models.batches import Batches
from replay.models.line import ATTEMPTS, Arrival, Body, Call, Flight, Line, Loop, SharedClient
from replay.models.protocol import POLL_S, Result, Sending, killed, with_cache_marker
from replay.models.wire import MESSAGES, Reply
from replay.trace import Cost

MOST_AT_ONCE = 8

_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config")
"""The fields of a request that the counting of its tokens takes."""


class Claude:
    """A live model. Use as a context manager, or `close` it.

    `base_url` defaults to ANTHROPIC_BASE_URL. `most_at_once` calls are in flight at a time.
    `sleep`, `jitter` (0..1), `clock` (seconds since the epoch) and `killed` (why nothing may be
    asked, looked at every `poll_s` seconds) are the world outside. One thread asks; any thread may
    `stop`. What is asked after that, or under a kill file, raises Stopped.
    """

    def __init__(
        self,
        name: str,
        *,
        budget: Budget,
        base_url: str | None = None,
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
            protocol.server_url(base_url),
            budget=budget,
            timeout_s=timeout_s,
            attempts=attempts,
            world=SharedClient(sleep, jitter, clock),
        )
        self._batches = Batches(self._line)

    def complete(self, body: Body, sample: int) -> Body:
        """The message that answers `body`.

        Raises RequestRefused where the server declines this request, ModelRefused where it
        declines altogether, stays unreachable, or the budget would be exceeded.
        """
        del sample  # the API has no seed
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
            map(with_cache_marker, bodies) if marked else bodies,
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

    def pause(self, seconds: float) -> None:
        """Wait while somebody else asks. Raises Stopped as a call does, and ModelRefused where the
        minutes allowed are over."""
        self.budget.refuse_late()
        self._loop.run(asyncio.sleep(seconds))

    def send_batch(self, requests: Mapping[str, Body], sending: Sending) -> str:
        """Send requests by their ids as one batch; the batch's own id.

        Raises ModelRefused where the server takes none, and where all of them at their worst could
        exceed the budget.
        """
        return self._loop.run(self._batches.send(requests, sending))

    def find_batch(self, sending: Sending) -> str | None:
        """The id of a batch that was sent, though its id never came; None where there is none."""
        return self._loop.run(self._batches.find(sending))

    def batch_results(self, id: str) -> dict[str, Result] | None:
        """What a batch came to, by the ids of its requests; waits until it has ended.

        None where the server has no such batch, or its results no longer.
        """
        try:
            return self._loop.run(self._batches.results(id))
        except Stopped as error:
            raise Stopped(
                error.message, f"batch {id} goes on at the server; the same command fetches it"
            ) from error

    # --- what a server says of itself

    def about(self) -> dict[str, Any] | None:
        """What the server says of this model (`max_input_tokens`, `lifecycle`, …).

        None where it does not know the model, or says nothing of models at all.
        """
        found = _object(self._loop.run(self._line.fetch("GET", f"/v1/models/{self.name}")))
        return found if found is not None and found.get("type") == "model" else None

    def count_tokens(self, body: Body) -> int | None:
        """The input tokens of a request as the server counts them, None where it does not."""
        asked = {name: body[name] for name in _COUNTED if name in body}
        reply = self._loop.run(self._line.fetch("POST", f"{MESSAGES}/count_tokens", asked))
        count = (_object(reply) or {}).get("input_tokens")
        return count if type(count) is int else None

    def cost(self, answer: Body) -> Cost | None:
        """What an answer cost, None where no price is known for who gave it."""
        return line.cost(answer, self.name)

    def stop(self) -> None:
        """Cancel what is in flight and refuse further calls. From any thread."""
        self._loop.stop()

    def close(self) -> None:
        """Close the connection. From the thread that asked."""
        self._loop.close(self._line.close)

    def __enter__(self) -> Claude:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


def _object(reply: Reply | None) -> dict[str, Any] | None:
    """The JSON object of a reply, None where it holds none."""
    try:
        found = msgspec.json.decode(reply.body) if reply is not None else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None
