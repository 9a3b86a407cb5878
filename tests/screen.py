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
from textual.worker import WorkerCancelled, WorkerFailed

GOLDENS = Path(__file__).parent / "goldens"


async def settle(pilot: Pilot[None]) -> None:
    """Wait until the workers are done and what they posted has been drawn.

    What they posted may start others: it is over when a round finds none.
    """
    await pilot.pause()
    while running := [worker for worker in pilot.app.workers if not worker.is_finished]:
        for worker in running:
            with suppress(WorkerCancelled, WorkerFailed):
                await worker.wait()
        await _heard(pilot.app)
        await pilot.pause()


async def _heard(app: App[None]) -> None:
    """Wait until the screen has taken in everything that was posted to it before."""
    heard = asyncio.Event()
    if app.screen.call_later(heard.set):
        await heard.wait()


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
