"""Several requests under way at once, and what becomes of the others when one ends them all.

At most so many are in flight. Each answer is handed over in the moment it came, so that nothing
that happens to the rest can lose it. When the model declines altogether, no other request is sent,
those at the server are waited for (they are paid), and those that only wait are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from replay.errors import ModelRefused, RequestRefused
from replay.models.call import Call
from replay.models.loop import cancelled

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
