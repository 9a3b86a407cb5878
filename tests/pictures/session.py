"""A recorded session: from the list of runs to the Pareto, as the app really drew it."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from arc_tui.app import ArcApp
from tests.pictures.stills import BROKEN, bisected, edited, opened, press
from tests.pictures.svg import Frame, film
from tests.screen import settle

SIZE = (110, 30)


async def recorded(database: Path) -> str:
    frames: list[Frame] = []
    async with ArcApp(database).run_test(size=SIZE) as pilot:
        await settle(pilot)
        frames.append(taken(pilot, "arc: every run, its outcome, and why it broke", 4))
        await press(pilot, "f")
        frames.append(taken(pilot, "f: only the failed ones", 3))
        await opened(pilot, database, BROKEN)
        frames.append(
            taken(pilot, "enter: the run opens at its break candidate, with the evidence", 5)
        )
        await press(pilot, "2")
        frames.append(taken(pilot, "2: the request of this step", 3.5))
        await press(pilot, "e")
        frames.append(taken(pilot, "e: edit the prompt", 3))
        await edited(pilot)
        frames.append(taken(pilot, "ctrl+s: every step replayed with the older prompt", 6))
        await press(pilot, "escape")
        await bisected(pilot, 3, 4, 5)
        frames.append(taken(pilot, "b: which version of the prompt broke it?", 5))
        await press(pilot, "escape")
        await press(pilot, "t", "h")
        frames.append(taken(pilot, "t, h: tagged as hallucinated state", 3.5))
        await press(pilot, "escape", "A")
        frames.append(taken(pilot, "A: what to fix first, over all runs", 5))
    return film(frames)


def taken(pilot: Pilot[None], caption: str, seconds: float) -> Frame:
    return Frame(pilot.app.export_screenshot(), caption, seconds)
