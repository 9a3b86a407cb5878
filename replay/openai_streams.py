"""Streams of OpenAI's two APIs, put together to the answers they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replay.formats.common import listed, obj, word
from replay.trace import Json

_JOINED = frozenset({"content", "refusal", "reasoning_content", "reasoning"})
"""Fields of a message that come in pieces."""


def assembled_chat(events: Iterable[dict[str, Any]]) -> tuple[dict[str, Any] | None, Json, bool]:
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


def assembled_response(
    events: Iterable[dict[str, Any]],
) -> tuple[dict[str, Any] | None, Json, bool]:
    """The response that events add up to, the error that came, and whether it is whole."""
    found: dict[str, Any] | None = None
    done: dict[int, dict[str, Any]] = {}
    texts: dict[int, str] = {}
    error: Json = None
    for event in events:
        kind, at = str(event.get("type")), event.get("output_index")
        if kind == "error":
            error = event.get("error") or event
        if isinstance(event.get("response"), dict):
            found = event["response"]
            if kind in ("response.completed", "response.incomplete", "response.failed"):
                return found, found.get("error"), True
        elif kind == "response.output_item.done" and type(at) is int:
            done[at] = obj(event.get("item"))
        elif kind == "response.output_text.delta" and type(at) is int:
            texts[at] = texts.get(at, "") + (word(event.get("delta")) or "")
    if found is None:
        return None, error, False
    begun = {at: _begun(text) for at, text in texts.items()}
    output = {**begun, **done}
    return {**found, "output": [output[at] for at in sorted(output)]}, error, False


def _begun(text: str) -> dict[str, Any]:
    """A text that broke off."""
    return {"type": "message", "role": "assistant", "content": [{"type": "text", "text": text}]}
