"""A tab of a browser and the process of the app that draws into it: they begin and end together,
and what they say to each other is carried between them.

A page speaks JSON, as the terminal of `textual-serve` does: `["stdin", text]`, `["resize",
size]`, and whether it is looked at, which is nothing to the app. An app speaks as Textual's
driver for the web does: a letter, the length of what follows in four bytes, and that: `D` for
what a terminal shows or was typed, `M` for JSON about it. Of what an app can ask of a browser
only this is heard: to show, and that it has ended. It opens no address there and hands out no
file.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import msgspec
from aiohttp import WSMsgType, web
from msgspec import Meta, Struct

from arc_tui.serve.tab import Opening, greeting

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
        "arc_tui.serve.tab",
        stdin=PIPE,
        stdout=PIPE,
        env={**os.environ, **_TERMINAL, "COLUMNS": str(size.width), "ROWS": str(size.height)},
        start_new_session=True,  # ctrl-c in the terminal is for the server, which ends it
    )
    _give(process, greeting(Opening(path=str(served.path), key=served.key)))
    return process


async def _listen(socket: web.WebSocketResponse, process: Process) -> None:
    async for message in socket:
        said = parse_message(message.data) if message.type is WSMsgType.TEXT else None
        if isinstance(said, Asked):
            await socket.send_json(["pong", said.at])
        elif said is not None:
            _give(process, for_app(said))
            await _wait_for_room(process)


async def _show(process: Process, socket: web.WebSocketResponse) -> None:
    """Until the app has ended; an app that nobody looks at any more is still heard out, because one
    that cannot write cannot end."""
    assert process.stdout is not None
    async for payload in read_frames(process.stdout):
        if not socket.closed:
            try:
                await socket.send_bytes(payload)
            except ConnectionError:
                continue
    await socket.close()


async def _end(process: Process) -> None:
    """Ask the app to end, and insist when it does not."""
    assert process.stdin is not None
    _give(process, about("quit"))
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


async def _wait_for_room(process: Process) -> None:
    """Until the app has room for more."""
    assert process.stdin is not None
    try:
        await process.stdin.drain()
    except ConnectionError:
        return  # it has ended, as the other task hears


BEGUN = b"__GANGLION__\n"
"""The line with which an app begins to speak so."""

MOST_CELLS = 1000
DATA, ABOUT = b"D", b"M"
_LEAST_CELLS = 1

Cells = Annotated[int, Meta(ge=_LEAST_CELLS, le=MOST_CELLS)]


class Size(Struct, frozen=True):
    """Of a terminal, in cells."""

    width: Cells
    height: Cells


class Typed(Struct, frozen=True, tag="stdin", array_like=True):
    text: str


class Resized(Struct, frozen=True, tag="resize", array_like=True):
    size: Size


class Asked(Struct, frozen=True, tag="ping", array_like=True):
    at: str


PageMessage = Typed | Resized | Asked

_page: msgspec.json.Decoder[PageMessage] = msgspec.json.Decoder(PageMessage)


def parse_message(text: str) -> PageMessage | None:
    """What a page said; None where it is nothing that pages say."""
    try:
        return _page.decode(text.encode("utf-8", "replace"))
    except msgspec.DecodeError:
        return None


def for_app(said: PageMessage) -> bytes:
    """The same for the app; nothing where it is meant for the server."""
    match said:
        case Typed(text=text):
            return packet(DATA, text.encode("utf-8", "replace"))
        case Resized(size=size):
            return about("resize", width=size.width, height=size.height)
        case Asked():
            return b""


def about(kind: str, **more: int) -> bytes:
    """A message about the terminal, not from it."""
    return packet(ABOUT, msgspec.json.encode({"type": kind, **more}))


def packet(letter: bytes, payload: bytes) -> bytes:
    return letter + len(payload).to_bytes(4, "big") + payload


async def read_frames(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """What an app wants shown, until it has ended."""
    if await stream.readline() != BEGUN:
        return
    while True:
        try:
            head = await stream.readexactly(5)
            payload = await stream.readexactly(int.from_bytes(head[1:], "big"))
        except asyncio.IncompleteReadError:
            return
        if head[:1] == DATA:
            yield payload
