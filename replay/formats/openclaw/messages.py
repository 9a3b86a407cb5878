"""The messages of an OpenClaw session in Anthropic's shape.

The session's own shape (texts, thinking and calls in one list, results with `isError`) is that of
the Messages API under other names.
"""

from __future__ import annotations

from replay.formats.fields import listed, obj, word
from replay.formats.openclaw.entries import CUSTOM, MESSAGE, SUMMARY, Entry
from replay.trace import Json, Message


def answer(entry: Entry) -> Message:
    """What the model said."""
    content = blocks(entry.message.get("content"))
    return Message(dialect="anthropic", body={"role": "assistant", "content": content})


def told(entry: Entry) -> Message | None:
    """What the model hears of an entry, None for nothing."""
    if entry.kind == SUMMARY:
        summary = word(entry.record.get("summary"))
        return user(summary) if summary else None
    if entry.kind == CUSTOM:
        return user(blocks(entry.record.get("content")))
    if entry.kind != MESSAGE:
        return None
    message = entry.message
    if entry.role == "toolResult":
        return _result(message)
    if entry.role == "bashExecution":
        if message.get("excludeFromContext") is True:
            return None
        return user(f"$ {word(message.get('command')) or ''}\n{word(message.get('output')) or ''}")
    content = message.get("content", message.get("summary"))
    return user(content if isinstance(content, str) else blocks(content))


def user(content: Json) -> Message:
    return Message(dialect="anthropic", body={"role": "user", "content": content})


def _result(message: dict[str, Json]) -> Message:
    block: dict[str, Json] = {
        "type": "tool_result",
        "tool_use_id": word(message.get("toolCallId")),
        "content": blocks(message.get("content")),
    }
    if message.get("isError") is True:
        block["is_error"] = True
    return user([block])


def blocks(content: Json) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_block(each) for each in listed(content) if each is not None]


def _block(each: Json) -> Json:
    block = obj(each)
    kind = block.get("type")
    if kind == "toolCall":
        given = block.get("arguments")
        return {
            "type": "tool_use",
            "id": word(block.get("id")),
            "name": word(block.get("name")) or "",
            "input": {} if given is None else given,
        }
    if kind == "thinking":
        signature = word(block.get("thinkingSignature"))
        thought = {"type": "thinking", "thinking": word(block.get("thinking")) or ""}
        return thought | ({"signature": signature} if signature else {})
    if kind == "image" and "data" in block:
        media = {"media_type": word(block.get("mimeType")), "data": word(block["data"])}
        return {"type": "image", "source": {"type": "base64", **media}}
    return each
