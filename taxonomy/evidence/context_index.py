"""What had a run seen before a step, and where did a value first stand?

`sources` lists the texts a run was shown, by whom and from which step on; `Index` finds a value
among them: as a whole token, as a number in another spelling, within a longer text, or computed
from numbers that were shown.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import filterfalse
from typing import Literal

import msgspec
from msgspec import Struct

from replay.messages import observed
from replay.tool_errors import decoded
from replay.trace import Json
from taxonomy.evidence.claims import (
    Sums,
    columns,
    day_keys,
    find_computation,
    moments,
    shifted,
    splitter,
    without_case,
)
from taxonomy.evidence.reading import Act, Reading, leaves, mutates
from taxonomy.evidence.results import cut

How = Literal["exact", "within", "number", "path", "date", "derived"]


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


_runs = splitter("\"'`,;()[]{}<>=|*")
_WORD = re.compile(r"\w+")
_COMPONENT = re.compile(r"[/\\:]")
_THOUSANDS = re.compile(r",\d{3}")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_PRICE = re.compile(r"[$€£]\s?\d[\d,]*(?:\.\d+)?|\d+\.\d+")
_ESCAPE = re.compile(r"\\[nrt\"/]")
_NUMBER = re.compile(r"[-+]?[$€£]?(\d+(?:\.\d+)?)%?")
_EDGES = ".:!?-/\\$€£#@~&"
_JOINT = re.compile(r"[\W_]+")
_PARTED = re.compile(r"(?<![^\W_])(?:[a-z]{1,5}|[a-z]*\d\w{0,11})(?:[ ._/#-][a-z]*\d[a-z0-9]*)+")
_SHORTEST = 4
_DAYS = re.compile(r"\b(\d{1,3})[- ](day|week|night)s?\b", re.I)

_OPENING = 8
"""A task stands among the first things shown; a source without it cannot say what was made up."""

RECENT = 60
"""How many of the latest numbers may add up to a derived one; more and everything is derived."""

_LONGEST_NUMBER = 12
"""Figures of the longest number that others are worked out of."""


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
    which on something shown was cut or left out by the source: what is missing then may have stood
    there.
    """

    def __init__(self, reading: Reading) -> None:
        self.sources = sources(reading)
        self._folded: dict[int, str] = {}
        self._small: dict[int, str] = {}
        self._acts = reading.acts
        self._visible = [source.visible for source in self.sources]
        self._holding = TextsByWord(len(self.sources), self._text)
        self.knows_task = any(each.place == "user message" for each in self.sources[:_OPENING])
        cut = [source.visible for source in self.sources if cut_short(source.text)]
        unknown = [act.step + 1 for act in reading.acts if act.reply.failed is None]
        self.cut_from = min([*cut, *unknown], default=None)

    @cached_property
    def _first(self) -> FirstPlaces:
        """Made only for a run with a value to look for: it reads all that was shown."""
        return FirstPlaces(source.text for source in self.sources)

    def origin(self, step: int, value: Json) -> Origin | None:
        """The first place that held `value` before `step` answered; None where nothing did."""
        text = value if isinstance(value, str) else plain(value)
        wanted = fold(text)
        if not wanted:
            return None
        return (
            self._found(self._first.tokens.get(wanted.strip(_EDGES)), step, "exact", text)
            or self._found(self._first.numbers.get(number(wanted) or ""), step, "number", text)
            or self._on_day(wanted, step, text)
            or self._path(wanted, step, text)
            or self._within(wanted, step, text)
            or self._spelled_otherwise(wanted, step, text)
            or self._derived(wanted, step, text)
        )

    def unseen(self, step: int, lines: Sequence[str]) -> list[str]:
        """The lines that stood in nothing shown before `step` answered, white space aside."""
        return [line for line in lines if not self._stood(step, fold(line))]

    def _stood(self, step: int, line: str) -> bool:
        """Did a folded line stand in anything shown? What a run works on, it saw but lately."""
        places = self._holding.phrase(line, self._shown(step))
        return any(line in self._text(at) for at in reversed(places))

    def _shown(self, step: int) -> int:
        """How many of the sources a step had seen: they come into view in order."""
        return bisect_right(self._visible, step)

    def _found(self, at: int | None, step: int, how: How, text: str) -> Origin | None:
        if at is None or self.sources[at].visible > step:
            return None
        source = self.sources[at]
        return Origin(
            how=how,
            place=source.place,
            step=source.step,
            span=source.span,
            text=self._excerpt(at, text),
        )

    def _excerpt(self, at: int, value: str) -> str:
        """The surroundings of a value in a source, in one line."""
        text = self.sources[at].text
        if at not in self._small:
            self._small[at] = text.lower()
        found = self._small[at].find(value.lower())
        if found < 0:
            return cut(text)
        start, end = max(0, found - 40), found + len(value) + 40
        return f"{'…' if start else ''}{cut(text[start:end], 160)}{'…' if end < len(text) else ''}"

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
        return self._days_away(wanted, step)

    def _days_away(self, wanted: str, step: int) -> Origin | None:
        """A day that lies a shown number of days or weeks before or after a shown one."""
        if next(moments(wanted), None) is None:
            return None
        for days, at in self._spans.items():
            if self.sources[at].visible > step:
                continue
            for key in shifted(wanted, days):
                day = self._days.get(key)
                if day is not None and self.sources[day].visible <= step:
                    return self._working(max(at, day), f"{key} and {days} days")
        return None

    @cached_property
    def _spans(self) -> dict[int, int]:
        """The first place of each number of days or weeks that was told."""
        found: dict[int, int] = {}
        for at, source in enumerate(self.sources):
            for count, unit in _DAYS.findall(source.text):
                found.setdefault(int(count) * (7 if unit.lower() == "week" else 1), at)
        return found

    def _path(self, wanted: str, step: int, text: str) -> Origin | None:
        """A path is known by its last component: shown alone, or as a part of a longer path."""
        last = wanted.replace("\\", "/").rstrip("/").rpartition("/")
        if not last[1]:
            return None
        return self._found(self._first.tokens.get(last[2].strip(_EDGES)), step, "path", text)

    def _within(self, wanted: str, step: int, text: str) -> Origin | None:
        """A look through the texts themselves, only where every word of the value is known."""
        words = _WORD.findall(wanted)
        firsts = [self._first.tokens.get(word) for word in words]
        if not words or any(at is None or self.sources[at].visible > step for at in firsts):
            return None
        pattern = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)")
        first = max(at for at in firsts if at is not None)
        for at in self._holding.words(wanted, self._shown(step)):
            if at >= first and pattern.search(self._text(at)):
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
            return self._find_computation(float(digits), step)
        parts = [part for part in _JOINT.split(wanted) if part]
        places = [self._first.tokens.get(part) for part in parts]
        known = [at for at in places if at is not None and self.sources[at].visible <= step]
        if "@" in wanted or len(parts) < 2 or len(known) < len(parts):
            return None
        return self._found(max(known), step, "derived", text)

    def _find_computation(self, target: float, step: int) -> Origin | None:
        """Of the latest numbers. A price shown in units may be passed in its hundredth."""
        units = number(f"{target / 100:.2f}") or ""
        priced = self._prices.get(units)
        if priced is not None and self.sources[priced].visible <= step:
            return self._working(priced, f"100 × {units}")
        working = find_computation(target, self._latest(step))
        if working is not None:
            return self._working(working.at, working.formula)
        added = self._sums.first(target, self._shown(step))
        return self._working(*added) if added is not None else None

    def _latest(self, step: int) -> Sequence[tuple[float, int]]:
        """The latest numbers that a step had seen, and their places."""
        end = bisect_left(self._short, self._shown(step), key=lambda shown: shown[1])
        return self._short[max(0, end - RECENT) : end]

    @cached_property
    def _short(self) -> list[tuple[float, int]]:
        """The numbers of a usual length, in the order in which they came into view."""
        return [
            (float(text), at)
            for text, at in self._first.numbers.items()
            if len(text) <= _LONGEST_NUMBER
        ]

    @cached_property
    def _prices(self) -> dict[str, int]:
        """The first place of each price and broken number."""
        found: dict[str, int] = {}
        for at, source in enumerate(self.sources):
            for price in _PRICE.findall(_plainly(source.text)):
                found.setdefault(number(price) or price, at)
        return found

    def _working(self, at: int, formula: str) -> Origin:
        source = self.sources[at]
        return Origin(
            how="derived", place=source.place, step=source.step, span=source.span, text=formula
        )

    @cached_property
    def _sums(self) -> Sums:
        """The columns of numbers of the sources; read only when a sum is looked for."""
        found = (
            (at, columns(decoded(source.text)))
            for at, source in enumerate(self.sources)
            if source.span
        )
        return Sums([(at, named) for at, named in found if named], self._passed())

    def _passed(self) -> Iterable[float]:
        """The numbers that the run's calls pass."""
        for act in self._acts:
            for _, value in leaves(act.span.arguments):
                digits = number(fold(value if isinstance(value, str) else plain(value)))
                if digits is not None:
                    yield float(digits)

    @cached_property
    def _respelled(self) -> dict[str, int]:
        """Identifiers as shown in several parts, by their letters and digits alone."""
        found: dict[str, int] = {}
        for at, source in enumerate(self.sources):
            for shown in _PARTED.findall(source.text.lower()):
                found.setdefault(_JOINT.sub("", shown), at)
        return found

    def _spelled_otherwise(self, wanted: str, step: int, text: str) -> Origin | None:
        """The same letters and digits with other signs or spaces between: `ORD 77`, `ord-77`."""
        bare = _JOINT.sub("", wanted)
        if len(bare) < _SHORTEST or not any(mark.isdecimal() for mark in bare) or "@" in wanted:
            return None
        at = self._respelled.get(bare)
        if at is None and bare != wanted:
            at = self._first.tokens.get(bare)
        return self._found(at, step, "exact", text)


class FirstPlaces:
    """The first of some texts to hold each token, and each number in one spelling, by its place
    among them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.tokens: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        for at, text in enumerate(texts):
            self._add(_plainly(text), at)

    def _add(self, text: str, at: int) -> None:
        known = self.tokens
        for run in filterfalse(known.__contains__, dict.fromkeys(_runs(text))):
            token = run.strip(_EDGES)
            if token.isalpha():
                known.setdefault(token, at)
            elif token and token not in known:
                self._enter(token, at)
        for grouped in _GROUPED.findall(text) if _THOUSANDS.search(text) else ():
            self.numbers.setdefault(number(grouped) or grouped, at)

    def _enter(self, token: str, at: int) -> None:
        self.tokens[token] = at
        if token[0].isdecimal() or token[0] == "+":  # its other edges are off
            digits = number(token)
            if digits is not None:
                self.numbers.setdefault(digits, at)
        if token.isalnum():
            return
        for part in _WORD.findall(token):
            self.tokens.setdefault(part, at)
            if "_" in part:
                for piece in part.split("_"):
                    self.tokens.setdefault(piece, at)
            if part.isdecimal():
                self.numbers.setdefault(number(part) or part, at)
        if "/" in token or "\\" in token or ":" in token:
            for component in _COMPONENT.split(token):
                self.tokens.setdefault(component.strip(_EDGES), at)


def _plainly(text: str) -> str:
    """A text in small letters, without the escapes of a text within a text."""
    return (_ESCAPE.sub(" ", text) if "\\" in text else text).lower()


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


_INDEXED_WORD = re.compile(r"\w+")
_words = splitter("!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~")
_WHOLE = re.compile(r"(?<=\W)\w+(?=\W)")
"""A word of a phrase that is one wherever the phrase stands: no letter can come before or after."""


class TextsByWord:
    """The texts of a run, by the words in them; `text(at)` gives the one at a place."""

    def __init__(self, count: int, text: Callable[[int], str]) -> None:
        self._count = count
        self._text = text

    def words(self, phrase: str, end: int) -> Sequence[int]:
        """The places before `end` whose text may hold a phrase between two words."""
        return self._rarest(_INDEXED_WORD.findall(phrase), end)

    def phrase(self, phrase: str, end: int) -> Sequence[int]:
        """The places before `end` whose text may hold a phrase, in the midst of words too."""
        return self._rarest(_WHOLE.findall(phrase), end)

    def _rarest(self, words: Sequence[str], end: int) -> Sequence[int]:
        """The places that hold the word that the fewest hold; all where there is no word."""
        if not words:
            return range(end)
        fewest = min((self._places.get(word, ()) for word in words), key=len)
        return [at for at in fewest if at < end]

    @cached_property
    def _places(self) -> Mapping[str, list[int]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for at in range(self._count):
            words = set(_words(self._text(at)))
            mixed = [piece for piece in words if not piece.isalnum()]
            words.difference_update(mixed)
            words.update(word for piece in mixed for word in _INDEXED_WORD.findall(piece))
            for word in words:
                found[word].append(at)
        return found
