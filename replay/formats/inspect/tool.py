"""A `tool` event of an Inspect log as a tool call, and the message its result amounts to."""

from __future__ import annotations

from typing import Any

from replay.formats.fields import known, obj, place_of, status_of, times, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.tree import Node
from replay.messages import parse_arguments
from replay.trace import Json, Message, ToolCall


def tool_call(node: Node, parent: str, texts: Attachments) -> ToolCall:
    """The tool call of a `tool` event, not yet answered and not yet asked for."""
    event = node.event
    error = obj(event.get("error"))
    kind = word(error.get("type"))
    said = word(error.get("message")) or kind
    at = times(event, node.next_at)
    arguments, raw = parse_arguments(texts.resolve(event.get("arguments")))
    return ToolCall(
        id=node.id,
        name=word(event.get("function")) or "unknown tool",
        parent=parent,
        start_ns=at.start_ns,
        end_ns=at.end_ns,
        time_quality=at.quality,
        status=status_of(event, said),
        error=said,
        place=place_of(event),
        extra=known(
            error_type=kind,
            truncated=event.get("truncated"),
            agent=event.get("agent"),
            pending=event.get("pending"),
            working_time=event.get("working_time"),
            metadata=texts.resolve(event.get("metadata")),
        ),
        call_id=word(event.get("id")),
        arguments=arguments,
        arguments_raw=raw,
    )


def result_message(event: dict[str, Any], texts: Attachments) -> Message | None:
    """The tool message that a `tool` event amounts to, None where it has no result yet."""
    if event.get("pending") or not ("result" in event or event.get("error")):
        return None
    result = texts.resolve(event.get("result"))
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
