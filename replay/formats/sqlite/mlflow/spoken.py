"""What a model's function was called with and gave back, in the shapes that libraries have for it:
OpenAI's chat and responses, Anthropic's messages, LangChain's, a plain text."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from replay.formats.fields import known, listed, obj, word
from replay.formats.otlp.messages import call
from replay.trace import Json

Body = dict[str, Json]

_PARAMS = {
    "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "max_output_tokens",
    "stop", "stop_sequences", "seed", "frequency_penalty", "presence_penalty", "tool_choice",
    "response_format", "reasoning_effort", "reasoning", "thinking", "parallel_tool_calls", "n",
}  # fmt: skip
_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}
"""LangChain's words for roles."""


class Request(Struct, frozen=True, kw_only=True):
    """`tools` is None where the call may have had some that are not told."""

    messages: list[Body]
    system: Json = None
    tools: list[Json] | None = None
    params: Body = {}
    model: str | None = None


class Response(Struct, frozen=True, kw_only=True):
    message: Body
    model: str | None = None
    id: str | None = None
    why: str | None = None


def asked(inputs: Json) -> Request | None:
    """The request in a function's inputs, None where none is recognised."""
    given = obj(inputs)
    raw = given.get("messages", given.get("input", given.get("prompt"))) if given else inputs
    messages = _messages(raw)
    if not messages:
        return None
    model = word(given.get("model"))
    tools = given.get("tools")
    if not isinstance(tools, list):
        tools = [] if model is not None else None  # a call of a library tells all it was given
    return Request(
        messages=messages,
        system=given.get("system", given.get("instructions")),
        tools=tools,
        params={n: v for n, v in given.items() if n in _PARAMS and v is not None} if model else {},
        model=model,
    )


def answered(outputs: Json) -> Response | None:
    """The answer in a function's outputs, None where none is recognised."""
    if isinstance(outputs, list) and len(outputs) == 1:
        outputs = outputs[0]
    given = obj(outputs)
    message, why = _answer(outputs, given)
    if message is None:
        return None
    return Response(
        message=message,
        model=word(given.get("model")),
        id=word(given.get("id")),
        why=why or word(given.get("stop_reason")),
    )


def _answer(outputs: Json, given: dict[str, Any]) -> tuple[Body | None, str | None]:
    if isinstance(outputs, str):
        return {"role": "assistant", "content": outputs}, None
    choice = obj(next(iter(listed(given.get("choices"))), None))
    if choice:
        found = obj(choice.get("message")) or {"content": choice.get("text")}
        return {"role": "assistant", **found}, word(choice.get("finish_reason"))
    if isinstance(given.get("output"), list):
        made = _of_items(given["output"])
        return (made[-1] if made and made[-1]["role"] == "assistant" else None), None
    generations = listed(next(iter(listed(given.get("generations"))), None))
    if generations:
        first = obj(generations[0])
        return _message(obj(first.get("message"))) or _text(first.get("text")), None
    if isinstance(given.get("messages"), list):
        return _message(obj(next(iter(reversed(given["messages"])), None))), None
    return _message(given), None


def _text(text: Json) -> Body | None:
    return {"role": "assistant", "content": text} if isinstance(text, str) else None


def _messages(value: Json) -> list[Body]:
    """Chat messages of a text, of a list, of a list of lists (LangChain asks in batches), of the
    items of OpenAI's responses."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    entries = listed(value)
    if len(entries) == 1 and isinstance(entries[0], list):
        entries = entries[0]
    if any(obj(each).get("type") in ("function_call", "function_call_output") for each in entries):
        return _of_items(entries)
    return [body for each in entries if (body := _message(obj(each))) is not None]


def _message(entry: dict[str, Any]) -> Body | None:
    """A message as chat clients have it, None where it has no role."""
    inner = obj(entry.get("kwargs")) or obj(entry.get("data"))
    entry = {**entry, **inner} if inner else entry
    kind = word(entry.get("role")) or word(entry.get("type"))
    role = _ROLES.get(kind or "", kind)
    if role not in ("system", "developer", "user", "assistant", "tool", "function"):
        return None
    calls = [
        each
        if "function" in each
        else call(each.get("id"), each.get("name"), each.get("args", each.get("arguments")))
        for each in map(obj, listed(entry.get("tool_calls")))
    ]
    return {
        "role": role,
        "content": entry.get("content"),
        **known(
            name=word(entry.get("name")),
            tool_call_id=word(entry.get("tool_call_id")),
            tool_calls=calls,
        ),
    }


def _of_items(items: list[Json]) -> list[Body]:
    """Messages of OpenAI's responses: what the model did between two other items is one answer."""
    found: list[Body] = []
    for item in map(obj, items):
        kind = item.get("type")
        if kind == "function_call_output":
            shown = {"tool_call_id": word(item.get("call_id")), "content": item.get("output")}
            found.append({"role": "tool", **shown})
        elif kind == "function_call" or item.get("role") == "assistant":
            if not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": None})
            last = found[-1]
            if kind == "function_call":
                made = call(item.get("call_id"), item.get("name"), item.get("arguments"))
                last["tool_calls"] = [*listed(last.get("tool_calls")), made]
            else:
                last["content"] = item.get("content")
        elif kind != "reasoning" and (body := _message({"type": "", **item})) is not None:
            found.append(body)
    return found
