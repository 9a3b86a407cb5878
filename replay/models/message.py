"""Is this a whole message of the Messages API?"""

from __future__ import annotations

from typing import Any


def flaw(answer: Any) -> str | None:
    """Why this is no complete message of the Messages API, None where it is one.

    A stream that ended early, a page of a proxy and another provider's body all look like success
    to a client; none of them may be kept.
    """
    if not isinstance(answer, dict) or answer.get("type") != "message":
        return "it is no message"
    content = answer.get("content")
    if not isinstance(content, list):
        return "its content is no list"
    if not isinstance(answer.get("stop_reason"), str):
        return "it ends before its stop reason"
    for block in content:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return "its content holds something that is no block"
        if block["type"] == "tool_use" and not (
            isinstance(block.get("name"), str) and isinstance(block.get("input"), dict)
        ):
            return "a call in it has no name or no arguments"
    return None
