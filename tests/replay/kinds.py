"""The spans of a batch by their kind, and what a model call was asked with."""

from __future__ import annotations

from replay.messages import text
from replay.trace import AgentSpan, Batch, ModelCall, ToolCall


def models(batch: Batch) -> list[ModelCall]:
    return [span for span in batch.spans if isinstance(span, ModelCall)]


def tools(batch: Batch) -> list[ToolCall]:
    return [span for span in batch.spans if isinstance(span, ToolCall)]


def agents(batch: Batch) -> list[AgentSpan]:
    return [span for span in batch.spans if isinstance(span, AgentSpan)]


def seen(call: ModelCall) -> list[tuple[str, str]]:
    """(role, text) of every message the call was asked with, the system prompt left out."""
    context = call.request.context
    return [(m.role, text(m)) for m in context.messages()] if context else []
