"""OpenAI's Responses API: a request of items, and its answer whole or in events.

Items are told as chat messages: what the model did between two other items is one message. What
chat messages cannot carry (reasoning sent back, tools that the provider ran) is said. A request may
name what the server kept instead of sending it: an answer, or single items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from replay.formats import litellm
from replay.formats.chat import tool
from replay.formats.codex import items
from replay.formats.codex.lines import CALLS, ITEM, OUTPUTS, Line
from replay.formats.fields import listed, obj, word
from replay.recorder.spoken import Spoken
from replay.trace import Json, Message, Place

REASONING = "reasoning that was sent back not kept"
SERVED = "item that a chat message cannot carry not kept"
REFERENCE = "item that the server kept not known"
CONVERSATION = "conversation that the server kept not known"

_APART = frozenset({"input", "instructions", "model", "tools", "metadata", "user"})
_APART |= {"previous_response_id", "conversation"}
_PLACE = Place()


class Items:
    """The items that answers have brought, for requests that name them."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}

    def spoken(self, request: dict[str, Any], answer: dict[str, Any] | None) -> Spoken:
        """What the two bodies say; `answer` None where none came."""
        given, lacking = self._given(request.get("input"))
        said = obj(answer)
        output = [each for each in listed(said.get("output")) if isinstance(each, dict)]
        self._known |= {name: each for each in output if (name := word(each.get("id")))}
        missing = [REFERENCE] if lacking else []
        missing += [CONVERSATION] if request.get("conversation") else []
        return Spoken(
            model=word(request.get("model")),
            system=_system(request.get("instructions")),
            messages=tuple(_messages(given)),
            tools=tuple(map(tool, listed(request.get("tools")))),
            params={name: value for name, value in request.items() if name not in _APART},
            continues=word(request.get("previous_response_id")),
            losses=tuple(dict.fromkeys(loss for each in given if (loss := _loss(each)))),
            missing=tuple(missing),
            answer=items.answer(map(_line, output)) if output else None,
            response=litellm.response(said),
            usage=litellm.usage(said.get("usage")),
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


def _system(instructions: Json) -> Message | None:
    if not instructions:
        return None
    return Message(dialect="openai", body={"role": "system", "content": instructions})


def _line(item: dict[str, Any]) -> Line:
    typed = item if "type" in item else {"type": "message", **item}
    return Line(kind=ITEM, payload=typed, place=_PLACE)


def _messages(given: list[dict[str, Any]]) -> Iterator[Message]:
    for own, group in groupby(map(_line, given), key=_is_models):
        if own:
            yield items.answer(group)
            continue
        for line in group:
            if line.type in OUTPUTS:
                yield items.result(line, None)
            elif line.type == "message":
                yield items.heard(line)


def _is_models(line: Line) -> bool:
    """Did the model say or do this?"""
    if line.type == "message":
        return line.role == "assistant"
    return line.type in CALLS or line.type == "reasoning"


def _loss(item: dict[str, Any]) -> str | None:
    kind = _line(item).type
    if kind == "reasoning":
        return REASONING
    return None if kind == "message" or kind in CALLS or kind in OUTPUTS else SERVED


def assembled(events: Iterable[dict[str, Any]]) -> tuple[dict[str, Any] | None, Json, bool]:
    """The response that events add up to, the error that came, and whether it is whole."""
    found: dict[str, Any] | None = None
    done: dict[int, dict[str, Any]] = {}
    texts: dict[int, str] = {}
    error: Json = None
    for event in events:
        kind, at = str(event.get("type")), event.get("output_index")
        if kind == "error":
            error = event.get("error") or event
        if isinstance(event.get("response"), dict):
            found = event["response"]
            if kind in ("response.completed", "response.incomplete", "response.failed"):
                return found, found.get("error"), True
        elif kind == "response.output_item.done" and type(at) is int:
            done[at] = obj(event.get("item"))
        elif kind == "response.output_text.delta" and type(at) is int:
            texts[at] = texts.get(at, "") + (word(event.get("delta")) or "")
    if found is None:
        return None, error, False
    begun = {at: _begun(text) for at, text in texts.items()}
    output = {**begun, **done}
    return {**found, "output": [output[at] for at in sorted(output)]}, error, False


def _begun(text: str) -> dict[str, Any]:
    """A text that broke off."""
    return {"type": "message", "role": "assistant", "content": [{"type": "text", "text": text}]}
