"""What each model call of a trace was shown, as chains that share what calls have in common.

A span repeats its whole conversation. Equal messages after equal conversations become one node, so
calls that take turns, sub-agents too, each share what is theirs. An SDK that sends only what is new
leaves a request that begins with the answers to the calls of the one before: it is joined to it.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from replay.formats.fields import word
from replay.formats.openinference.messages import Body
from replay.messages import calls, results
from replay.trace import Context, Message, ModelCall, extend

_SYSTEM = {"system", "developer"}


class Shown(NamedTuple):
    """`fresh` are messages no call was shown before; `joined` as in `calls.fidelity`."""

    system: Message | None = None
    context: Context | None = None
    fresh: tuple[Message, ...] = ()
    joined: bool = False


class Conversations:
    """The contexts of one trace's model calls, in time order."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, bytes], Context] = {}
        self._systems: dict[bytes, Message] = {}

    def shown(self, bodies: list[Body], before: ModelCall | None) -> Shown:
        """What a call was shown; `before` is the model call of its thread before it."""
        system = None
        if bodies and word(bodies[0].get("role")) in _SYSTEM:
            key = msgspec.json.encode(bodies[0])
            system = self._systems.setdefault(key, Message(dialect="openai", body=bodies[0]))
            bodies = bodies[1:]
        told = [Message(dialect="openai", body=body) for body in bodies]
        joined = system is None and before is not None and _continues(told, before)
        context: Context | None = None
        if joined and before is not None:
            system, context = before.request.system, before.request.context
            if before.response.message is not None:
                told.insert(0, before.response.message)
        fresh: list[Message] = []
        for message in told:
            context, new = self._after(context, message)
            if new:
                fresh.append(message)
        return Shown(system, context, tuple(fresh), joined)

    def _after(self, context: Context | None, message: Message) -> tuple[Context, bool]:
        """The node of a message after a context, and whether it is new."""
        key = (id(context), msgspec.json.encode(message.body))
        node = self._nodes.get(key)
        if node is not None:
            return node, False
        node = extend(context, (message,))
        assert node is not None
        self._nodes[key] = node
        return node, True


def _continues(told: list[Message], before: ModelCall) -> bool:
    """Do the messages begin with answers to the calls that the one before made?"""
    if before.response.message is None or not told:
        return False
    made = {call.id for call in calls(before.response.message)}
    found = results(told[0])
    return bool(found) and all(result.call_id in made for result in found)
