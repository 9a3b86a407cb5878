"""Thinking that is bound to the conversation it came from.

Every thinking block of an answer is sealed over the model, the system prompt, the tools, all
messages before, and the thoughts before it in its own turn. Sent back, it must stand exactly there:
a changed block, or a change anywhere before it, breaks its seal and every later one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator
from typing import Any, NamedTuple

from replay import digests
from tests.messages_api.content import Body
from tests.messages_api.prefix import blocks_of

BINDING_BETA = "thinking-binding-controls-2026-08-01"

KINDS = frozenset({"thinking", "redacted_thinking"})

_KEY = b"the test server's own key"


class Broken(NamedTuple):
    """A block whose seal does not hold: where it stands, and which binding failed."""

    message: int
    block: int
    reason: str

    @property
    def path(self) -> str:
        return f"messages.{self.message}.content.{self.block}"

    @property
    def transformation(self) -> Body:
        """How a response reports that the block was left out."""
        return {"type": "thinking_dropped", "path": self.path, "reason": self.reason}


def sealed(content: list[Body], body: Body) -> list[Body]:
    """The content of the answer to `body` as it is sent, thoughts hidden if it asks for that."""
    hidden = (body.get("thinking") or {}).get("display") == "omitted"
    thoughts: list[Body] = []
    sent: list[Body] = []
    for block in content:
        if block["type"] == "thinking":
            block = {**block, "thinking": "" if hidden else block["thinking"]}
        if block["type"] in KINDS:
            block = _sealed(block, str(body["model"]), body, body["messages"], thoughts)
            thoughts.append(block)
        sent.append(block)
    return sent


def broken(body: Body) -> Iterator[Broken]:
    """The blocks of a request whose seals do not hold, in order."""
    for at, message in enumerate(body["messages"]):
        thoughts: list[Body] = []
        for place, block in enumerate(blocks_of(message["content"])):
            if block["type"] in KINDS:
                reason = _flaw(block, body, body["messages"][:at], thoughts)
                if reason is not None:
                    yield Broken(at, place, reason)
                thoughts.append(block)


def without(body: Body, gone: list[Broken]) -> Body:
    """The request without some of its blocks; a message that held nothing else goes too."""
    places = {(each.message, each.block) for each in gone}
    messages = []
    for at, message in enumerate(body["messages"]):
        blocks = blocks_of(message["content"])
        kept = [block for place, block in enumerate(blocks) if (at, place) not in places]
        if len(kept) == len(blocks):
            messages.append(message)
        elif kept:
            messages.append({**message, "content": kept})
    return {**body, "messages": messages}


def drops(body: Body) -> bool:
    """Does a request ask that broken blocks be left out instead of refused?"""
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    return binding.get("prefix_mismatch_behavior") == "drop_block"


def _sealed(block: Body, model: str, body: Body, before: list[Body], thoughts: list[Body]) -> Body:
    if block["type"] == "thinking":
        seal = _seal(model, block["thinking"], body, before, thoughts)
        return {**block, "signature": _wrapped(model, seal)}
    seal = _seal(model, block["data"], body, before, thoughts)
    return {**block, "data": _wrapped(model, seal, block["data"])}


def _flaw(block: Body, body: Body, before: list[Body], thoughts: list[Body]) -> str | None:
    """Which binding of a block fails, None where its seal holds."""
    hidden = block["type"] == "redacted_thinking"
    parts = _unwrapped(block["data"] if hidden else block["signature"], 3 if hidden else 2)
    if parts is None:
        return "prefix_binding_mismatch"
    model, seal, *data = parts
    said = data[0] if hidden else block["thinking"]
    if not hmac.compare_digest(seal, _seal(model, said, body, before, thoughts)):
        return "prefix_binding_mismatch"
    return None if model == body["model"] else "model_binding_mismatch"


def _seal(model: str, said: str, body: Body, before: list[Body], thoughts: list[Body]) -> str:
    prefix = [
        model,
        blocks_of(body.get("system")),
        body.get("tools") or [],
        [[message["role"], blocks_of(message["content"])] for message in before],
        thoughts,
        said,
    ]
    return hmac.new(_KEY, digests.encode(digests.seen(prefix)), hashlib.sha256).hexdigest()


def _wrapped(*parts: str) -> str:
    return base64.b64encode("\n".join(parts).encode()).decode()


def _unwrapped(token: Any, count: int) -> list[str] | None:
    try:
        parts = base64.b64decode(token, validate=True).decode().split("\n", count - 1)
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return parts if len(parts) == count and all(part.isascii() for part in parts[:2]) else None
