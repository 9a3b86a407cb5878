"""Gemini's contents as messages of OpenAI's chat shape.

A function response that is a plain `output` is told as that text, as the tools wrote it; any other
is told as its JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec

from replay.formats.fields import listed, obj, word
from replay.trace import Json, Message

_FAILED = {"error", "cancelled"}


def user(content: Json) -> Message:
    """What a person or the harness said, calls' answers left out."""
    return _message(role="user", content=_simplest(_blocks(content)) or "")


def gemini(value: dict[str, Json]) -> Message | None:
    """An answer: its thoughts, texts and calls; None where nothing of it was recorded."""
    content = value.get("content")
    blocks = _simplest(_blocks(content))
    thoughts = [*map(_thought, listed(value.get("thoughts"))), *_thought_parts(content)]
    calls = [_call(call) for call in asked(value)]
    body: dict[str, Json] = {"role": "assistant", "content": blocks}
    if shown := "\n".join(filter(None, thoughts)):
        body["reasoning_content"] = shown
    if calls:
        body["tool_calls"] = calls
    return (
        Message(dialect="openai", body=body)
        if body.keys() != {"role", "content"} or (blocks is not None)
        else None
    )


def asked(value: dict[str, Json]) -> list[dict[str, Any]]:
    """The calls of an answer: those recorded with what came back, and bare ones of a history."""
    recorded = [obj(call) for call in listed(value.get("toolCalls")) if isinstance(call, dict)]
    known = {word(call.get("id")) for call in recorded}
    bare = [obj(part.get("functionCall")) for part in _parts(value.get("content"))]
    return [*recorded, *(c for c in bare if c and (c.get("id") is None or c["id"] not in known))]


def results(value: dict[str, Json]) -> list[tuple[dict[str, Any], Message]]:
    """The calls of an answer that came back, each with what the model was given."""
    return [
        (call, _result(word(call.get("id")), word(call.get("name")), call["result"]))
        for call in asked(value)
        if call.get("result") is not None
    ]


def responses(content: Json) -> list[Message]:
    """Results that stand in a history as contents of the user's."""
    found = [obj(part.get("functionResponse")) for part in _parts(content)]
    return [
        _result(word(each.get("id")), word(each.get("name")), [{"functionResponse": each}])
        for each in found
        if each
    ]


def failure(call: dict[str, Any]) -> str | None:
    """Why a recorded call failed, None where it did not."""
    status = word(call.get("status"))
    if status not in _FAILED:
        return None
    told = [
        obj(obj(part.get("functionResponse")).get("response"))
        for part in _parts(call.get("result"))
    ]
    error = next((word(each["error"]) for each in told if "error" in each), None)
    return error or word(call.get("resultDisplay")) or status


def _call(call: dict[str, Any]) -> Json:
    given = call.get("args")
    arguments = given if isinstance(given, str) else msgspec.json.encode(given or {}).decode()
    function = {"name": word(call.get("name")) or "", "arguments": arguments}
    return {"id": word(call.get("id")), "type": "function", "function": function}


def _result(call_id: str | None, name: str | None, result: Json) -> Message:
    blocks: list[Json] = []
    for part in _parts(result):
        response = obj(part.get("functionResponse"))
        blocks += [_response(response)] if response else _blocks([part])
    return _message(
        role="tool",
        tool_call_id=call_id,
        content=_simplest(blocks) or "",
        **({"name": name} if name else {}),
    )


def _response(response: dict[str, Any]) -> Json:
    given = response.get("response")
    output = obj(given).get("output")
    if isinstance(output, str) and obj(given).keys() == {"output"}:
        return {"type": "text", "text": output}
    text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    return {"type": "text", "text": text}


def _parts(content: Json) -> list[dict[str, Any]]:
    """A content is a text, a part, or a list of both."""
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return [
        {"text": each} if isinstance(each, str) else each
        for each in (content if isinstance(content, list) else [content])
        if isinstance(each, (dict, str)) and each
    ]


def _blocks(content: Json) -> list[Json]:
    """Texts and media; calls, their answers and thoughts stand elsewhere."""
    found: list[Json] = []
    for part in _parts(content):
        data = obj(part.get("inlineData"))
        if part.get("thought") is True or "functionCall" in part or "functionResponse" in part:
            continue
        if isinstance(part.get("text"), str):
            found.append({"type": "text", "text": part["text"]})
        elif data:
            url = f"data:{word(data.get('mimeType'))};base64,{word(data.get('data'))}"
            found.append({"type": "image_url", "image_url": {"url": url}})
        else:
            found.append({**part, "type": "part"})
    return found


def _thought(thought: Json) -> str:
    told = (word(obj(thought).get("subject")), word(obj(thought).get("description")))
    return "\n".join(filter(None, told))


def _thought_parts(content: Json) -> list[str]:
    return [word(part.get("text")) or "" for part in _parts(content) if part.get("thought") is True]


def _simplest(blocks: list[Json]) -> Json:
    """None for nothing; texts alone as one text, since streams cut them anywhere."""
    if all(block["type"] == "text" for block in blocks):
        return "".join(block["text"] for block in blocks) or None
    return blocks


def _message(**body: Json) -> Message:
    return Message(dialect="openai", body=body)
