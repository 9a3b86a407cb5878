"""The real app as plain text: what a terminal of a given size would show, row by row.

A golden is such a picture in `tests/goldens`; `ARC_UPDATE_GOLDENS=1` writes them anew.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from io import StringIO
from pathlib import Path

from rich.console import Console
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.worker import WorkerCancelled, WorkerFailed

GOLDENS = Path(__file__).parent / "goldens"

FRAME_S = 1 / 60
"""Textual draws so often; a layout may ask for another one, in the next frame."""


async def settle(pilot: Pilot[None]) -> None:
    """Wait until the workers are done and what they posted has been drawn.

    What they posted may start others, and so may what is drawn: it is over when a round finds none.
    Nothing is drawn on purpose as long as there are any.
    """
    while True:
        await handled(pilot)
        running = [worker for worker in pilot.app.workers if not worker.is_finished]
        for worker in running:
            with suppress(WorkerCancelled, WorkerFailed):
                await worker.wait()
        if running:
            continue
        await pilot.pause()
        still = await drawn(pilot) and due_in_s(asyncio.get_running_loop()) != 0
        if still and all(worker.is_finished for worker in pilot.app.workers):
            return


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys, each once everything the one before led to is done and drawn."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def handled(pilot: Pilot[None]) -> None:
    """Wait until every message is handled, and those that handling them posted; an app that a bug
    ended handles none any more."""
    await pilot._wait_for_screen()
    loop = asyncio.get_running_loop()
    while due_in_s(loop) == 0:
        await asyncio.sleep(0)


async def drawn(pilot: Pilot[None]) -> bool:
    """Wait until everything that changed is laid out and drawn. Was it so from the beginning?
    An app that a bug ended draws nothing any more."""
    if pilot.app.return_code is None:
        await pilot.app.animator.wait_until_complete()
    whole = True
    while pilot.app.return_code is None and any(map(_is_changing, pilot.app.screen_stack)):
        whole = False
        await asyncio.sleep(FRAME_S)
    return whole


def _is_changing(screen: Screen[object]) -> bool:
    return screen._update_timer._active.is_set() or bool(screen._callbacks)


def due_in_s(loop: asyncio.AbstractEventLoop) -> float | None:
    """When the loop has something to do: 0 at once, None where nothing but the outside can say."""
    if loop._ready:  # type: ignore[attr-defined]
        return 0
    times = [each.when() for each in loop._scheduled if not each.cancelled()]  # type: ignore[attr-defined]
    return max(0, min(times) - loop.time()) if times else None


def rows(app: App[None]) -> list[str]:
    """The screen's lines of text, without the blanks at their ends."""
    width, height = app.size
    console = Console(
        width=width,
        height=height,
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
    )
    console.print(
        app.screen._compositor.render_update(full=True, screen_stack=app.screen_stack[:-1])
    )
    return [line.rstrip() for line in console.export_text().split("\n")[:height]]


def text(app: App[None]) -> str:
    return "\n".join(rows(app)) + "\n"


def matches_golden(app: App[None], name: str) -> None:
    """The screen looks as it did when someone last looked at it and said so."""
    path = GOLDENS / f"{name}.txt"
    drawn = text(app)
    if os.environ.get("ARC_UPDATE_GOLDENS"):
        path.write_text(drawn)
    assert drawn == path.read_text()
