"""What does a speaker hear before it answers: from people, from the harness, from its group?

In a group chat every message is a step of somebody; to the others it is an observation. Who a
message is of stands in its name, or in a role that is none of the usual ones.
"""

from __future__ import annotations

import re

from msgspec import Struct

from replay.messages import content_text, results, text
from replay.tool_errors import ASIDE, is_terminal
from replay.trace import Context, Message, ModelCall


class Heard(Struct, frozen=True, eq=False, kw_only=True):
    """A message new to the model at a step, that is neither its own nor a tool's result."""

    role: str
    text: str


_NOT_HEARD = {"assistant", "tool", "function", "tool-call"}
_ROLES = _NOT_HEARD | {"user", "system", "developer"}
_PERSON = re.compile(r"(?:human|user)(?:[ _-]?proxy)?", re.I)


def listened(
    ask: ModelCall, group: set[str], seen: set[int]
) -> tuple[tuple[Heard, ...], tuple[Heard, ...]]:
    """What is new to a speaker: of people and the harness, and of the others in its group."""
    heard: list[Heard] = []
    overheard: list[Heard] = []
    own = speaker(ask.agent)
    for message in unseen(ask.request.context, seen):
        words = spoken(message)
        name = message.body.get("name")
        named = name if isinstance(name, str) else message.role
        other = speaker(named) if named not in _ROLES else ""
        person = is_person(other)
        if not words or (own and other == own):
            continue
        if len(group) > 1 and other in group and not person:
            overheard.append(Heard(role=named, text=words))
        elif person or message.role not in _NOT_HEARD:
            heard.append(Heard(role="user" if person else message.role, text=words))
    return tuple(heard), tuple(overheard)


def speaker(name: str | None) -> str:
    """Who speaks, without what a name says of the occasion; "" where nobody is named."""
    return ASIDE.sub("", name or "").strip().lower()


def observes(agent: str | None) -> bool:
    """Is the speaker a terminal, or a person?"""
    return is_terminal(agent) or is_person(agent)


def is_person(agent: str | None) -> bool:
    """Is the speaker the person who asks?"""
    return bool(_PERSON.fullmatch(speaker(agent)))


def unseen(context: Context | None, seen: set[int]) -> list[Message]:
    """The messages of a context that `seen` does not hold, oldest first; they join it.

    `seen` holds the identities of messages, which the contexts of one trace share.
    """
    found: list[Message] = []
    while context is not None:
        if id(context) in seen:
            break
        seen.add(id(context))
        if id(context.message) not in seen:
            seen.add(id(context.message))
            found.append(context.message)
        context = context.parent
    found.reverse()
    return found


def spoken(message: Message) -> str:
    """The words of a message without the tool results it carries."""
    if not results(message):
        return text(message).strip()
    content = message.body.get("content")
    if not isinstance(content, list):
        return ""
    words = [
        block for block in content if isinstance(block, dict) and block.get("type") != "tool_result"
    ]
    return content_text(words).strip()
