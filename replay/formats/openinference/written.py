"""Calls that a framework writes into messages: smolagents' `tool-call` and `tool-response` turns.

Such a turn holds the calls as Python text; the response names the call it answers. The model's own
words held code, which the framework took for a call of its interpreter.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from replay.formats.fields import obj, word
from replay.formats.literal import literal
from replay.messages import text
from replay.trace import Json, Message

_ANSWER = re.compile(r"\s*Call id: (\S+)\s*\n(Error:\s*)?", re.I)


class Written(NamedTuple):
    """One call as a turn tells it."""

    call_id: str
    name: str
    arguments: Json


class Answer(NamedTuple):
    """A response: to which call, and its error where it tells of one."""

    call_id: str
    error: str | None


def calls(message: Message) -> list[Written]:
    """The calls a turn tells of, [] for any other turn."""
    if message.role != "tool-call":
        return []
    words = text(message)
    listed = literal(words[words.find("[") :]) if "[" in words else None
    found: list[Written] = []
    for entry in listed if isinstance(listed, list) else []:
        function = obj(obj(entry).get("function"))
        call_id, name = word(obj(entry).get("id")), word(function.get("name"))
        if call_id is not None and name is not None:
            found.append(Written(call_id, name, function.get("arguments")))
    return found


def answer(message: Message) -> Answer | None:
    """What a turn answers, None for any other turn."""
    if message.role != "tool-response":
        return None
    words = text(message)
    match = _ANSWER.match(words)
    if match is None:
        return None
    return Answer(match[1], words[match.end() :].strip() if match[2] else None)
