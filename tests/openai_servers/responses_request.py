"""What the Responses API refuses: the shape of a request, then the rules that join its places.

Made as `chat_request` is. Served are messages, functions, tools that take a text, and reasoning;
tools that OpenAI itself runs may be offered, and no model here calls them. What would need a server
of another kind, as `background`, is answered with 501: this says nothing of the real service.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.openai_servers import strict_schema
from tests.openai_servers.chat_request import BREAKPOINT, CACHE_OPTIONS, EFFORTS, METADATA, NAME
from tests.openai_servers.models import (
    KnownModel,
    effort_refusal,
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
    need,
)

CALL_ID = Text(1, 64)
STATUS = may(Choice(("in_progress", "completed", "incomplete")), nullable=True)
CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
"""Items that are calls, and what answers them."""

HOSTED = (
    "file_search", "computer", "computer_use_preview", "web_search", "web_search_2025_08_26", "mcp",
    "code_interpreter", "programmatic_tool_calling", "image_generation", "local_shell", "shell",
    "namespace", "tool_search", "web_search_preview", "web_search_preview_2025_03_11",
    "apply_patch",
)  # fmt: skip
"""Kinds of tools that OpenAI runs."""

INCLUDABLE = (
    "file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
    "message.input_image.image_url", "computer_call_output.output.image_url",
    "code_interpreter_call.outputs", "reasoning.encrypted_content",
    "message.output_text.logprobs",
)  # fmt: skip
MOVED = {
    "messages": "input", "response_format": "text.format", "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens", "reasoning_effort": "reasoning.effort",
    "verbosity": "text.verbosity", "functions": "tools", "function_call": "tool_choice",
}  # fmt: skip
"""Parameters of Chat Completions, and where they stand here."""

NOT_SERVED = ("background", "conversation", "prompt", "context_management")

_KIND = need(Text())
_ANY = may(Anything())
_INPUT_TEXT = Fields({"type": _KIND, "text": need(Text()), "prompt_cache_breakpoint": BREAKPOINT})
_INPUT_IMAGE = Fields({
    "type": _KIND, "detail": may(Choice(("auto", "low", "high", "original")), nullable=True),
    "file_id": may(Text(), nullable=True), "image_url": may(Text(), nullable=True),
    "prompt_cache_breakpoint": BREAKPOINT,
})  # fmt: skip
_INPUT_FILE = Fields({
    "type": _KIND, "file_id": may(Text(), nullable=True), "file_data": may(Text()),
    "file_url": may(Text()), "filename": may(Text()), "detail": may(Text()),
    "prompt_cache_breakpoint": BREAKPOINT,
})  # fmt: skip
_GIVEN = Tagged("type", {
    "input_text": _INPUT_TEXT, "input_image": _INPUT_IMAGE, "input_file": _INPUT_FILE,
})  # fmt: skip
_MADE = Tagged("type", {
    "output_text": Fields({
        "type": _KIND, "text": need(Text()), "annotations": may(Items(Anything())),
        "logprobs": may(Items(Anything()), nullable=True),
    }),
    "refusal": Fields({"type": _KIND, "refusal": need(Text())}),
})  # fmt: skip


def _message(part: Tagged) -> Fields:
    return Fields({
        "type": may(Text()), "role": need(Text()), "content": need(Either(Text(), Items(part))),
        "id": may(Text(1, 64, "^msg.*$")), "status": STATUS,
        "phase": may(Choice(("commentary", "final_answer")), nullable=True),
    })  # fmt: skip


_MESSAGE = Tagged("role", {
    "user": _message(_GIVEN), "system": _message(_GIVEN), "developer": _message(_GIVEN),
    "assistant": _message(_MADE),
})  # fmt: skip
_OUTPUT = Fields({
    "type": _KIND, "call_id": need(CALL_ID), "output": need(Either(Text(), Items(_GIVEN))),
    "id": may(Text(), nullable=True), "status": STATUS, "caller": may(Anything(), nullable=True),
    "name": may(Text(), nullable=True), "namespace": may(Text(), nullable=True),
})  # fmt: skip
_ITEM = Tagged("type", {
    "message": Fields({}, open=True),
    "function_call": Fields({
        "type": _KIND, "call_id": need(CALL_ID), "name": need(NAME), "arguments": need(Text()),
        "id": may(Text(), nullable=True), "status": STATUS, "async": may(Flag()),
        "caller": may(Anything(), nullable=True), "namespace": may(Text(), nullable=True),
    }),
    "function_call_output": _OUTPUT,
    "custom_tool_call": Fields({
        "type": _KIND, "call_id": need(CALL_ID), "name": need(NAME), "input": need(Text()),
        "id": may(Text(), nullable=True), "status": STATUS, "async": may(Flag()),
        "caller": may(Anything(), nullable=True), "namespace": may(Text(), nullable=True),
    }),
    "custom_tool_call_output": _OUTPUT,
    "reasoning": Fields({
        "type": _KIND, "id": may(Text()),
        "summary": need(Items(Fields({"type": need(Choice(("summary_text",))),
                                      "text": need(Text())}))),
        "content": may(Items(Fields({"type": need(Choice(("reasoning_text",))),
                                     "text": need(Text())})), nullable=True),
        "encrypted_content": may(Text(), nullable=True),
    }),
    "item_reference": Fields({"type": may(Text()), "id": need(Text(1))}),
}, "message")  # fmt: skip

_PREFIXES = {"function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}

_FORMAT = Tagged("type", {
    "text": Fields({"type": _KIND}),
    "json_object": Fields({"type": _KIND}),
    "json_schema": Fields({
        "type": _KIND, "name": need(NAME), "schema": need(Names(Anything())),
        "description": may(Text()), "strict": may(Flag(), nullable=True),
    }),
})  # fmt: skip
_CUSTOM_FORMAT = Tagged("type", {
    "text": Fields({"type": _KIND}),
    "grammar": Fields({
        "type": _KIND, "definition": need(Text()), "syntax": need(Choice(("lark", "regex"))),
    }),
})  # fmt: skip
_CALLERS = may(Items(Choice(("direct", "programmatic"))), nullable=True)
_TOOL = Tagged("type", {
    "function": Fields({
        "type": _KIND, "name": need(NAME), "description": may(Text(), nullable=True),
        "parameters": may(Names(Anything()), nullable=True), "strict": may(Flag(), nullable=True),
        "async": may(Flag()), "defer_loading": may(Flag()), "allowed_callers": _CALLERS,
        "output_schema": may(Names(Anything()), nullable=True),
    }),
    "custom": Fields({
        "type": _KIND, "name": need(NAME), "description": may(Text()),
        "format": may(_CUSTOM_FORMAT), "async": may(Flag()), "defer_loading": may(Flag()),
        "allowed_callers": _CALLERS,
    }),
    **{kind: Fields({"type": _KIND}, open=True) for kind in HOSTED},
})  # fmt: skip
_TOOL_CHOICE = Either(
    Choice(("none", "auto", "required")),
    Tagged("type", {
        "function": Fields({"type": _KIND, "name": need(NAME)}),
        "custom": Fields({"type": _KIND, "name": need(NAME)}),
        "allowed_tools": Fields({
            "type": _KIND, "mode": need(Choice(("auto", "required"))),
            "tools": need(Items(Anything(), 1)),
        }),
        **{kind: Fields({"type": _KIND}, open=True) for kind in HOSTED},
    }),
)  # fmt: skip

CREATE = Fields({
    "model": need(Text(1)),
    "input": may(Either(Text(), Items(_ITEM))),
    "background": may(Flag(), nullable=True),
    "context_management": may(Anything(), nullable=True),
    "conversation": may(Anything(), nullable=True),
    "include": may(Items(Choice(INCLUDABLE)), nullable=True),
    "instructions": may(Text(), nullable=True),
    "max_output_tokens": may(Whole(16), nullable=True),
    "max_tool_calls": may(Whole(1), nullable=True),
    "metadata": may(METADATA, nullable=True),
    "moderation": may(Anything(), nullable=True),
    "parallel_tool_calls": may(Flag(), nullable=True),
    "previous_response_id": may(Text(), nullable=True),
    "prompt": may(Anything(), nullable=True),
    "prompt_cache_key": may(Text(), nullable=True),
    "prompt_cache_options": may(CACHE_OPTIONS),
    "prompt_cache_retention": may(Choice(("in_memory", "24h")), nullable=True),
    "reasoning": may(Fields({
        "effort": may(Choice(EFFORTS), nullable=True),
        "summary": may(Choice(("auto", "concise", "detailed")), nullable=True),
        "generate_summary": may(Choice(("auto", "concise", "detailed")), nullable=True),
        "context": may(Choice(("auto", "current_turn", "all_turns")), nullable=True),
        "mode": may(Text()),
    }), nullable=True),
    "safety_identifier": may(Text(0, 128), nullable=True),
    "service_tier": may(Choice(("auto", "default", "flex", "scale", "priority", "fast",
                                "ultrafast")), nullable=True),
    "store": may(Flag(), nullable=True),
    "stream": may(Flag(), nullable=True),
    "stream_options": may(Fields({"include_obfuscation": may(Flag())}), nullable=True),
    "temperature": may(Decimal(0, 2), nullable=True),
    "text": may(Fields({
        "format": may(_FORMAT), "verbosity": may(Choice(("low", "medium", "high")), nullable=True),
    })),
    "tool_choice": may(_TOOL_CHOICE),
    "tools": may(Items(_TOOL, 0, 128)),
    "top_logprobs": may(Whole(0, 20), nullable=True),
    "top_p": may(Decimal(0, 1), nullable=True),
    "truncation": may(Choice(("auto", "disabled")), nullable=True),
    "user": may(Text()),
})  # fmt: skip


def shape_refusal(body: Body) -> Refused | None:
    """Why a request has not the shape of one, None where it has."""
    for name, place in MOVED.items():
        if name in body:
            return Refused(
                f"Unsupported parameter: '{name}'. In the Responses API, this parameter has moved "
                f"to '{place}'. Try again with the new parameter.",
                name,
                "unsupported_parameter",
            )
    wrong = flaw(body, CREATE)
    if wrong is not None:
        return wrong
    for name in NOT_SERVED:
        if body.get(name):
            return Refused(f"this test server does not serve '{name}'", name, status=501)
    given = body.get("input")
    if not given and not body.get("previous_response_id"):
        others = "\"previous_response_id\" or 'prompt' or 'conversation_id'"
        why = f'One of "input" or {others} must be provided.'
        return Refused(why, "input", "missing_required_parameter")
    items = enumerate(given if isinstance(given, list) else [])
    found = (_item_refusal(item, f"input[{at}]") for at, item in items)
    return next((each for each in found if each is not None), None)


def items_of(given: Any) -> list[Body]:
    """An input as items: a text is a message of the user."""
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return [{"type": "message", **each} for each in given or []]


def rule_refusal(body: Body, model: KnownModel, items: list[Body]) -> Refused | None:
    """Why a request of the right shape is refused by this model, None where it is not; `items` are
    all it rests on, those of earlier responses too."""
    rules = (
        _model_refusals(body, model, items),
        _setting_refusals(body),
        _tool_refusals(body),
        _format_refusals(body, items),
        _pair_refusals(items),
    )
    return next((wrong for each in rules for wrong in each), None)


def too_long(model: KnownModel, input_tokens: int) -> Refused | None:
    if input_tokens <= model.context_tokens:
        return None
    why = "Your input exceeds the context window of this model. Please adjust your input and try"
    return Refused(f"{why} again.", "input", "context_length_exceeded")


def _item_refusal(item: Body, path: str) -> Refused | None:
    kind = item.get("type", "message")
    if kind == "message":
        return flaw(item, _MESSAGE, path)
    prefix, name = _PREFIXES.get(kind), item.get("id")
    if prefix is not None and name is not None and not name.startswith(prefix):
        why = f"Invalid '{path}.id': '{name}'. Expected an ID that begins with '{prefix}'."
        return Refused(why, f"{path}.id", "invalid_value")
    return None


def _model_refusals(body: Body, model: KnownModel, items: list[Body]) -> Iterator[Refused]:
    if not model.reasons and any(each["type"] == "reasoning" for each in items):
        why = "Reasoning input items can only be provided to a reasoning or computer use model."
        yield Refused(f"{why} Remove reasoning items from your input and try again.", "input")
    asked = body.get("reasoning") or {}
    wrong = effort_refusal(model, asked.get("effort"), "reasoning.effort")
    if wrong is not None:
        yield wrong
    for name in ("summary", "generate_summary"):
        if asked.get(name) is not None and not model.reasons:
            yield unsupported(f"reasoning.{name}")
    for name in ("temperature", "top_p"):
        if body.get(name) not in {None, 1} and not model.samples_at(asked.get("effort")):
            yield unsupported(name)
    if body.get("top_logprobs") and not model.samples_at(asked.get("effort")):
        yield unsupported("top_logprobs")
    if "reasoning.encrypted_content" in (body.get("include") or []) and not model.reasons:
        yield Refused("Encrypted content is not supported with this model.", "include")
    verbosity = (body.get("text") or {}).get("verbosity")
    if verbosity not in {None, *model.verbosity}:
        yield unsupported_value("text.verbosity", verbosity, model.verbosity)
    most = body.get("max_output_tokens")
    if most is not None and most > model.most_output_tokens:
        yield Refused(
            f"max_output_tokens is too large: {most}. This model supports at most "
            f"{model.most_output_tokens} output tokens, whereas you provided {most}.",
            "max_output_tokens",
            "invalid_value",
        )


def _setting_refusals(body: Body) -> Iterator[Refused]:
    if body.get("stream_options") is not None and not body.get("stream"):
        why = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Refused(why, "stream_options")


def _tool_refusals(body: Body) -> Iterator[Refused]:
    tools = body.get("tools") or []
    choice = body.get("tool_choice")
    if choice == "required" and not tools:
        why = "Tool choice 'required' must be specified with 'tools' parameter."
        yield Refused(why, "tool_choice")
    offered = {(each["type"], each.get("name")) for each in tools}
    for chosen in _chosen(choice):
        if (chosen.get("type"), chosen.get("name")) not in offered:
            name = chosen.get("name") or chosen.get("type")
            yield Refused(f"Tool choice '{name}' not found in 'tools' parameter.", "tool_choice")
    for at, tool in enumerate(tools):
        if tool["type"] != "function" or tool.get("parameters") is None:
            continue
        wrong = strict_schema.function_flaw(tool["parameters"], strict=bool(tool.get("strict")))
        if wrong is not None:
            why = f"Invalid schema for function '{tool['name']}': {wrong}"
            yield Refused(why, f"tools[{at}].parameters", "invalid_function_parameters")


def _chosen(choice: Any) -> list[Body]:
    if not isinstance(choice, dict):
        return []
    return choice["tools"] if choice["type"] == "allowed_tools" else [choice]


def _format_refusals(body: Body, items: list[Body]) -> Iterator[Refused]:
    asked = (body.get("text") or {}).get("format") or {"type": "text"}
    if (
        asked["type"] == "json_object"
        and "json" not in str([body.get("instructions"), items]).lower()
    ):
        why = (
            "Response input messages must contain the word 'json' in some form to use 'text.format'"
        )
        yield Refused(f"{why} of type 'json_object'.", "input")
    if asked["type"] == "json_schema":
        wrong = strict_schema.output_flaw(asked["schema"], strict=bool(asked.get("strict")))
        if wrong is not None:
            why = f"Invalid schema for response_format '{asked['name']}': {wrong}"
            yield Refused(why, "text.format.schema", "invalid_json_schema")


def _pair_refusals(items: list[Body]) -> Iterator[Refused]:
    """Calls and what answers them, wherever they stand, but in this order; what reasoning needs."""
    waiting: dict[tuple[str, str], None] = {}
    answered: set[tuple[str, str]] = set()
    for at, item in enumerate(items):
        kind = item["type"]
        if kind in CALLS:
            waiting[CALLS[kind], item["call_id"]] = None
        elif kind in CALLS.values():
            key = (kind, item["call_id"])
            if key not in waiting and key not in answered:
                what = "function call" if kind == "function_call_output" else "custom tool call"
                why = f"No tool call found for {what} output with call_id {item['call_id']}."
                yield Refused(why, "input")
            waiting.pop(key, None)
            answered.add(key)
        elif kind == "reasoning" and not _made(items[at + 1 : at + 2]):
            why = f"Item '{item.get('id')}' of type 'reasoning' was provided without its required"
            yield Refused(f"{why} following item.", "input")
    for kind, name in waiting:
        what = "function call" if kind == "function_call_output" else "custom tool call"
        yield Refused(f"No tool output found for {what} {name}.", "input")


def _made(items: list[Body]) -> bool:
    """Is there an item, and did a model make it?"""
    return any(
        each["type"] in {*CALLS, "reasoning"} or each.get("role") == "assistant" for each in items
    )
