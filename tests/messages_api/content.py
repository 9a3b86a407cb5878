"""Messages and their blocks, as a policy writes them in a word or two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Body = dict[str, Any]
Policy = Callable[[Body], Body]
"""Answers a request body with a message. It may raise ModelRefused: a 400 with its sentence."""


def message(*content: Body, stop: str | None = None, model: str = "claude-test") -> Body:
    """A Messages API message; its stop reason follows from its blocks unless given."""
    called = any(block["type"] == "tool_use" for block in content)
    return {
        "id": "msg_test",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(content),
        "stop_reason": stop or ("tool_use" if called else "end_turn"),
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    }


def text(said: str) -> Body:
    return {"type": "text", "text": said}


def thinking(thought: str) -> Body:
    """A thought without a signature: the server signs what it sends."""
    return {"type": "thinking", "thinking": thought}


def redacted(data: str) -> Body:
    """A thought that nobody may read; the server seals its data."""
    return {"type": "redacted_thinking", "data": data}


def tool_use(name: str, /, **arguments: Any) -> Body:
    return {"type": "tool_use", "id": "toolu_test", "name": name, "input": arguments}
