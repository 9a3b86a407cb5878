"""A `tool` event of an Inspect log as a tool call, and the message that it amounts to."""

from __future__ import annotations

from typing import Any

from replay.formats.fields import known, obj, word
from replay.formats.inspect.tree import Node
from replay.messages import parse_arguments
from replay.trace import Json, Message, ToolCall

FIELDS = {
    "event", "timestamp", "completed", "uuid", "span_id", "working_start", "working_time",
    "metadata", "pending", "type", "id", "function", "arguments", "view", "result", "truncated",
    "error", "events", "agent", "agent_span_id", "failed", "message_id", "internal",
}  # fmt: skip


def tool_call(node: Node, parent: str, event: dict[str, Any]) -> ToolCall:
    """The tool call of a `tool` event, not yet answered and not yet asked for."""
    error = obj(event.get("error"))
    kind = word(error.get("type"))
    said = word(error.get("message")) or kind
    start, end, quality = node.call_times
    arguments, raw = parse_arguments(event.get("arguments"))
    return ToolCall(
        id=node.id,
        name=node.name or "unknown tool",
        parent=parent,
        start_ns=start,
        end_ns=end,
        time_quality=quality,
        status=node.status(said, event.get("failed")),
        error=said,
        place=node.place,
        extra=_extra(
            error_type=kind,
            truncated=event.get("truncated"),
            agent=event.get("agent"),
            pending=event.get("pending"),
            working_time=event.get("working_time"),
            metadata=event.get("metadata"),
        ),
        call_id=word(event.get("id")),
        arguments=arguments,
        arguments_raw=raw,
    )


def _extra(**said: Json) -> dict[str, Json]:
    return known(**{name: value for name, value in said.items() if value is not None})


def result_message(event: dict[str, Any]) -> Message | None:
    """The tool message that a `tool` event amounts to, None where it has no result yet."""
    if event.get("pending") or not ("result" in event or event.get("error")):
        return None
    result = event.get("result")
    content = result if isinstance(result, (str, list)) else _as_content(result)
    body = {
        "role": "tool",
        "content": content,
        "tool_call_id": event.get("id"),
        "function": event.get("function"),
        "error": event.get("error"),
    }
    return Message(
        dialect="inspect", body={name: value for name, value in body.items() if value is not None}
    )


def _as_content(result: Json) -> Json:
    """A content block is a list of one; Inspect shows the model any other value as Python text."""
    if result is None:
        return ""
    return [result] if isinstance(result, dict) else str(result)
