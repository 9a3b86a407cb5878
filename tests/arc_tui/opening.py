"""The app with a screen at its bottom: what stands below it otherwise is not built or drawn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.screens.base import ArcScreen
from tests.screen import matches_golden, settle, text

SIZES = ((80, 24), (120, 40))
PATIENCE_S = 300.0
"""For what a worker or another process has to say first."""


@asynccontextmanager
async def opened(
    screen: ArcScreen, size: tuple[int, int] = SIZES[1], *, below: bool = False
) -> AsyncIterator[Pilot[None]]:
    """The screen alone, settled; with the list of runs `below` it where a key may leave it."""
    app = ArcApp(screen.path)
    if not below:
        app.get_default_screen = lambda: screen  # type: ignore[method-assign, assignment, return-value]
    async with app.run_test(size=size, notifications=True) as pilot:
        if below:
            app.push_screen(screen)
        await settle(pilot)
        yield pilot


async def looks_like(pilot: Pilot[None], name: str) -> None:
    """The screen is its golden at every size; it is left at the size that it had."""
    had = pilot.app.size
    for width, height in sorted(SIZES, key=lambda size: size != had):
        await pilot.resize_terminal(width, height)
        await settle(pilot)
        matches_golden(pilot.app, f"{name}_{width}x{height}")
    await pilot.resize_terminal(*had)
    await settle(pilot)


async def until(pilot: Pilot[None], said: str) -> None:
    """Wait for words on the screen: a worker that asks a person ends only with the answer."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while said not in text(pilot.app):
                await pilot.pause(0.01)
    except TimeoutError:
        raise AssertionError(text(pilot.app)) from None
