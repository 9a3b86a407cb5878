"""What kind of span is this? Each convention has its word for it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from replay.formats.fields import word
from replay.formats.otlp import names
from replay.formats.otlp.records import Raw


class Kind(StrEnum):
    """The kinds told apart; any other span keeps its own word (`operation`)."""

    MODEL = "model"
    TOOL = "tool"
    AGENT = "agent"
    RETRIEVER = "retriever"
    OTHER = "other"


_OPERATIONS = {
    "chat": Kind.MODEL, "generate_content": Kind.MODEL, "text_completion": Kind.MODEL,
    "completion": Kind.MODEL, "generate": Kind.MODEL, "execute_tool": Kind.TOOL,
    "invoke_agent": Kind.AGENT, "create_agent": Kind.AGENT, "invoke_workflow": Kind.AGENT,
    "retrieval": Kind.RETRIEVER, "create_memory": Kind.TOOL, "update_memory": Kind.TOOL,
    "upsert_memory": Kind.TOOL, "search_memory": Kind.TOOL, "delete_memory": Kind.TOOL,
}  # fmt: skip
_WORDS = {
    "llm": Kind.MODEL, "chat_model": Kind.MODEL, "generation": Kind.MODEL, "tool": Kind.TOOL,
    "agent": Kind.AGENT, "workflow": Kind.AGENT, "retriever": Kind.RETRIEVER,
    "chat": Kind.MODEL, "completion": Kind.MODEL, "llm_request": Kind.MODEL,
    "interaction": Kind.AGENT,
}  # fmt: skip
"""The words of other conventions, in lower case."""

_NAMING = (
    "openinference.span.kind",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "llm.request.type",
    "span.type",
)
_SAID = ("gen_ai.choice", "gen_ai.content.completion")


def kind_of(raw: Raw) -> Kind:
    """The kind of a span, by what it says of itself, else by what only such a span has."""
    given = raw.attributes
    operation = given.get(names.OPERATION)
    if operation is not None:
        return _OPERATIONS.get(str(operation), Kind.OTHER)
    for name in _NAMING:
        if name in given:
            return _WORDS.get(str(given[name]).lower(), Kind.OTHER)
    kind = word(given.get("mlflow.spanType"))
    if kind is not None:
        return _WORDS.get(kind.strip('"').lower(), Kind.OTHER)
    vercel = word(given.get("ai.operationId"))
    return _vercel(vercel) if vercel is not None else _by_content(raw, given)


def operation_of(raw: Raw) -> str:
    """A span's own word for what it is, "span" where it has none."""
    given = raw.attributes
    said = names.first_word(given, (names.OPERATION, *_NAMING, "ai.operationId"))
    return said.lower() if said else "span"


def _vercel(operation: str) -> Kind:
    if operation == "ai.toolCall":
        return Kind.TOOL
    if operation.endswith((".doGenerate", ".doStream")):
        return Kind.MODEL
    return Kind.OTHER if ".embed" in operation else Kind.AGENT


def _by_content(raw: Raw, given: dict[str, Any]) -> Kind:
    if "gen_ai.tool.name" in given or "gen_ai.tool.call.id" in given:
        return Kind.TOOL
    if names.OUTPUT in given or "gen_ai.completion.0.role" in given:
        return Kind.MODEL
    if any(event.name in _SAID for event in raw.events):
        return Kind.MODEL
    asks = names.first(given, names.ASKED_MODEL.names[:3]) is not None
    if asks and names.first(given, names.USAGE_OUT.names) is not None:
        return Kind.MODEL
    return Kind.AGENT if "gen_ai.agent.name" in given else Kind.OTHER
