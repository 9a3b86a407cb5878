"""What a request says to the demo model: its instructions, its tools, who said and did what.

The conversation becomes turns and past calls with their results, and one fingerprint that ignores
what a model cannot see: the ids that pair calls with results, cache markers, recorded thinking.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from replay import canon, messages
from replay.trace import Json, Message

_TOOL_PARTS = ("name", "description", "input_schema")


class Offer(Struct, frozen=True):
    """A tool as offered. `properties` by name, `required` in the schema's order."""

    name: str
    description: str
    properties: dict[str, dict[str, Any]]
    required: tuple[str, ...]


class PastCall(Struct, frozen=True, kw_only=True):
    """A call the model made earlier and what came back; `text` None while unanswered.

    `value` is the result as JSON, or its text where it is none. `at` counts calls from 0.
    """

    at: int
    name: str
    arguments: dict[str, Json]
    text: str | None
    failed: bool
    value: Json


class Turn(Struct, frozen=True, kw_only=True):
    """One message: what a person, the instructions, or the model itself said, and its calls."""

    speaker: Literal["user", "assistant", "system"]
    text: str
    calls: tuple[PastCall, ...] = ()


class Asked(Struct, frozen=True, eq=False, kw_only=True):
    """A whole request, read."""

    system: str
    offers: tuple[Offer, ...]
    turns: tuple[Turn, ...]
    fingerprint: str

    @property
    def calls(self) -> tuple[PastCall, ...]:
        """Every past call, oldest first."""
        return tuple(call for turn in self.turns for call in turn.calls)


def read(body: dict[str, Any]) -> Asked:
    """The request body of the Messages API as the demo model understands it."""
    said = [Message(dialect="anthropic", body=each) for each in _dicts(body.get("messages"))]
    system = messages.content_text(body.get("system"))
    tools = _dicts(body.get("tools"))
    return Asked(
        system=system,
        offers=tuple(map(_offer, tools)),
        turns=tuple(_turns(said)),
        fingerprint=_fingerprint(system, tools, said),
    )


def _dicts(value: Json) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _offer(tool: dict[str, Any]) -> Offer:
    schema = tool.get("input_schema")
    schema = schema if isinstance(schema, dict) else {}
    properties = schema.get("properties")
    required = schema.get("required")
    return Offer(
        str(tool.get("name", "")),
        str(tool.get("description") or ""),
        {name: each for name, each in properties.items() if isinstance(each, dict)}
        if isinstance(properties, dict)
        else {},
        tuple(map(str, required)) if isinstance(required, list) else (),
    )


def _turns(said: list[Message]) -> Iterator[Turn]:
    answers = {each.call_id: each for message in said for each in messages.results(message)}
    at = 0
    for message in said:
        calls: list[PastCall] = []
        for call in messages.calls(message):
            answer = answers.get(call.id)
            text = answer.text if answer is not None else None
            calls.append(
                PastCall(
                    at=at,
                    name=call.name,
                    arguments=call.arguments if isinstance(call.arguments, dict) else {},
                    text=text,
                    failed=bool(answer is not None and answer.is_error),
                    value=_value(text),
                )
            )
            at += 1
        spoken = _spoken(message)
        if message.role == "assistant":
            yield Turn(speaker="assistant", text=spoken, calls=tuple(calls))
        elif spoken:
            yield Turn(speaker="system" if message.role == "system" else "user", text=spoken)


def _spoken(message: Message) -> str:
    """The text of a message without the tool results it carries."""
    content = message.body.get("content")
    if isinstance(content, list):
        content = [each for each in _dicts(content) if each.get("type") == "text"]
    return messages.content_text(content)


def _value(text: str | None) -> Json:
    try:
        return msgspec.json.decode(text or "null")
    except msgspec.DecodeError:
        return text


def _fingerprint(system: str, tools: list[dict[str, Any]], said: list[Message]) -> str:
    order: dict[str, int] = {}
    conversation = [[each.role, _seen(each, order)] for each in said]
    offered = [[tool.get(part) for part in _TOOL_PARTS] for tool in canon.seen(tools)]
    return canon.digest("demo", canon.canonical([system, offered, conversation]))


def _seen(message: Message, order: dict[str, int]) -> list[Json]:
    """The blocks of a message, ids replaced by the order in which they first appear."""

    def number(id: Json) -> int:
        return order.setdefault(str(id), len(order))

    content = message.body.get("content")
    if not isinstance(content, list):
        return [["text", messages.content_text(content)]]
    blocks: list[Json] = []
    for block in _dicts(content):
        match block.get("type"):
            case "text":
                blocks.append(["text", str(block.get("text", ""))])
            case "tool_use":
                blocks.append(
                    ["call", number(block.get("id")), block.get("name"), block.get("input")]
                )
            case "tool_result":
                text = messages.content_text(block.get("content"))
                answered = number(block.get("tool_use_id"))
                blocks.append(["result", answered, text, bool(block.get("is_error"))])
            case "thinking" | "redacted_thinking":
                continue
            case _:
                blocks.append(canon.seen(block))
    return blocks
