"""Does a tool change the world, and how is that known?

A tool reads, writes, or nobody knows; what nobody knows counts as a write wherever being wrong
would serve a false observation. The user's word comes first, so that a false mark in a recording
can be put right; then what the recording or the tool's own annotations say, where any sign of a
write outweighs a sign of a read; then the verb in the tool's name, which is a guess and said to be
one. The name of a tool that takes a program (a shell, an interpreter) tells nothing.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.trace import Effect, Json, Tool, ToolCall

VERSION = 1
"""Of the tables and the order above; part of every free replay's digest."""

By: TypeAlias = Literal["yours", "annotated", "guessed", "unknown"]
"""Who says so: the user; the recording or the tool's annotations; the name's verb; nobody."""

PROGRAM_KEYS = frozenset({"command", "cmd", "code", "script", "commands", "keystrokes", "shell"})
"""Arguments under these names are programs."""

_WRITES = re.compile(
    "add|append|approve|assign|book|cancel|change|charge|close|commit|create|delete|deploy|drop"
    "|edit|exchange|insert|install|kill|merge|modify|move|overwrite|patch|pay|post|publish|push"
    "|put|refund|register|remove|rename|replace|reset|resolve|return|schedule|send|set|submit"
    "|transfer|update|upgrade|upload|write"
)
_READS = re.compile(
    "calculate|cat|check|count|describe|fetch|find|get|glob|grep|head|inspect|list|load|lookup"
    "|look|open|peek|query|read|retrieve|search|show|stat|tail|think|todo|verify|view"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class ToolEffect(Struct, frozen=True):
    """What a tool does to the world, and who says so."""

    effect: Effect
    by: By

    @property
    def reads(self) -> bool:
        """Is it known, or guessed, to change nothing? What is unknown may write."""
        return self.effect == "read"


UNKNOWN = ToolEffect("unknown", "unknown")


class Effects:
    """The effects of the tools of a trace, by name; asked for any name, also one never called.

    `yours` is the user's table. Where calls of one tool were recorded with several effects, the
    tool writes if any of them did, and reads if all of them did.
    """

    def __init__(
        self,
        calls: Iterable[ToolCall] = (),
        tools: Iterable[Tool] = (),
        yours: Mapping[str, Effect] | None = None,
    ) -> None:
        self._yours = yours or {}
        self._recorded: dict[str, set[Effect]] = {}
        self._annotated: dict[str, Effect] = {}
        self._programs: set[str] = set()
        self._acting: frozenset[str] = frozenset()
        for call in calls:
            self._recorded.setdefault(call.name, set()).add(call.effect)
            if takes_program(call.arguments):
                self._programs.add(call.name)
        for tool in tools:
            if annotated(tool) != "unknown":
                self._annotated[tool.name] = annotated(tool)
            if takes_program(_properties(tool)):
                self._programs.add(tool.name)

    def writing(self, tools: Iterable[str]) -> Effects:
        """The same, knowing of some tools that the recording shows what they start to write."""
        found = copy.copy(self)
        found._acting = self._acting | set(tools)
        return found

    def of(self, tool: str) -> ToolEffect:
        if tool in self._yours:
            return ToolEffect(self._yours[tool], "yours")
        recorded, hint = self._recorded.get(tool, set()), self._annotated.get(tool)
        if hint == "write" or "write" in recorded or tool in self._acting:
            return ToolEffect("write", "annotated")
        if hint == "read" or recorded == {"read"}:
            return ToolEffect("read", "annotated")
        found = None if tool in self._programs else guess(tool)
        return UNKNOWN if found is None else ToolEffect(found, "guessed")


def _properties(tool: Tool) -> Json:
    return tool.schema.get("properties") if isinstance(tool.schema, dict) else None


def annotated(tool: Tool) -> Effect:
    """What the annotations of a tool (those of the Model Context Protocol) say.

    A tool that says whether it is destructive, and not that it only reads, writes: the protocol
    gives that word no other meaning.
    """
    inner = tool.extra.get("annotations")
    hints = inner if isinstance(inner, dict) else tool.extra
    reads = hints.get("readOnlyHint")
    if isinstance(reads, bool):
        return "read" if reads else "write"
    return "write" if isinstance(hints.get("destructiveHint"), bool) else "unknown"


def guess(tool: str) -> Literal["read", "write"] | None:
    """What the first verb in a tool's name promises, None where it has none that is known.

    A name that promises two things (`get_or_create`) writes where one of them does.
    """
    promised: list[Literal["read", "write"]] = []
    waiting = True
    for word in words_of(tool):
        if word in {"and", "or"}:
            waiting = True
        elif waiting and _READS.fullmatch(word):
            promised.append("read")
            waiting = False
        elif waiting and _WRITES.fullmatch(word):
            promised.append("write")
            waiting = False
    return None if not promised else "write" if "write" in promised else "read"


def words_of(name: str) -> list[str]:
    """The words of an identifier: `get_user`, `getUser` and `TodoWrite` in lower case."""
    return [word.lower() for word in _WORDS.findall(name)]


def takes_program(arguments: Json) -> bool:
    """Do the arguments of a call, or the properties of its schema, hold a program?"""
    return isinstance(arguments, dict) and not PROGRAM_KEYS.isdisjoint(arguments)
