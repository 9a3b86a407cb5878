"""A model behind the Messages API: Claude, or anything that a compatible server serves.

Owns what stands between one request and one answer: the budget, what is tried again and how long
to wait, and what may count as an answer at all. The sample number never goes on the wire; the API
has no seed, so another sample is the same request asked again.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from replay import canon, prices
from replay.budget import Budget, Worst
from replay.convert import API
from replay.errors import ModelRefused, Stopped
from replay.formats.normal import anthropic_usage
from replay.models.received import Asked, Failed, judged
from replay.models.wire import Wire, connect
from replay.trace import Cost, Json, Usage

OFFICIAL = "https://api.anthropic.com"
STREAM_ABOVE = 16_000
"""A larger `max_tokens` is streamed: the answer may take longer than a silent connection lasts."""

ATTEMPTS = 5
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0
_MEDIA_TOKENS = 6000


class Claude:
    """A live model. Use as a context manager, or `close` it.

    `base_url` defaults to ANTHROPIC_BASE_URL. `sleep`, `jitter` (0..1) and `clock` (seconds since
    the epoch) are the world outside. One thread asks; any thread may `stop`.
    """

    def __init__(
        self,
        name: str,
        *,
        budget: Budget,
        base_url: str | None = None,
        timeout_s: float = 600.0,
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.budget = budget
        self._base_url = _checked(base_url or os.environ.get("ANTHROPIC_BASE_URL") or OFFICIAL)
        self._timeout_s = timeout_s
        self._attempts = attempts
        self._sleep = sleep
        self._jitter = jitter
        self._clock = clock
        self._runner: asyncio.Runner | None = None
        self._wire: Wire | None = None
        self._task: asyncio.Task[Any] | None = None
        self._stopped = False

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        """The message that answers `body`.

        Raises RequestRefused where the server declines this request, ModelRefused where it
        declines altogether, stays unreachable, or the budget would be exceeded, and Stopped after
        `stop`.
        """
        del sample  # the API has no seed
        if self._runner is None:
            self._runner = asyncio.Runner()
        try:
            return self._runner.run(self._ask(body))
        except asyncio.CancelledError as error:
            raise Stopped("stopped before the answer came", "what was answered is kept") from error

    def stop(self) -> None:
        """Cancel the call in flight and refuse further ones. From any thread."""
        self._stopped = True
        task = self._task
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)

    def close(self) -> None:
        """Close the connection. From the thread that asked."""
        if self._runner is None:
            return
        if self._wire is not None:
            self._runner.run(self._wire.close())
        self._runner.close()
        self._runner = self._wire = None

    def __enter__(self) -> Claude:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def cost(self, answer: dict[str, Any]) -> Cost | None:
        """What an answer cost, None where the model has no known price."""
        return prices.price(anthropic_usage(answer.get("usage")), answer.get("model"), self.name)

    async def _ask(self, body: dict[str, Any]) -> dict[str, Any]:
        self._task = asyncio.current_task()
        try:
            return await self._tried(body)
        finally:
            self._task = None

    async def _tried(self, body: dict[str, Any]) -> dict[str, Any]:
        worst = _worst(body, self.name)
        sent = {**body, "stream": True} if body["max_tokens"] > STREAM_ABOVE else body
        for attempt in range(self._attempts):
            found = await self._attempt(sent, worst)
            if not isinstance(found, Failed):
                return found
            if not found.again or attempt == self._attempts - 1:
                raise found.error
            await self._sleep(self._wait_s(attempt, found.wait_s))
        raise AssertionError("there is at least one attempt")

    async def _attempt(self, body: dict[str, Any], worst: Worst) -> dict[str, Any] | Failed:
        """One exchange, paid for: what it cost takes the place of what was set aside."""
        if self._stopped:
            raise asyncio.CancelledError
        reserved = self.budget.reserve(worst)
        usage, cost, free = None, None, False
        try:
            if self._wire is None:
                self._wire = connect(self._base_url, API)
            left = self.budget.seconds_left
            timeout_s = self._timeout_s if left is None else min(self._timeout_s, left)
            reply = await self._wire.exchange(body, timeout_s)
            asked = Asked(self.name, self._base_url, "stream" in body, self._clock())
            found = judged(reply, asked)
            if isinstance(found, Failed):
                free = not found.billed
            else:
                usage, cost = anthropic_usage(found.get("usage")), self.cost(found)
            return found
        except ModelRefused:
            free = True
            raise
        finally:
            if free:
                self.budget.release(reserved)
            else:
                self.budget.settle(reserved, usage, None if cost is None else cost.usd)

    def _wait_s(self, attempt: int, asked_s: float | None) -> float:
        """What the server asked for, else twice as long each time, a little less by chance."""
        if asked_s is not None:
            return asked_s
        return min(FIRST_WAIT_S * 2.0**attempt, LONGEST_WAIT_S) * (1 - 0.25 * self._jitter())


def _checked(base_url: str) -> str:
    if base_url.rstrip("/").endswith("/v1"):
        raise ModelRefused(
            f"ANTHROPIC_BASE_URL must not end in /v1, which is added: {base_url}",
            f"set it to {base_url.rstrip('/').removesuffix('/v1')}",
        )
    return base_url


def _worst(body: dict[str, Any], model: str) -> Worst:
    """The most a request can cost: two characters a token, no answer shorter than its limit."""
    size = len(canon.encode(body)) - sum(map(len, _media(body["messages"])))
    into = size // 2 + _MEDIA_TOKENS * sum(1 for _ in _media(body["messages"]))
    usage = Usage(input_tokens=into, output_tokens=body["max_tokens"], cache_write_tokens=into)
    cost = prices.price(usage, model)
    return Worst(tokens=into + body["max_tokens"], usd=None if cost is None else cost.usd)


def _media(value: Json) -> list[str]:
    """Every base64 text in a value."""
    if isinstance(value, list):
        return [found for entry in value for found in _media(entry)]
    if not isinstance(value, dict):
        return []
    if value.get("type") == "base64":
        return [str(value.get("data", ""))]
    return [found for entry in value.values() for found in _media(entry)]
