"""The names that one thing has had in the GenAI conventions and in other words; kinds of span.

`Known` is a span with its kind and its attributes sorted by what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from replay.formats.common import word
from replay.formats.genai.records import RawSpan
from replay.trace import GOLDEN, Json

INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
SYSTEM = "gen_ai.system_instructions"
OPERATION = "gen_ai.operation.name"
PREVIOUS = "gen_ai.request.previous_response.id"


class Thing:
    """One thing under all its names, the one to prefer first."""

    def __init__(self, *names: str) -> None:
        self.names = names


ASKED_MODEL = Thing(
    "gen_ai.request.model", "llm.request.model_name", "llm.request.model", "llm.model_name",
    "ai.model.id", "embedding.model_name", "langfuse.observation.model.name", "mlflow.llm.model",
    "model",
)  # fmt: skip
ANSWERED_MODEL = Thing(
    "gen_ai.response.model", "llm.response.model_name", "llm.response.model", "ai.response.model",
    "langfuse.observation.model.name", "llm.model_name",
)  # fmt: skip
RESPONSE = Thing("gen_ai.response.id", "ai.response.id", "llm.response.id")
USAGE_IN = Thing(
    "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens",
    "llm.token_count.prompt", "ai.usage.inputTokens", "ai.usage.promptTokens",
)  # fmt: skip
USAGE_OUT = Thing(
    "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens",
    "llm.token_count.completion", "ai.usage.outputTokens", "ai.usage.completionTokens",
)  # fmt: skip
CACHE_READ = Thing(
    "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens", "gen_ai.usage.details.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read", "ai.usage.cachedInputTokens",
)  # fmt: skip
CACHE_WRITE = Thing(
    "gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens", "gen_ai.usage.details.cache_write_tokens",
    "llm.token_count.prompt_details.cache_write",
)  # fmt: skip
CACHE_WRITE_1H = Thing("anthropic.usage.cache_creation.ephemeral_1h_input_tokens")
REASONING = Thing(
    "gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning", "ai.usage.reasoningTokens",
)  # fmt: skip
COST = Thing("gen_ai.usage.cost", "llm.cost.total", "cost_usd")
STOP = Thing(
    "gen_ai.response.finish_reasons", "gen_ai.response.finish_reason",
    "anthropic.message.stop_reason", "gen_ai.completion.0.finish_reason",
    "gen_ai.finishReason", "llm.finish_reason", "ai.response.finishReason", "stop_reason",
)  # fmt: skip
TOOLS = Thing("gen_ai.tool.definitions", "ai.prompt.tools", "mlflow.chat.tools")
TOOL = Thing(
    "gen_ai.tool.name",
    "tool.name",
    "ai.toolCall.name",
    "tool_name",
    "haystack.tool.name",
    "traceloop.entity.name",
)
CALL = Thing("gen_ai.tool.call.id", "tool.id", "ai.toolCall.id", "tool_use_id")
ARGUMENTS = Thing(
    "gen_ai.tool.call.arguments", "tool_arguments", "ai.toolCall.args", "input.value",
    "traceloop.entity.input", "langfuse.observation.input", "mlflow.spanInputs",
    "mastra.tool_call.input", "mastra.mcp_tool_call.input", "gcp.vertex.agent.tool_call_args",
    "haystack.agent.step.tool.input", "tool_input",
)  # fmt: skip
RESULT = Thing(
    "gen_ai.tool.call.result", "tool_response", "anthropic.tool_result.content",
    "ai.toolCall.result", "output.value", "traceloop.entity.output", "langfuse.observation.output",
    "mlflow.spanOutputs", "mastra.tool_call.output", "mastra.mcp_tool_call.output",
    "gcp.vertex.agent.tool_response", "haystack.agent.step.tool.output",
)  # fmt: skip
GIVEN = Thing(
    "input.value", "traceloop.entity.input", "langfuse.observation.input", "mlflow.spanInputs",
    "mastra.agent_run.input", "mastra.model_step.input", "mastra.model_generation.input",
    "gcp.vertex.agent.llm_request", "haystack.agent.step.llm.input", "haystack.agent.input",
    "haystack.component.input", "request_data", INPUT,
)  # fmt: skip
GAVE = Thing(
    "output.value", "traceloop.entity.output", "langfuse.observation.output", "mlflow.spanOutputs",
    "mastra.agent_run.output", "mastra.model_step.output", "mastra.model_generation.output",
    "gcp.vertex.agent.llm_response", "haystack.agent.step.llm.output", "haystack.agent.output",
    "haystack.component.output", "response_data", OUTPUT,
)  # fmt: skip
GOLDEN_SET = Thing(GOLDEN)
OUTCOME = Thing("arc.outcome")
SESSION = Thing(
    "gen_ai.conversation.id", "session.id", "langfuse.session.id",
    "traceloop.association.properties.session_id", "anthropic.session.id",
)  # fmt: skip
AGENT = Thing("gen_ai.agent.name", "agent.name", "gen_ai.workflow.name", "agent_name")
PROMPT = Thing("gen_ai.prompt.name", "langfuse.observation.prompt.name")
PROMPT_VERSION = Thing("gen_ai.prompt.version", "langfuse.observation.prompt.version")

PASSED = ("passed", "pass", "success", "succeeded")
FAILED = ("failed", "fail", "failure")
"""What an outcome, or the label of an evaluation of a whole run, says, in lower case."""


def ended_as(said: str | None) -> Literal["passed", "failed"] | None:
    """The outcome that a word tells."""
    word = (said or "").lower()
    return "failed" if word in FAILED else "passed" if word in PASSED else None


_THINGS = (
    ASKED_MODEL, ANSWERED_MODEL, RESPONSE, USAGE_IN, USAGE_OUT, CACHE_READ, CACHE_WRITE,
    CACHE_WRITE_1H, REASONING, COST, STOP, TOOLS, TOOL, CALL, ARGUMENTS, RESULT, GIVEN, GAVE,
    SESSION, GOLDEN_SET, OUTCOME, AGENT, PROMPT, PROMPT_VERSION,
)  # fmt: skip

PARAMS = {
    "gen_ai.request.max_tokens": "max_tokens",
    "gen_ai.request.temperature": "temperature",
    "gen_ai.request.top_p": "top_p",
    "gen_ai.request.top_k": "top_k",
    "gen_ai.request.seed": "seed",
    "gen_ai.openai.request.seed": "seed",
    "gen_ai.request.stop_sequences": "stop_sequences",
    "gen_ai.request.frequency_penalty": "frequency_penalty",
    "gen_ai.request.presence_penalty": "presence_penalty",
    "gen_ai.request.choice.count": "n",
    "gen_ai.request.reasoning.level": "reasoning_effort",
    "ai.settings.maxOutputTokens": "max_tokens",
    "ai.settings.maxTokens": "max_tokens",
    "ai.settings.temperature": "temperature",
    "ai.settings.topP": "top_p",
    "ai.settings.topK": "top_k",
}
"""The settings of a request, and what they are called in it."""

_SCORE = re.compile(r"(trace\.)?(annotations|evaluations)\.\d")

_READ = frozenset(
    {OPERATION, PREVIOUS, INPUT, OUTPUT, SYSTEM, "gen_ai.prompt", "gen_ai.completion"}
)
"""Names read by themselves."""

_FLAT = re.compile(
    r"gen_ai\.(prompt|completion)\.\d|llm\.(input_messages|output_messages|tools|prompts|choices"
    r"|token_count|cost|invocation_parameters|request\.functions|usage)\b|ai\.(prompt|response)\b"
    r"|openinference\.span\.kind|(input|output)\.mime_type"
    r"|tool\.parameters|traceloop\.span\.kind|retrieval\.documents"
)
"""The beginnings of names that belong to messages, tools and figures counted one by one."""

_KEPT = frozenset(
    "gen_ai.provider.name gen_ai.system gen_ai.output.type gen_ai.tool.type gen_ai.agent.id "
    "gen_ai.tool.description gen_ai.agent.description gen_ai.agent.version "
    "gen_ai.response.time_to_first_chunk gen_ai.request.stream gen_ai.is_streaming "
    "gen_ai.conversation.compacted gen_ai.data_source.id "
    "gen_ai.request.service_tier gen_ai.response.service_tier gen_ai.retrieval.documents "
    "gen_ai.retrieval.query.text gen_ai.retrieval.top_k gen_ai.token.type "
    "gen_ai.request.encoding_formats gen_ai.embeddings.dimension.count".split()
)
"""Names of the standard that no field of ours holds; they stay beside the span."""


class Sorted(NamedTuple):
    """The attributes of a span: values by what they are, settings of a request, the rest, and
    those that spell scores.

    `new` are names of the GenAI conventions that are unknown here; their values are in the rest.
    """

    of: dict[Thing, Json]
    params: dict[str, Json]
    rest: dict[str, Json]
    scores: dict[str, Json]
    new: list[str]


class _Place(NamedTuple):
    """Where an attribute goes: to each of the things it names, with its rank among their names."""

    things: tuple[tuple[Thing, int], ...] = ()
    param: str | None = None
    scores: bool = False
    stays: bool = False
    new: bool = False


@lru_cache(8192)
def _place(name: str) -> _Place:
    things = tuple((t, t.names.index(name)) for t in _THINGS if name in t.names)
    if name in PARAMS:
        return _Place(param=PARAMS[name])
    if _SCORE.match(name):
        return _Place(scores=True)
    if things or name in _READ or _FLAT.match(name):
        return _Place(things=things)
    known = name in _KEPT or name.startswith(("gen_ai.usage.", "gen_ai.evaluation."))
    return _Place(stays=True, new=name.startswith("gen_ai.") and not known)


def sort_out(attributes: dict[str, Any]) -> Sorted:
    """The attributes of a span by what they are."""
    found = Sorted({}, {}, {}, {}, [])
    ranks: dict[Thing, int] = {}
    for name, value in attributes.items():
        things, param, scores, stays, new = _place(name)
        for thing, rank in things:
            if rank < ranks.get(thing, rank + 1):
                found.of[thing] = value
                ranks[thing] = rank
        if param is not None:
            found.params[param] = value
        elif scores:
            found.scores[name] = value
        elif stays:
            found.rest[name] = value
            if new:
                found.new.append(name)
    return found


def first(attributes: dict[str, Any], names: Iterable[str]) -> Json:
    """The value under the first of these names that is there, None where none is."""
    for name in names:
        value = attributes.get(name)
        if value is not None:
            return value
    return None


def first_word(attributes: dict[str, Any], names: Iterable[str]) -> str | None:
    """The same as text."""
    return word(first(attributes, names))


class Kind(StrEnum):
    """The kinds told apart; any other span keeps its own word (`operation`)."""

    MODEL = "model"
    TOOL = "tool"
    AGENT = "agent"
    RETRIEVER = "retriever"
    OTHER = "other"


OPERATIONS = {
    "chat": Kind.MODEL, "generate_content": Kind.MODEL, "text_completion": Kind.MODEL,
    "completion": Kind.MODEL, "generate": Kind.MODEL, "execute_tool": Kind.TOOL,
    "invoke_agent": Kind.AGENT, "invoke_workflow": Kind.AGENT,
    "retrieval": Kind.RETRIEVER, "create_memory": Kind.TOOL, "update_memory": Kind.TOOL,
    "upsert_memory": Kind.TOOL, "search_memory": Kind.TOOL, "delete_memory": Kind.TOOL,
}  # fmt: skip
KIND_WORDS = {
    "llm": Kind.MODEL, "chat_model": Kind.MODEL, "generation": Kind.MODEL, "tool": Kind.TOOL,
    "agent": Kind.AGENT, "workflow": Kind.AGENT, "retriever": Kind.RETRIEVER,
    "chat": Kind.MODEL, "completion": Kind.MODEL, "llm_request": Kind.MODEL,
    "interaction": Kind.AGENT, "agent_run": Kind.AGENT, "workflow_run": Kind.AGENT,
    "model_generation": Kind.MODEL, "model_step": Kind.MODEL, "model_inference": Kind.MODEL,
    "tool_call": Kind.TOOL, "mcp_tool_call": Kind.TOOL,
}  # fmt: skip
"""The words of other conventions, in lower case."""

NAMING = (
    "openinference.span.kind",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "mastra.span.type",
    "llm.request.type",
    "span.type",
)
_SAID = ("gen_ai.choice", "gen_ai.content.completion")


def kind_of(raw: RawSpan) -> Kind:
    """The kind of a span, by what it says of itself, else by what only such a span has."""
    given = raw.attributes
    operation = given.get(OPERATION)
    known = OPERATIONS.get(str(operation))
    if known is not None:
        return known
    for name in NAMING:
        if name in given:
            return KIND_WORDS.get(str(given[name]).lower(), Kind.OTHER)
    if operation is not None:
        return Kind.OTHER
    kind = word(given.get("mlflow.spanType"))
    if kind is not None:
        return KIND_WORDS.get(kind.strip('"').lower(), Kind.OTHER)
    vercel = word(given.get("ai.operationId"))
    return _vercel(vercel) if vercel is not None else _by_content(raw, given)


def operation_of(raw: RawSpan) -> str:
    """A span's own word for what it is, "span" where it has none."""
    given = raw.attributes
    said = first_word(given, (OPERATION, *NAMING, "ai.operationId"))
    return said.lower() if said else "span"


def _vercel(operation: str) -> Kind:
    if operation == "ai.toolCall":
        return Kind.TOOL
    if operation.endswith((".doGenerate", ".doStream")):
        return Kind.MODEL
    return Kind.OTHER if ".embed" in operation else Kind.AGENT


HAYSTACK = {
    "haystack.agent.run": Kind.AGENT,
    "haystack.agent.step.llm": Kind.MODEL,
    "haystack.agent.step.tool": Kind.TOOL,
}


def _by_content(raw: RawSpan, given: dict[str, Any]) -> Kind:
    if raw.name in HAYSTACK:
        return HAYSTACK[raw.name]
    if str(given.get("haystack.component.type")).endswith("Generator"):
        return Kind.MODEL
    if "gen_ai.tool.name" in given or "gen_ai.tool.call.id" in given:
        return Kind.TOOL
    if OUTPUT in given or "gen_ai.completion.0.role" in given:
        return Kind.MODEL
    if any(event.name in _SAID for event in raw.events):
        return Kind.MODEL
    asks = first(given, ASKED_MODEL.names[:3]) is not None
    if asks and first(given, USAGE_OUT.names) is not None:
        return Kind.MODEL
    return Kind.AGENT if "gen_ai.agent.name" in given else Kind.OTHER


class Known(NamedTuple):
    """A span, its kind, and its attributes by what they are; `same_as` is the span that tells of
    the same call and is kept."""

    raw: RawSpan
    kind: Kind
    given: Sorted
    same_as: str | None = None

    def of(self, thing: Thing) -> Json:
        """The value of one thing, None where the span does not say."""
        return self.given.of.get(thing)

    def word(self, thing: Thing) -> str | None:
        """The same as text."""
        value = self.given.of.get(thing)
        return value if type(value) is str and value else word(value)


def known_of(raw: RawSpan) -> Known:
    return Known(raw, kind_of(raw), sort_out(raw.attributes))
