"""Does a call of a tool change the world, and how is that known?

A call reads, writes, or nobody knows; what nobody knows counts as a write wherever being wrong
would serve a false observation. The user's word comes first, so that a false mark in a recording
can be put right. Then any sign of a write outweighs a sign of a read: what the recording, the
tool's own annotations or the arguments of the call say (`replay.programs`). Then tools known by
name and arguments count as what they are. The words of a tool's name are a guess and said to be
one: a name that could write is taken for a write, and what rests on a guessed read is never exact.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from replay import programs
from replay.trace import Effect, Json, Tool, ToolCall

VERSION = 2
"""Of the tables and the order above; part of every free replay's digest."""

By: TypeAlias = Literal["yours", "annotated", "known", "arguments", "guessed", "unknown"]
"""Who says so: the user; the recording or the tool's annotations; the table of known tools; the
program in the call's arguments; the words of the name; nobody."""

PROGRAM_KEYS = programs.KEYS
"""Arguments under these names are programs."""

_KNOWN_READS: Mapping[str, tuple[str, ...]] = {
    # Claude Code
    "Read": ("file_path", "offset", "limit", "pages"),
    "Grep": (
        "pattern", "path", "glob", "type", "output_mode", "-A", "-B", "-C", "-i", "-n",
        "context", "head_limit", "multiline", "offset",
    ),
    "Glob": ("pattern", "path"),
    "LS": ("path", "ignore"),
    "NotebookRead": ("notebook_path", "cell_id"),
    "WebFetch": ("url", "prompt"),
    "WebSearch": ("query", "allowed_domains", "blocked_domains"),
    # Gemini CLI
    "read_file": (
        "file_path", "absolute_path", "path", "offset", "limit", "start_line", "end_line",
    ),
    "list_directory": ("dir_path", "path", "ignore", "respect_git_ignore"),
    "search_file_content": ("pattern", "path", "dir_path", "include"),
    "google_web_search": ("query",),
    # opencode, and agents alike
    "read": ("filePath", "file_path", "path", "offset", "limit"),
    "grep": ("pattern", "path", "include"),
    "glob": ("pattern", "path"),
    "webfetch": ("url", "format", "timeout"),
    # tools that only compute
    "think": ("thought",),
    "calculate": ("expression",),
}  # fmt: skip
"""Tools of well-known agents that change nothing, with all the arguments they take: another tool
of the name that takes others is not taken for one of them."""

_EDITORS = frozenset({"str_replace_editor", "str_replace_based_edit_tool"})
"""Tools whose `command` is one of their own, "view" among them, and no program."""

_READS = frozenset(
    "calculate cat check count describe fetch find get glob grep head inspect list look lookup ls"
    " peek query read retrieve search show stat tail think view".split()
)
_OF_OBJECTS = frozenset({"describe", "fetch", "get", "retrieve"})
"""Verbs whose object follows, so that a word after them that may be a noun is one: `get_update`,
but `list_update`."""

_WRITES = frozenset(
    "accept add annotate append apply approve assign ban buy cancel clear confirm create"
    " delete deploy destroy disable edit enable erase insert install kill mark modify"
    " move mutate overwrite pop publish purge push put reject remove rename replace reset revoke"
    " save sell send set submit subscribe swap toggle truncate uninstall unsubscribe unset upload"
    " upsert withdraw write".split()
)
"""Words that are verbs wherever they stand in a name: `list_add`, `searchReplace`."""

_FIRST_WRITES = frozenset(
    "archive book change charge close commit drop exchange grant invite merge patch pay post refund"
    " register resolve return schedule transfer update upgrade".split()
)
"""Verbs where no other comes before them, else perhaps nouns."""

_TWICE = frozenset("archive change close drop grant invite merge update upgrade".split())
"""Those of them that may be verbs after another: `list_update`, but not `get_update`."""

_DOUBTFUL = frozenset(
    "bash block call cmd command comment computer copy curl deposit dispatch do email eval export"
    " flag follow forward http import interpreter ipython label link load lock log message open"
    " order pause pin process purchase python rate record release repl reply report request restart"
    " restore resume review rpc run script share shell ship sql start stop store sync tag terminal"
    " text ticket todo trade verify vote".split()
)
"""Where no verb comes before them: perhaps verbs, or carriers of any program."""

_ANYTHING = frozenset({"exec", "execute", "invoke", "perform"})
"""Carriers of any program wherever they stand."""

_PARTICLES = frozenset({"in", "out", "off"})
"""`check_in` and `check_out` are no checks."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class ToolEffect(Struct, frozen=True):
    """What a tool does to the world, and who says so."""

    effect: Effect
    by: By

    @property
    def reads(self) -> bool:
        """Is it known, or guessed, to change nothing? What is unknown may write."""
        return self.effect == "read"

    @property
    def guessed_read(self) -> bool:
        """Is that it changes nothing only a guess?"""
        return self.effect == "read" and self.by == "guessed"


UNKNOWN = ToolEffect("unknown", "unknown")


class Effects:
    """The effects of the tools of a trace; asked for any call, also of a tool never called.

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

    def of(self, tool: str, arguments: Json = None) -> ToolEffect:
        """What a call does; without arguments, what the tool does as far as that can be told.
        Arguments that are no JSON are given as the text they are."""
        if tool in self._yours:
            return ToolEffect(self._yours[tool], "yours")
        recorded, hint = self._recorded.get(tool, set()), self._annotated.get(tool)
        if hint == "write" or "write" in recorded or tool in self._acting:
            return ToolEffect("write", "annotated")
        found = call_effect(tool, arguments)
        if found == ToolEffect("write", "arguments"):
            return found
        if hint == "read" or recorded == {"read"}:
            return ToolEffect("read", "annotated")
        return UNKNOWN if found.by == "guessed" and tool in self._programs else found


def call_effect(tool: str, arguments: Json = None) -> ToolEffect:
    """What a call does by itself: by the arguments, the table of known tools, or the name."""
    known = _known(tool, arguments)
    if known is not None:
        return ToolEffect(known, "known")
    said = programs.effect(words_of(_own_name(tool)), arguments)
    if said == "unknown":
        return UNKNOWN
    if said is not None:
        return ToolEffect(said, "arguments")
    found = guess(tool)
    return UNKNOWN if found is None else ToolEffect(found, "guessed")


def _known(tool: str, arguments: Json) -> Effect | None:
    if not isinstance(arguments, dict):
        return None
    if tool in _EDITORS:
        return "read" if arguments.get("command") == "view" else "write"
    takes = _KNOWN_READS.get(tool)
    return "read" if takes and arguments and arguments.keys() <= set(takes) else None


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
    """What the words of a tool's name promise, None where that is nothing that is known.

    The name of a tool of the Model Context Protocol is what follows its server's. It promises a
    read where it begins with a verb that reads, or with nouns and then one, and no word could be a
    verb of another kind: `get_post` and `user_list` read, `post_get` and `list_add` write, of
    `order_list`, `list_update` and `check_in` nobody knows.
    """
    name = _own_name(tool)
    found: Literal["read"] | None = None
    doubtful = not name.isascii()
    verb: str | None = None
    for word in words_of(name):
        if word in _WRITES or (verb is None and word in _FIRST_WRITES):
            return "write"
        if word in {"and", "or", "then"}:
            verb = None
        elif verb is None and word in _READS:
            found, verb = "read", word
        doubtful |= (
            word in _ANYTHING
            or (verb is None and word in _DOUBTFUL)
            or (verb == "check" and word in _PARTICLES)
            or (verb not in _OF_OBJECTS and word in _TWICE)
        )
    return None if doubtful else found


def _own_name(tool: str) -> str:
    """The name of a tool without that of its server: `mcp__server__tool`."""
    return tool.rsplit("__", 1)[-1] if tool.startswith("mcp__") else tool


def words_of(name: str) -> list[str]:
    """The words of an identifier: `get_user`, `getUser` and `TodoWrite` in lower case."""
    return [word.lower() for word in _WORDS.findall(name)]


def takes_program(arguments: Json) -> bool:
    """Do the arguments of a call, or the properties of its schema, hold a program?"""
    return isinstance(arguments, dict) and not PROGRAM_KEYS.isdisjoint(arguments)
