"""What Chat Completions refuses: the shape of a request, then the rules that join its places.

Made from the published reference and from errors that users reported; it has never met the real
service. Two things are taken that the SDK's types do not name, as the service takes them: `name` of
a tool's message, and `annotations` of a message of the assistant that is sent back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.openai_servers import strict_schema
from tests.openai_servers.models import (
    KnownModel,
    default_only,
    effort_refusal,
    sampling_refusal,
    unsupported,
    unsupported_value,
)
from tests.openai_servers.shape import (
    Anything,
    Body,
    Choice,
    Decimal,
    Either,
    Fields,
    Flag,
    Items,
    Names,
    Refused,
    Tagged,
    Text,
    Whole,
    flaw,
    may,
    missing,
    need,
)

NAME = Text(1, 64, "^[a-zA-Z0-9_-]+$")
CALL_ID = Text(1, 40)
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
TIERS = ("auto", "default", "flex", "scale", "priority", "fast")

BREAKPOINT = may(Fields({"mode": need(Choice(("explicit",))), "ttl": may(Choice(("30m", "12h")))}))
_TEXT = Fields({"type": need(Text()), "text": need(Text()), "prompt_cache_breakpoint": BREAKPOINT})
_REFUSAL = Fields({"type": need(Text()), "refusal": need(Text())})
_IMAGE = Fields({
    "type": need(Text()),
    "image_url": need(Fields({
        "url": need(Text()), "detail": may(Choice(("auto", "low", "high", "original"))),
    })),
    "prompt_cache_breakpoint": BREAKPOINT,
})  # fmt: skip
_AUDIO = Fields({
    "type": need(Text()),
    "input_audio": need(Fields({"data": need(Text()), "format": need(Choice(("wav", "mp3")))})),
    "prompt_cache_breakpoint": BREAKPOINT,
})  # fmt: skip
_FILE = Fields({
    "type": need(Text()),
    "file": need(Fields({name: may(Text()) for name in ("file_data", "file_id", "filename")})),
    "prompt_cache_breakpoint": BREAKPOINT,
})  # fmt: skip


def _content(**parts: Fields) -> Either:
    return Either(Text(), Items(Tagged("type", parts), 1))


_FUNCTION_CALL = Fields({"name": need(NAME), "arguments": need(Text())})
_CALL = Tagged("type", {
    "function": Fields({
        "id": need(CALL_ID), "type": need(Text()), "function": need(_FUNCTION_CALL),
    }),
    "custom": Fields({
        "id": need(CALL_ID), "type": need(Text()),
        "custom": need(Fields({"name": need(NAME), "input": need(Text())})),
    }),
})  # fmt: skip
_SYSTEM = Fields({
    "role": need(Text()), "content": need(_content(text=_TEXT)), "name": may(NAME),
})  # fmt: skip
_MESSAGE = Tagged("role", {
    "system": _SYSTEM,
    "developer": _SYSTEM,
    "user": Fields({
        "role": need(Text()),
        "content": need(_content(text=_TEXT, image_url=_IMAGE, input_audio=_AUDIO, file=_FILE)),
        "name": may(NAME),
    }),
    "assistant": Fields({
        "role": need(Text()),
        "content": may(_content(text=_TEXT, refusal=_REFUSAL), nullable=True),
        "refusal": may(Text(), nullable=True),
        "name": may(NAME),
        "audio": may(Fields({"id": need(Text())}), nullable=True),
        "tool_calls": may(Items(_CALL, 1, 128)),
        "function_call": may(_FUNCTION_CALL, nullable=True),
        "annotations": may(Items(Anything())),
    }),
    "tool": Fields({
        "role": need(Text()), "content": need(_content(text=_TEXT)),
        "tool_call_id": need(CALL_ID), "name": may(NAME),
    }),
    "function": Fields({
        "role": need(Text()), "content": need(Text(), nullable=True), "name": need(NAME),
    }),
})  # fmt: skip

_SCHEMA = Names(Anything())
FUNCTION = Fields({
    "name": need(NAME), "description": may(Text()), "parameters": may(_SCHEMA),
    "strict": may(Flag(), nullable=True),
})  # fmt: skip
CUSTOM_FORMAT = Tagged("type", {
    "text": Fields({"type": need(Text())}),
    "grammar": Fields({
        "type": need(Text()),
        "grammar": need(Fields({
            "definition": need(Text()), "syntax": need(Choice(("lark", "regex"))),
        })),
    }),
})  # fmt: skip
_TOOL = Tagged("type", {
    "function": Fields({"type": need(Text()), "function": need(FUNCTION)}),
    "custom": Fields({
        "type": need(Text()),
        "custom": need(Fields({
            "name": need(NAME), "description": may(Text()), "format": may(CUSTOM_FORMAT),
        })),
    }),
})  # fmt: skip
_NAMED = Fields({"name": need(NAME)})
_TOOL_CHOICE = Either(
    Choice(("none", "auto", "required")),
    Tagged("type", {
        "function": Fields({"type": need(Text()), "function": need(_NAMED)}),
        "custom": Fields({"type": need(Text()), "custom": need(_NAMED)}),
        "allowed_tools": Fields({
            "type": need(Text()),
            "allowed_tools": need(Fields({
                "mode": need(Choice(("auto", "required"))), "tools": need(Items(Anything(), 1)),
            })),
        }),
    }),
)  # fmt: skip
_FORMAT = Tagged("type", {
    "text": Fields({"type": need(Text())}),
    "json_object": Fields({"type": need(Text())}),
    "json_schema": Fields({
        "type": need(Text()),
        "json_schema": need(Fields({
            "name": need(NAME), "description": may(Text()), "schema": may(_SCHEMA),
            "strict": may(Flag(), nullable=True),
        })),
    }),
})  # fmt: skip
CACHE_OPTIONS = Fields({
    "mode": may(Choice(("implicit", "explicit"))), "ttl": may(Choice(("30m",))),
})  # fmt: skip
METADATA = Names(Text(0, 512), 16, 64)

CREATE = Fields({
    "model": need(Text(1)),
    "messages": need(Items(_MESSAGE, 1)),
    "audio": may(Fields({"format": need(Text()), "voice": need(Anything())}), nullable=True),
    "frequency_penalty": may(Decimal(-2, 2), nullable=True),
    "function_call": may(Either(Choice(("none", "auto")), _NAMED)),
    "functions": may(Items(FUNCTION, 1, 128)),
    "logit_bias": may(Names(Whole(-100, 100)), nullable=True),
    "logprobs": may(Flag(), nullable=True),
    "max_completion_tokens": may(Whole(1), nullable=True),
    "max_tokens": may(Whole(1), nullable=True),
    "metadata": may(METADATA, nullable=True),
    "modalities": may(Items(Choice(("text", "audio")), 1), nullable=True),
    "moderation": may(Anything(), nullable=True),
    "n": may(Whole(1, 128), nullable=True),
    "parallel_tool_calls": may(Flag()),
    "prediction": may(Fields({
        "type": need(Choice(("content",))), "content": need(_content(text=_TEXT)),
    }), nullable=True),
    "presence_penalty": may(Decimal(-2, 2), nullable=True),
    "prompt_cache_key": may(Text(), nullable=True),
    "prompt_cache_options": may(CACHE_OPTIONS),
    "prompt_cache_retention": may(Choice(("in_memory", "24h")), nullable=True),
    "reasoning_effort": may(Choice(EFFORTS), nullable=True),
    "response_format": may(_FORMAT),
    "safety_identifier": may(Text(0, 128), nullable=True),
    "seed": may(Whole(-(2**63), 2**63 - 1), nullable=True),
    "service_tier": may(Choice(TIERS), nullable=True),
    "stop": may(Either(Text(1), Items(Text(1), 1, 4)), nullable=True),
    "store": may(Flag(), nullable=True),
    "stream": may(Flag(), nullable=True),
    "stream_options": may(Fields({
        "include_usage": may(Flag()), "include_obfuscation": may(Flag()),
    }), nullable=True),
    "temperature": may(Decimal(0, 2), nullable=True),
    "tool_choice": may(_TOOL_CHOICE),
    "tools": may(Items(_TOOL, 1, 128)),
    "top_logprobs": may(Whole(0, 20), nullable=True),
    "top_p": may(Decimal(0, 1), nullable=True),
    "user": may(Text()),
    "verbosity": may(Choice(("low", "medium", "high")), nullable=True),
    "web_search_options": may(Anything()),
})  # fmt: skip


def shape_refusal(body: Body) -> Refused | None:
    """Why a request has not the shape of one, None where it has."""
    if not body.get("model"):
        return Refused("you must provide a model parameter")
    strange = [name for name in body if name not in CREATE.of]
    if strange:
        s = "s" if len(strange) > 1 else ""
        return Refused(f"Unrecognized request argument{s} supplied: {', '.join(strange)}")
    return flaw(body, CREATE)


def rule_refusal(body: Body, model: KnownModel, input_tokens: int) -> Refused | None:
    """Why a request of the right shape is refused by this model, None where it is not."""
    rules = (
        _model_refusals(body, model),
        _setting_refusals(body),
        _tool_refusals(body),
        _format_refusals(body),
        _message_refusals(body["messages"]),
        _limit_refusals(body, model, input_tokens),
    )
    return next((wrong for each in rules for wrong in each), None)


def limit(body: Body) -> int | None:
    """The most tokens that may be answered, None for as many as the model can."""
    found: int | None = body.get("max_completion_tokens") or body.get("max_tokens")
    return found


def _model_refusals(body: Body, model: KnownModel) -> Iterator[Refused]:
    if not model.chat:
        why = "This model is only supported in v1/responses and not in v1/chat/completions."
        yield Refused(why, "model", status=404)
    if model.reasons and body.get("max_tokens") is not None:
        yield unsupported("max_tokens", " Use 'max_completion_tokens' instead.")
    effort = body.get("reasoning_effort")
    settings = ("temperature", "top_p", "presence_penalty", "frequency_penalty",
                "logprobs", "top_logprobs", "logit_bias")  # fmt: skip
    for wrong in (
        effort_refusal(model, effort, "reasoning_effort"),
        sampling_refusal(model, body, effort, settings),
    ):
        if wrong is not None:
            yield wrong
    if model.reasons and body.get("stop") is not None:
        yield unsupported("stop")
    if not model.parallel and "parallel_tool_calls" in body:
        yield unsupported("parallel_tool_calls")
    if not model.parallel and (body.get("n") or 1) > 1:
        yield default_only("n", body["n"], 1)
    if body.get("verbosity") not in {None, *model.verbosity}:
        yield unsupported_value("verbosity", body["verbosity"], model.verbosity)
    if "audio" in (body.get("modalities") or []):
        yield unsupported_value("modalities", "audio", ["text"])
    if "web_search_options" in body:
        yield Refused("Web search options not supported with this model.", "web_search_options")
    functions = any(each["type"] == "function" for each in body.get("tools", []))
    if functions and model.chat_tools != "always" and (effort or model.default_effort) != "none":
        why = (
            f"Function tools with reasoning_effort are not supported for {model.id} in "
            "/v1/chat/completions. To use function tools, use /v1/responses or set "
            "reasoning_effort to 'none'."
        )
        yield Refused(why, "reasoning_effort")


def _setting_refusals(body: Body) -> Iterator[Refused]:
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        why = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        yield Refused(why, "max_tokens", "invalid_parameter_combination")
    if body.get("stream_options") is not None and not body.get("stream"):
        yield _only_with("stream_options", "stream")
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        yield _only_with("top_logprobs", "logprobs")
    if body.get("metadata") and not body.get("store"):
        yield _only_with("metadata", "store")
    if "functions" in body and "tools" in body:
        yield Refused("'functions' is not allowed together with 'tools'.", "functions")
    if "function_call" in body and "functions" not in body:
        why = "'function_call' is only allowed when 'functions' are specified."
        yield Refused(f"Invalid value for 'function_call': {why}", "function_call")
    named = body.get("function_call")
    offered = [each["name"] for each in body.get("functions", [])]
    if isinstance(named, dict) and offered and named["name"] not in offered:
        why = (
            f"Invalid value for 'function_call': no function named '{named['name']}' was specified"
        )
        yield Refused(f"{why} in the 'functions' parameter.", "function_call")


def _only_with(name: str, other: str) -> Refused:
    why = f"The '{name}' parameter is only allowed when '{other}' is enabled."
    return Refused(why, name)


def _tool_refusals(body: Body) -> Iterator[Refused]:
    tools = body.get("tools")
    for name in ("tool_choice", "parallel_tool_calls"):
        if name in body and not tools:
            why = f"'{name}' is only allowed when 'tools' are specified."
            yield Refused(f"Invalid value for '{name}': {why}", name)
    offered = {(each["type"], each[each["type"]]["name"]) for each in tools or []}
    for kind, name in _chosen(body.get("tool_choice")):
        if (kind, name) not in offered:
            yield Refused(f"Tool choice '{name}' not found in 'tools' parameter.", "tool_choice")
    for place, function in _functions(body):
        schema = function.get("parameters")
        if schema is None:
            continue
        wrong = strict_schema.function_flaw(schema, strict=bool(function.get("strict")))
        if wrong is not None:
            said = f"Invalid schema for function '{function['name']}': {wrong}"
            yield Refused(said, f"{place}.parameters", "invalid_function_parameters")


def _chosen(choice: Any) -> Iterator[tuple[str, Any]]:
    """The tools that a choice names."""
    if not isinstance(choice, dict):
        return
    kind = choice["type"]
    if kind != "allowed_tools":
        yield kind, choice[kind]["name"]
        return
    for each in choice["allowed_tools"]["tools"]:
        of = each.get("type")
        yield of, (each.get(of) or {}).get("name")


def _functions(body: Body) -> Iterator[tuple[str, Body]]:
    for at, tool in enumerate(body.get("tools", [])):
        if tool["type"] == "function":
            yield f"tools[{at}].function", tool["function"]
    for at, function in enumerate(body.get("functions", [])):
        yield f"functions[{at}]", function


def _format_refusals(body: Body) -> Iterator[Refused]:
    asked = body.get("response_format", {"type": "text"})
    if asked["type"] == "json_object" and "json" not in _all_text(body["messages"]).lower():
        why = "must contain the word 'json' in some form, to use 'response_format' of type"
        yield Refused(f"'messages' {why} 'json_object'.", "messages")
    if asked["type"] == "json_schema":
        described = asked["json_schema"]
        if "schema" not in described:
            yield missing("response_format.json_schema.schema")
            return
        strict = bool(described.get("strict"))
        why_not = strict_schema.output_flaw(described["schema"], strict=strict)
        if why_not is not None:
            said = f"Invalid schema for response_format '{described['name']}': {why_not}"
            yield Refused(said, "response_format")


def _all_text(messages: list[Body]) -> str:
    found = []
    for each in messages:
        content = each.get("content") or ""
        parts = [content] if isinstance(content, str) else [p.get("text", "") for p in content]
        found += parts
    return " ".join(found)


def _message_refusals(messages: list[Body]) -> Iterator[Refused]:
    waiting: list[str] = []
    offered: list[str] = []
    for at, message in enumerate(messages):
        place = f"messages.[{at}]"
        if message["role"] == "tool":
            yield from _result_refusals(message, place, waiting, offered)
            continue
        if waiting:
            yield _unanswered(waiting, f"{place}.role")
        waiting = [call["id"] for call in message.get("tool_calls", [])]
        offered = list(waiting)
        if len(set(waiting)) < len(waiting):
            twice = next(each for each in waiting if waiting.count(each) > 1)
            why = f"Invalid parameter: Duplicate value for 'id' of '{twice}' in 'tool_calls'."
            yield Refused(why, f"{place}.tool_calls")
        if message["role"] == "assistant" and message.get("content") is None:
            others = ("tool_calls", "function_call", "refusal", "audio")
            if not any(message.get(name) for name in others):
                why = "Invalid value for 'content': expected a string, got null."
                yield Refused(why, f"{place}.content")
    if waiting:
        yield _unanswered(waiting, "messages")


def _result_refusals(
    message: Body, place: str, waiting: list[str], offered: list[str]
) -> Iterator[Refused]:
    """Takes the call that a message answers from those that wait."""
    call = message["tool_call_id"]
    if call in waiting:
        waiting.remove(call)
    elif not offered:
        why = "messages with role 'tool' must be a response to a preceeding message with"
        yield Refused(f"Invalid parameter: {why} 'tool_calls'.", f"{place}.role")
    elif call in offered:
        why = f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call}'."
        yield Refused(why, f"{place}.tool_call_id")
    else:
        why = f"'tool_call_id' of '{call}' not found in 'tool_calls' of previous message."
        yield Refused(f"Invalid parameter: {why}", f"{place}.tool_call_id")


def _unanswered(waiting: list[str], param: str) -> Refused:
    return Refused(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        + ", ".join(waiting),
        param,
    )


def _limit_refusals(body: Body, model: KnownModel, input_tokens: int) -> Iterator[Refused]:
    most = limit(body)
    if most is not None and most > model.most_output_tokens:
        name = "max_tokens" if body.get("max_tokens") else "max_completion_tokens"
        yield Refused(
            f"{name} is too large: {most}. This model supports at most "
            f"{model.most_output_tokens} completion tokens, whereas you provided {most}.",
            name,
            "invalid_value",
        )
    if input_tokens > model.context_tokens:
        yield Refused(
            f"This model's maximum context length is {model.context_tokens} tokens. However, "
            f"your messages resulted in {input_tokens} tokens. Please reduce the length of the "
            "messages.",
            "messages",
            "context_length_exceeded",
        )
