"""What a browser shows, a real Chromium: the app by `arc serve`, and the report that is kept. So
these are PNGs.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from arc_tui.serve.server import serve
from tests.arc_tui.report_case import opened
from tests.browser import chromium
from tests.docs import example


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


async def reported(_: Path) -> bytes:
    """The report that is kept as an example."""
    async with chromium() as browser:
        page = await browser.page("about:blank")
        await page.say(
            "Emulation.setDeviceMetricsOverride",
            width=1240, height=880, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        await opened(page, example.FILE)
        await page.settle()
        return await page.picture()
