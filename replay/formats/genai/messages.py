"""Messages in the shapes spans have had, turned into OpenAI-shaped chat messages.

Today a message of the GenAI conventions is a list of parts; before that it was an event of the
span, or spread over attributes with numbers in their names, as OpenInference still has it.
Whatever stands in a message is kept; a part that chat messages have no word for stays as it is.
Calls that a framework writes into messages (smolagents' `tool-call` and `tool-response` turns) are
calls too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from replay.formats.common import known, listed, literal, obj, parse_repr, word
from replay.formats.genai.records import Event, Raw, grown, parsed
from replay.messages import text
from replay.trace import Json, Message

Body = dict[str, Json]


def bodies(entry: Json) -> Iterator[Body]:
    """The messages that one recorded message makes: each tool result in it is one of its own."""
    if isinstance(entry, str):
        yield {"role": "user", "content": entry}
        return
    message = obj(entry)
    parts = message.get("parts")
    if not isinstance(parts, list):
        if message.get("role") is not None:
            yield _chat(message)
        return
    content: list[Json] = []
    calls: list[Body] = []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "tool_call":
            made = call_part(part.get("id"), part.get("name"), part.get("arguments"))
            if "arguments" not in part:  # contents were not to be recorded
                del made["function"]["arguments"]
            calls.append(made)
        elif kind == "tool_call_response":
            yield _result(part)
        elif (printed := _printed_call(part)) is not None:
            calls.append(printed)
        elif part is not None and part != _LEFT_OUT:
            content.append(_part(part))
    if content or calls:
        body: Body = {"role": word(message.get("role")) or "", "content": simple(content)}
        if message.get("name"):
            body["name"] = message["name"]
        if calls:
            body["tool_calls"] = calls
        yield body


_LEFT_OUT = {"type": "text"}
"""A text whose words were not to be recorded."""

_HOLLOW = re.compile(r'\{\s*"type"\s*:\s*"text"\s*\}')


def is_left_out(text: str) -> bool:
    """Do the messages of a JSON text tell that something was said, and not what?"""
    return _HOLLOW.search(text) is not None


_CALL_CLASS = "ResponseFunctionToolCall("


def _printed_call(part: Json) -> Body | None:
    """The call that a client put into a text as Python prints the class of OpenAI's responses."""
    text = obj(part).get("content")
    if not isinstance(text, str) or not text.startswith(_CALL_CLASS):
        return None
    made = obj(parse_repr(text))
    name = made.get("name")
    return call_part(made.get("call_id"), name, made.get("arguments")) if name else None


def _chat(message: dict[str, Any]) -> Body:
    """A message that is a chat message already."""
    body = {name: value for name, value in message.items() if value is not None}
    body.pop("finish_reason", None)
    calls = body.get("tool_calls")
    if isinstance(calls, list):
        body["tool_calls"] = [_flat_call(obj(each)) for each in calls]
    return {"role": body.pop("role"), "content": body.pop("content", None), **body}


def _flat_call(entry: dict[str, Any]) -> Body:
    """A call as OpenAI has it, or with its name and arguments beside its id."""
    if "function" in entry:
        return entry
    return call_part(entry.get("id"), entry.get("name"), entry.get("arguments"))


def call_part(id: Json, name: Json, arguments: Json) -> Body:
    """A call as OpenAI writes it: arguments as JSON text."""
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode({} if arguments is None else arguments).decode()
    function = {"name": word(name) or "", "arguments": arguments}
    return {"id": word(id), "type": "function", "function": function}


def _result(part: dict[str, Any]) -> Body:
    shown = part.get("response", part.get("result"))
    body: Body = {"role": "tool", "tool_call_id": word(part.get("id")), "content": words(shown)}
    if part.get("is_error") is True:
        body["is_error"] = True
    return body


def words(value: Json) -> Json:
    """A result as content: text and blocks as they are, other values as their JSON."""
    if value is None or isinstance(value, str) or _are_blocks(value):
        return value
    return msgspec.json.encode(value).decode()


def _part(part: Json) -> Json:
    """A part as a block of a chat message's content."""
    if not isinstance(part, dict):
        return {"type": "text", "text": word(part) or ""}
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "text": word(part.get("content", part.get("text"))) or ""}
    if kind == "reasoning":
        rest = {n: v for n, v in part.items() if n not in ("type", "content")}
        return {"type": "reasoning", "reasoning": word(part.get("content")) or "", **rest}
    if kind in ("blob", "uri", "file"):
        return _medium(part, str(kind))
    return part


def _medium(part: dict[str, Any], kind: str) -> Json:
    """An image or another medium: its bytes as a data URL, or where they are."""
    where = word(part.get("uri"))
    data = word(part.get("content", part.get("data")))
    if kind == "blob" and data is not None:
        where = f"data:{part.get('mime_type') or 'application/octet-stream'};base64,{data}"
    if where is None:
        return part
    if part.get("modality") == "image":
        return {"type": "image_url", "image_url": {"url": where}}
    return {"type": "file", "file": {"file_data": where}}


def simple(content: list[Json]) -> Json:
    """The text alone, where a text is all there is."""
    if not content:
        return None
    only = obj(content[0])
    alone = len(content) == 1 and only.get("type") == "text" and "text" in only
    return only["text"] if alone else content


# --- events of a span, and log records of the same names

_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE = "gen_ai.choice"


def join_items(found: list[Body]) -> Body:
    """The one answer of several messages: some clients write each item of OpenAI's responses as one
    of its own. Where none but the first calls tools they are answers to choose from."""
    if not any(each.get("tool_calls") for each in found[1:]):
        return found[0]
    content: list[Json] = []
    for each in found:
        said = each.get("content")
        content += [{"type": "text", "text": said}] if isinstance(said, str) else listed(said)
    made = [call for each in found for call in listed(each.get("tool_calls"))]
    return {**found[0], "content": simple(content), "tool_calls": made}


def has_messages(events: list[Event]) -> tuple[list[Body], Body | None, str | None]:
    """What events tell of: the messages asked with, the answer, and why it ended."""
    asked: list[Body] = []
    answer: Body | None = None
    why: str | None = None
    for event in events:
        given = {**event.attributes, **obj(parsed(event.attributes.get("gen_ai.event.content")))}
        role = _ROLES.get(event.name)
        if role is not None:
            asked += _of_event(role, given)
        elif event.name == _CHOICE and answer is None:
            message = parsed(given.get("message"))
            given = {**given, **(obj(message) or {"content": message})}
            answer = next(iter(_of_event("assistant", given)), None)
            why = word(given.get("finish_reason"))
        elif event.name == "gen_ai.content.prompt":
            asked += several(parsed(given.get("gen_ai.prompt")))
        elif event.name == "gen_ai.content.completion" and answer is None:
            answer = next(iter(several(parsed(given.get("gen_ai.completion")), "assistant")), None)
    return asked, answer, why


def _of_event(role: str, given: dict[str, Any]) -> list[Body]:
    """The message of an event; of one that holds results of several tools, one each."""
    content = given.get("content")
    role = word(given.get("role")) or role
    blocks = parsed(content)
    if _are_bedrock(blocks):
        return _of_bedrock(role, blocks)
    calls = [_flat_call(obj(each)) for each in listed(parsed(given.get("tool_calls")))]
    about = known(
        name=word(given.get("name")),
        tool_call_id=word(given.get("id", given.get("tool_call_id"))) if role == "tool" else None,
        tool_calls=calls,
    )
    return [{"role": role, "content": blocks if _are_blocks(blocks) else words(content), **about}]


_BEDROCK = {"text", "toolUse", "toolResult", "reasoningContent", "image", "document", "cachePoint"}


def _are_bedrock(value: Json) -> bool:
    """Are these blocks of Bedrock's messages, each an object of one field that names its kind?"""
    entries = [obj(each) for each in listed(value)]
    return bool(entries) and all(len(each) == 1 and each.keys() <= _BEDROCK for each in entries)


def _of_bedrock(role: str, blocks: Json) -> list[Body]:
    """The message of Bedrock's blocks, each tool result in it one of its own."""
    found: list[Body] = []
    content: list[Json] = []
    calls: list[Body] = []
    for block in map(obj, listed(blocks)):
        use, result = obj(block.get("toolUse")), obj(block.get("toolResult"))
        if use:
            calls.append(call_part(use.get("toolUseId"), use.get("name"), use.get("input")))
        elif result:
            shown = simple([_of_bedrock_part(obj(each)) for each in listed(result.get("content"))])
            body: Body = {"role": "tool", "tool_call_id": word(result.get("toolUseId"))}
            failed = {"is_error": True} if result.get("status") == "error" else {}
            found.append({**body, "content": words(shown), **failed})
        else:
            content.append(_of_bedrock_part(block))
    if content or calls:
        found.append({"role": role, "content": simple(content), **known(tool_calls=calls)})
    return found


def _of_bedrock_part(block: dict[str, Any]) -> Json:
    if "text" in block:
        return {"type": "text", "text": word(block["text"]) or ""}
    thought = obj(obj(block.get("reasoningContent")).get("reasoningText")).get("text")
    if thought is not None:
        return {"type": "reasoning", "reasoning": word(thought) or ""}
    return {"type": next(iter(block), "unknown"), **block}


def _are_blocks(value: Json) -> bool:
    return isinstance(value, list) and all(obj(each).get("type") for each in value)


def several(value: Json, role: str = "user") -> list[Body]:
    """The messages of a value that is a list of them, one of them, or a text."""
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    entries = value if isinstance(value, list) else [value]
    return [body for entry in entries for body in bodies(entry)]


# --- attributes with numbers in their names: gen_ai.prompt.0.role, …


def counted(attributes: dict[str, Json], side: str) -> list[Body]:
    """The messages that lie under `gen_ai.prompt.` or `gen_ai.completion.`, [] for none."""
    stem = f"gen_ai.{side}."
    found = {name: value for name, value in attributes.items() if name.startswith(stem)}
    if not found:
        return []
    entries = obj(grown(found).get("gen_ai")).get(side)
    return [_numbered(obj(entry), side) for entry in listed(entries)]


def _numbered(entry: dict[str, Any], side: str) -> Body:
    calls = [
        call_part(one.get("id"), one.get("name"), one.get("arguments"))
        for one in map(obj, listed(entry.get("tool_calls")))
    ]
    answers = word(entry.get("tool_call_id"))
    role = word(entry.get("role")) or ("assistant" if side == "completion" else "user")
    content = parsed(entry.get("content"))
    return {
        "role": "tool" if answers else role,
        "content": content if _are_blocks(content) else entry.get("content"),
        **known(tool_call_id=answers, tool_calls=calls, reasoning=word(entry.get("reasoning"))),
    }


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
        calls = [
            call_part(c.get("toolCallId"), c.get("toolName"), _input(c)) for c in _objects(made)
        ]
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
            made = call_part(part.get("id"), part.get("name"), part.get("arguments"))
            if "arguments" not in part:  # contents were not to be recorded
                del made["function"]["arguments"]
            calls.append(made)
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
        yield {"role": role, "content": simple(content), **known(tool_calls=calls)}


def _words(value: Json) -> Json:
    """A result as content: text and blocks as they are, other values as their JSON."""
    blocks = isinstance(value, list) and all(obj(each).get("type") for each in value)
    if value is None or isinstance(value, str) or blocks:
        return value
    return msgspec.json.encode(value).decode()


# --- OpenInference: llm.input_messages.N.message.…


def _from_counted(entry: Json, role: str = "") -> Body | None:
    said = obj(obj(entry).get("message"))
    if not said:
        return None
    calls = [
        call_part(call.get("id"), function.get("name"), function.get("arguments"))
        for each in listed(said.get("tool_calls"))
        for call in (obj(obj(each).get("tool_call")),)
        for function in (obj(call.get("function")),)
    ]
    if said.get("function_call_name"):
        given = said.get("function_call_arguments_json")
        calls.append(call_part(None, said["function_call_name"], given))
    answers = said.get("tool_call_id")
    content = said.get("content")
    if content is None:
        blocks = (obj(obj(each).get("message_content")) for each in listed(said.get("contents")))
        content = simple([_block(block) for block in blocks if block])
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
        call_part(each.get("id"), each.get("name"), each.get("arguments"))
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
        call_part(part.get("toolCallId"), part.get("toolName"), _input(part))
        for part in parts
        if part.get("type") == "tool-call"
    ]
    rest: list[Json] = [p for p in parts if p.get("type") not in ("tool-call", "tool-result")]
    if rest or calls:
        yield {"role": role, "content": simple(rest), **known(tool_calls=calls)}


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


def calls_written(message: Message) -> list[Written]:
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


def answer_written(message: Message) -> Answer | None:
    """What a turn answers, None for any other turn."""
    if message.role != "tool-response":
        return None
    words = text(message)
    match = _ANSWER.match(words)
    if match is None:
        return None
    return Answer(match[1], words[match.end() :].strip() if match[2] else None)
