"""What a page, its server and an app say to each other.

A page speaks JSON, as the terminal of `textual-serve` does: `["stdin", text]`, `["resize", size]`,
and whether it is looked at, which is nothing to the app. An app speaks as Textual's driver for the
web does: a letter, the length of what follows in four bytes, and that: `D` for what a terminal
shows or was typed, `M` for JSON about it. Of what an app can ask of a browser only this is heard:
to show, and that it has ended. It opens no address there and hands out no file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

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


Said = Typed | Resized | Asked

_page: msgspec.json.Decoder[Said] = msgspec.json.Decoder(Said)


def heard(text: str) -> Said | None:
    """What a page said; None where it is nothing that pages say."""
    try:
        return _page.decode(text.encode("utf-8", "replace"))
    except msgspec.DecodeError:
        return None


def for_app(said: Said) -> bytes:
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


async def shown(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
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
