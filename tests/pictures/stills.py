"""One screen each, as it looks when somebody has come there."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from arc_tui.app import ArcApp
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.places import fixtures
from replay.store.rows import trace_row
from taxonomy.judgements.schema import open_ledger
from tests.pictures.svg import still
from tests.screen import settle

SIZE = (124, 34)
BROKEN = "shop-many-wishes-v5-0"
"""The run of the README's tour: its prompt lost the sentence that makes the agent look."""


async def runs(database: Path) -> str:
    async with ArcApp(database).run_test(size=SIZE) as pilot:
        await settle(pilot)
        return drawn(pilot, "runs")


async def trace(database: Path) -> str:
    async with ArcApp(database).run_test(size=SIZE) as pilot:
        await opened(pilot, database, "26/1")
        return drawn(pilot, "trace")


async def replay(database: Path) -> str:
    async with ArcApp(database).run_test(size=SIZE) as pilot:
        await opened(pilot, database, BROKEN)
        await edited(pilot)
        return drawn(pilot, "replay")


async def bisect(database: Path) -> str:
    async with ArcApp(database).run_test(size=SIZE) as pilot:
        await opened(pilot, database, BROKEN)
        await bisected(pilot, 3, 4, 5)
        return drawn(pilot, "bisect")


async def failures(database: Path) -> str:
    async with ArcApp(database).run_test(size=SIZE) as pilot:
        await settle(pilot)
        await press(pilot, "A")
        return drawn(pilot, "failures")


async def opened(pilot: Pilot[None], database: Path, name: str) -> None:
    with open_ledger(database) as store:
        key = trace_row(store, name).trace
    pilot.app.push_screen(TraceScreen(database, key))
    await settle(pilot)


async def edited(pilot: Pilot[None]) -> None:
    """Asked again under the prompt that still had the sentence."""
    await press(pilot, "e")
    pilot.app.screen.query_one(TextArea).load_text(prompt(4).read_text())
    await pilot.press("ctrl+s")
    await pilot.pause()  # it waits for a name
    await press(pilot, "enter")  # the one it offers


async def bisected(pilot: Pilot[None], *versions: int) -> None:
    """Which of these versions of the prompt broke the run?"""
    await press(pilot, "b")
    pilot.app.screen.query_one(Input).value = " ".join(str(prompt(each)) for each in versions)
    await press(pilot, "enter", "r")


def prompt(version: int) -> Path:
    return fixtures() / "demo" / "prompts" / f"v{version}.md"


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def drawn(pilot: Pilot[None], name: str) -> str:
    return still(pilot.app.export_screenshot(title="arc"), name)
