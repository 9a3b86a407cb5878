"""A request as the row of blocks a prompt cache sees: tools, then system, then messages.

Says which blocks are marked, and which markings are refused. What an entry lives and costs is
`cache`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from replay import digests
from tests.messages_api.content import Body

MOST_MARKERS = 4
CHARACTERS_PER_TOKEN = 4
MEDIA_TOKENS = 1_500
"""What an image or a document counts as, whatever its size."""

_SETTINGS = ("tool_choice", "thinking")
"""A change of these leaves tools and system cached, and no message."""


class Block(NamedTuple):
    """One block: what identifies it, its length in characters, the lifetime it is marked with."""

    identity: bytes
    characters: int
    ttl: str | None


def row(body: Body) -> list[Block]:
    """The blocks of a request in the order the cache sees them, the automatic marker included."""
    blocks = [*_tools(body), *_system(body), *_messages(body)]
    automatic = body.get("cache_control")
    if automatic and blocks and blocks[-1].ttl is None:
        blocks[-1] = blocks[-1]._replace(ttl=_ttl(automatic))
    return blocks


def tokens(characters: int) -> int:
    """The whole token estimate, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def blocks_of(content: Any) -> list[Body]:
    """A content value as blocks: a plain text and a list of that one text are the same."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content or [])


def marker_refusal(body: Body) -> str | None:
    """Why the markers of a request are refused, None where they are not."""
    explicit = [block.ttl for block in row({**body, "cache_control": None})]
    marked = [ttl for ttl in explicit if ttl]
    if body.get("cache_control"):
        automatic = _ttl(body["cache_control"])
        if explicit[-1] not in {None, automatic}:
            return "cache_control: the last block is marked with another ttl"
        marked += [automatic] if explicit[-1] is None else []
    if len(marked) > MOST_MARKERS:
        return (
            f"A maximum of {MOST_MARKERS} blocks with cache_control may be provided. "
            f"Found {len(marked)}."
        )
    if marked != sorted(marked):  # "1h" sorts before "5m"
        return "cache_control: a ttl='1h' block must not come after a ttl='5m' block"
    return None


def _tools(body: Body) -> Iterator[Block]:
    for tool in body.get("tools") or []:
        yield _block("tools", tool)


def _system(body: Body) -> Iterator[Block]:
    if body.get("system"):
        for block in blocks_of(body["system"]):
            yield _block("system", block)


def _messages(body: Body) -> Iterator[Block]:
    settings = digests.canonical({name: body.get(name) for name in _SETTINGS})
    for message in body["messages"]:
        for block in blocks_of(message["content"]):
            yield _block(f"{message['role']} {settings}", block)


def _block(place: str, value: Body) -> Block:
    seen = digests.encode(digests.seen(value))
    data = list(_data(value))
    characters = len(seen.decode()) - sum(map(len, data))
    characters += len(data) * MEDIA_TOKENS * CHARACTERS_PER_TOKEN
    return Block(place.encode() + seen, characters, _marked(value))


def _data(value: Any) -> Iterator[str]:
    """Every base64 text in a value."""
    if isinstance(value, list):
        for entry in value:
            yield from _data(entry)
    elif isinstance(value, dict):
        if value.get("type") == "base64":
            yield str(value.get("data", ""))
        for entry in value.values():
            yield from _data(entry)


def _marked(value: Body) -> str | None:
    """The lifetime a block is marked with, itself or inside."""
    inside = value.get("content")
    for each in [value, *(inside if isinstance(inside, list) else [])]:
        if isinstance(each, dict) and each.get("cache_control"):
            return _ttl(each["cache_control"])
    return None


def _ttl(marker: Body) -> str:
    return str(marker.get("ttl") or "5m")
