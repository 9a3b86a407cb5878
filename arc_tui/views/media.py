"""What stands for a picture, a sound or a document: its type, its size and its digest, no bytes.

The header of a picture says how large it is; whatever it does not say is left out.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct, structs

from arc_tui.ui.format import count, one_line
from replay.messages import MEDIA_BLOCKS
from replay.trace import Json, Message

_DATA_URL = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?[^,]{0,200}?;base64,")

DIGITS = 12
"""Of a digest, enough to tell two pictures apart."""

DEEP = 12
"""Levels of a message that are looked through; the contents of a result stand at the third."""


class Media(Struct, frozen=True, kw_only=True):
    """A block of a message that is no text. `size` is in bytes, `place` where it is to be had
    where the recording does not hold it; None is what is not known."""

    kind: str
    type: str | None = None
    size: int | None = None
    pixels: tuple[int, int] | None = None
    digest: str | None = None
    place: str | None = None

    @property
    def line(self) -> str:
        """The placeholder."""
        known = [_NOUNS.get(self.kind, self.kind)]
        if self.type is not None:
            known.append(one_line(self.type)[:60])
        if self.size is not None:
            known.append(count(self.size, "byte"))
        if self.pixels is not None:
            known.append(f"{self.pixels[0]}×{self.pixels[1]} pixels")
        if self.digest is not None:
            known.append(f"sha256 {self.digest}")
        elif self.place is not None:
            known.append(f"not recorded · source {one_line(self.place)[:200]}")
        else:
            known.append("content unreadable")
        return f"[{' · '.join(known)}]"


_NOUNS = {"image_url": "image", "input_image": "image", "input_audio": "audio"}


def media_of(block: Mapping[str, Json]) -> Media | None:
    """What a block of a message holds, None where it is none of these."""
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in MEDIA_BLOCKS:
        return None
    held, named = _held(block, kind)
    if held is None:
        return Media(kind=kind, type=named)
    url = _DATA_URL.match(held)
    if url is None and not _is_text(block) and re.match(r"(?:\w{2,10}:|/|\.)", held):
        return Media(kind=kind, type=named, place=held)
    body = held.encode() if _is_text(block) else _decoded(held[url.end() :] if url else held)
    type_ = (url["type"] if url else None) or named
    if body is None:
        return Media(kind=kind, type=type_)
    return Media(
        kind=kind,
        type=type_,
        size=len(body),
        pixels=pixels(body),
        digest=sha256(body).hexdigest()[:DIGITS],
    )


def _is_text(block: Mapping[str, Json]) -> bool:
    """Does a document hold its text as it is?"""
    source = block.get("source")
    return isinstance(source, dict) and source.get("type") == "text"


def _held(block: Mapping[str, Json], kind: str) -> tuple[str | None, str | None]:
    """(its bytes in base64, or where they are to be had; its media type), as providers write it."""
    within = block.get("source", block.get(kind, block.get("image_url", block.get("input_audio"))))
    named = within if isinstance(within, dict) else block
    type_ = named.get("media_type", named.get("mime_type", named.get("format")))
    declared = type_ if isinstance(type_, str) else None
    if isinstance(within, str):
        return within, declared
    found = (named.get(name) for name in ("data", "url", "path", "file_data", "file_id"))
    return next((each for each in found if isinstance(each, str)), None), declared


def _decoded(text: str) -> bytes | None:
    """The bytes of a base64 text, of either alphabet; None where it is none."""
    joined = "".join(text.split()).translate(_OTHER_ALPHABET).rstrip("=")
    try:
        return binascii.a2b_base64(joined + "=" * (-len(joined) % 4), strict_mode=True)
    except (binascii.Error, ValueError):
        return None


_OTHER_ALPHABET = str.maketrans("-_", "+/")


def pixels(body: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF, JPEG or WebP, by its header; None where that says none."""
    if body.startswith(b"\x89PNG\r\n\x1a\n") and body[12:16] == b"IHDR":
        return _sized(body, 16, 20, 4, "big")
    if body[:6] in (b"GIF87a", b"GIF89a"):
        return _sized(body, 6, 8, 2, "little")
    if body.startswith(b"\xff\xd8"):
        return _jpeg(body)
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return _webp(body)
    return None


def _sized(body: bytes, width: int, height: int, length: int, order: Any) -> tuple[int, int] | None:
    """The two numbers at their places, None where the body ends before them."""
    if len(body) < max(width, height) + length:
        return None
    across, down = (int.from_bytes(body[at : at + length], order) for at in (width, height))
    return (across, down) if across and down else None


_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of a JPEG that begin a frame, which says how large it is."""


def _jpeg(body: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(body) and body[at] == 0xFF:
        marker = body[at + 1]
        if marker in _FRAMES:
            return _sized(body, at + 7, at + 5, 2, "big")
        if marker == 0xFF:  # filling
            at += 1
            continue
        at += 2 + max(int.from_bytes(body[at + 2 : at + 4], "big"), 2)
    return None


def _webp(body: bytes) -> tuple[int, int] | None:
    match body[12:16]:
        case b"VP8X" if len(body) >= 30:
            across, down = (int.from_bytes(body[at : at + 3], "little") + 1 for at in (24, 27))
            return across, down
        case b"VP8L" if len(body) >= 25:
            bits32 = int.from_bytes(body[21:25], "little")
            return (bits32 & 0x3FFF) + 1, (bits32 >> 14 & 0x3FFF) + 1
        case b"VP8 " if len(body) >= 30:
            across, down = (int.from_bytes(body[at : at + 2], "little") & 0x3FFF for at in (26, 28))
            return (across, down) if across and down else None
        case _:
            return None


def described(message: Message) -> Message:
    """The message with a line of text for each block that is none."""
    content = message.body.get("content")
    if not isinstance(content, list) or not _holds_media(content, DEEP):
        return message
    return structs.replace(message, body=message.body | {"content": _as_text(content, DEEP)})


def _holds_media(value: Json, deep: int) -> bool:
    if isinstance(value, list):
        return deep > 0 and any(_holds_media(each, deep - 1) for each in value)
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    return (isinstance(kind, str) and kind in MEDIA_BLOCKS) or _holds_media(
        value.get("content"), deep - 1
    )


def _as_text(value: Json, deep: int) -> Json:
    if isinstance(value, list) and deep:
        return [_as_text(each, deep - 1) for each in value]
    if not isinstance(value, dict):
        return value
    media = media_of(value)
    if media is not None:
        return {"type": "text", "text": media.line}
    if isinstance(value.get("content"), list):
        return value | {"content": _as_text(value["content"], deep - 1)}
    return value


def without_bytes(value: Json) -> Json:
    """A recorded value, with what is known of each picture, sound or document instead of it."""
    if isinstance(value, list):
        return [without_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    media = media_of(value)
    if media is not None and media.digest is not None:
        return {"type": media.kind, "placeholder": media.line}
    return {key: without_bytes(each) for key, each in value.items()}
