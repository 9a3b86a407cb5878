"""Runs as they happen: what agents send is received, and written as it comes.

The server's thread receives; another one writes, at once where it has nothing to do, and never more
than half of the time, so that a trace of many spans is not put together anew for each of them. What
was sent is acknowledged once its trace is committed: a kill of the process takes nothing that was.
Spans of a trace in which no agent, model or tool was heard of yet are no run and are not written:
they wait in memory, and are acknowledged, until one is. After a power cut SQLite may lack the last
commits, never a part of one.
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from arc_tui.live import LOOPBACK
from arc_tui.live.desk import Desk, Written
from arc_tui.live.growing import Grown, Traces
from arc_tui.live.pace import LEAST_PAUSE_S, LOOK_S, Commits, first_of
from replay.errors import ArcError
from replay.formats.otlp.held import Record
from replay.store.handle import now_ns
from replay.store.trouble import StoreBusy

Take = Callable[[list[Record]], Awaitable[bool]]
Tell = Callable[[Written], None]


async def listen(
    path: Path, *, port: int, ready: Callable[[int], None], tell: Tell, stop: asyncio.Event
) -> None:
    """Receive on loopback until `stop`, then write what is left.

    Port 0 is any that is free; `ready` is told which. `tell` hears of every write. Raises ArcError
    where the port is taken.
    """
    traces, commits = Traces(), Commits()

    def take(records: list[Record]) -> Awaitable[bool]:
        traces.add(records, time.monotonic())
        return commits.awaited()

    async with _desk(path) as write:

        async def commit(now_s: float) -> None:
            found = [*traces.over(now_s), *traces.arrived()]
            with suppress(StoreBusy), commits.committing():
                try:
                    await write(found, tell)
                except StoreBusy:  # another process writes: who sent it is told to send it again
                    traces.take_back(found, now_s)
                    raise

        async with _serving(take, port) as bound:
            ready(bound)
            while not stop.is_set():
                await first_of(commits.news, stop, seconds=LOOK_S)
                began_s = time.monotonic()
                await commit(began_s)
                took_s = time.monotonic() - began_s
                await first_of(stop, seconds=max(took_s, LEAST_PAUSE_S))
            await commit(time.monotonic())  # for who still waits for an answer
        await write(traces.all_over(), tell)


Write = Callable[[list[Grown], Tell], "asyncio.Future[None]"]


@asynccontextmanager
async def _desk(path: Path) -> AsyncIterator[Write]:
    """Write in a thread of its own: a store never crosses threads, and the server goes on."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, thread_name_prefix="arc-desk") as thread:
        desk = await loop.run_in_executor(thread, Desk, path)

        def work(found: list[Grown], tell: Tell) -> None:
            for grown in found:
                written = desk.write(grown)
                if written is not None:
                    loop.call_soon_threadsafe(tell, written)
            desk.keep_live(now_ns())

        try:
            yield lambda found, tell: loop.run_in_executor(thread, work, found, tell)
        finally:
            await loop.run_in_executor(thread, desk.close)


@asynccontextmanager
async def _serving(take: Take, port: int) -> AsyncIterator[int]:
    """The server on its port, which it yields."""
    from aiohttp import web

    from arc_tui.live.receiver import application

    runner = web.AppRunner(
        application(take), access_log=None, auto_decompress=False, shutdown_timeout=1.0
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, LOOPBACK, port)
        try:
            await site.start()
        except OSError as error:
            raise _no_port(port, error) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _no_port(port: int, error: OSError) -> ArcError:
    if error.errno == errno.EADDRINUSE:
        return ArcError(
            f"{LOOPBACK}:{port} is taken, by another `arc listen` or by a collector",
            "stop that one, or choose another port with --port",
        )
    why = (error.strerror or str(error)).lower()
    return ArcError(f"{LOOPBACK}:{port} cannot be listened on: {why}", "choose another with --port")
