"""Views of a provider-native message: its text, its reasoning, its calls, its results.

The only module that knows how Anthropic, OpenAI and Inspect shape a message. It never changes
one; turning a message of one dialect into another is `replay.convert`.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct

from replay.depth import from_text
from replay.trace import Context, Json, Message, Observation, Request


class Call(Struct, frozen=True, kw_only=True):
    """A tool call inside an assistant message; `position` counts the message's calls from 0."""

    id: str | None
    name: str
    arguments: Json | None
    raw: str | None = None
    position: int = 0


class Result(Struct, frozen=True, kw_only=True):
    """A tool result inside a message; `block` as in `Observation`."""

    call_id: str | None
    text: str
    is_error: bool | None = None
    block: int | None = None


REASONING_ITEMS = "reasoning_items"
"""Field of an answer's message with the reasoning items of the Responses API that it holds: each
`item` as it was, the `model` that made it, and `before` which of the answer's other items (its
text, then its calls) it stands."""

_TEXT_BLOCKS = {"text", "input_text", "output_text", "refusal"}
_THINKING_BLOCKS = {"thinking", "reasoning", "redacted_thinking"}
MEDIA_BLOCKS = {"image", "image_url", "input_image", "document", "audio", "input_audio", "video"}


def parse_arguments(raw: Json) -> tuple[Json | None, str | None]:
    """(arguments, None) when they parse, (None, the text) when they do not.

    Providers send an object, or its JSON text; an empty string means no arguments.
    """
    if not isinstance(raw, str):
        return ({} if raw is None else raw), None
    if not raw.strip():
        return {}, None
    try:
        return from_text(raw), None
    except msgspec.DecodeError:
        return None, raw


def _block_text(block: Json) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return json.dumps(block, ensure_ascii=False)
    kind = _kind(block)
    if kind in _TEXT_BLOCKS or (kind is None and "text" in block):
        return str(block.get("text") or block.get("refusal") or "")
    if kind == "tool_result":
        return content_text(block.get("content"))
    if kind in MEDIA_BLOCKS:
        return f"[{kind}]"
    if kind in _THINKING_BLOCKS or kind in {"tool_use", "server_tool_use"}:
        return ""
    return json.dumps(block, ensure_ascii=False)


def content_text(content: Json) -> str:
    """The readable text of a `content` value: a string, a list of blocks, or nothing."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(text for text in map(_block_text, content) if text)
    return _block_text(content)


def text(message: Message) -> str:
    """What the message says to a reader, calls and reasoning left out."""
    return content_text(message.body.get("content"))


def prose(message: Message) -> str:
    """The text of a message without the tool results it carries."""
    if message.dialect != "anthropic":
        return "" if results(message) else text(message)
    content = message.body.get("content")
    if not isinstance(content, list):
        return content_text(content)
    return content_text(
        [b for b in content if not (isinstance(b, dict) and b.get("type") == "tool_result")]
    )


def thinking(message: Message) -> str:
    """The reasoning shown in the message, "" where there is none."""
    body = message.body
    parts = [str(body[key]) for key in ("reasoning_content", "reasoning") if body.get(key)]
    parts.extend(
        str(block.get("thinking") or block.get("reasoning") or "")
        for block in _blocks(message)
        if _kind(block) in _THINKING_BLOCKS
    )
    return "\n".join(part for part in parts if part)


def _kind(block: dict[str, Any]) -> str | None:
    """A block's type. What stands there in a hostile source may be no text, nor hashable."""
    kind = block.get("type")
    return kind if isinstance(kind, str) else None


def _blocks(message: Message) -> list[dict[str, Any]]:
    content = message.body.get("content")
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict)]


def calls(message: Message) -> tuple[Call, ...]:
    """The tool calls of an assistant message, in their order."""
    if message.dialect == "anthropic":
        used = (block for block in _blocks(message) if block.get("type") == "tool_use")
        return tuple(
            Call(
                id=_optional(block.get("id")),
                name=str(block.get("name", "")),
                arguments=block.get("input"),
                position=position,
            )
            for position, block in enumerate(used)
        )
    listed, legacy = message.body.get("tool_calls"), message.body.get("function_call")
    entries = [each for each in listed if isinstance(each, dict)] if type(listed) is list else []
    if isinstance(legacy, dict):
        entries.append({"function": legacy})
    return tuple(_chat_call(position, entry) for position, entry in enumerate(entries))


def _chat_call(position: int, entry: dict[str, Any]) -> Call:
    function = entry.get("function")
    if isinstance(function, dict):
        name, given = function.get("name"), function.get("arguments")
    else:  # Inspect: the name stands where OpenAI has an object
        name, given = function or entry.get("name"), entry.get("arguments")
    arguments, raw = parse_arguments(given)
    if isinstance(function, dict) and "arguments" not in function:
        arguments = None  # the source says that there was a call, and not with what
    if entry.get("parse_error"):  # Inspect keeps what it could not parse as one odd argument
        arguments, raw = None, raw or json.dumps(given, ensure_ascii=False)
    return Call(
        id=_optional(entry.get("id")),
        name=str(name or ""),
        arguments=arguments,
        raw=raw,
        position=position,
    )


def _optional(value: Json) -> str | None:
    return None if value is None else str(value)


def results(message: Message) -> tuple[Result, ...]:
    """The tool results a message carries: blocks of a user turn, or a whole `tool` message."""
    body = message.body
    if message.dialect != "anthropic":
        if message.role not in {"tool", "function"}:
            return ()
        error = body.get("error")
        shown = text(message)
        if isinstance(error, dict) and not shown:
            shown = str(error.get("message") or "")
        is_error = True if error else body.get("is_error")
        return (Result(call_id=_optional(body.get("tool_call_id")), text=shown, is_error=is_error),)
    content = body.get("content")
    if not isinstance(content, list):
        return ()
    return tuple(
        Result(
            call_id=_optional(block.get("tool_use_id")),
            text=content_text(block.get("content")),
            is_error=block.get("is_error"),
            block=position,
        )
        for position, block in enumerate(content)
        if isinstance(block, dict) and block.get("type") == "tool_result"
    )


def observed(observation: Observation) -> Result:
    """The result that an observation points at; a message without one reads as its own text."""
    for result in results(observation.message):
        if observation.block is None or result.block == observation.block:
            return result
    return Result(call_id=None, text=text(observation.message))


def conversation(request: Request) -> list[Message]:
    """The whole conversation a request shows the model, system message first where known."""
    head = [request.system] if request.system is not None else []
    return head + (request.context.messages() if request.context is not None else [])


def new_since(context: Context | None, earlier: Context | None) -> tuple[int, list[Message]]:
    """(how many leading messages both share, the messages of `context` after those).

    Compares nodes by content, so two chains built apart still share what is equal.
    """
    if context is None:
        return 0, []
    last = earlier.depth if earlier is not None else 0
    fresh: list[Message] = []
    node: Context | None = context
    while node is not None and node.depth > last:
        fresh.append(node.message)
        node = node.parent
    if node is earlier:  # the chain went on: of a long run nothing else is looked at
        return last, fresh[::-1]
    later = context.messages()
    before = earlier.messages() if earlier is not None else []
    shared = 0
    for ours, theirs in zip(later, before, strict=False):
        if ours is not theirs and ours != theirs:
            break
        shared += 1
    return shared, later[shared:]
