"""The spans of one trace put together: each kind to its own, tools to the calls that asked.

A model span has its model, tools, settings and figures; what each call was shown is kept as chains
that share what calls have in common. A tool span knows its call by the call's id within its thread,
else by the tool's name; where the model's answers hold no calls at all, it belongs to the model
call it stands beside. A call that no span ran is known by what the model said and was answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from replay.formats.chat import user_label
from replay.formats.common import (
    count,
    known,
    listed,
    obj,
    recorded,
    stop,
    total_usage,
    usd,
    word,
)
from replay.formats.genai.builder import Pairs
from replay.formats.genai.calls import tool_of
from replay.formats.genai.logs import annotation
from replay.formats.genai.messages import Body, answered, input_messages
from replay.formats.genai.records import Raw
from replay.formats.genai.values import parsed
from replay.formats.source import Tally
from replay.messages import calls, results
from replay.steps import Threads
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Batch,
    Context,
    Cost,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    ModelCall,
    Observation,
    OtherSpan,
    Place,
    Request,
    Response,
    Retrieval,
    SourceScore,
    TimeQuality,
    Tool,
    ToolCall,
    Usage,
    extend,
)

NO_INPUT = "the input was not recorded"
NO_TOOL_NAMES = "tool definitions recorded without their names"

_READ = (
    "openinference.", "llm.", "gen_ai.", "ai.", "input.", "output.", "tool.name", "tool.id",
    "tool.parameters", "annotations.", "evaluations.", "session.", "agent.name",
    "anthropic.tool_result.", "anthropic.message.",
)  # fmt: skip
"""How the attributes begin that a field of ours holds, or that repeat what one does."""


def first(raw: Raw, *names: str) -> Json:
    """The first of these attributes that is there, None where none is."""
    return next((raw.attributes[name] for name in names if name in raw.attributes), None)


def request(raw: Raw) -> Request:
    """All but the messages."""
    settings = parsed(raw.attributes.get("llm.invocation_parameters"))
    params = {name: value for name, value in obj(settings).items() if name != "tools"}
    return Request(
        model=word(
            first(
                raw, "llm.request.model_name", "gen_ai.request.model", "llm.model_name",
                "ai.model.id",
            )
        ),
        tools=_tools(raw),
        params=params,
    )  # fmt: skip


def response(raw: Raw, message: Message | None) -> Response:
    raw_stop = first(
        raw, "llm.finish_reason", "anthropic.message.stop_reason",
        "gen_ai.response.finish_reasons", "gen_ai.completion.0.finish_reason",
        "ai.response.finishReason",
    )  # fmt: skip
    if isinstance(raw_stop, list):
        raw_stop = raw_stop[0] if raw_stop else None
    why = word(raw_stop)
    return Response(
        message=message,
        id=word(first(raw, "gen_ai.response.id", "ai.response.id")),
        model=word(
            first(
                raw, "llm.response.model_name", "gen_ai.response.model", "ai.response.model",
                "llm.model_name",
            )
        ),
        stop=stop(why.replace("-", "_")) if why else None,
        stop_raw=why,
    )  # fmt: skip


def usage(raw: Raw) -> Usage | None:
    """Tokens; the input counts the cache in, as the convention says."""

    def of(*names: str) -> int | None:
        return count(first(raw, *names))

    detail = "llm.token_count.prompt_details."
    return total_usage(
        of(
            "llm.token_count.prompt", "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens",
            "ai.usage.inputTokens", "ai.usage.promptTokens",
        ),
        of(
            "llm.token_count.completion", "gen_ai.usage.output_tokens",
            "gen_ai.usage.completion_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens",
        ),
        reasoning=of("llm.token_count.completion_details.reasoning", "ai.usage.reasoningTokens"),
        read=of(
            f"{detail}cache_read", "gen_ai.usage.cache_read.input_tokens",
            "ai.usage.cachedInputTokens",
        ),
        write=of(
            f"{detail}cache_write", "gen_ai.usage.cache_write.input_tokens",
            "gen_ai.usage.cache_creation.input_tokens",
        ),
    )  # fmt: skip


def cost(raw: Raw) -> Cost | None:
    """What the source says the call cost."""
    return recorded(usd(raw.attributes.get("llm.cost.total")))


def fidelity(asked: Request, *, joined: bool) -> Fidelity:
    """Exact where messages, system prompt and tools were recorded; `joined` where the messages
    of earlier calls had to be put before those recorded."""
    if asked.context is None and asked.system is None:
        return Fidelity(level=Level.NONE, reasons=(NO_INPUT,))
    reasons = (NO_SYSTEM,) if asked.system is None else ()
    if asked.tools is None:
        reasons = (*reasons, NO_TOOLS)
    elif not all(each.name for each in asked.tools):
        reasons = (*reasons, NO_TOOL_NAMES)
    if reasons:
        return Fidelity(level=Level.PARTIAL, reasons=reasons)
    return Fidelity(level=Level.REBUILT if joined else Level.EXACT)


def rest(raw: Raw) -> dict[str, Json]:
    """Attributes and events that no field of ours holds."""
    kept = {n: v for n, v in raw.attributes.items() if not n.startswith(_READ)}
    return known(attributes=kept, events=list(raw.events))


def _tools(raw: Raw) -> tuple[Tool, ...] | None:
    """The tools offered, None where the span does not say."""
    counted = listed(obj(raw.tree.get("llm")).get("tools"))
    if counted:
        return tuple(tool_of(obj(obj(each).get("tool")).get("json_schema")) for each in counted)
    older = listed(obj(obj(raw.tree.get("llm")).get("request")).get("functions"))
    if older:
        return tuple(
            tool_of({**obj(each), "parameters": parsed(obj(each).get("parameters"))})
            for each in older
        )
    declared = parsed(first(raw, "gen_ai.tool.definitions", "ai.prompt.tools"))
    return tuple(map(tool_of, declared)) if isinstance(declared, list) else None


_SYSTEM = {"system", "developer"}


class Shown(NamedTuple):
    """`fresh` are messages no call was shown before; `joined` as in `fidelity`."""

    system: Message | None = None
    context: Context | None = None
    fresh: tuple[Message, ...] = ()
    joined: bool = False


class Conversations:
    """The contexts of one trace's model calls, in time order."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, bytes], Context] = {}
        self._systems: dict[bytes, Message] = {}

    def shown(self, bodies: list[Body], before: ModelCall | None) -> Shown:
        """What a call was shown; `before` is the model call of its thread before it."""
        system = None
        if bodies and word(bodies[0].get("role")) in _SYSTEM:
            key = msgspec.json.encode(bodies[0])
            system = self._systems.setdefault(key, Message(dialect="openai", body=bodies[0]))
            bodies = bodies[1:]
        told = [Message(dialect="openai", body=body) for body in bodies]
        joined = system is None and before is not None and _continues(told, before)
        context: Context | None = None
        if joined and before is not None:
            system, context = before.request.system, before.request.context
            if before.response.message is not None:
                told.insert(0, before.response.message)
        fresh: list[Message] = []
        for message in told:
            context, new = self._after(context, message)
            if new:
                fresh.append(message)
        return Shown(system, context, tuple(fresh), joined)

    def _after(self, context: Context | None, message: Message) -> tuple[Context, bool]:
        """The node of a message after a context, and whether it is new."""
        key = (id(context), msgspec.json.encode(message.body))
        node = self._nodes.get(key)
        if node is not None:
            return node, False
        node = extend(context, (message,))
        assert node is not None
        self._nodes[key] = node
        return node, True


def _continues(told: list[Message], before: ModelCall) -> bool:
    """Do the messages begin with answers to the calls that the one before made?"""
    if before.response.message is None or not told:
        return False
    made = {call.id for call in calls(before.response.message)}
    found = results(told[0])
    return bool(found) and all(result.call_id in made for result in found)


FORMAT = "openinference"

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
        self._pairs.settle(self._spans)
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
            made = Retrieval(**_span(raw), query=query, documents=documents, extra=rest(raw))
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
        asked = structs.replace(request(raw), system=shown.system, context=shown.context)
        call = ModelCall(
            **_span(raw),
            request=asked,
            response=response(raw, message),
            usage=usage(raw),
            cost=cost(raw),
            fidelity=fidelity(asked, joined=shown.joined),
            extra=rest(raw),
        )
        self._spans.append(call)
        self._beside[raw.parent] = call
        self._pairs.add_model_call(thread, call)

    def _tool(self, raw: Raw) -> None:
        named = word(first(raw, "tool.name", "gen_ai.tool.name", "ai.toolCall.name"))
        call_id = word(first(raw, "tool.id", "gen_ai.tool.call.id", "ai.toolCall.id"))
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
            extra=rest(raw),
        )
        self._spans.append(span)

    def _neighbour(self, raw: Raw) -> ModelCall | None:
        """The model call before a tool span under one parent, where its message holds no calls:
        the model wrote code or prose, and the framework called what it named."""
        beside = self._beside.get(raw.parent)
        message = beside.response.message if beside is not None else None
        return beside if message is not None and not calls(message) else None


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
    return known(input=given("input.value"), output=given("output.value"), **rest(raw))


def _arguments(raw: Raw) -> Json:
    """A tool span's own account of its arguments."""
    given = first(raw, "gen_ai.tool.call.arguments", "ai.toolCall.args", "input.value")
    if given is None:
        given = obj(raw.tree.get("tool")).get("parameters")
    return parsed(given)


def _observed(raw: Raw, call_id: str | None, name: str) -> Observation | None:
    """A tool span's own account of what came back."""
    shown = first(
        raw, "gen_ai.tool.call.result", "anthropic.tool_result.content", "ai.toolCall.result",
        "output.value",
    )  # fmt: skip
    if shown is None:
        return None
    content = shown if isinstance(shown, str) else msgspec.json.encode(shown).decode()
    body = {"role": "tool", "content": content, **known(tool_call_id=call_id, name=name)}
    return Observation(message=Message(dialect="openai", body=body))


def trace(name: str, found: list[Raw], path: str, tally: Tally) -> Batch:
    """The one batch of a trace, from all its spans; `path` is where they were read."""
    tally.counts["traces"] += 1
    builder = Builder(found, tally)
    spans = builder.spans()
    row = _row(found)
    agent = next((span.name for span in spans if isinstance(span, AgentSpan)), None)
    header = Header(
        format=FORMAT,
        source_id=name,
        path=path,
        title=_title(spans, found),
        task=word(row.get("instance_id")),
        agent=_named(found, "agent.name") or agent,
        labels=known(session=_named(found, "session.id")),
        reference=row or None,
    )
    return Batch(header=header, spans=spans, scores=tuple(_scores(found)), last=True)


def _named(found: list[Raw], attribute: str) -> str | None:
    """The first span's word for it that has one."""
    words = (word(raw.attributes.get(attribute)) for raw in found)
    return next((each for each in words if each is not None), None)


def _row(found: list[Raw]) -> dict[str, Json]:
    """The data set's row that the run was started with, gold answers in it, where it was logged."""
    for raw in found:
        for log in raw.logs:
            row = obj(obj(obj(log.get("body")).get("function.arguments")).get("item"))
            if row:
                return row
    return {}


def _title(spans: tuple[AnySpan, ...], found: list[Raw]) -> str | None:
    """The first line of what the user asked: the run's own task, else the first message."""
    for raw in found:
        given = parsed(raw.attributes.get("input.value"))
        task = word(obj(given).get("task")) or word(given if raw.parent is None else None)
        if task:
            return user_label([{"role": "user", "content": task}])
    for span in spans:
        if isinstance(span, ModelCall) and span.request.context is not None:
            return user_label([message.body for message in span.request.context.messages()])
    return None


def _scores(found: list[Raw]) -> Iterator[SourceScore]:
    """Annotations and evaluations that stand on spans."""
    for raw in found:
        for several, one in (("annotations", "annotation"), ("evaluations", "evaluation")):
            for entry in listed(raw.tree.get(several)):
                yield annotation(obj(obj(entry).get(one)), raw.id, one)
        for given in raw.annotations:
            yield annotation({**given, **obj(given.get("result"))}, raw.id)
