"""Spans that are no calls: agents, solvers, scorers and steps; state, sandbox, approval events."""

from __future__ import annotations

from replay.formats.fields import known, obj, place_of, times, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.tree import Node
from replay.formats.normal import derived_id, ns
from replay.trace import AgentSpan, Json, OtherSpan, Place

SILENT = {"sample_init", "score"}
"""Events that are no spans: the first repeats the sample's own fields, scores are kept as such."""

NAMED_BY = {
    "sandbox": "action", "approval": "decision", "sample_limit": "type", "info": "source",
    "compaction": "type", "interrupt": "source", "subtask": "name",
}  # fmt: skip
"""The field that tells events of a kind apart."""

UNDERSTOOD = {
    "state", "store", "logger", "input", "error", "score_edit", "branch", "anchor", "checkpoint",
    *NAMED_BY,
}  # fmt: skip

_PLACED = {
    "event", "timestamp", "completed", "uuid", "span_id", "working_start", "events",
    "input_ansi", "traceback_ansi",
}  # fmt: skip
"""Fields that a span has a place for, or that repeat another one in colour."""
_SPAN_PLACED = _PLACED | {"id", "parent_id", "name", "type", "action"}


def agent_span(node: Node, parent: str, texts: Attachments) -> AgentSpan:
    """An agent, or a scorer or subtask that asks a model and so has a thread of its own."""
    at = times(node.event)
    return AgentSpan(
        id=node.id,
        name=node.name,
        parent=parent,
        start_ns=at.start_ns,
        end_ns=ns(node.end_at) if at.end_ns is None else at.end_ns,
        time_quality=at.quality,
        place=_place(node),
        extra=_extra(node, texts)
        if node.type == "agent"
        else {"type": node.type, **_extra(node, texts)},
    )


def inner_agent(tool: Node) -> AgentSpan:
    """The thread of a tool that asks a model without saying that it is an agent."""
    at = times(tool.event, tool.next_at)
    return AgentSpan(
        id=inner_id(tool),
        name=word(tool.event.get("function")) or tool.name,
        parent=tool.id,
        start_ns=at.start_ns,
        end_ns=at.end_ns,
        time_quality=at.quality,
        place=place_of(tool.event),
        extra={"type": "tool"},
    )


def inner_id(tool: Node) -> str:
    return derived_id(tool.id, "agent")


def other_span(node: Node, parent: str, texts: Attachments) -> OtherSpan:
    """A span or step that holds others, or an event worth its place in the tree."""
    at = times(node.event)
    error = _error(node)
    return OtherSpan(
        id=node.id,
        name=node.name if node.kind == "span" else _named(node),
        parent=parent,
        start_ns=at.start_ns,
        end_ns=ns(node.end_at) if at.end_ns is None else at.end_ns,
        time_quality=at.quality,
        status="error" if error else "unset",
        error=error,
        place=_place(node),
        extra=_extra(node, texts),
        operation=node.type,
    )


def _place(node: Node) -> Place:
    return Place(span=word(node.event.get("id"))) if node.kind == "span" else place_of(node.event)


def _named(node: Node) -> str:
    detail = word(node.event.get(NAMED_BY.get(node.kind, "")))
    return f"{node.kind} {detail}" if detail else node.kind


def _error(node: Node) -> str | None:
    if node.kind != "error":
        return None
    return word(obj(node.event.get("error")).get("message")) or "error"


def _extra(node: Node, texts: Attachments) -> dict[str, Json]:
    """All that the event says beside what a span has a place for; of a change, the changes."""
    placed = _SPAN_PLACED if node.kind == "span" else _PLACED
    said = {name: value for name, value in node.event.items() if name not in placed}
    return known(**obj(texts.resolve(said)))
