"""Google's contents and parts as messages of parts, the shape that GenAI spans have.

Its calls mostly have no ids: a call and its answer are then known by the function's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.formats.fields import known, listed, obj, word
from replay.trace import Json

Body = dict[str, Json]


def is_content(entry: Json) -> bool:
    """Is this one of Google's contents? Parts of GenAI spans name their type."""
    parts = listed(obj(entry).get("parts"))
    return bool(parts) and not any("type" in obj(part) for part in parts)


def messages(contents: Json) -> list[Body]:
    """The messages of a text, one content, or a list of them."""
    if isinstance(contents, str):
        return [{"role": "user", "content": contents}]
    entries = contents if isinstance(contents, list) else [contents]
    return [message(each) for each in entries if is_content(each)]


def message(content: Json) -> Body:
    role = word(obj(content).get("role")) or "user"
    parts = [_part(obj(part)) for part in listed(obj(content).get("parts"))]
    return {"role": "assistant" if role == "model" else role, "parts": parts}


def _part(part: dict[str, Any]) -> Body:
    call = obj(part.get("function_call") or part.get("functionCall"))
    if call:
        name = word(call.get("name")) or ""
        call_id = word(call.get("id")) or name
        return {"type": "tool_call", "id": call_id, "name": name, "arguments": call.get("args")}
    answer = obj(part.get("function_response") or part.get("functionResponse"))
    if answer:
        answers = word(answer.get("id")) or word(answer.get("name"))
        return {"type": "tool_call_response", "id": answers, "response": answer.get("response")}
    if isinstance(part.get("text"), str):
        return {"type": "reasoning" if part.get("thought") else "text", "content": part["text"]}
    return {"type": "unknown", **part}


def declared(tools: Json) -> Iterator[Body]:
    """The functions of a list of Google's tools."""
    for tool in map(obj, listed(tools)):
        for each in listed(tool.get("function_declarations") or tool.get("functionDeclarations")):
            schema = obj(each).get("parameters", obj(each).get("parameters_json_schema"))
            about = {"name": obj(each).get("name"), "description": obj(each).get("description")}
            yield known(**about, parameters=schema)


def instructions(config: dict[str, Any]) -> Json:
    """The system prompt as text or parts, None for none."""
    given = config.get("system_instruction", config.get("systemInstruction"))
    return message(given)["parts"] if is_content(given) else word(given)
