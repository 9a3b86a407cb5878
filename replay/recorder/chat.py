"""OpenAI's chat completions: a request, and its answer whole or in chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replay.formats import litellm
from replay.formats.chat import tool
from replay.formats.fields import listed, obj, word
from replay.recorder.spoken import Spoken, parted
from replay.trace import Json, Message

_APART = frozenset({"messages", "model", "tools", "functions", "metadata", "user"})
_JOINED = frozenset({"content", "refusal", "reasoning_content", "reasoning"})
"""Fields of a message that come in pieces."""


def spoken(request: dict[str, Any], answer: dict[str, Any] | None) -> Spoken:
    """What the two bodies say; `answer` None where no completion came."""
    system, messages = parted(_message(each) for each in listed(request.get("messages")))
    tools = [*listed(request.get("tools")), *listed(request.get("functions"))]
    said = obj(answer)
    choices = [obj(each) for each in listed(said.get("choices"))]
    message = obj(choices[0].get("message")) if choices else {}
    return Spoken(
        model=word(request.get("model")),
        system=system,
        messages=messages,
        tools=tuple(map(tool, tools)),
        params={name: value for name, value in request.items() if name not in _APART},
        answer=Message(dialect="openai", body={"role": "assistant", **message})
        if message
        else None,
        response=litellm.response(said),
        usage=litellm.usage(said.get("usage")),
        others=tuple(choices[1:]),
    )


def _message(value: Json) -> Message:
    body = value if isinstance(value, dict) else {"role": "user", "content": value}
    return Message(dialect="openai", body=body)


def assembled(events: Iterable[dict[str, Any]]) -> tuple[dict[str, Any] | None, Json, bool]:
    """The completion that chunks add up to, the error that came, and whether it is whole."""
    found: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    error: Json = None
    for event in events:
        if event.get("error"):
            error = event["error"]
            continue
        found |= {n: v for n, v in event.items() if n != "choices" and v is not None}
        for each in map(obj, listed(event.get("choices"))):
            at = each.get("index")
            choice = choices.setdefault(at if type(at) is int else 0, {"message": {}})
            _add(choice["message"], obj(each.get("delta")))
            if each.get("finish_reason") is not None:
                choice["finish_reason"] = each["finish_reason"]
    made = [_finished(choices[at]) for at in sorted(choices)]
    if not made:
        return None, error, False
    return {**found, "choices": made}, error, "finish_reason" in made[0]


def _add(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            calls = message.setdefault("tool_calls", {})
            for position, each in enumerate(map(obj, listed(value))):
                at = each.get("index")
                _add_call(calls.setdefault(at if type(at) is int else position, {}), each)
        elif name == "function_call":
            _add_call(message.setdefault(name, {}), {"function": value})
        elif name in _JOINED and isinstance(value, str):
            before = message.get(name)
            message[name] = before + value if isinstance(before, str) else value
        elif value is not None or name not in message:
            message[name] = value


def _add_call(call: dict[str, Any], piece: dict[str, Any]) -> None:
    for name, value in piece.items():
        if name == "function":
            function = call.setdefault("function", {})
            for key, text in obj(value).items():
                joins = key == "arguments" and isinstance(text, str)
                function[key] = f"{function.get(key) or ''}{text}" if joins else text
        elif name != "index" and value is not None:
            call[name] = value


def _finished(choice: dict[str, Any]) -> dict[str, Any]:
    message = choice["message"]
    if isinstance(message.get("tool_calls"), dict):
        message["tool_calls"] = [message["tool_calls"][at] for at in sorted(message["tool_calls"])]
    if isinstance(message.get("function_call"), dict):
        message["function_call"] = message["function_call"].get("function")
    return choice
