"""Identity: when are two things the same?

Two questions, two answers. `key` asks whether two *requests* are the same to a model: order is
kept at every depth, because the model reads the tokens in that order; only markers the model
never sees are stripped. `same` asks whether two *arguments* mean the same: key order is free, 1
equals 1.0, and true is not 1.

Every digest is SHA-256 over canonical JSON bytes, carries its algorithm as a prefix, and is
taken over redacted content, so that what is stored, what is looked up and what is shown agree.
Digests build on digests: a context node is its parent's digest and its message's, a request is
the digests of its parts, so a step costs only what is new in it.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec

from replay.trace import Json, Message, Tool

ALGORITHM = "sha256"

SCHEMA = 1
"""Version of everything below; a change of what is hashed must change it."""

UNSEEN = frozenset({"cache_control"})
"""Keys the provider reads and the model does not, stripped at every depth."""

_UNSEEN = tuple(name.encode() for name in UNSEEN)

VOLATILE: dict[str, frozenset[str]] = {
    "anthropic": frozenset(),
    "openai": frozenset(),
    "inspect": frozenset({"id", "source", "model"}),
}
"""Top-level keys of a message that differ between two recordings of the same words."""

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode


def digest(*parts: bytes | str) -> str:
    """The tagged digest of some parts, each length-prefixed so that they cannot run together."""
    pieces: list[bytes] = []
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        pieces += (len(raw).to_bytes(8, "big"), raw)
    return f"{ALGORITHM}:{hashlib.sha256(b''.join(pieces)).hexdigest()}"


def encode(value: Json) -> bytes:
    """Canonical JSON with the order kept. Raises ValueError on NaN and infinities."""
    encoded = _encode(value)
    if b"null" in encoded:  # msgspec writes NaN as null without a word
        _refuse_nan(value)
    return encoded


def pack(value: Json) -> bytes:
    """The same for values of our own making, which are known to hold no such number."""
    return _encode(value)


def _refuse_nan(value: Json) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number that is not finite has no canonical form")
    elif isinstance(value, dict):
        for entry in value.values():
            _refuse_nan(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            _refuse_nan(entry)


def encode_seen(value: Json, encoded: bytes | None = None) -> bytes:
    """`encode(seen(value))`; hardly any value holds what is not seen, and bytes tell at once.

    `encoded` is `encode(value)` where it is known.
    """
    encoded = encode(value) if encoded is None else encoded
    return encode(seen(value)) if any(name in encoded for name in _UNSEEN) else encoded


def seen(value: Json) -> Json:
    """`value` without the keys a model never sees."""
    if isinstance(value, dict):
        return {name: seen(entry) for name, entry in value.items() if name not in UNSEEN}
    if isinstance(value, list):
        return [seen(entry) for entry in value]
    return value


def message_digest(message: Message, encoded: bytes | None = None) -> str:
    """Identity of a message: dialect and body, order kept, volatile parts left out.

    `encoded` is its body as `encode` gives it, where that is known.
    """
    volatile = VOLATILE[message.dialect]
    body = message.body
    if volatile:
        encoded = None
        body = {name: entry for name, entry in body.items() if name not in volatile}
    return digest("message", message.dialect, encode_seen(body, encoded))


def node_digest(parent: str | None, message: str) -> str:
    """Identity of a context node from its parent's digest and its message's."""
    return digest("context", parent or "", message)


def tool_value(tool: Tool) -> dict[str, Json]:
    """A tool as the plain value that is hashed and stored."""
    value: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "schema": tool.schema,
    }
    return {**value, "extra": tool.extra} if tool.extra else value


def toolset_digest(tools: tuple[Tool, ...]) -> str:
    """Identity of the tools offered together, in their order."""
    return digest("toolset", encode_seen([tool_value(tool) for tool in tools]))


def key(
    *,
    api: str,
    system: str | None,
    tools: str | None,
    params: dict[str, Any],
    context: str | None,
    sample: int,
) -> str:
    """The key an answer is stored under: every model-visible part, the API version, the sample.

    `system`, `tools` and `context` are digests; `params` are the remaining model-visible fields
    (model and limits included), by name.
    """
    fields = [[name, seen(params[name])] for name in sorted(params) if params[name] is not None]
    envelope = [SCHEMA, api, system, tools, fields, context, sample]
    return digest("request", encode(envelope))


def same(left: Json, right: Json) -> bool:
    """Do two arguments mean the same JSON? Key order free, 1 equals 1.0, true is not 1."""
    return _encode_sorted(plain(left)) == _encode_sorted(plain(right))


def plain(value: Json) -> Json:
    """The fixed point that `same` compares: whole floats as integers, everything else as it is."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return {"not finite": repr(value)}
        return int(value) if value.is_integer() and abs(value) < 2**63 else value
    if isinstance(value, dict):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value


def canonical(value: Json) -> str:
    """The text that `same` compares, for use as a dictionary key."""
    return _encode_sorted(plain(value)).decode()


def trace_id(format: str, source_id: str, item: str | None) -> str:
    """Identity of one recording: never derived from a path. 16 hex digits."""
    return digest("trace", format, source_id, item or "").partition(":")[2][:16]


def run_id(source_id: str, item: str | None) -> str:
    """Identity of the run behind its recordings, in whatever format they came. 16 hex digits."""
    return digest("run", source_id, item or "").partition(":")[2][:16]


def bare_text(value: Json) -> str:
    """A value as a sentence shows it: a text without its quotes, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
