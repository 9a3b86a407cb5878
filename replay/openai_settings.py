"""What stands beside the conversation in a request to OpenAI's two APIs: tools, limits, sampling,
the form of an answer, how hard the model thinks.

A setting is read in whichever API's words it was recorded and written in those of the API that is
asked; what has no word there is listed. One that stands in the right words already goes out as it
was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from replay.providers import (
    EFFORTS,
    OPENAI,
    RESPONSES,
    WireName,
    efforts,
    is_o_series,
    is_openais,
    reasons,
)
from replay.trace import Json, Tool

Body = dict[str, Any]

DEFAULT_MAX_TOKENS = 4096
"""The limit asked for where the recording names none: room for any single action."""

DEFAULT_REASONED_TOKENS = 16_000
"""The same for models that reason before they act."""

CUSTOM = "custom tool offered as a function of one text"

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_STOPS = ("stop", "stop_sequences", "stop_seqs")
_SAMPLING = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "seed", "logit_bias")
_SAMPLES_ALONE = ("top_k", "min_p", "repetition_penalty")
"""Sampling settings of servers other than OpenAI's."""
_NUMBERS = {*_SAMPLING, *_SAMPLES_ALONE} - {"logit_bias"}
"""Their values are numbers; instrumentation writes a text where there was none."""
_TAKES: Mapping[WireName, tuple[str, ...]] = {
    "chat": _SAMPLING,
    "responses": ("temperature", "top_p", "truncation"),
}
_WANTED = {"response_format", "text", "output_config", "reasoning", "reasoning_effort", "verbosity"}
_WANTED |= {"tool_choice", "parallel_tool_calls", "response_schema"}
_UNSEEN = {
    "stream", "stream_options", "metadata", "user", "service_tier", "store", "timeout", "model",
    "n", "num_choices", "include", "prompt_cache_key", "prompt_cache_retention",
    "safety_identifier", "background", "logprobs", "top_logprobs", "max_connections", "max_retries",
    "attempt_timeout", "cache_prompt", "cache", "speed", "prompt_cache_options",
    "max_tool_calls", "client_metadata", "stream_tool_calls", "_type", "context_window",
    "http_options", "is_chat_model", "is_function_calling_model", "model_name", "num_output",
    "system_instruction", "system_role",
}  # fmt: skip
"""What a provider or the user's framework reads and a model does not: not sent, and no loss."""
_READ = {*_LIMITS, *_STOPS, *_WANTED, *_UNSEEN}


class Settings(NamedTuple):
    """The fields as they are sent, and those that cannot be."""

    params: Body
    lost: tuple[str, ...]


def settings(
    recorded: Mapping[str, Json],
    wire: WireName,
    model: str,
    *,
    offers: bool,
    named: Callable[[str], str],
    as_recorded: bool,
) -> Settings:
    """The settings of a request to `model`. `offers`: does it offer tools? `named` gives a tool's
    name as it is sent; `as_recorded`: is the request one of a chat, so that servers other than
    OpenAI's know the settings that are not published?"""
    lost: list[str] = []
    params: Body = {"model": model, **_limit(recorded, wire, model)}
    _sampling(params, recorded, wire, model, lost)
    stops = [
        each
        for name in _STOPS
        for each in _listed(recorded.get(name))
        if isinstance(each, str) and each not in ("", "null")
    ]
    if stops and wire == "chat" and not reasons(model):
        params["stop"] = stops[:4]
        lost += ["stop sequences beyond four not sent"] if len(stops) > 4 else []
    elif stops:
        lost.append("stop sequences not sent")
    _answer_form(params, recorded, wire)
    _effort(params, recorded, wire, model, lost)
    if offers:
        _choice(params, recorded, wire, model, named, lost)
    for name, value in recorded.items():
        known = name in _READ or name in _NUMBERS or name in params
        if known or value is None or f"`{name}` not sent" in lost:
            continue
        if wire == "chat" and as_recorded and not is_openais(model) and name != "thinking":
            params[name] = value
        else:
            lost.append(f"`{name}` not sent")
    return Settings(params, tuple(lost))


def _limit(recorded: Mapping[str, Json], wire: WireName, model: str) -> Body:
    found = [
        (name, value) for name in _LIMITS if type(value := recorded.get(name)) is int and value > 0
    ]
    default = DEFAULT_REASONED_TOKENS if reasons(model) else DEFAULT_MAX_TOKENS
    name, limit = found[0] if found else ("", default)
    if wire == "responses":
        return {"max_output_tokens": max(limit, 16)}
    if name not in {"max_tokens", "max_completion_tokens"}:
        name = "max_completion_tokens" if is_openais(model) else "max_tokens"
    return {"max_completion_tokens" if reasons(model) else name: limit}


def _sampling(
    params: Body, recorded: Mapping[str, Json], wire: WireName, model: str, lost: list[str]
) -> None:
    """Models of OpenAI that reason refuse all of it, unless they are told not to reason."""
    quiet = not reasons(model) or _recorded_effort(recorded) == "none"
    for name in (*_SAMPLING, *_SAMPLES_ALONE, "truncation"):
        value = recorded.get(name)
        if value is None or (name in _NUMBERS and type(value) not in {int, float}):
            continue
        taken = name in _TAKES[wire] or (
            name in _SAMPLES_ALONE and wire == "chat" and not is_openais(model)
        )
        if taken and (quiet or name in {"seed", "truncation"}):
            params[name] = value
        elif name != "truncation":
            lost.append(f"`{name}` not sent")


def _answer_form(params: Body, recorded: Mapping[str, Json], wire: WireName) -> None:
    """The form that an answer must have, from the words of any API."""
    config, text = recorded.get("output_config"), recorded.get("text")
    form = config.get("format") if isinstance(config, dict) else None
    if form is None and isinstance(text, dict):
        form = text.get("format")
    if form is None:
        form = recorded.get("response_format") or recorded.get("response_schema")
    verbosity = recorded.get("verbosity")
    if isinstance(text, dict):
        verbosity = verbosity or text.get("verbosity")
    made = _format(form, wire) if isinstance(form, dict) else None
    if wire == "chat":
        params |= {"response_format": made} if made is not None else {}
        params |= {"verbosity": verbosity} if verbosity else {}
        return
    held = {"format": made} if made is not None else {}
    held |= {"verbosity": verbosity} if verbosity else {}
    params |= {"text": held} if held else {}


def _format(form: Body, wire: WireName) -> Body:
    inner = form.get("json_schema")
    inner = inner if isinstance(inner, dict) else form
    schema = inner.get("schema", inner.get("json_schema"))
    if not isinstance(schema, dict):
        return form  # text, or any JSON object: the same words in both
    strict = inner.get("strict")
    body = {
        "name": inner.get("name") or "answer",
        **({"description": inner["description"]} if inner.get("description") else {}),
        "schema": schema,
        "strict": is_strict(schema) if strict is None else strict,
    }
    if wire == "responses":
        return {"type": "json_schema", **body}
    return {"type": "json_schema", "json_schema": body}


_CLOSED = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const",
    "description", "title", "anyOf", "$ref", "$defs", "minItems", "maxItems", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern", "format",
}  # fmt: skip


def is_strict(schema: Json) -> bool:
    """Is a schema of the subset that OpenAI guarantees an answer to follow?"""
    if not isinstance(schema, dict) or not schema.keys() <= _CLOSED:
        return False
    inner: list[Json] = [*_listed(schema.get("anyOf"))]
    for name in ("properties", "$defs"):
        if isinstance(schema.get(name), dict):
            inner += schema[name].values()
    if "items" in schema:
        inner.append(schema["items"])
    kinds = _listed(schema.get("type"))
    if "object" in kinds or "properties" in schema:
        properties = schema.get("properties") or {}
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required") or ()) != set(properties):
            return False
    return all(map(is_strict, inner))


def _recorded_effort(recorded: Mapping[str, Json]) -> Json:
    for held in (recorded.get("output_config"), recorded.get("reasoning")):
        if isinstance(held, dict) and held.get("effort") is not None:
            return held["effort"]
    word = recorded.get("reasoning_effort")
    return word if isinstance(word, str) else None


_OF: Mapping[WireName, str] = {"chat": OPENAI.name, "responses": RESPONSES.name}
"""A provider by its API."""


def _effort(
    params: Body, recorded: Mapping[str, Json], wire: WireName, model: str, lost: list[str]
) -> None:
    """A word that a model is known not to take becomes the nearest that it takes."""
    recorded_word, held = _recorded_effort(recorded), recorded.get("reasoning")
    effort, taken = recorded_word, efforts(f"{_OF[wire]}:{model}")
    if effort is not None and not taken:
        lost.append("`reasoning_effort` not sent")
        return
    if effort in EFFORTS and effort not in taken:
        at = EFFORTS.index(effort)
        effort = min(taken, key=lambda word: abs(EFFORTS.index(word) - at))
        lost.append(f"effort `{recorded_word}` sent as `{effort}`")
    if wire == "responses":
        made = {**held} if isinstance(held, dict) else {}
        made |= {"effort": effort} if effort is not None else {}
        params |= {"reasoning": made} if made else {}
    elif isinstance(held, dict) and not is_openais(model):
        params["reasoning"] = held if effort is None else {**held, "effort": effort}
    elif effort is not None:
        params["reasoning_effort"] = effort


def _choice(
    params: Body,
    recorded: Mapping[str, Json],
    wire: WireName,
    model: str,
    named: Callable[[str], str],
    lost: list[str],
) -> None:
    choice = recorded.get("tool_choice")
    serial = recorded.get("parallel_tool_calls")
    if isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True:
        serial = False
    if isinstance(serial, bool) and wire == "chat" and is_o_series(model):
        lost.append("`parallel_tool_calls` not sent")
    elif isinstance(serial, bool):
        params["parallel_tool_calls"] = serial
    made = _choice_body(choice, wire, named)
    if made is not None:
        params["tool_choice"] = made
    elif choice is not None:
        lost.append("`tool_choice` not sent")


def _choice_body(choice: Json, wire: WireName, named: Callable[[str], str]) -> Json:
    words = {"any": "required"}
    if isinstance(choice, str):
        word = words.get(choice, choice)
        return word if word in {"auto", "none", "required"} else None
    if not isinstance(choice, dict):
        return None
    kind = choice.get("type")
    if kind in {"auto", "none", "any", "required"}:
        return words.get(kind, kind)
    inner = choice.get("function")
    name = (inner if isinstance(inner, dict) else choice).get("name")
    if not isinstance(name, str):
        return None
    if wire == "responses":
        return {"type": "function", "name": named(name)}
    return {"type": "function", "function": {"name": named(name)}}


def _listed(value: Json) -> list[Json]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


# --- tools


def tool_body(tool: Tool, name: str, wire: WireName) -> Body:
    """A tool as it is offered. One that the provider runs is offered as one that nobody runs."""
    custom = tool.extra.get("type") == "custom"
    schema = tool.schema if isinstance(tool.schema, dict) else None
    if custom and schema is None:
        schema = {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
            "additionalProperties": False,
        }
    if schema is None or schema.get("type") != "object" or "properties" not in schema:
        schema = {
            "type": "object",
            **(schema or {}),
            "properties": (schema or {}).get("properties", {}),
        }
    described = {} if tool.description is None else {"description": tool.description}
    strict = tool.extra.get("strict")
    body: Body = {"name": name, **described, "parameters": schema}
    if wire == "responses":  # where a function is strict unless it says otherwise
        return {"type": "function", **body, "strict": strict is True}
    if isinstance(strict, bool):
        body["strict"] = strict
    return {"type": "function", "function": body}


def tools_of(tools: Iterable[Body]) -> list[Tool]:
    """The tools of a body as they were sent."""
    made = []
    for tool in tools:
        body = tool.get("function", tool)
        schema = body.get("parameters", body.get("input_schema"))
        made.append(Tool(name=str(body["name"]), schema=schema))
    return made


_RESPONSES_WORDS = ("max_output_tokens", "text", "include", "truncation", "max_tool_calls")
_CHAT_WORDS = ("max_tokens", "max_completion_tokens", "response_format", "reasoning_effort", "stop")


def recorded_wire(recorded: Mapping[str, Json]) -> WireName | None:
    """By which of OpenAI's APIs a request was made, as far as its settings tell."""
    if any(recorded.get(name) is not None for name in _RESPONSES_WORDS):
        return "responses"
    return "chat" if any(recorded.get(name) is not None for name in _CHAT_WORDS) else None
