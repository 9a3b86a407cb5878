"""What all calls to one server share: the connection, the budget, and how long to wait.

A `Line` sends what costs nothing by itself (what models are there, how is a batch); a `Call` asks
for an answer over it and pays.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

from replay.budget import Budget, Worst
from replay.convert import API
from replay.models import server
from replay.models.received import Asked, Failed, declined
from replay.models.wire import Reply, Wire, connect
from replay.trace import Usage

ATTEMPTS = 5
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0
LEAST_S = 10.0
"""Time for what costs nothing, though the minutes allowed end meanwhile."""


class World(NamedTuple):
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
        world: World,
    ) -> None:
        self.model = model
        self.budget = budget
        self.attempts = attempts
        self.world = world
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._wire: Wire | None = None
        self._open = 0
        self._settled = asyncio.Event()

    def asked(self, *, streamed: bool = False) -> Asked:
        """What a reply that comes now answers."""
        where = server.address(self._base_url)
        return Asked(self.model, where, streamed, self.world.clock())

    async def exchange(
        self, method: str, path: str, body: dict[str, Any] | None, *, least_s: float = 0.001
    ) -> Reply:
        """Send once; what is left of the minutes allowed, but `least_s`, is a timeout too.

        Raises ModelRefused where there is no key.
        """
        if self._wire is None:
            self._wire = connect(self._base_url, API)
        left = self.budget.seconds_left
        timeout_s = self._timeout_s if left is None else min(self._timeout_s, max(left, least_s))
        return await self._wire.send(method, path, body, timeout_s)

    async def fetch(
        self, method: Literal["GET", "POST"], path: str, body: dict[str, Any] | None = None
    ) -> Reply | None:
        """What is free and may be asked twice; None where the server has nothing there (404).

        Raises ModelRefused where it declines, or stays unreachable.
        """
        for attempt in range(self.attempts):
            reply = await self.exchange(method, path, body, least_s=LEAST_S)
            if reply.status == 404:
                return None
            failed = declined(reply, self.asked())
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
        if self._wire is not None:
            await self._wire.close()
        self._wire = None
        self._settled = asyncio.Event()  # it belongs to the loop it was waited for in

    def _leave_room(self) -> None:
        self._open -= 1
        self._settled.set()
