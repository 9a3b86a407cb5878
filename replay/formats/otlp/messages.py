"""Messages in the shapes GenAI spans have had, turned into OpenAI-shaped chat messages.

Today a message is a list of parts; before that it was an event of the span, or spread over
attributes with numbers in their names. Whatever stands in a message is kept; a part that chat
messages have no word for stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from replay.formats.common import known, listed, obj, word
from replay.formats.openinference.exports import grown, parsed
from replay.formats.otlp.records import Event
from replay.trace import Json

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
            calls.append(call_part(part.get("id"), part.get("name"), part.get("arguments")))
        elif kind == "tool_call_response":
            yield _result(part)
        elif part is not None:
            content.append(_part(part))
    if content or calls:
        body: Body = {"role": word(message.get("role")) or "", "content": simple(content)}
        if message.get("name"):
            body["name"] = message["name"]
        if calls:
            body["tool_calls"] = calls
        yield body


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


def has_messages(events: list[Event]) -> tuple[list[Body], Body | None, str | None]:
    """What events tell of: the messages asked with, the answer, and why it ended."""
    asked: list[Body] = []
    answer: Body | None = None
    why: str | None = None
    for event in events:
        given = {**event.attributes, **obj(parsed(event.attributes.get("gen_ai.event.content")))}
        role = _ROLES.get(event.name)
        if role is not None:
            asked.append(_event(role, given))
        elif event.name == _CHOICE and answer is None:
            message = parsed(given.get("message"))
            answer = _event("assistant", {**given, **(obj(message) or {"content": message})})
            why = word(given.get("finish_reason"))
        elif event.name == "gen_ai.content.prompt":
            asked += several(parsed(given.get("gen_ai.prompt")))
        elif event.name == "gen_ai.content.completion" and answer is None:
            answer = next(iter(several(parsed(given.get("gen_ai.completion")), "assistant")), None)
    return asked, answer, why


def _event(role: str, given: dict[str, Any]) -> Body:
    calls = [_flat_call(obj(each)) for each in listed(parsed(given.get("tool_calls")))]
    content = given.get("content")
    role = word(given.get("role")) or role
    about = known(
        name=word(given.get("name")),
        tool_call_id=word(given.get("id")) if role == "tool" else None,
        tool_calls=calls,
    )
    blocks = parsed(content)
    return {"role": role, "content": blocks if _are_blocks(blocks) else words(content), **about}


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
