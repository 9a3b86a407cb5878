"""What each model call of a trace was shown, as chains that share what calls have in common.

A span repeats its whole conversation as one JSON text. Where that text begins with the one of an
earlier call, only the rest is decoded; equal messages after equal conversations become one node,
so calls that take turns, sub-agents too, each share what is theirs. An SDK that sends only what is
new leaves a request that begins with the answers to the calls of the one before, or that names the
response it goes on with: it is joined to that.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import NamedTuple

import msgspec

from replay.depth import from_text
from replay.formats.chat import dialect_of
from replay.formats.fields import word
from replay.formats.openinference.attributes import parsed
from replay.formats.otlp.messages import Body, bodies
from replay.messages import calls, results
from replay.trace import Context, Json, Message, ModelCall, extend

RECENT = 8
"""How many earlier texts a new one is held against; more threads at once are rare."""

_SYSTEM = {"system", "developer"}
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Shown(NamedTuple):
    """`fresh` are messages no call was shown before; `opening` is the call whose conversation was
    put before the messages recorded; `cut` says that the record breaks off."""

    system: Message | None = None
    context: Context | None = None
    fresh: tuple[Message, ...] = ()
    opening: ModelCall | None = None
    cut: bool = False


class Before(NamedTuple):
    """The model call before one in its thread, and the one it names as what it goes on with."""

    latest: ModelCall | None = None
    named: ModelCall | None = None


class _Told(NamedTuple):
    """A conversation that a call was shown.

    `stem` is its text without the closing bracket, `lifted` the system message that stood first in
    it, `opening` the call whose conversation it goes on with, where it does.
    """

    stem: str = ""
    lifted: Message | None = None
    context: Context | None = None
    opening: ModelCall | None = None


def message_of(body: Body) -> Message:
    blocks = isinstance(body.get("content"), list)
    return Message(dialect=dialect_of(body) if blocks else "openai", body=body)


def _mark(data: bytes) -> bytes:
    """What stands for a recorded message in a key: a window that slides keeps each a hundred times
    over."""
    return hashlib.blake2b(data, digest_size=16).digest()


class Conversations:
    """The contexts of one trace's model calls, in time order."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, bytes], Context] = {}
        self._parts: dict[tuple[int, bytes], tuple[Message | None, Context | None]] = {}
        self._messages: dict[bytes, Message] = {}
        self._systems: dict[bytes, Message] = {}
        self._instructions: dict[str, Message | None] = {}
        self._recent: deque[_Told] = deque(maxlen=RECENT)

    def system(self, body: Body) -> Message:
        """The one message for all equal system prompts."""
        return self._systems.setdefault(msgspec.json.encode(body), message_of(body))

    def instructions(self, given: Json) -> Message | None:
        """The system prompt of a list of parts, one part, or a text; None where it is empty."""
        key = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        if key not in self._instructions:
            parts = parsed(given)
            entry = {"role": "system", "parts": parts if isinstance(parts, list) else [parts]}
            body = next(bodies(entry), None)
            self._instructions[key] = self.system(body) if body is not None else None
        return self._instructions[key]

    def text(self, text: str, system: Message | None, before: Before) -> Shown:
        """What a call was shown, of the JSON text of a list. Of one that breaks off nothing is
        known."""
        told, rest = self._begun(text) if before.named is None else (None, text)
        try:
            parts = [bytes(part) for part in _split(rest)]
            if told is None:
                first = [*bodies(from_text(parts[0]))] if parts else []
                opening = _opening(first, system, before)
                told = _Told(context=_after(opening), opening=opening)
            lifted, context = told.lifted, told.context
            fresh: list[Message] = []
            for part in parts:
                lifted, context = self._shown(part, lifted or system, lifted, context, fresh)
        except (msgspec.DecodeError, RecursionError):
            return Shown(system=system, cut=True)
        stem = text.rstrip()[:-1].rstrip()
        if len(stem) > 1 and before.named is None:
            self._recent.append(_Told(stem, lifted, context, told.opening))
        return _put(system or lifted, context, fresh, told.opening)

    def bodies(self, found: list[Body], system: Message | None, before: Before) -> Shown:
        """The same of messages that are read already."""
        opening = _opening(found[:1], system, before)
        context = _after(opening)
        fresh: list[Message] = []
        for body in found:
            if context is None and system is None and word(body.get("role")) in _SYSTEM:
                system = self.system(body)
            else:
                context = self._node(context, body, fresh)
        return _put(system, context, fresh, opening)

    def _begun(self, text: str) -> tuple[_Told | None, str]:
        """The latest conversation that a text goes on with, and the list of what is new in it."""
        for told in reversed(self._recent):
            if text.startswith(told.stem):
                tail = text[len(told.stem) :].lstrip()
                if tail.startswith(","):
                    return told, "[" + tail[1:]
                if tail.rstrip() == "]":
                    return told, "[]"
        return None, text

    def _shown(
        self,
        part: bytes,
        system: Message | None,
        lifted: Message | None,
        context: Context | None,
        fresh: list[Message],
    ) -> tuple[Message | None, Context | None]:
        """The system message and the chain after one more recorded message."""
        key = (id(context or system), _mark(part))
        if key not in self._parts:
            for body in bodies(from_text(part)):
                if context is None and system is None and word(body.get("role")) in _SYSTEM:
                    system = lifted = self.system(body)
                else:
                    context = self._node(context, body, fresh)
            self._parts[key] = (lifted, context)
        return self._parts[key]

    def _node(self, context: Context | None, body: Body, fresh: list[Message]) -> Context:
        """The node of a message after a context; a new one is fresh."""
        mark = _mark(msgspec.json.encode(body))
        key = (id(context), mark)
        node = self._nodes.get(key)
        if node is None:
            message = self._messages.get(mark) or message_of(body)
            self._messages[mark] = message
            node = Context(
                message=message, parent=context, depth=context.depth + 1 if context else 1
            )
            self._nodes[key] = node
            fresh.append(message)
        return node


def _put(
    system: Message | None,
    context: Context | None,
    fresh: list[Message],
    opening: ModelCall | None,
) -> Shown:
    """What was shown; a call that goes on with another one's has its system prompt too."""
    if opening is not None:
        system = system or opening.request.system
    return Shown(system, context, tuple(fresh), opening)


def _opening(first: list[Body], system: Message | None, before: Before) -> ModelCall | None:
    """The call whose conversation comes before these first messages: the one that is named, or
    the one before where they answer calls that it made, and nothing else."""
    latest = before.latest
    if before.named is not None or latest is None or system is not None or not first:
        return before.named
    if latest.response.message is None:
        return None
    made = {call.id for call in calls(latest.response.message)}
    answered = [result for body in first for result in results(message_of(body))]
    whole = len(answered) >= len(first) and all(each.call_id in made for each in answered)
    return latest if whole else None


def _after(call: ModelCall | None) -> Context | None:
    """The conversation of a call with its answer, nothing for no call."""
    if call is None or call.response.message is None:
        return call.request.context if call is not None else None
    return extend(call.request.context, (call.response.message,))
