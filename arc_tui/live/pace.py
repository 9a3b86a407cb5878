"""How one waits who writes what others send: for news, for an end, and never busily."""

from __future__ import annotations

import asyncio

LEAST_PAUSE_S = 0.05
LOOK_S = 1.0
"""How often it is looked what is over, though nothing new came."""


async def first_of(*events: asyncio.Event, seconds: float) -> None:
    """Until one of them happens or the time is over."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
