"""The spans of one trace put together: each kind to its own, tools to the calls that asked.

A tool span knows its call by the call's id within its thread, else by the tool's name; where
the model's answers hold no calls at all, it belongs to the model call it stands beside. A call
that no span ran is known by what the model said and was answered.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import structs

from replay.formats.common import count, known, obj, word
from replay.formats.openinference import calls as figures
from replay.formats.openinference.calls import Conversations, Pairs, PendingCall, told_of
from replay.formats.openinference.exports import Raw, parsed
from replay.formats.openinference.messages import answered, input_messages
from replay.formats.source import Tally
from replay.messages import calls
from replay.steps import Threads
from replay.trace import (
    AgentSpan,
    AnySpan,
    Json,
    Message,
    ModelCall,
    Observation,
    OtherSpan,
    Place,
    Retrieval,
    TimeQuality,
    ToolCall,
)

_OPERATIONS = {
    "chat": "LLM", "generate_content": "LLM", "text_completion": "LLM", "execute_tool": "TOOL",
    "invoke_agent": "AGENT", "create_agent": "AGENT", "embeddings": "EMBEDDING",
    "retrieval": "RETRIEVER",
}  # fmt: skip


class Builder:
    """Builds the spans of a trace from those of its export."""

    def __init__(self, found: list[Raw], tally: Tally) -> None:
        self._tally = tally
        self._by_id = {raw.id: raw for raw in reversed(found)}
        parents = {name: raw.parent for name, raw in self._by_id.items()}
        agents = {name for name, raw in self._by_id.items() if kind_of(raw) == "AGENT"}
        self._threads = Threads(parents, agents, "")
        self._spans: list[AnySpan] = []
        self._conversations = Conversations()
        self._pairs = Pairs()
        self._beside: dict[str | None, ModelCall] = {}
        for raw in found:
            self._count(raw)
        for raw in _in_time(found):
            if self._by_id[raw.id] is raw:
                self._put(raw)
            else:
                tally.problem(f"span {raw.id}", "stands in the file twice; it is read once")

    def spans(self) -> tuple[AnySpan, ...]:
        """The spans in time order; a call that was only told of stands after those of the tree."""
        for wanted in self._pairs.wanted:
            self._settle(wanted)
        self._pairs.wanted.clear()
        return tuple(self._spans)

    def _count(self, raw: Raw) -> None:
        kind, counts = kind_of(raw), self._tally.counts
        counts[f"kind {kind}"] += 1
        counts["errors"] += raw.status == "error"
        if kind == "LLM":
            counts["prompt_tokens"] += count(raw.attributes.get("llm.token_count.prompt")) or 0
            counts["completion_tokens"] += (
                count(raw.attributes.get("llm.token_count.completion")) or 0
            )

    def _put(self, raw: Raw) -> None:
        kind = kind_of(raw)
        if kind == "LLM":
            self._model(raw)
        elif kind == "TOOL":
            self._tool(raw)
        elif kind == "AGENT":
            name = word(raw.attributes.get("agent.name")) or raw.name or "agent"
            self._spans.append(AgentSpan(**_span(raw, name), extra=_extra(raw)))
        elif kind == "RETRIEVER":
            documents = obj(raw.tree.get("retrieval")).get("documents")
            query = parsed(raw.attributes.get("input.value"))
            made = Retrieval(
                **_span(raw), query=query, documents=documents, extra=figures.rest(raw)
            )
            self._spans.append(made)
        else:
            operation = "span" if kind == "NONE" else kind.lower()
            self._spans.append(OtherSpan(**_span(raw), operation=operation, extra=_extra(raw)))

    def _model(self, raw: Raw) -> None:
        thread = self._threads.above(raw.id)
        shown = self._conversations.shown(input_messages(raw), self._pairs.latest.get(thread))
        self._pairs.add_message(thread, shown.fresh)
        body = answered(raw)
        message = Message(dialect="openai", body=body) if body is not None else None
        request = structs.replace(figures.request(raw), system=shown.system, context=shown.context)
        call = ModelCall(
            **_span(raw),
            request=request,
            response=figures.response(raw, message),
            usage=figures.usage(raw),
            cost=figures.cost(raw),
            fidelity=figures.fidelity(request, joined=shown.joined),
            extra=figures.rest(raw),
        )
        self._spans.append(call)
        self._beside[raw.parent] = call
        self._pairs.add_model_call(thread, call)

    def _tool(self, raw: Raw) -> None:
        named = word(figures.first(raw, "tool.name", "gen_ai.tool.name", "ai.toolCall.name"))
        call_id = word(figures.first(raw, "tool.id", "gen_ai.tool.call.id", "ai.toolCall.id"))
        name = named or raw.name
        wanted = self._pairs.run(self._threads.above(raw.id), call_id, name, len(self._spans))
        call = wanted.call if wanted is not None else None
        asker = wanted.asker if wanted is not None else self._neighbour(raw)
        span = ToolCall(
            **_span(raw, name),
            call_id=call_id,
            asked_by=asker.id if asker is not None else None,
            arguments=call.arguments if call is not None else _arguments(raw),
            arguments_raw=call.raw if call is not None else None,
            observation=_observed(raw, call_id, name),
            extra=figures.rest(raw),
        )
        self._spans.append(span)

    def _neighbour(self, raw: Raw) -> ModelCall | None:
        """The model call before a tool span under one parent, where its message holds no calls:
        the model wrote code or prose, and the framework called what it named."""
        beside = self._beside.get(raw.parent)
        message = beside.response.message if beside is not None else None
        return beside if message is not None and not calls(message) else None

    def _settle(self, wanted: PendingCall) -> None:
        """Give a call its answer; one that no span ran becomes a span here."""
        if wanted.slot is None:
            self._spans.append(told_of(wanted))
            return
        span = self._spans[wanted.slot]
        assert isinstance(span, ToolCall)
        if wanted.observation is not None:
            self._spans[wanted.slot] = structs.replace(span, observation=wanted.observation)


def kind_of(raw: Raw) -> str:
    """The span's kind in OpenInference's words, NONE where nothing tells."""
    if raw.kind is not None:
        return raw.kind.upper()
    given = _OPERATIONS.get(str(raw.attributes.get("gen_ai.operation.name")))
    if given is not None:
        return given
    operation = word(raw.attributes.get("ai.operationId")) or ""
    if operation == "ai.toolCall":
        return "TOOL"
    if ".embed" in operation:
        return "EMBEDDING"
    if operation.endswith((".doGenerate", ".doStream")):
        return "LLM"
    return "AGENT" if operation else "NONE"


def _in_time(found: list[Raw]) -> list[Raw]:
    """Spans by (start, order in the file): exports may stand newest first, or children first."""
    return sorted(found, key=lambda raw: raw.start_ns if raw.start_ns is not None else -1)


def _span(raw: Raw, name: str | None = None) -> dict[str, Any]:
    """The fields every span has."""
    quality: TimeQuality = "exact" if raw.start_ns is not None else "none"
    return {
        "id": raw.id,
        "parent": raw.parent,
        "name": name or raw.name or "span",
        "start_ns": raw.start_ns,
        "end_ns": raw.end_ns,
        "time_quality": quality,
        "status": raw.status,
        "error": _error(raw),
        "place": Place(span=raw.id),
    }


def _error(raw: Raw) -> str | None:
    """Why a failed span failed: its status, else the exception it saw."""
    if raw.status != "error":
        return None
    for event in raw.events:
        if event["name"] == "exception":
            said = word(obj(event["attributes"]).get("exception.message"))
            return raw.message or said or "error"
    return raw.message or word(raw.attributes.get("error.type")) or "error"


def _extra(raw: Raw) -> dict[str, Json]:
    """What an agent or another span was given and gave, and what no field of ours holds."""
    given = raw.attributes.get
    return known(input=given("input.value"), output=given("output.value"), **figures.rest(raw))


def _arguments(raw: Raw) -> Json:
    """A tool span's own account of its arguments."""
    given = figures.first(raw, "gen_ai.tool.call.arguments", "ai.toolCall.args", "input.value")
    if given is None:
        given = obj(raw.tree.get("tool")).get("parameters")
    return parsed(given)


def _observed(raw: Raw, call_id: str | None, name: str) -> Observation | None:
    """A tool span's own account of what came back."""
    shown = figures.first(
        raw, "gen_ai.tool.call.result", "anthropic.tool_result.content", "ai.toolCall.result",
        "output.value",
    )  # fmt: skip
    if shown is None:
        return None
    content = shown if isinstance(shown, str) else msgspec.json.encode(shown).decode()
    body = {"role": "tool", "content": content, **known(tool_call_id=call_id, name=name)}
    return Observation(message=Message(dialect="openai", body=body))
