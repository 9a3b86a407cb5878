"""`python -m tests.pictures`: the pictures of the README, drawn by the real app.

The trace is a real run (the airline run beside the checkout, so `../shared` must be there), the
replay the bundled tour under an older prompt. Fonts are left to whoever looks: nothing is fetched.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

from textual.widgets import TextArea

from arc_tui.app import ArcApp
from arc_tui.jobs import importing
from arc_tui.places import fixtures
from arc_tui.screens.trace.screen import TraceScreen
from replay.store.rows import trace_row
from taxonomy.ledger import open_ledger
from tests.screen import settle
from tests.shared import DATA

PICTURES = Path(__file__).parent / "pictures"
SIZE = (124, 34)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        real = Path(folder) / "airline.db"
        take_in(real, DATA / "tau_bench" / "gpt-4o-airline.json")
        save("trace", asyncio.run(trace_picture(real, "26/1")))
        demo = Path(folder) / "demo.db"
        take_in(demo, fixtures() / "traces" / "shop-many-wishes-v5-0.jsonl")
        prompt = (fixtures() / "demo" / "prompts" / "v4.md").read_text()
        save("replay", asyncio.run(replay_picture(demo, "shop-many-wishes-v5-0", prompt)))


def take_in(database: Path, source: Path) -> None:
    with open_ledger(database) as store:
        for _ in importing.import_paths(store, [source]):
            pass


def key_of(database: Path, name: str) -> str:
    with open_ledger(database) as store:
        return trace_row(store, name).trace


async def trace_picture(database: Path, name: str) -> str:
    app = ArcApp(database)
    async with app.run_test(size=SIZE) as pilot:
        app.push_screen(TraceScreen(database, key_of(database, name)))
        await settle(pilot)
        return app.export_screenshot(title="arc")


async def replay_picture(database: Path, name: str, prompt: str) -> str:
    app = ArcApp(database)
    async with app.run_test(size=SIZE) as pilot:
        app.push_screen(TraceScreen(database, key_of(database, name)))
        await settle(pilot)
        await pilot.press("e")
        await settle(pilot)
        app.screen.query_one(TextArea).load_text(prompt)
        await pilot.press("ctrl+s")
        await pilot.pause()
        await pilot.press("enter")  # the name it offers
        await settle(pilot)
        return app.export_screenshot(title="arc")


def save(name: str, svg: str) -> None:
    """The picture without the fonts it would fetch, and with ids that do not change."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)
    unique = re.search(r"terminal-(\d+)", svg)
    if unique:
        svg = svg.replace(unique.group(), f"arc-{name}")
    (PICTURES / f"{name}.svg").write_text(svg)


if __name__ == "__main__":
    main()
