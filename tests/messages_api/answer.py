"""From what a policy says to what the API sends: cut at the limit, sealed, and counted."""

from __future__ import annotations

import json

from tests.messages_api import prefix
from tests.messages_api.cache import Reading
from tests.messages_api.content import Body
from tests.messages_api.prefix import CHARACTERS_PER_TOKEN

EMPTY: Body = {
    "id": "msg_warm",
    "type": "message",
    "role": "assistant",
    "content": [],
    "stop_reason": "max_tokens",
    "stop_sequence": None,
    "usage": {"input_tokens": 0, "output_tokens": 0},
}
"""The answer to a request that only fills the cache."""


def cut(said: Body, max_tokens: int) -> Body:
    """The message as far as its limit lets it come; a call that does not fit loses its input."""
    left = max_tokens * CHARACTERS_PER_TOKEN
    content: list[Body] = []
    for block in said["content"]:
        length = len(_payload(block))
        if length <= left:
            content.append(block)
            left -= length
            continue
        content += _begun(block, left)
        return {**said, "content": content, "stop_reason": "max_tokens"}
    return said


def usage(content: list[Body], reading: Reading, *, batch: bool) -> Body:
    """The figures of an answer. The three kinds of input add up to the whole request."""
    lengths = [(block["type"], len(_payload(block))) for block in content]
    thought = sum(length for kind, length in lengths if kind.endswith("thinking"))
    return {
        "input_tokens": reading.fresh_tokens,
        "cache_creation_input_tokens": reading.written_5m_tokens + reading.written_1h_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": reading.written_5m_tokens,
            "ephemeral_1h_input_tokens": reading.written_1h_tokens,
        },
        "cache_read_input_tokens": reading.read_tokens,
        "output_tokens": prefix.tokens(sum(length for _, length in lengths)),
        "output_tokens_details": {"thinking_tokens": prefix.tokens(thought)},
        "service_tier": "batch" if batch else "standard",
    }


def _payload(block: Body) -> str:
    """What of a block the model wrote."""
    match block["type"]:
        case "text" | "thinking":
            return str(block[block["type"]])
        case "tool_use":
            return str(block["name"]) + json.dumps(block["input"])
        case _:
            return str(block.get("data", ""))


def _begun(block: Body, characters: int) -> list[Body]:
    """As much of a block as there is room for."""
    match block["type"]:
        case "text" | "thinking" as field if characters:
            return [{**block, field: block[field][:characters]}]
        case "tool_use" if characters >= len(block["name"]) + len("{}"):
            return [{**block, "input": {}}]
        case _:
            return []
