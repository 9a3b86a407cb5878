"""Messages of the Claude Agent SDK for Python, written one a JSON line (`dataclasses.asdict`), as
the lines of the stream that the SDK read them from.

The classes leave out what a line says of itself: `type`, of messages and of blocks. It is known
again by the fields that a class has; a `type` that names the class is taken too. A user's message
names no session: the latest that was named is its. Answers of early releases have neither session,
id nor usage: those that follow each other without a word between are parts of one. The stream of
Qwen Code, which has no module of its own, becomes Claude Code's here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from replay.formats.common import count, obj, word
from replay.trace import Json

_CLASSES = {
    "AssistantMessage": "assistant",
    "ResultMessage": "result",
    "SystemMessage": "system",
    "UserMessage": "user",
}
_MESSAGE = {"assistant": ("usage", "stop_reason", "model"), "user": ()}
_BLOCKS = (
    ("tool_result", {"tool_use_id", "content"}),
    ("tool_use", {"id", "name", "input"}),
    ("thinking", {"thinking", "signature"}),
    ("text", {"text"}),
)


def is_sdk(record: Json) -> bool:
    """Is this a message of the SDK that begins, answers or ends? A user's could be anybody's."""
    kind = _kind(record) if isinstance(record, dict) else None
    return kind is not None and kind != "user"


def as_streamed(
    records: Iterable[tuple[int, dict[str, Any]]],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records, messages of the SDK as the lines they were; all others as they are."""
    session: str | None = None
    part: tuple[int, dict[str, Any]] | None = None
    qwen = False
    for number, record in records:
        kind = _kind(record)
        line = record if kind is None else _line(kind, record)
        qwen = qwen or "qwen_code_version" in record
        if qwen:
            line = _without_cache(line)
        if kind is not None:
            session = word(line.get("session_id")) or session
            line = {**line, "session_id": session} if session is not None else line
        if part is not None and _goes_on(part[1], line):
            part[1]["message"]["content"] += line["message"]["content"]
            continue
        if part is not None:
            yield part
        part = (number, line) if kind == "assistant" else None
        if part is None:
            yield number, line
    if part is not None:
        yield part


def _without_cache(line: dict[str, Any]) -> dict[str, Any]:
    """A line of Qwen Code, which prints what Claude Code prints, but counts the cache in."""
    message = obj(line.get("message"))
    used = obj(message.get("usage"))
    given, read = count(used.get("input_tokens")), count(used.get("cache_read_input_tokens"))
    if given is None or not read or read > given:
        return line
    return {**line, "message": {**message, "usage": {**used, "input_tokens": given - read}}}


def _goes_on(before: dict[str, Any], line: dict[str, Any]) -> bool:
    """Is this line more of the answer before it? One with an id is known by that, later."""
    above = before.get("parent_tool_use_id")
    if line.get("type") != "assistant" or above != line.get("parent_tool_use_id"):
        return False
    contents = [obj(each.get("message")).get("content") for each in (before, line)]
    nameless = not any("id" in obj(each.get("message")) for each in (before, line))
    return nameless and all(isinstance(each, list) for each in contents)


def _kind(record: dict[str, Any]) -> str | None:
    """What kind of line the message was, None where it is no message of the SDK."""
    named, names = record.get("type"), record.keys()
    if named is not None and not (isinstance(named, str) and named in _CLASSES):
        return None
    if isinstance(record.get("data"), dict) and record["data"].get("type") == "system":
        return "system"
    if {"subtype", "duration_ms", "num_turns", "session_id"} <= names:
        return "result"
    if "parent_tool_use_id" in names and isinstance(record.get("content"), (str, list)):
        return "assistant" if "model" in names else "user"
    return None


def _line(kind: str, record: dict[str, Any]) -> dict[str, Any]:
    if kind == "system":
        return obj(record.get("data"))
    if kind == "result":
        return {**record, "type": "result"}
    content = record["content"]
    message: dict[str, Json] = {
        "role": kind,
        "content": [_block(each) for each in content] if isinstance(content, list) else content,
        **{name: record[name] for name in _MESSAGE[kind] if record.get(name) is not None},
    }
    if record.get("message_id") is not None:
        message["id"] = record["message_id"]
    about = ("error", "parent_tool_use_id", "session_id", "tool_use_result", "uuid")
    told = {name: record[name] for name in about if record.get(name) is not None}
    return {"type": kind, "message": message, **told}


def _block(block: Json) -> Json:
    """A block with its type; one that is known by no field stays as it is."""
    if not isinstance(block, dict) or "type" in block:
        return block
    named = next((kind for kind, names in _BLOCKS if names <= block.keys()), None)
    if named is None:
        return block
    return {"type": named, **{name: each for name, each in block.items() if each is not None}}
