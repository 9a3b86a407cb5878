"""What had a run seen before a step, and where did a value first stand?

An index built once in step order: from each normalised token to the first place it stood. Tokens
are folded in case, numbers written one way (`1,234.50` is `1234.5`), paths entered by their
components, dates in words beside ISO dates. Model output is no origin: what the model only said
itself came from nowhere; what it wrote by a call that worked did come from that call. Which values
need an origin is for `identifiers` to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Literal

import msgspec
from msgspec import Struct

from replay.messages import observed
from replay.trace import Json
from taxonomy.moments import day_keys
from taxonomy.reading import Act, Reading, leaves, mutates
from taxonomy.replies import cut

How = Literal["exact", "within", "number", "path", "date", "derived"]


class Source(Struct, frozen=True, eq=False, kw_only=True):
    """Something a run had seen: its text, and from which step on; `own` what it wrote by a call."""

    visible: int
    text: str
    place: str
    step: int | None = None
    span: str | None = None
    own: bool = False


class Origin(Struct, frozen=True, kw_only=True):
    """The first place that held a value.

    `how`: the whole token stood there, it stood within a longer text, a number of the same
    value, the end or a part of a path, the same day, or it follows from several values shown.
    `span` and `step` are None for the system prompt, the tools and what was said before step 0.
    """

    how: How
    place: str
    text: str
    step: int | None = None
    span: str | None = None


_RUN = re.compile(r"[^\s\"'`,;()\[\]{}<>=|*]+")
_WORD = re.compile(r"\w+")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_PRICE = re.compile(r"[$€£]\s?\d[\d,]*(?:\.\d+)?|\d+\.\d+")
_ESCAPE = re.compile(r"\\[nrt\"/]")
_NUMBER = re.compile(r"[-+]?[$€£]?(\d+(?:\.\d+)?)%?")
_EDGES = ".:!?-/\\$€£#@~&"
_JOINT = re.compile(r"[\W_]+")

_CUT = re.compile(r"\btruncated\b|\bomitted\b|output too long|(?:\.\.\.|…)$", re.I)

_OPENING = 8
"""A task stands among the first things shown; a source without it cannot say what was made up."""

RECENT = 60
"""How many of the latest numbers may add up to a derived one; more and everything is derived."""


def number(text: str) -> str | None:
    """A number in one spelling, whole floats as integers; None where the text is not one."""
    match = _NUMBER.fullmatch(text.replace(",", "").replace(" ", ""))
    if match is None or len(match[1]) > 18:
        return None
    digits = match[1]
    return digits.rstrip("0").rstrip(".") if "." in digits else digits.lstrip("0") or "0"


def fold(text: str) -> str:
    """Case and whitespace folded."""
    return " ".join(text.lower().split())


class Index:
    """Everything a trace's model calls had seen, by token.

    `knows_task` is False where the source lacks the run's first words, `cut_from` the step from
    which on something shown was cut by the source: what is missing then may have stood there.
    """

    def __init__(self, reading: Reading) -> None:
        self.sources: list[Source] = []
        self._tokens: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._prices: dict[str, int] = {}
        self._folded: dict[int, str] = {}
        for source in _sources(reading):
            self._add(source)
        self.knows_task = any(each.place == "user message" for each in self.sources[:_OPENING])
        self.cut_from = min((s.visible for s in self.sources if _cut_short(s.text)), default=None)

    def origin(self, step: int, value: Json) -> Origin | None:
        """The first place that held `value` before `step` answered; None where nothing did."""
        text = value if isinstance(value, str) else _plain(value)
        wanted = fold(text)
        if not wanted:
            return None
        return (
            self._found(self._tokens.get(wanted.strip(_EDGES)), step, "exact", text)
            or self._found(self._numbers.get(number(wanted) or ""), step, "number", text)
            or self._on_day(wanted, step, text)
            or self._path(wanted, step, text)
            or self._within(wanted, step, text)
            or self._derived(wanted, step, text)
        )

    def _found(self, at: int | None, step: int, how: How, text: str) -> Origin | None:
        if at is None or self.sources[at].visible > step:
            return None
        source = self.sources[at]
        return Origin(
            how=how,
            place=source.place,
            step=source.step,
            span=source.span,
            text=_excerpt(source.text, text),
        )

    @cached_property
    def _days(self) -> dict[str, int]:
        """The first place of each day; read only when a day is asked for, which no rule does."""
        found: dict[str, int] = {}
        for at, source in enumerate(self.sources):
            for key in day_keys(source.text):
                found.setdefault(key, at)
        return found

    def _on_day(self, wanted: str, step: int, text: str) -> Origin | None:
        for key in day_keys(wanted):
            found = self._found(self._days.get(key), step, "date", text)
            if found is not None:
                return found
        return None

    def _path(self, wanted: str, step: int, text: str) -> Origin | None:
        """A path is known by its last component: shown alone, or as a part of a longer path."""
        last = wanted.replace("\\", "/").rstrip("/").rpartition("/")
        if not last[1]:
            return None
        return self._found(self._tokens.get(last[2].strip(_EDGES)), step, "path", text)

    def _within(self, wanted: str, step: int, text: str) -> Origin | None:
        """A look through the texts themselves, only where every word of the value is known."""
        words = _WORD.findall(wanted)
        firsts = [self._tokens.get(word) for word in words]
        if not words or any(at is None or self.sources[at].visible > step for at in firsts):
            return None
        pattern = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)")
        for at in range(max(at for at in firsts if at is not None), len(self.sources)):
            if self.sources[at].visible <= step and pattern.search(self._text(at)):
                return self._found(at, step, "within", text)
        return None

    def _text(self, at: int) -> str:
        if at not in self._folded:
            self._folded[at] = fold(_ESCAPE.sub(" ", self.sources[at].text))
        return self._folded[at]

    def _derived(self, wanted: str, step: int, text: str) -> Origin | None:
        """Worked out of shown numbers, or put together from shown parts; never an address."""
        digits = number(wanted)
        if digits is not None:
            return self._found(self._sum(float(digits), step), step, "derived", text)
        parts = [part for part in _JOINT.split(wanted) if part]
        places = [self._tokens.get(part) for part in parts]
        known = [at for at in places if at is not None and self.sources[at].visible <= step]
        if "@" in wanted or len(parts) < 2 or len(known) < len(parts):
            return None
        return self._found(max(known), step, "derived", text)

    def _sum(self, target: float, step: int) -> int | None:
        """Where the later of two recent numbers stood whose sum, difference or product this is.

        The hundredfold of a price counts too: prices are shown in units and passed in cents.
        """
        shown = [
            (float(text), at)
            for text, at in self._numbers.items()
            if self.sources[at].visible <= step and len(text) <= 12
        ][-RECENT:]
        at_of = dict(shown)
        units = number(f"{target / 100:.2f}") or ""
        priced = self._prices.get(units)
        if priced is not None and self.sources[priced].visible <= step:
            return priced
        for value, at in shown:
            partners = [target - value, value - target, target + value]
            if value and 1 < target / value <= 12:
                partners.append(target / value)
            for partner in partners:
                if partner in at_of and partner > 1:
                    return max(at, at_of[partner])
        return None

    def _add(self, source: Source) -> None:
        at = len(self.sources)
        self.sources.append(source)
        text = _ESCAPE.sub(" ", source.text) if "\\" in source.text else source.text
        text = text.lower()
        for run in set(_RUN.findall(text)):
            token = run.strip(_EDGES)
            if token and token not in self._tokens:
                self._enter(token, at)
        for price in _PRICE.findall(text):
            self._prices.setdefault(number(price) or price, at)
        for grouped in _GROUPED.findall(text):
            self._numbers.setdefault(number(grouped) or grouped, at)

    def _enter(self, token: str, at: int) -> None:
        self._tokens[token] = at
        parts = _WORD.findall(token)
        if token[-1].isdigit() or token[0].isdigit():
            digits = number(token)
            if digits is not None:
                self._numbers.setdefault(digits, at)
        if len(parts) == 1 and parts[0] == token and "_" not in token:
            return
        for part in parts:
            self._tokens.setdefault(part, at)
            if "_" in part:
                for piece in part.split("_"):
                    self._tokens.setdefault(piece, at)
            if part.isdigit():
                self._numbers.setdefault(number(part) or part, at)
        if "/" in token or "\\" in token or ":" in token:
            for component in re.split(r"[/\\:]", token):
                self._tokens.setdefault(component.strip(_EDGES), at)


def _sources(reading: Reading) -> list[Source]:
    """Everything a run was shown, in the order in which it came into view."""
    found: list[Source] = []
    systems: set[int] = set()
    toolsets: set[int] = set()
    for turn in reading.turns:
        request = turn.ask.request
        if request.system is not None and id(request.system) not in systems:
            systems.add(id(request.system))
            body = _plain(request.system.body.get("content"))
            found.append(Source(visible=turn.index, text=body, place="system prompt"))
        if request.tools and id(request.tools) not in toolsets:
            toolsets.add(id(request.tools))
            tools = msgspec.json.encode(request.tools).decode()
            found.append(Source(visible=turn.index, text=tools, place="tool definitions"))
        found.extend(
            Source(visible=turn.index, text=heard.text, place=f"{heard.role} message")
            for heard in turn.heard
        )
        found.extend(source for act in turn.acts for source in _shown_by(act))
    return found


def _shown_by(act: Act) -> Iterator[Source]:
    """What a call returned, and what it wrote itself where it may have changed the world."""
    if act.span.observation is not None:
        yield _after(act, observed(act.span.observation).text, act.name)
    if act.reply.failed is False and mutates(act.span) is not False:
        written = _plain(act.span.arguments)
        yield _after(act, written, f"its own call of {act.name}", own=True)


def _after(act: Act, text: str, place: str, *, own: bool = False) -> Source:
    return Source(
        visible=act.step + 1, text=text, place=place, step=act.step, span=act.span.id, own=own
    )


def _cut_short(text: str) -> bool:
    """Was a text cut by its source: does it say so, or is it JSON without an end?"""
    tail = text[-200:].rstrip()
    opened = text.lstrip()[:2] in {'{"', "[{", '["'}
    return bool(_CUT.search(tail)) or (opened and tail[-1:] not in {"}", "]"})


def _plain(value: Json) -> str:
    """The scalars of a value as text, a line each."""
    if isinstance(value, str):
        return value
    return "\n".join(
        leaf if isinstance(leaf, str) else msgspec.json.encode(leaf).decode()
        for _, leaf in leaves(value)
        if leaf is not None
    )


def _excerpt(text: str, value: str) -> str:
    """The surroundings of a value in a text, in one line."""
    at = text.lower().find(value.lower())
    if at < 0:
        return cut(text)
    start, end = max(0, at - 40), at + len(value) + 40
    return f"{'…' if start else ''}{cut(text[start:end], 160)}{'…' if end < len(text) else ''}"
