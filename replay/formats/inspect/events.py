"""Events of an Inspect sample as spans: tool calls, and what is no call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from replay.formats.common import derived_id, known, obj, word
from replay.formats.inspect.archive import Attachments, entries, ns, parts
from replay.formats.inspect.tree import Node
from replay.messages import parse_arguments
from replay.trace import AgentSpan, Json, Message, OtherSpan, ToolCall

SILENT = {"sample_init", "score"}
"""Events that are no spans: the first repeats the sample's own fields, scores are kept as such."""

NAMED_BY = {
    "sandbox": "action", "approval": "decision", "sample_limit": "type", "info": "source",
    "compaction": "type", "interrupt": "source", "subtask": "name", "review": "decision",
    "sentinel": "action",
}  # fmt: skip
"""The field that tells events of a kind apart."""

UNDERSTOOD = {
    "span", "state", "store", "logger", "input", "error", "score_edit", "branch", "anchor",
    "checkpoint", *NAMED_BY,
}  # fmt: skip

_PLACED = {
    "event", "timestamp", "completed", "uuid", "span_id", "working_start", "events",
    "input_ansi", "traceback_ansi",
}  # fmt: skip
"""Fields that a span has a place for, or that repeat another one in colour."""
_SPAN_PLACED = _PLACED | {"id", "parent_id", "name", "type", "action"}


def agent_span(node: Node, parent: str, texts: Attachments) -> AgentSpan:
    """An agent, or a scorer or subtask that asks a model and so has a thread of its own."""
    start, end, quality = node.times
    extra = _extra(node, obj(texts.read(node.raw)))
    return AgentSpan(
        id=node.id,
        name=node.name,
        parent=parent,
        start_ns=start,
        end_ns=end,
        time_quality=quality,
        place=node.place,
        extra=extra if node.type == "agent" else {"type": node.type, **extra},
    )


def inner_agent(tool: Node) -> AgentSpan:
    """The thread of a tool that asks a model without saying that it is an agent."""
    start, end, quality = tool.call_times
    return AgentSpan(
        id=inner_id(tool),
        name=tool.name or "tool",
        parent=tool.id,
        start_ns=start,
        end_ns=end,
        time_quality=quality,
        place=tool.place,
        extra={"type": "tool"},
    )


def inner_id(tool: Node) -> str:
    return derived_id(tool.id, "agent")


def other_span(node: Node, parent: str, texts: Attachments) -> OtherSpan:
    """A span or step that holds others, or an event worth its place in the tree."""
    start, end, quality = node.times
    event = obj(texts.read(node.raw))
    error = _error(event) if node.kind == "error" else None
    return OtherSpan(
        id=node.id,
        name=node.name if node.kind == "span" else _named(node, event),
        parent=parent,
        start_ns=start,
        end_ns=end,
        time_quality=quality,
        status="error" if error else "unset",
        error=error,
        place=node.place,
        extra=_extra(node, event),
        operation=node.type,
    )


def failed_attempts(retries: Sequence[Raw], root: str, texts: Attachments) -> list[OtherSpan]:
    """The attempts of a sample that ended in an error before the one that is recorded.

    Of their events a log keeps those since their last model call: they are counted, and tell
    when it was, but are no steps of the run.
    """
    return [_attempt(number, raw, root, texts) for number, raw in enumerate(retries, 1)]


def _attempt(number: int, raw: Raw, root: str, texts: Attachments) -> OtherSpan:
    said = {n: texts.read(each) for n, each in (parts(raw) or {}).items() if n in _SAID}
    events = entries((parts(raw) or {}).get("events"))
    stamps = (parts(event) or {} for event in events)
    times = [ns(texts.read(each["timestamp"])) for each in stamps if "timestamp" in each]
    known_times = [at for at in times if at is not None]
    return OtherSpan(
        id=derived_id(root, "attempt", number),
        name=f"attempt {number} failed",
        parent=root,
        start_ns=min(known_times, default=None),
        end_ns=max(known_times, default=None),
        time_quality="derived" if known_times else "none",
        status="error",
        error=word(said.get("message")) or "error",
        extra=known(traceback=said.get("traceback"), events=len(events) or None),
        operation="retry",
    )


_SAID = ("message", "traceback")


def _named(node: Node, event: dict[str, Any]) -> str:
    detail = word(event.get(NAMED_BY.get(node.kind, "")))
    return f"{node.kind} {detail}" if detail else node.kind


def _error(event: dict[str, Any]) -> str:
    return word(obj(event.get("error")).get("message")) or "error"


def _extra(node: Node, event: dict[str, Any]) -> dict[str, Json]:
    """All that the event says beside what a span has a place for; of a change, the changes."""
    placed = _SPAN_PLACED if node.kind == "span" else _PLACED
    return known(**{name: value for name, value in event.items() if name not in placed})


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
        extra=_tool_extra(
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


def _tool_extra(**said: Json) -> dict[str, Json]:
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
