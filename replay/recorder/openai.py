"""OpenAI's wire formats: chat completions and the Responses API, whole or in events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Struct

from replay.formats import common
from replay.formats.chat import tool
from replay.formats.codex import lines
from replay.formats.codex.lines import CALLS, ITEM, OUTPUTS, Line
from replay.formats.common import listed, obj, word
from replay.messages import REASONING_ITEMS, calls
from replay.trace import Json, Message, Place, Response, Tool, Usage

_SYSTEM = frozenset({"system", "developer"})


class OpenAICall(Struct, frozen=True, kw_only=True, eq=False):
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


_APART = frozenset({"messages", "model", "tools", "functions", "metadata", "user"})


def chat_call(request: dict[str, Any], answer: dict[str, Any] | None) -> OpenAICall:
    """What the two bodies say; `answer` None where no completion came."""
    system, messages = parted(_message(each) for each in listed(request.get("messages")))
    tools = [*listed(request.get("tools")), *listed(request.get("functions"))]
    said = obj(answer)
    choices = [obj(each) for each in listed(said.get("choices"))]
    message = obj(choices[0].get("message")) if choices else {}
    return OpenAICall(
        model=word(request.get("model")),
        system=system,
        messages=messages,
        tools=tuple(map(tool, tools)),
        params={name: value for name, value in request.items() if name not in _APART},
        answer=Message(dialect="openai", body={"role": "assistant", **message})
        if message
        else None,
        response=common.response(said),
        usage=common.usage(said.get("usage")),
        others=tuple(choices[1:]),
    )


def _message(value: Json) -> Message:
    body = value if isinstance(value, dict) else {"role": "user", "content": value}
    return Message(dialect="openai", body=body)


REASONING = "the place of reasoning that was sent back not recorded"
SERVED = "item that a chat message cannot hold not recorded"
REFERENCE = "item stored on the server not recorded"
CONVERSATION = "conversation stored on the server not recorded"

_RESPONSES_APART = frozenset({"input", "instructions", "model", "tools", "metadata", "user"})
_RESPONSES_APART |= {"previous_response_id", "conversation"}
_PLACE = Place()


class Items:
    """The items that answers have brought, for requests that name them."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}
        self._models: dict[str, str | None] = {}

    def read_call(self, request: dict[str, Any], answer: dict[str, Any] | None) -> OpenAICall:
        """What the two bodies say; `answer` None where none came."""
        given, lacking = self._given(request.get("input"))
        said = obj(answer)
        output = [each for each in listed(said.get("output")) if isinstance(each, dict)]
        model = word(request.get("model"))
        known = {name: each for each in output if (name := word(each.get("id")))}
        self._known |= known
        self._models |= dict.fromkeys(known, model)
        missing = [REFERENCE] if lacking else []
        missing += [CONVERSATION] if request.get("conversation") else []
        losses = [loss for each in given if (loss := _loss(each))]
        messages = tuple(self._messages(given, model, losses))
        return OpenAICall(
            model=model,
            system=_system(request.get("instructions")),
            messages=messages,
            tools=tuple(map(tool, listed(request.get("tools")))),
            params={name: value for name, value in request.items() if name not in _RESPONSES_APART},
            continues=word(request.get("previous_response_id")),
            losses=tuple(dict.fromkeys(losses)),
            missing=tuple(missing),
            answer=self._answer([*map(_line, output)], model, []) if output else None,
            response=common.response(said),
            usage=common.usage(said.get("usage")),
        )

    def _given(self, given: Json) -> tuple[list[dict[str, Any]], bool]:
        """The items of a request, and whether one of them is not known."""
        if isinstance(given, str):
            return [{"type": "message", "role": "user", "content": given}], False
        found, lacking = [], False
        for each in map(obj, listed(given)):
            if each.get("type") == "item_reference":
                known = self._known.get(str(each.get("id")))
                lacking = lacking or known is None
                each = known or {}
            if each:
                found.append(each)
        return found, lacking

    def _messages(
        self, given: list[dict[str, Any]], model: str | None, losses: list[str]
    ) -> Iterator[Message]:
        for own, group in groupby(map(_line, given), key=_is_models):
            if own:
                yield self._answer([*group], model, losses)
                continue
            for line in group:
                if line.type in OUTPUTS:
                    yield lines.result(line, None)
                elif line.type == "message":
                    yield lines.input_message(line)

    def _answer(self, items: list[Line], model: str | None, losses: list[str]) -> Message:
        """What the model said in one go, with its reasoning where the place of that is known: a
        chat message has one text, before all calls."""
        message = lines.answer_message(items)
        own = [each.type for each in items if each.type != "reasoning"]
        kept: list[Json] = []
        before = 0
        for each in items:
            if each.type != "reasoning":
                before += 1
                continue
            made_by = self._models.get(str(each.payload.get("id")), model)
            kept.append({"before": before, "model": made_by, "item": each.payload})
        if not kept:
            return message
        first = {"message"} if message.body["content"] else set()
        if not (CALLS | first).issuperset(own[:1]) or not CALLS.issuperset(own[1:]):
            losses.append(REASONING)
            return message
        return Message(dialect="openai", body={**message.body, REASONING_ITEMS: kept})


def _system(instructions: Json) -> Message | None:
    if not instructions:
        return None
    return Message(dialect="openai", body={"role": "system", "content": instructions})


def _line(item: dict[str, Any]) -> Line:
    typed = item if "type" in item else {"type": "message", **item}
    return Line(kind=ITEM, payload=typed, place=_PLACE)


def _is_models(line: Line) -> bool:
    """Did the model say or do this?"""
    if line.type == "message":
        return line.role == "assistant"
    return line.type in CALLS or line.type == "reasoning"


def _loss(item: dict[str, Any]) -> str | None:
    line = _line(item)
    return None if line.type in OUTPUTS or line.type == "message" or _is_models(line) else SERVED
