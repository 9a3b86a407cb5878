"""What a message says, as content blocks of the Messages API.

Reads the block vocabularies of every dialect, because one conversation may mix them. What cannot
be sent is replaced by a text that says so, and its loss is listed; recorded thinking is left out
in every case, since it is bound to the exact prefix it was written after. Nothing is invented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from replay.trace import Json

THINKING = "thinking left out"
CITATIONS = "citations left out"
MEDIA = "media not sent"
SERVER_BLOCK = "server tool block sent as recorded"
AS_TEXT = "block of an unknown kind sent as text"

_TEXT = {"text", "input_text", "output_text", "refusal"}
_THOUGHT = {"thinking", "redacted_thinking", "reasoning"}
_MEDIA = {"image", "image_url", "input_image", "document", "file", "input_file", "audio"}
_MEDIA |= {"input_audio", "video", "data"}
_SERVER = re.compile(r"server_tool_use|(?:web|code|bash|text_editor|tool)_\w+_tool_result")
_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.+)", re.S)
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}


class Block(NamedTuple):
    """A block as it can be sent, None for nothing, and what was lost on the way."""

    body: dict[str, Any] | None
    loss: str | None = None


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def blocks(content: Json, *, without: str = "", inside: bool = False) -> Iterator[Block]:
    """The blocks of a `content` value (a text, a list of blocks, or nothing), one kind left out.

    `inside` a result or a system message, where a server's own blocks can only be text.
    """
    if content is None:
        return
    for entry in content if isinstance(content, list) else [content]:
        if not isinstance(entry, dict):
            yield _said(entry if isinstance(entry, str) else _json(entry))
        elif not without or entry.get("type") != without:
            found = block(entry)
            served = inside and found.loss == SERVER_BLOCK
            yield Block(text_block(_json(entry)), AS_TEXT) if served else found


def block(entry: dict[str, Any]) -> Block:
    """One block of any dialect."""
    named = entry.get("type")
    kind = named if isinstance(named, str) else None
    if kind in _TEXT or (kind is None and "text" in entry):
        said = _said(str(entry.get("text") or entry.get("refusal") or ""))
        return said._replace(loss=CITATIONS) if entry.get("citations") else said
    if kind in _THOUGHT:
        return Block(None, THINKING)
    if kind in _MEDIA:
        return _media(kind, entry)
    if kind == "search_result":
        return Block(_bare(entry))
    if kind is not None and _SERVER.fullmatch(kind):
        return Block(_bare(entry), SERVER_BLOCK)
    return Block(text_block(_json(entry)), AS_TEXT)


def _said(text: str) -> Block:
    """A text the API takes: it refuses empty ones."""
    return Block(text_block(text) if text.strip() else None)


def _bare(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "cache_control"}


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _media(kind: str, entry: dict[str, Any]) -> Block:
    """Media as base64 where it was recorded so; a reference to elsewhere is never followed."""
    source = entry.get("source")
    if isinstance(source, dict) and source.get("type") in {"base64", "text"}:
        return Block(_bare(entry))
    for read in _DATA:
        found = _DATA_URL.match(str(read(entry) or ""))
        if found is None:
            continue
        media_type, data = found.groups()
        shape = (
            "image" if media_type in _IMAGES
            else "document" if media_type == "application/pdf"
            else None
        )  # fmt: skip
        if shape is not None:
            inline = {"type": "base64", "media_type": media_type, "data": data}
            return Block({"type": shape, "source": inline})
    return Block(text_block(f"[{kind} not sent]"), MEDIA)


def _nested(entry: dict[str, Any], outer: str, inner: str) -> Json:
    held = entry.get(outer)
    return held.get(inner) if isinstance(held, dict) else held


_DATA: tuple[Callable[[dict[str, Any]], Json], ...] = (
    lambda entry: _nested(entry, "image_url", "url"),
    lambda entry: _nested(entry, "image", "url"),
    lambda entry: _nested(entry, "file", "file_data"),
    lambda entry: entry.get("document"),
)
"""Where the dialects keep a data URL."""
