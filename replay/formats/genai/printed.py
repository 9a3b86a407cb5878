"""Messages and responses that a framework keeps as its own objects: as Python prints them,
`ChatMessage(…)`, or with the same fields in JSON, as Haystack does.
"""

from __future__ import annotations

from typing import Any

from replay.formats.common import known, listed, obj, parse_repr, word
from replay.formats.genai.messages import Body, call_part, simple
from replay.trace import Json

_LONGEST_NAME = 60


def is_printed(value: Json) -> bool:
    """May this be the text of a message, the name of whose class comes first?"""
    if not isinstance(value, str):
        return False
    name, bracket, _ = value[:_LONGEST_NAME].partition("(")
    return bool(bracket) and name.isidentifier() and "Message" in name


def is_object(value: Json) -> bool:
    """Is this such a message in JSON?"""
    return {"role", "meta", "content"} <= obj(value).keys()


def is_message(value: Json) -> bool:
    return is_printed(value) or is_object(value)


def messages_of(value: Json) -> list[Body]:
    """The message, each tool result in it one of its own; [] for no message."""
    made = _made(value)
    role = word(made.get("role"))
    if role is None:
        return []
    found: list[Body] = []
    content: list[Json] = []
    more = obj(made.get("additional_kwargs"))
    asked = listed(made.get("tool_calls")) or listed(more.get("tool_calls"))
    calls = [_call(obj(each)) for each in asked]
    given = made.get("content", made.get("blocks"))
    for part in [given] if isinstance(given, str) else listed(given):
        fields = _fields(part)
        fields = obj(fields.get("tool_call")) or obj(fields.get("tool_call_result")) or fields
        if "tool_name" in fields or "function" in fields:
            calls.append(_call(fields))
        elif "origin" in fields:
            found.append(_result(fields))
        else:
            said = part if isinstance(part, str) else fields.get("text")
            content.append({"type": "text", "text": said} if isinstance(said, str) else part)
    if content or calls:
        answers = word(more.get("tool_call_id"))
        found.append(
            {
                "role": role,
                "content": simple(content),
                **known(name=word(made.get("name")), tool_call_id=answers, tool_calls=calls),
            }
        )
    return found


def response_in(value: Json) -> dict[str, Any]:
    """What such a message notes of the response that it came with: usage and stop reason, in the
    shape of a chat completion; {} where it notes nothing."""
    made = _made(value)
    noted = obj(made.get("meta")) or obj(made.get("additional_kwargs"))
    if not noted:
        return {}
    choice = {"finish_reason": noted.get("finish_reason")}
    return {"usage": noted.get("usage"), "model": noted.get("model"), "choices": [choice]}


def _made(value: Json) -> dict[str, Any]:
    return _fields(parse_repr(value) if isinstance(value, str) else value)


def _fields(value: Json) -> dict[str, Any]:
    """The fields of an object, those that are private by their public names."""
    return {name.lstrip("_"): each for name, each in obj(value).items()}


def _call(call: dict[str, Any]) -> Body:
    function = obj(call.get("function")) or call
    name = function.get("name", function.get("tool_name"))
    return call_part(call.get("id"), name, function.get("arguments"))


def _result(result: dict[str, Any]) -> Body:
    failed = {"is_error": True} if result.get("error") is True else {}
    call_id = word(obj(result.get("origin")).get("id"))
    return {"role": "tool", "tool_call_id": call_id, "content": result.get("result"), **failed}
