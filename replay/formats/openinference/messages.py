"""The messages of a model span: what it was shown and what it answered, OpenAI-shaped.

Calls that a framework writes into messages (smolagents' `tool-call` and `tool-response` turns)
are calls too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from replay.formats.common import known, listed, literal, obj, word
from replay.formats.openinference.exports import Raw, parsed
from replay.messages import text
from replay.trace import Json, Message

Body = dict[str, Json]


def input_messages(raw: Raw) -> list[Body]:
    """The messages the model was shown, system first where one was; [] where none is recorded."""
    given = raw.attributes
    parts = parsed(given.get("gen_ai.input.messages"))
    if isinstance(parts, list):
        return [*_instructions(raw), *_each(parts, _from_parts)]
    counted = listed(obj(raw.tree.get("llm")).get("input_messages"))
    if counted:
        return [body for each in counted if (body := _from_counted(each))]
    older = listed(obj(raw.tree.get("gen_ai")).get("prompt"))
    if older:
        return [_from_older(each, "") for each in _objects(older)]
    prompt = parsed(given.get("ai.prompt.messages"))
    if isinstance(prompt, list):
        return [*_each(prompt, _from_sdk)]
    return [*_from_value(parsed(given.get("input.value", given.get("ai.prompt"))))]


def answered(raw: Raw) -> Body | None:
    """The model's message, None where none is recorded."""
    given = raw.attributes
    parts = parsed(given.get("gen_ai.output.messages"))
    if isinstance(parts, list):
        return next(_each(parts, _from_parts), None)
    counted = listed(obj(raw.tree.get("llm")).get("output_messages"))
    if counted:
        return _from_counted(counted[0], "assistant")
    older = _objects(listed(obj(raw.tree.get("gen_ai")).get("completion")))
    if older:
        return _from_older(older[0], "assistant")
    text = given.get("ai.response.text", given.get("ai.response.object"))
    made = parsed(given.get("ai.response.toolCalls"))
    if text is not None or made is not None:
        calls = [_call(c.get("toolCallId"), c.get("toolName"), _input(c)) for c in _objects(made)]
        return {"role": "assistant", "content": text, **known(tool_calls=calls)}
    value = parsed(given.get("output.value"))
    if isinstance(value, dict) and word(value.get("role")):
        return value
    return {"role": "assistant", "content": value} if isinstance(value, str) else None


def _each(entries: list[Json], read: Any) -> Iterator[Body]:
    for entry in _objects(entries):
        yield from read(entry)


def _objects(value: Json) -> list[dict[str, Any]]:
    return [each for each in listed(value) if isinstance(each, dict)]


def _call(id: Json, name: Json, arguments: Json) -> Body:
    """A call as OpenAI writes it: arguments as JSON text."""
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode({} if arguments is None else arguments).decode()
    function = {"name": word(name) or "", "arguments": arguments}
    return {"id": word(id), "type": "function", "function": function}


# --- GenAI: {"role", "parts": [{"type", …}]}


def _instructions(raw: Raw) -> Iterator[Body]:
    parts = parsed(raw.attributes.get("gen_ai.system_instructions"))
    if isinstance(parts, str):
        yield {"role": "system", "content": parts}
    elif parts:
        yield from _from_parts({"role": "system", "parts": parts})


def _from_parts(entry: dict[str, Any]) -> Iterator[Body]:
    """One message, and one more for each tool result in it."""
    content: list[Json] = []
    calls: list[Body] = []
    for part in _objects(entry.get("parts")):
        kind = part.get("type")
        if kind == "tool_call":
            calls.append(_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif kind == "tool_call_response":
            shown = part.get("response", part.get("result"))
            yield {"role": "tool", "tool_call_id": part.get("id"), "content": _words(shown)}
        elif kind == "text":
            content.append({"type": "text", "text": word(part.get("content")) or ""})
        elif kind == "reasoning":
            content.append({**part, "reasoning": word(part.get("content")) or ""})
        else:
            content.append(part)
    if content or calls:
        role = word(entry.get("role")) or ""
        yield {"role": role, "content": _simple(content), **known(tool_calls=calls)}


def _words(value: Json) -> Json:
    """A result as content: text and blocks as they are, other values as their JSON."""
    blocks = isinstance(value, list) and all(obj(each).get("type") for each in value)
    if value is None or isinstance(value, str) or blocks:
        return value
    return msgspec.json.encode(value).decode()


def _simple(content: list[Json]) -> Json:
    """The text alone, where a text is all there is."""
    if not content:
        return None
    only = obj(content[0])
    alone = len(content) == 1 and only.get("type") == "text" and "text" in only
    return only["text"] if alone else content


# --- OpenInference: llm.input_messages.N.message.…


def _from_counted(entry: Json, role: str = "") -> Body | None:
    said = obj(obj(entry).get("message"))
    if not said:
        return None
    calls = [
        _call(call.get("id"), function.get("name"), function.get("arguments"))
        for each in listed(said.get("tool_calls"))
        for call in (obj(obj(each).get("tool_call")),)
        for function in (obj(call.get("function")),)
    ]
    if said.get("function_call_name"):
        given = said.get("function_call_arguments_json")
        calls.append(_call(None, said["function_call_name"], given))
    answers = said.get("tool_call_id")
    content = said.get("content")
    if content is None:
        blocks = (obj(obj(each).get("message_content")) for each in listed(said.get("contents")))
        content = _simple([_block(block) for block in blocks if block])
    return {
        "role": "tool" if answers else word(said.get("role")) or role,
        "content": content,
        **known(name=said.get("name"), tool_call_id=answers, tool_calls=calls),
    }


def _block(block: dict[str, Any]) -> Body:
    kind = word(block.get("type")) or "text"
    if kind == "image":
        return {"type": "image_url", "image_url": obj(obj(block.get("image")).get("image"))}
    if kind == "reasoning":
        return {**block, "reasoning": word(block.get("text")) or ""}
    return {**block, "type": kind}


# --- GenAI of old: gen_ai.prompt.N.…


def _from_older(said: dict[str, Any], role: str) -> Body:
    calls = [
        _call(each.get("id"), each.get("name"), each.get("arguments"))
        for each in _objects(said.get("tool_calls"))
    ]
    answers, content = word(said.get("tool_call_id")), said.get("content")
    blocks = listed(parsed(content))
    return {
        "role": "tool" if answers else word(said.get("role")) or role,
        "content": blocks if blocks and all(obj(each).get("type") for each in blocks) else content,
        **known(tool_call_id=answers, tool_calls=calls),
    }


# --- JavaScript SDK: provider-independent prompt messages


def _from_sdk(entry: dict[str, Any]) -> Iterator[Body]:
    role, content = word(entry.get("role")) or "", entry.get("content")
    if not isinstance(content, list):
        yield {"role": role, "content": content}
        return
    parts = _objects(content)
    for part in parts:
        if part.get("type") == "tool-result":
            shown = part.get("output", part.get("result"))
            said = obj(shown).get("value", shown)
            yield {
                "role": "tool",
                "tool_call_id": part.get("toolCallId"),
                "name": part.get("toolName"),
                "content": _words(said),
            }
    calls = [
        _call(part.get("toolCallId"), part.get("toolName"), _input(part))
        for part in parts
        if part.get("type") == "tool-call"
    ]
    rest: list[Json] = [p for p in parts if p.get("type") not in ("tool-call", "tool-result")]
    if rest or calls:
        yield {"role": role, "content": _simple(rest), **known(tool_calls=calls)}


def _input(call: dict[str, Any]) -> Json:
    return call.get("input", call.get("args"))


# --- whatever stands in input.value


def _from_value(value: Json) -> Iterator[Body]:
    """A request's messages, a lone prompt, or plain text."""
    if isinstance(value, str):
        yield {"role": "user", "content": value}
        return
    messages = value if isinstance(value, list) else obj(value).get("messages")
    for each in _objects(messages):
        if word(each.get("role")):
            yield each
    prompt = word(obj(value).get("prompt"))
    if prompt:
        yield {"role": "user", "content": prompt}


_ANSWER = re.compile(r"\s*Call id: (\S+)\s*\n(Error:\s*)?", re.I)


class Written(NamedTuple):
    """One call as a turn tells it."""

    call_id: str
    name: str
    arguments: Json


class Answer(NamedTuple):
    """A response: to which call, and its error where it tells of one."""

    call_id: str
    error: str | None


def calls(message: Message) -> list[Written]:
    """The calls a turn tells of, [] for any other turn."""
    if message.role != "tool-call":
        return []
    words = text(message)
    listed = literal(words[words.find("[") :]) if "[" in words else None
    found: list[Written] = []
    for entry in listed if isinstance(listed, list) else []:
        function = obj(obj(entry).get("function"))
        call_id, name = word(obj(entry).get("id")), word(function.get("name"))
        if call_id is not None and name is not None:
            found.append(Written(call_id, name, function.get("arguments")))
    return found


def answer(message: Message) -> Answer | None:
    """What a turn answers, None for any other turn."""
    if message.role != "tool-response":
        return None
    words = text(message)
    match = _ANSWER.match(words)
    if match is None:
        return None
    return Answer(match[1], words[match.end() :].strip() if match[2] else None)
