"""What a call of OpenAI's says in its own words, and as the chaining of calls sees it.

The chaining knows one shape of messages, Anthropic's: tool calls and results as blocks. A message
of another shape is shown to it in that one; what is kept is the message as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from replay.messages import calls
from replay.trace import Json, Message, Response, Tool, Usage

_SYSTEM = frozenset({"system", "developer"})


class Spoken(Struct, frozen=True, kw_only=True, eq=False):
    """A request and its answer as OpenAI's chat messages.

    `system` is the leading system message. `losses` say what such messages cannot carry of what
    was sent, `missing` what of the request is not known. `continues` names the answer, kept by the
    server, that the request goes on from.
    """

    model: str | None = None
    system: Message | None = None
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    params: dict[str, Json] = {}
    continues: str | None = None
    losses: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    answer: Message | None = None
    response: Response = Response()
    usage: Usage | None = None
    others: tuple[Json, ...] = ()


def parted(messages: Iterable[Message]) -> tuple[Message | None, tuple[Message, ...]]:
    """The leading system message, and the rest."""
    found = tuple(messages)
    if found and found[0].role in _SYSTEM:
        return found[0], found[1:]
    return None, found


def linked(message: Message) -> dict[str, Json]:
    """A message as the chaining sees it."""
    body = message.body
    content = body.get("content")
    if message.role in ("tool", "function"):
        named = body.get("tool_call_id") or body.get("name")
        block = {"type": "tool_result", "tool_use_id": named, "content": content}
        return {"role": "user", "content": [block]}
    return {"role": message.role, "content": [*_blocks(content), *_calls(message)]}


def _blocks(content: Json) -> list[Json]:
    if isinstance(content, list):
        return content
    return [] if content is None else [{"type": "text", "text": content}]


def _calls(message: Message) -> list[Json]:
    return [
        {
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": call.arguments if call.raw is None else call.raw,
        }
        for call in calls(message)
    ]


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
