"""How one waits who writes what others send, and how they wait until it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

LEAST_PAUSE_S = 0.01
LOOK_S = 1.0
"""How often it is looked what is over, though nothing new came."""


async def first_of(*events: asyncio.Event, seconds: float) -> None:
    """Until one of them happens or the time is over."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


class Commits:
    """Who waits until what they brought is committed; `news` is set while somebody does."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self._waiting: list[asyncio.Future[bool]] = []

    def awaited(self) -> asyncio.Future[bool]:
        """Becomes True once everything that was brought until now is committed, False where that
        failed."""
        found: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(found)
        self.news.set()
        return found

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Around the commit of everything that was brought until now."""
        waiting, self._waiting = self._waiting, []
        self.news.clear()
        done = False
        try:
            yield
            done = True
        finally:
            for each in waiting:
                if not each.done():
                    each.set_result(done)
