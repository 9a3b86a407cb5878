"""Where may the provider's prefix cache end? After everything that is sent.

Steps of a run asked in ascending order share their beginnings. One marker on the last block lets
the next step read what this one wrote. The marker is not seen by the model and is in no key.
"""

from __future__ import annotations

from typing import Any

_UNMARKED = {"thinking", "redacted_thinking"}
"""Blocks on which a marker is refused."""


def marked(body: dict[str, Any]) -> dict[str, Any]:
    """The body with one cache marker, on the last block of its last message that may carry one.

    The body itself where no block may. Nothing of the body given is changed.
    """
    *before, last = body["messages"]
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
    for at in reversed(range(len(blocks))):
        if _may_carry(blocks[at]):
            blocks[at] = {**blocks[at], "cache_control": {"type": "ephemeral"}}
            return {**body, "messages": [*before, {**last, "content": blocks}]}
    return body


def _may_carry(block: dict[str, Any]) -> bool:
    if block.get("type") == "text":
        return bool(str(block.get("text", "")).strip())
    return block.get("type") not in _UNMARKED
