"""What was a run shown, by whom, and from which step on?

Prompts, tool definitions, people's words and what calls returned, in the order in which they came
into view; what a call wrote itself counts from when it worked. Model output is no source, except
to the other speakers of a group chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from replay.messages import observed
from replay.trace import Json
from taxonomy.evidence.pieces import without_case
from taxonomy.evidence.reading import Act, Reading, leaves, mutates

_CUT = re.compile(r"\btruncated\b|\bomitted\b|output too long", re.I)
_CUT_WORDS = ("truncated", "omitted", "output too long")
_CUT_ENDS = ("...", "…")


class Source(Struct, frozen=True, eq=False, kw_only=True):
    """Something a run had seen: its text, and from which step on; `own` what it wrote by a call."""

    visible: int
    text: str
    place: str
    step: int | None = None
    span: str | None = None
    own: bool = False


def sources(reading: Reading) -> list[Source]:
    """Everything a run was shown, in the order in which it came into view."""
    found: list[Source] = []
    systems: set[int] = set()
    toolsets: set[int] = set()
    for turn in reading.turns:
        request = turn.ask.request
        if request.system is not None and id(request.system) not in systems:
            systems.add(id(request.system))
            body = plain(request.system.body.get("content"))
            found.append(Source(visible=turn.index, text=body, place="system prompt"))
        if request.tools and id(request.tools) not in toolsets:
            toolsets.add(id(request.tools))
            tools = msgspec.json.encode(request.tools).decode()
            found.append(Source(visible=turn.index, text=tools, place="tool definitions"))
        found.extend(
            Source(visible=turn.index, text=heard.text, place=f"{heard.role} message")
            for heard in turn.heard
        )
        found.extend(
            Source(visible=turn.index, text=other.text, place=f"words of {other.role}")
            for other in turn.overheard
        )
        found.extend(source for act in turn.acts for source in _shown_by(act))
    return found


def _shown_by(act: Act) -> Iterator[Source]:
    """What a call returned, and what it wrote itself where it may have changed the world."""
    if act.span.observation is not None:
        yield _after(act, observed(act.span.observation).text, act.name)
    if act.reply.failed is False and mutates(act.span) is not False:
        written = plain(act.span.arguments)
        yield _after(act, written, f"its own call of {act.name}", own=True)


def _after(act: Act, text: str, place: str, *, own: bool = False) -> Source:
    return Source(
        visible=act.step + 1, text=text, place=place, step=act.step, span=act.span.id, own=own
    )


def cut_short(text: str) -> bool:
    """Was a text cut by its source: does it say so, or is it JSON without an end?"""
    tail = text[-200:].rstrip()
    opened = text.lstrip()[:2] in {'{"', "[{", '["'}
    return _says_cut(tail) or (opened and tail[-1:] not in {"}", "]"})


def _says_cut(tail: str) -> bool:
    small = without_case(tail)
    says = any(words in small for words in _CUT_WORDS) and _CUT.search(tail) is not None
    return says or tail.endswith(_CUT_ENDS)


def plain(value: Json) -> str:
    """The scalars of a value as text, a line each."""
    if isinstance(value, str):
        return value
    return "\n".join(
        leaf if isinstance(leaf, str) else msgspec.json.encode(leaf).decode()
        for _, leaf in leaves(value)
        if leaf is not None
    )
