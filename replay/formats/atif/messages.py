"""What the steps of an ATIF document say, as messages of OpenAI's shape.

ATIF took its calls and its tool definitions from there. Texts stay as recorded, with the lines
that converters append to them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from replay.formats.atif.steps import Asked, Entry, Turn
from replay.formats.fields import listed, obj, word
from replay.messages import content_text
from replay.trace import Json, Message

_FAILED = "[error] tool reported failure"
_FETCHABLE = ("http://", "https://", "data:")


def told(entry: Entry) -> Message:
    """A step of the user or of the system."""
    return _message(role=entry.source, content=_content(entry.raw.get("message")))


def said(turn: Turn) -> Message:
    """An answer of the model, its steps made one: texts, reasoning and calls in their order.

    What the converter wrote over a bare call is not what the model said and is left out; so is
    reasoning that it repeats on every step of the answer.
    """
    body: dict[str, Json] = {
        "role": "assistant",
        "content": _joined([_content(e.raw.get("message")) for e in turn if not e.invented]),
    }
    thoughts = dict.fromkeys(word(entry.raw.get("reasoning_content")) for entry in turn)
    if reasoning := "\n".join(thought for thought in thoughts if thought):
        body["reasoning_content"] = reasoning
    if calls := [_call(call) for entry in turn for call in entry.calls]:
        body["tool_calls"] = calls
    return Message(dialect="openai", body=body)


def _call(call: Asked) -> dict[str, Json]:
    given = {} if call.arguments is None else call.arguments
    text = given if isinstance(given, str) else _written(given)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def observed(entry: Entry) -> list[Message]:
    """The results of a step.

    One that names no call answers the step's only call; where there is no such call, what the
    environment said is a message of the user's, as the agents that work so send it.
    """
    answers: dict[str, list[dict[str, Any]]] = {}
    others: list[Message] = []
    for result in entry.results:
        call_id = answered(entry, result)
        if call_id is not None:
            answers.setdefault(call_id, []).append(result)
        elif (content := _content(result.get("content"))) != "":
            others.append(_message(role="user", content=content))
    return [*(_answer(entry, name, parts) for name, parts in answers.items()), *others]


def answered(entry: Entry, result: dict[str, Any]) -> str | None:
    """The id of the call that a result answers, None where it answers none."""
    named = word(result.get("source_call_id"))
    return named or (entry.calls[0].id if len(entry.calls) == 1 else None)


def _answer(entry: Entry, call_id: str, results: list[dict[str, Any]]) -> Message:
    content = _joined([_content(result.get("content")) for result in results])
    message = _message(role="tool", tool_call_id=call_id, content=content)
    failed = any(obj(result.get("extra")).get("is_error") is True for result in results)
    if failed or content_text(content).rstrip().endswith(_FAILED) or _step_failed(entry):
        message.body["is_error"] = True
    return message


def _step_failed(entry: Entry) -> bool:
    """Does the step say that its call failed? Of several calls it cannot say which."""
    metadata = obj(entry.extra.get("tool_result_metadata"))
    flags = (entry.extra.get("tool_result_is_error"), metadata.get("is_error"))
    return len(entry.calls) <= 1 and any(flag is True for flag in flags)


def _message(**body: Json) -> Message:
    return Message(dialect="openai", body=body)


# --- content


def _content(value: Json) -> Json:
    """A text, or the parts of a message (1.6) as OpenAI has them; "" for nothing."""
    if isinstance(value, list):
        return [_part(part) for part in value]
    if value is None or isinstance(value, str):
        return value or ""
    return _written(value)


def _part(part: Json) -> Json:
    """An image becomes OpenAI's; other parts stay, and what is no part is shown as written."""
    kind, source = obj(part).get("type"), obj(obj(part).get("source"))
    if not isinstance(kind, str):
        return {"type": "text", "text": part if isinstance(part, str) else _written(part)}
    if kind == "image" and word(source.get("path")) is not None:
        return {"type": "image_url", "image_url": {"url": word(source["path"])}}
    return part


def _written(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _joined(contents: list[Json]) -> Json:
    """Several contents as one: texts line by line, parts one after another."""
    kept = [content for content in contents if content]
    if all(isinstance(content, str) for content in kept):
        return "\n".join(kept)
    return [
        part
        for content in kept
        for part in (content if isinstance(content, list) else [_part(content)])
    ]


def lacks_media(entry: Entry) -> bool:
    """Does the step show media of which only a path on some machine was recorded?"""
    shown = [entry.raw.get("message"), *(result.get("content") for result in entry.results)]
    for part in (part for content in shown for part in listed(content)):
        path = obj(obj(part).get("source")).get("path")
        if isinstance(path, str) and not path.startswith(_FETCHABLE):
            return True
    return False
