"""Are these two messages the same words? Equal gists say so.

A client does not send an answer back as it came: it drops the thinking, moves its cache markers,
writes a text as a string or as a block, leaves out fields that are null. None of that makes
another conversation. Digests here only link calls of one log; they are never stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from replay.depth import is_deep
from replay.formats.fields import listed, obj, word
from replay.trace import Json

THINKING = frozenset({"thinking", "redacted_thinking"})
_UNSEEN = frozenset({"cache_control", "citations", "caller"})

_encode = msgspec.json.Encoder(order="deterministic").encode


class TooDeep(Exception):
    """A value is nested deeper than those who read it, by recursion, can bear."""


def digest(*parts: bytes) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.digest()


def of_value(value: Json) -> bytes:
    """The digest of any value. Raises TooDeep."""
    if is_deep(value):
        raise TooDeep
    return digest(_encode(_plain(value)))


def of_message(body: Json) -> bytes:
    """The gist of a message. Raises TooDeep."""
    if is_deep(body):
        raise TooDeep
    found = obj(body)
    return digest(_encode([found.get("role"), [*_blocks(found.get("content"))]]))


def of_answer(message: dict[str, Json]) -> bytes:
    """The gist that an answer has when a client sends it back. Raises TooDeep."""
    if is_deep(message):
        raise TooDeep
    return of_message({"role": "assistant", "content": message.get("content")})


def _blocks(content: Json) -> Iterator[Json]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for block in listed(content):
        body = obj(block)
        kind = word(body.get("type"))
        if kind in THINKING:
            continue
        if kind == "text":
            text = str(body.get("text") or "").strip()
            if text:
                yield text
        elif kind == "tool_use":
            yield ["call", body.get("id"), body.get("name"), _plain(body.get("input"))]
        elif kind == "tool_result":
            yield ["result", body.get("tool_use_id"), [*_blocks(body.get("content"))]]
        else:
            yield _plain(block)


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return {n: _plain(v) for n, v in value.items() if n not in _UNSEEN and v is not None}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value


def texts(body: Json) -> Iterator[str]:
    """The texts of a message, block by block."""
    content = obj(body).get("content")
    if isinstance(content, str):
        yield content
    for block in listed(content):
        text = obj(block).get("text")
        if isinstance(text, str):
            yield text


def calls(message: dict[str, Any] | None) -> list[dict[str, Json]]:
    """The blocks of an answer that ask for a tool of the client."""
    blocks = map(obj, listed(obj(message).get("content")))
    return [block for block in blocks if block.get("type") == "tool_use"]
