"""Spans that are no calls: agents, solvers, scorers and steps; state, sandbox, approval events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from replay.formats.fields import known, obj, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.clock import ns
from replay.formats.inspect.record import entries, parts
from replay.formats.inspect.tree import Node
from replay.formats.normal import derived_id
from replay.trace import AgentSpan, Json, OtherSpan

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
