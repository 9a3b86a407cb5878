"""Does anything later repeat something of an observation?

Something of it: a name, number, path, code or quoted word it showed, or a word that came into view
with it. What the call itself, the prompts and the user had said is not of it, nor is a plain word
shown before. A chance repetition counts, so that "nothing repeats it" leans to the safe side. A
value worked out of what was shown counts too, as `provenance` finds it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

from replay.messages import text
from taxonomy.evidence.provenance import Index, values
from taxonomy.evidence.reading import Act, Reading, Turn, leaves

_RUN = re.compile(r"\w++(?:[./:\\@-]++\w++)*+")
_WORD = re.compile(r"\w++")
_QUOTED = re.compile(r"['\"`](\w++)['\"`]")
_MIXED = re.compile(r"\d|_|[a-z][A-Z]")
_SHORTEST = 3


class Echoes:
    """The later repetitions of every observation of a trace, by the span of its call."""

    def __init__(self, reading: Reading) -> None:
        self._said = _postings(reading.turns)
        self._derived = _derived(reading)
        self._silent = [turn.index for turn in reading.turns if turn.ask.response.message is None]
        self._first: dict[str, int | None] = {}
        given = _given(reading)
        known = set(given)
        for act in reading.acts:
            marks = _marks(act.reply.text)
            own = given | _marks(_arguments(act))
            telling = {mark for mark, tells in marks.items() if tells or mark not in known}
            self._first[act.span.id] = self._after(act, telling - own.keys())
            known |= marks.keys()

    def first_repeat(self, span: str) -> int | None:
        """The first step after the call that repeats something of its observation."""
        return self._first.get(span)

    def deaf(self, step: int) -> bool:
        """Was an answer after `step` not recorded, so that nobody knows what it repeats?"""
        return bool(self._silent) and self._silent[-1] > step

    def _after(self, act: Act, marks: Iterable[str]) -> int | None:
        found = [self._derived[act.span.id]] if act.span.id in self._derived else []
        for mark in marks:
            places = self._said.get(mark, ())
            at = bisect_right(places, act.step)
            if at < len(places):
                found.append(places[at])
        return min(found, default=None)


def _marks(words: str) -> dict[str, bool]:
    """The words and compounds of a text in lower case; does it tell more than a plain word?"""
    found: dict[str, bool] = {}
    for run in set(_RUN.findall(words)):
        parts = _WORD.findall(run)
        if len(parts) > 1:
            found[run.lower()] = True
        for part in parts:
            if len(part) >= _SHORTEST:
                found[part.lower()] = bool(_MIXED.search(part)) or found.get(part.lower(), False)
    return found | {word.lower(): True for word in _QUOTED.findall(words)}


def _given(reading: Reading) -> dict[str, bool]:
    """What prompts, tools and users said."""
    found: dict[str, bool] = {}
    systems = {
        id(turn.ask.request.system): turn.ask.request.system
        for turn in reading.turns
        if turn.ask.request.system is not None
    }
    for system in systems.values():
        found |= _marks(text(system))
    for tool in reading.offers.values():
        found |= _marks(f"{tool.name} {tool.description or ''}")
    for turn in reading.turns:
        for heard in turn.heard:
            found |= _marks(heard.text)
    return found


def _postings(turns: Iterable[Turn]) -> dict[str, list[int]]:
    """The steps whose answer holds each word, ascending."""
    found: dict[str, list[int]] = {}
    for turn in turns:
        spoken = "\n".join((turn.said, turn.thought, *map(_arguments, turn.acts)))
        for mark in _marks(spoken):
            found.setdefault(mark, []).append(turn.index)
    return found


def _arguments(act: Act) -> str:
    """What a call says in its arguments, as one text."""
    value = act.span.arguments if act.span.arguments is not None else act.span.arguments_raw
    return "\n".join(str(leaf) for _, leaf in leaves(value) if leaf is not None)


def _derived(reading: Reading) -> dict[str, int]:
    """The first step with a value that stems from a call, by the call's span."""
    index = Index(reading)
    found: dict[str, int] = {}
    for turn in reading.turns:
        for value in values(index, turn):
            if value.origin is not None and value.origin.span is not None:
                found.setdefault(value.origin.span, turn.index)
    return found
