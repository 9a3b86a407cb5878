"""What do changes make of one message: what it says, or what a tool returned in it?"""

from __future__ import annotations

from collections.abc import Iterable

from replay import messages
from replay.edit.changes import ReplaceText, SetMessage, SetObservation
from replay.edit.prompt import anchor_astray
from replay.errors import BadEdit
from replay.messages import calls, results
from replay.trace import Json, Message

USE_OBSERVATION = "what a tool returned is changed by `set_observation`"


def spoken(role: str, text: str) -> Message:
    """A new message."""
    return Message(dialect="anthropic", body={"role": role, "content": text})


def said(message: Message, change: SetMessage, where: str) -> Message:
    """The message saying the new text, its calls and media kept; itself where nothing changes."""
    if results(message):
        raise BadEdit(
            f"{where}: message {change.index} carries a tool result, not something said",
            USE_OBSERVATION,
        )
    if messages.text(message) == change.text:
        return message
    content = message.body.get("content")
    others = [] if not isinstance(content, list) else [b for b in content if not _is_text(b)]
    text: Json = [{"type": "text", "text": change.text}, *others] if others else change.text
    return Message(dialect=message.dialect, body={**message.body, "content": text})


def replaced(message: Message, change: ReplaceText, where: str) -> Message:
    """The message with the anchor replaced in the one text block that has it."""
    content = message.body.get("content")
    whole = message.dialect != "anthropic" and bool(results(message))
    blocks = content if isinstance(content, list) else [content]
    texts = ["" if whole else _text_of(block) for block in blocks]
    times = sum(text.count(change.anchor) for text in texts)
    if times != 1:
        error = anchor_astray(change, times, f"what {change.target} says", where)
        raise BadEdit(error.message, USE_OBSERVATION) if results(message) else error
    edited = [
        _with_text(block, text.replace(change.anchor, change.text))
        if change.anchor in text
        else block
        for block, text in zip(blocks, texts, strict=True)
    ]
    body = {**message.body, "content": edited if isinstance(content, list) else edited[0]}
    return message if body == message.body else Message(dialect=message.dialect, body=body)


def _is_text(block: Json) -> bool:
    return isinstance(block, str) or (isinstance(block, dict) and "text" in block)


def _text_of(block: Json) -> str:
    text = block.get("text") if isinstance(block, dict) else block
    return text if isinstance(text, str) else ""


def _with_text(block: Json, text: str) -> Json:
    return {**block, "text": text} if isinstance(block, dict) else text


# --- observations


def observed(message: Message, block: int | None, change: SetObservation) -> Message:
    """The message with another result in it: in that block, or in the whole of it for None."""
    body = message.body
    if block is None:
        edited = _resulting(body, change)
    else:
        content = list(body["content"])
        content[block] = _resulting(content[block], change)
        edited = {**body, "content": content}
    return message if edited == body else Message(dialect=message.dialect, body=edited)


def _resulting(held: dict[str, Json], change: SetObservation) -> dict[str, Json]:
    """A result, block or message, that says the text and is an error or none."""
    if messages.content_text(held.get("content")) != change.text:
        held = {**held, "content": change.text}
    if change.is_error is None or change.is_error == bool(
        held.get("error") or held.get("is_error")
    ):
        return held
    kept = {name: value for name, value in held.items() if name not in {"error", "is_error"}}
    return {**kept, "is_error": True} if change.is_error else kept


# --- calls and their results


def open_calls(said: Iterable[Message]) -> list[int]:
    """How many calls wait for their result after each message of a conversation."""
    waiting: list[str | None] = []
    counts: list[int] = []
    for message in said:
        for result in results(message) if message.role not in {"assistant", "system"} else ():
            answered = [at for at, call in enumerate(waiting) if call == result.call_id]
            if answered:
                waiting.pop(answered[-1])
            elif result.call_id is None and waiting:
                waiting.pop(0)
        if message.role == "assistant":
            waiting.extend(call.id for call in calls(message))
        counts.append(len(waiting))
    return counts
