"""A tab of a browser and the process of the app that draws into it: they begin and end together."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from aiohttp import WSMsgType, web
from msgspec import Struct

from arc_tui.live.serving import packets
from arc_tui.live.serving.packets import Asked, Size
from arc_tui.live.serving.tab import Opening, greeting

END_WITHIN_S = 10.0

_TERMINAL = {
    "TERM": "xterm-256color",
    "COLORTERM": "truecolor",
    "TEXTUAL_COLOR_SYSTEM": "truecolor",
}
"""What the terminal of the page can show, whatever the one can in which it is served."""


class Served(Struct, frozen=True):
    """The database that a tab shows, and its key where it has one."""

    path: Path
    key: str | None


async def carry(socket: web.WebSocketResponse, served: Served, size: Size) -> None:
    """Start the app for a tab, and carry what is typed and shown until either side ends."""
    process = await _start(served, size)
    showing = asyncio.create_task(_show(process, socket))
    try:
        await _listen(socket, process)
    finally:
        await _end(process)
        await showing


async def _start(served: Served, size: Size) -> Process:
    """The app as a process; what it says on stderr stands where `arc serve` says things."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # nothing is imported from the folder it is started in
        "-m",
        "arc_tui.live.serving.tab",
        stdin=PIPE,
        stdout=PIPE,
        env={**os.environ, **_TERMINAL, "COLUMNS": str(size.width), "ROWS": str(size.height)},
        start_new_session=True,  # ctrl-c in the terminal is for the server, which ends it
    )
    _give(process, greeting(Opening(path=str(served.path), key=served.key)))
    return process


async def _listen(socket: web.WebSocketResponse, process: Process) -> None:
    async for message in socket:
        said = packets.heard(message.data) if message.type is WSMsgType.TEXT else None
        if isinstance(said, Asked):
            await socket.send_json(["pong", said.at])
        elif said is not None:
            _give(process, packets.for_app(said))
            await _taken(process)


async def _show(process: Process, socket: web.WebSocketResponse) -> None:
    """Until the app has ended; an app that nobody looks at any more is still heard out, because one
    that cannot write cannot end."""
    assert process.stdout is not None
    async for payload in packets.shown(process.stdout):
        if not socket.closed:
            try:
                await socket.send_bytes(payload)
            except ConnectionError:
                continue
    await socket.close()


async def _end(process: Process) -> None:
    """Ask the app to end, and insist when it does not."""
    assert process.stdin is not None
    _give(process, packets.about("quit"))
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), END_WITHIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _give(process: Process, data: bytes) -> None:
    assert process.stdin is not None
    if not process.stdin.is_closing():
        process.stdin.write(data)


async def _taken(process: Process) -> None:
    """Until the app has room for more."""
    assert process.stdin is not None
    try:
        await process.stdin.drain()
    except ConnectionError:
        return  # it has ended, as the other task hears
