"""Every screen of the app by its keys: from the list of runs on, each key of each screen is pressed
once, and what a key opens is gone through likewise: a box by itself wherever it opens, and the
screen that it came with once it is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.worker import Worker

from arc_tui.app import ArcApp
from arc_tui.features.runs.screen import RunsScreen
from tests.screen import handled, settle

Way = tuple[str, ...]
"""Keys from the list of runs on."""

LEAVES = frozenset({"q", "ctrl+q", "escape"})
MOVES = frozenset({"j", "k", "g", "G", "ctrl+d", "ctrl+u", "tab", "shift+tab"})
SIZE = (100, 30)
PATIENCE_S = 5.0
"""Nothing depends on it but how far the screen has come when it is looked at."""


async def crawl(
    path: Path,
    look: Callable[[ArcApp, Way], None],
    *,
    most: int = 1_000,
    screens: int = 1_000,
) -> dict[str, int]:
    """How many keys were pressed on each screen, `most` of each of so many screens. `look` is
    called after each, with the keys that led there from the start."""
    pressed: dict[str, int] = {}
    ways: list[tuple[str, Way]] = [(RunsScreen.__name__, ())]
    for place, way in ways:  # which grows meanwhile
        if place in pressed or len(pressed) == screens:
            continue
        pressed[place] = 0
        waiting: list[str] | None = None
        while waiting is None or waiting:
            async with _opened(path, way) as pilot:
                front, here = pilot.app.screen, _here(pilot)
                if waiting is None:
                    waiting = _keys(pilot)[:most]
                look(_app(pilot), way)
                while waiting:
                    key = waiting.pop(0)
                    await _press(pilot, key)
                    pressed[place] += 1
                    look(_app(pilot), (*way, key))
                    if pilot.app.screen is not front:
                        ways += _led(pilot, (*way, key))
                    if not await _back(pilot, here):
                        break  # no key leads back from there: it is opened anew
    return pressed


@asynccontextmanager
async def _opened(path: Path, way: Way) -> AsyncIterator[Pilot[None]]:
    app = ArcApp(path)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await settle(pilot)
        for key in way:
            await _press(pilot, key)
        yield pilot


def _led(pilot: Pilot[None], way: Way) -> Iterator[tuple[str, Way]]:
    """Where a key led: the screen in front, or a box by what opened it and the screen below it."""
    names = [type(each).__name__ for each in pilot.app.screen_stack]
    if _is_box(pilot) and len(names) > 1:
        yield f"{names[-1]} of {names[-2]} by {way[-1]}", way
        yield names[-2], (*way, "escape")
    else:
        yield names[-1], way


async def _press(pilot: Pilot[None], key: str) -> None:
    """Press it and wait for what it does, but not for a worker that waits for a person."""
    await pilot.press(key)
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            await handled(pilot)
            while any(_works(pilot, worker) for worker in pilot.app.workers):
                await asyncio.sleep(0.01)
                await handled(pilot)
            await pilot.pause()


def _works(pilot: Pilot[None], worker: Worker[object]) -> bool:
    """Is it busy, and not one of a screen below the box that a person is to answer?"""
    top = pilot.app.screen
    waits = (
        isinstance(top, ModalScreen) and worker.node is not top and worker.node.screen is not top
    )
    return not worker.is_finished and not waits


async def _back(pilot: Pilot[None], here: tuple[object, ...]) -> bool:
    """Back to where one was by escape, if need be; is it that place?"""
    for _ in range(4):
        if _here(pilot) == here:
            return True
        await _press(pilot, "escape")
    return _here(pilot) == here


def _here(pilot: Pilot[None]) -> tuple[object, ...]:
    """Where one is: the screen, what lies below it, and what the keys go to."""
    focused = pilot.app.focused
    name = type(pilot.app.screen).__name__
    return name, len(pilot.app.screen_stack), focused and (focused.id, type(focused))


def _keys(pilot: Pilot[None]) -> list[str]:
    """One key of each action of our own that the screen offers, those that only move last; a box
    is the same everywhere, so there they are left out."""
    found: dict[str, str] = {}
    for key, active in pilot.app.screen.active_bindings.items():
        if active.enabled and active.binding.id and key not in LEAVES:
            found.setdefault(active.binding.action, key)
    keys = sorted(found.values(), key=lambda key: key in MOVES)
    return [key for key in keys if key not in MOVES] if _is_box(pilot) else keys


def _is_box(pilot: Pilot[None]) -> bool:
    return type(pilot.app.screen).__name__.endswith("Box")


def _app(pilot: Pilot[None]) -> ArcApp:
    assert isinstance(pilot.app, ArcApp)
    return pilot.app
