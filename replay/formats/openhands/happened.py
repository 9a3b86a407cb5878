"""What an event of an OpenHands run comes to, whichever generation wrote it.

The two generations of events (`runtime`, `sdk`) are read into these few values; the rest of the
importer knows no other.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from replay.trace import Json, Message, Tool


class Prompted(Struct, frozen=True, kw_only=True, eq=False):
    """The system prompt, and the tools where they are told. `schemas`: with their parameters?"""

    message: Message
    tools: tuple[Tool, ...] | None
    schemas: bool = True


class Heard(Struct, frozen=True, kw_only=True, eq=False):
    """Words to the agent that answer no call."""

    message: Message


class Acted(Struct, frozen=True, kw_only=True, eq=False):
    """The model's answer, or one call of it: events of one answer share its `answer_id`.

    `answer` is the provider's whole answer where it was kept. `recast` marks a call told from the
    action alone, in no words of the model's.
    """

    message: Message
    answer_id: str | None
    call_id: str | None = None
    answer: dict[str, Any] = {}
    recast: bool = False


class Returned(Struct, frozen=True, kw_only=True, eq=False):
    """A result. `cause` is the id of the event it answers, `call_id` that of the call; where both
    are unknown it answers the call before it."""

    content: Json
    name: str | None = None
    call_id: str | None = None
    cause: str | None = None
    error: str | None = None


class Forgot(Struct, frozen=True, kw_only=True, eq=False):
    """The context was condensed: these events left it, a summary took their place."""

    events: frozenset[str]
    summary: str | None = None
    offset: int | None = None


class Sent(Struct, frozen=True, kw_only=True, eq=False):
    """The agent sent another one; what follows is that one's until it returns."""

    agent: str
    task: str
    acted: Acted


class Back(Struct, frozen=True, kw_only=True, eq=False):
    """The agent that was sent returned; `result` is what its sender was told."""

    result: Returned


class Aside(Struct, frozen=True, kw_only=True, eq=False):
    """Something the model was not shown, or not in these words. `recalled`: did it change what
    the model was shown?"""

    name: str
    error: str | None = None
    extra: dict[str, Json] = {}
    recalled: bool = False


Happened: TypeAlias = Prompted | Heard | Acted | Returned | Forgot | Sent | Back | Aside | None
"""None is the machinery's own bookkeeping."""


def called(call_id: Json, name: Json, arguments: Json, words: Json = None) -> Message:
    """An assistant message with one call."""
    function = {"name": name, "arguments": arguments}
    body = {
        "role": "assistant",
        "content": words or None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
    return Message(dialect="openai", body=body)
