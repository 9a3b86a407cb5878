"""What all calls to one server share: the connection, the budget, retries, and how long to wait.

Several requests are under way at once; the event loop runs only while somebody waits for what it
brings.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeVar

from replay import digests, prices
from replay.budget import Budget, Worst
from replay.errors import ModelRefused, RequestRefused, Stopped
from replay.formats.common import anthropic_usage
from replay.models import protocol
from replay.models.messages import MESSAGES
from replay.models.protocol import POLL_S, killed
from replay.models.wire import (
    Asked,
    Connection,
    Failed,
    Payload,
    Reply,
    Wire,
    declined,
    judged,
    output_limit,
)
from replay.providers import Rates
from replay.trace import Cost, Json, Usage

ATTEMPTS = 5
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0
LEAST_S = 10.0
"""Time for what costs nothing, though the minutes allowed end meanwhile."""


class SharedClient(NamedTuple):
    """The world outside: `sleep`, `jitter` (0..1) and `clock` (seconds since the epoch)."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random
    clock: Callable[[], float] = time.time


class Line:
    """A server as one model is asked there. Everything on it runs in one loop."""

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        budget: Budget,
        timeout_s: float,
        attempts: int,
        world: SharedClient,
        wire: Wire = MESSAGES,
        where: str | None = None,
        rates: Rates | None = None,
    ) -> None:
        self.model = model
        self.rates = rates
        self.wire = wire
        self.budget = budget
        self.attempts = attempts
        self.world = world
        self._base_url = base_url
        self._where = where
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self._open = 0
        self._settled = asyncio.Event()

    def origin(self, *, streamed: bool = False) -> Asked:
        """What a reply that comes now answers."""
        where = self._where or protocol.address(self._base_url)
        return Asked(self.model, where, streamed, self.world.clock(), self.wire)

    async def exchange(
        self, method: str, path: str, body: Payload, *, least_s: float = 0.001
    ) -> Reply:
        """Send once; what is left of the minutes allowed, but `least_s`, is a timeout too.

        Raises ModelRefused where there is no key.
        """
        if self._connection is None:
            self._connection = self.wire.connect(self._base_url)
        left = self.budget.seconds_left
        timeout_s = self._timeout_s if left is None else min(self._timeout_s, max(left, least_s))
        return await self._connection.send(method, path, body, timeout_s)

    async def fetch(
        self, method: Literal["GET", "POST"], path: str, body: Payload = None
    ) -> Reply | None:
        """What is free and may be asked twice; None where the server has nothing there (404).

        Raises ModelRefused where it declines, or stays unreachable.
        """
        for attempt in range(self.attempts):
            reply = await self.exchange(method, path, body, least_s=LEAST_S)
            if reply.status == 404:
                return None
            failed = declined(reply, self.origin())
            if failed is None:
                return reply
            if not failed.again or attempt == self.attempts - 1:
                raise failed.error
            await self.wait(failed, attempt)
        raise AssertionError("there is at least one attempt")

    async def wait(self, failed: Failed, attempt: int) -> None:
        """Wait as the server asked to, else twice as long each time, a little less by chance.

        Raises the failure itself where the time allowed ends before.
        """
        seconds = failed.wait_s
        if seconds is None:
            longest = min(FIRST_WAIT_S * 2.0**attempt, LONGEST_WAIT_S)
            seconds = longest * (1 - 0.25 * self.world.jitter())
        left = self.budget.seconds_left
        if left is not None and seconds >= left:
            raise failed.error
        await self.world.sleep(seconds)

    async def reserve(self, worst: Worst) -> Worst:
        """Set aside what a call can cost, as soon as calls under way leave room for it.

        Raises ModelRefused where none is under way here that could.
        """
        while not self.budget.fits(worst) and self._open:
            self._settled.clear()
            await self._settled.wait()
        reserved = self.budget.reserve(worst)
        self._open += 1
        return reserved

    def settle(self, reserved: Worst, usage: Usage | None, usd: float | None) -> None:
        """As `Budget.settle`, for what was reserved here."""
        self.budget.settle(reserved, usage, usd)
        self._leave_room()

    def release(self, reserved: Worst) -> None:
        """As `Budget.release`, for what was reserved here."""
        self.budget.release(reserved)
        self._leave_room()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        self._connection = None
        self._settled = asyncio.Event()  # it belongs to the loop it was waited for in

    def _leave_room(self) -> None:
        self._open -= 1
        self._settled.set()


class Call:
    """A request on its way. `asking` while the server may be at work on it, and so be paid.

    `last` set: what is under way is finished, and nothing is tried again.
    """

    def __init__(self, line: Line, body: dict[str, Any]) -> None:
        self.asking = False
        self.last = False
        self._line = line
        self._worst = max_cost(body, line.model, line.rates)
        self._body = line.wire.body_to_post(body)

    async def answer(self) -> dict[str, Any]:
        """The message that answers.

        Raises RequestRefused where the server declines this request, ModelRefused where it
        declines altogether, stays unreachable, or the budget would be exceeded.
        """
        found: dict[str, Any] | Failed | None = None
        for attempt in range(self._line.attempts):
            try:
                found = await self._attempt()
            except ModelRefused as refused:
                if not isinstance(found, Failed):
                    raise
                said = f"{refused.message}, after a call that failed: {found.error.message}"
                raise ModelRefused(said, refused.hint) from refused
            if not isinstance(found, Failed):
                return found
            if not found.again or self.last or attempt == self._line.attempts - 1:
                raise found.error
            await self._line.wait(found, attempt)
        raise AssertionError("there is at least one attempt")

    async def _attempt(self) -> dict[str, Any] | Failed:
        """One exchange, paid for: what it cost takes the place of what was set aside."""
        reserved = await self._line.reserve(self._worst)
        self.asking = True
        found: dict[str, Any] | Failed | None = None
        free = False
        try:
            reply = await self._line.exchange("POST", self._line.wire.path, self._body)
            found = judged(reply, self._line.origin(streamed="stream" in self._body))
            free = isinstance(found, Failed) and not found.billed
            return found
        except ModelRefused:
            free = True
            raise
        finally:
            self.asking = False
            self._pay(reserved, None if isinstance(found, Failed) else found, free=free)

    def _pay(self, reserved: Worst, answer: dict[str, Any] | None, *, free: bool) -> None:
        if free:
            self._line.release(reserved)
            return
        spent = cost(answer, self._line.model, self._line.rates) if answer is not None else None
        usage = anthropic_usage(answer.get("usage")) if answer is not None else None
        self._line.settle(reserved, usage, None if spent is None else spent.usd)


def cost(answer: dict[str, Any], model: str, rates: Rates | None = None) -> Cost | None:
    """What an answer cost, None where no price is known for who gave it."""
    usage = anthropic_usage(answer.get("usage"))
    if rates is not None:
        return rates.price(usage)
    return prices.price(usage, answer.get("model"), model)


Body = dict[str, Any]
Arrival = tuple[int, Body | RequestRefused]


class Flight:
    """`ready` makes a body's call; `keep` takes each answer with its place and gives it as kept."""

    def __init__(
        self,
        bodies: Iterable[Body],
        *,
        ready: Callable[[Body], Call],
        keep: Callable[[int, Body], Body],
        most: int,
    ) -> None:
        self._bodies = enumerate(bodies)
        self._ready = ready
        self._keep = keep
        self._most = most
        self._calls: dict[asyncio.Task[Arrival], Call] = {}
        self._refusal: ModelRefused | None = None

    async def arrivals(self) -> list[Arrival]:
        """What came, by place, at least one; [] after the last.

        Raises ModelRefused where the model declined altogether, once all it did answer is out.
        """
        while self._sent():
            done, _ = await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
            arrived = [found for task in done if (found := self._landed(task)) is not None]
            if arrived:
                return sorted(arrived, key=lambda arrival: arrival[0])
        if self._refusal is not None:
            raise self._refusal
        return []

    @property
    def under_way(self) -> bool:
        return any(not task.done() for task in self._calls)

    async def cancel(self) -> None:
        """Drop all that is under way."""
        await cancelled(*self._calls)
        self._calls.clear()

    def _sent(self) -> bool:
        """Send as many as may be; is any under way?"""
        while self._refusal is None and len(self._calls) < self._most:
            place, body = next(self._bodies, (-1, None))
            if body is None:
                break
            call = self._ready(body)
            self._calls[asyncio.ensure_future(self._answered(place, call))] = call
        return bool(self._calls)

    async def _answered(self, place: int, call: Call) -> Arrival:
        try:
            answer = await call.answer()
        except RequestRefused as refused:
            return place, refused
        return place, self._keep(place, answer)

    def _landed(self, task: asyncio.Task[Arrival]) -> Arrival | None:
        del self._calls[task]
        if task.cancelled():
            return None
        error = task.exception()
        if isinstance(error, ModelRefused):
            self._end(error)
            return None
        return task.result()

    def _end(self, refusal: ModelRefused) -> None:
        self._refusal = self._refusal or refusal
        for task, call in self._calls.items():
            call.last = True
            if not call.asking:
                task.cancel()


T = TypeVar("T")

KEPT = "Completed calls are saved. Try: the same command, to run the rest"


class Loop:
    """`killed` says why nothing may go on, None where it may; asked every `poll_s` seconds."""

    def __init__(self, killed: Callable[[], str | None] = killed, poll_s: float = POLL_S) -> None:
        self._killed = killed
        self._poll_s = poll_s
        self._runner: asyncio.Runner | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._stopped = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end. Raises what it raises, and Stopped; then `work` is cancelled.

        Other tasks of the loop go on meanwhile and rest in between.
        """
        try:
            return self.finish(self._watched(work))
        except (asyncio.CancelledError, KeyboardInterrupt) as error:
            raise Stopped("stopped before the response", KEPT) from error

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run what has to be done whoever wants to stop."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(work)

    def stop(self) -> None:
        """End what is being waited for, and all waiting from now on. From any thread."""
        self._stopped = True
        waiting = self._waiting
        if waiting is not None:
            with suppress(RuntimeError):  # the loop was closed in this very moment
                waiting.get_loop().call_soon_threadsafe(waiting.cancel)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Drop what is under way, run `last`, close. From the thread that ran it."""
        if self._runner is None:
            return
        self.finish(_alone())
        self.finish(last())
        self._runner.close()
        self._runner = None

    async def _watched(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        self._waiting = asyncio.current_task()
        try:
            while not task.done():
                self._refuse_if_stopped()
                await asyncio.wait({task}, timeout=self._poll_s)
            return task.result()
        finally:
            self._waiting = None
            await cancelled(task)

    def _refuse_if_stopped(self) -> None:
        why = "stopped before the response" if self._stopped else self._killed()
        if why is not None:
            raise Stopped(why, KEPT)


async def _alone() -> None:
    await cancelled(*(asyncio.all_tasks() - {asyncio.current_task()}))


async def cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until they are gone."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


_MEDIA_TOKENS = 6000
"""More than any image or page is counted as."""

_TOOLS_TOKENS = 800
"""More than the provider's own words about tools, which no request shows, take."""


def max_cost(body: dict[str, Any], model: str, rates: Rates | None = None) -> Worst:
    """The most a request can cost: two characters a token, no answer shorter than its limit."""
    media, most = _media(body.get("messages", body.get("input"))), output_limit(body)
    size = len(digests.encode(body)) - sum(map(len, media))
    into = size // 2 + _MEDIA_TOKENS * len(media) + (_TOOLS_TOKENS if body.get("tools") else 0)
    usage = Usage(input_tokens=into, output_tokens=most, cache_write_tokens=into)
    cost = prices.price(usage, model) if rates is None else rates.price(usage)
    return Worst(tokens=into + most, usd=None if cost is None else cost.usd)


_DATA_FIELDS = ("url", "image_url", "file_data", "data")
"""Where OpenAI's APIs have a data URL."""


def _media(value: Json) -> list[str]:
    """Every base64 text in a value."""
    if isinstance(value, list):
        return [found for entry in value for found in _media(entry)]
    if not isinstance(value, dict):
        return []
    if value.get("type") == "base64":
        return [str(value.get("data", ""))]
    held = (value.get(name) for name in _DATA_FIELDS)
    data = [each for each in held if isinstance(each, str) and each.startswith("data:")]
    return data or [found for entry in value.values() for found in _media(entry)]
