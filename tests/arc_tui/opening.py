"""The app with a screen at its bottom: what stands below it otherwise is not built or drawn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from textual.app import App
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.ui.screen import ArcScreen
from arc_tui.ui.themes import DARK
from tests.screen import matches_golden, settle, text

SIZES = ((80, 24), (120, 40))
WIDE = (160, 48)
PATIENCE_S = 300.0
"""For what a worker or another process has to say first."""


class Bare(App[None]):
    """An app with our theme, for a widget alone."""

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme = DARK.name


def begun_at(screen: ArcScreen) -> ArcApp:
    """An app with that screen at its bottom."""
    app = ArcApp(screen.path)
    app.get_default_screen = lambda: app.apply_sheets(screen)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def opened(
    screen: ArcScreen, size: tuple[int, int] = SIZES[1], *, below: bool = False
) -> AsyncIterator[Pilot[None]]:
    """The screen alone, settled; with the list of runs `below` it where a key may leave it."""
    app = ArcApp(screen.path) if below else begun_at(screen)
    async with app.run_test(size=size, notifications=True) as pilot:
        if below:
            app.push_screen(screen)
        await settle(pilot)
        yield pilot


async def looks_like(
    pilot: Pilot[None], name: str, sizes: Sequence[tuple[int, int]] = SIZES
) -> None:
    """The screen is its golden at those sizes; it is left at the size that it had."""
    had = pilot.app.size
    for width, height in sorted(sizes, key=lambda size: size != had):
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
