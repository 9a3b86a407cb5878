"""A model span's request and response beside their messages: model, tools, settings, figures."""

from __future__ import annotations

from typing import Any

from replay.formats.chat import tool
from replay.formats.fields import known, listed, obj, word
from replay.formats.normal import count, recorded, stop, total_usage, usd
from replay.formats.openinference.attributes import parsed
from replay.formats.openinference.exports import Raw
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    Cost,
    Fidelity,
    Json,
    Level,
    Message,
    Request,
    Response,
    Tool,
    Usage,
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
        return tuple(_tool(obj(obj(each).get("tool")).get("json_schema")) for each in counted)
    older = listed(obj(obj(raw.tree.get("llm")).get("request")).get("functions"))
    if older:
        return tuple(
            _tool({**obj(each), "parameters": parsed(obj(each).get("parameters"))})
            for each in older
        )
    declared = parsed(first(raw, "gen_ai.tool.definitions", "ai.prompt.tools"))
    return tuple(map(_tool, declared)) if isinstance(declared, list) else None


def _tool(declared: Json) -> Tool:
    body: Any = parsed(declared)
    if isinstance(body, dict) and "inputSchema" in body:
        body = {**body, "input_schema": body["inputSchema"]}
        del body["inputSchema"]
    return tool(body if isinstance(body, dict) else {"name": word(body) or ""})
