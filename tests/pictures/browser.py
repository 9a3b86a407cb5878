"""The app as a browser shows it: `arc serve` and a real Chromium, so this one is a PNG."""

from __future__ import annotations

import asyncio
from pathlib import Path

from arc_tui.serve.server import serve
from tests.browser import chromium


async def served(database: Path) -> bytes:
    """The list of runs in a tab."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    said: list[str] = []
    server = asyncio.create_task(
        serve(database, port=0, ready=ready.set_result, tell=said.append, stop=stop)
    )
    async with chromium() as browser:
        page = await browser.page(await ready)
        await page.shows("58 runs")
        await page.settle()
        picture = await page.picture()
    stop.set()
    await server
    return picture
