"""Every screen of the app by its keys: from the list of runs on, each key of each screen is pressed
once, and what a key opens is gone through likewise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from textual.pilot import Pilot

from arc_tui.app import ArcApp
from tests.screen import settle

LEAVES = frozenset({"q", "ctrl+q", "escape"})
MOVES = frozenset({"j", "k", "g", "G", "ctrl+d", "ctrl+u", "tab", "shift+tab"})
SIZE = (100, 30)
PATIENCE_S = 5.0
"""Nothing depends on it but how far the screen has come when it is looked at."""


async def crawl(
    path: Path,
    look: Callable[[ArcApp, tuple[str, ...]], None],
    *,
    most: int = 1_000,
    screens: int = 1_000,
) -> dict[str, int]:
    """How many keys were pressed on each screen, `most` of each of so many screens. `look` is
    called after each, with the keys that led there from the start."""
    pressed: dict[str, int] = {}
    ways: list[tuple[str, ...]] = [()]
    while ways and len(pressed) < screens:
        way = ways.pop(0)
        waiting: list[str] | None = None
        while waiting is None or waiting:
            async with _opened(path, way) as pilot:
                name, place = _name(pilot), _place(pilot)
                if waiting is None:
                    if name in pressed:
                        break
                    waiting, pressed[name] = _keys(pilot)[:most], 0
                look(_app(pilot), way)
                while waiting:
                    key = waiting.pop(0)
                    await _press(pilot, key)
                    pressed[name] += 1
                    look(_app(pilot), (*way, key))
                    if _name(pilot) not in pressed:
                        ways.append((*way, key))
                    if not await _back(pilot, place):
                        break  # no key leads back from there: it is opened anew
    return pressed


@asynccontextmanager
async def _opened(path: Path, way: tuple[str, ...]) -> AsyncIterator[Pilot[None]]:
    app = ArcApp(path)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await settle(pilot)
        for key in way:
            await _press(pilot, key)
        yield pilot


async def _press(pilot: Pilot[None], key: str) -> None:
    """Press it and wait for what it does, but not for a worker that waits for a person."""
    await pilot.press(key)
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            await settle(pilot)


async def _back(pilot: Pilot[None], place: tuple[object, ...]) -> bool:
    """Back to the place by escape, if need be; is it that one?"""
    for _ in range(4):
        if _place(pilot) == place:
            return True
        await _press(pilot, "escape")
    return _place(pilot) == place


def _place(pilot: Pilot[None]) -> tuple[object, ...]:
    """Where one is: the screen, what lies below it, and what the keys go to."""
    focused = pilot.app.focused
    return _name(pilot), len(pilot.app.screen_stack), focused and (focused.id, type(focused))


def _keys(pilot: Pilot[None]) -> list[str]:
    """One key of each action of our own that the screen offers, those that only move last."""
    found: dict[str, str] = {}
    for key, active in pilot.app.screen.active_bindings.items():
        if active.enabled and active.binding.id and key not in LEAVES:
            found.setdefault(active.binding.action, key)
    return sorted(found.values(), key=lambda key: key in MOVES)


def _name(pilot: Pilot[None]) -> str:
    return type(pilot.app.screen).__name__


def _app(pilot: Pilot[None]) -> ArcApp:
    assert isinstance(pilot.app, ArcApp)
    return pilot.app
