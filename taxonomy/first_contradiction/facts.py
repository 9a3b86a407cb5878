"""Which facts is a model asked about, and how much of a run depends on a field that a result
showed?
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.digests import bare_text
from replay.effects import words_of
from replay.errors import NotFound
from replay.tool_errors import decoded
from replay.trace import Json
from taxonomy.evidence.claims import STATUS_GROUPS, Moment, day_keys, moments
from taxonomy.evidence.context_index import fold, number
from taxonomy.evidence.reading import Reading, leaves, mutates
from taxonomy.evidence.value_origins import SMALLEST_AMOUNT, Records, Shown, Thing
from taxonomy.findings import Evidence
from taxonomy.first_contradiction.contradictions import Contradiction
from taxonomy.rules.rule import RuleContext

MAX_FACTS = 4
"""Facts of one question, unless the user names one."""


class Fact(Struct, frozen=True, kw_only=True):
    """Something the model may believe. `about` names it to the model, `history` is what the world
    was shown to be, from which step on."""

    about: str
    history: tuple[Shown, ...]

    def world(self, step: int) -> Shown | None:
        """What was shown last before a step answered; None where nothing was, or where it was
        changed since and nobody looked."""
        last = next((each for each in reversed(self.history) if each.visible <= step), None)
        return None if last is None or last.value is None else last

    def source(self, step: int) -> Evidence | None:
        """Where the world's value stands."""
        shown = self.world(step)
        if shown is None:
            return None
        act = shown.act
        return Evidence(
            role="observed",
            text=f"{self.about}: {bare_text(shown.value)}",
            step=act.step if act is not None else None,
            span=act.span.id if act is not None else None,
            place=act.name if act is not None else "you say so",
        )


def chosen(
    case: RuleContext, found: Iterable[Contradiction], max_facts: int = MAX_FACTS
) -> tuple[Fact, ...]:
    """The facts a run hangs on, the weightiest first."""
    records = Records(case.reading)
    hanging = DependentValues(case.reading, records, found)
    weighed = [
        (-weight, history[0].visible, Fact(about=f"{field} of {thing}", history=history))
        for thing in records.things
        for field, history in _fields(records, thing)
        if (weight := hanging.weight(thing, field, history)) > 0
    ]
    weighed.sort(key=lambda each: each[:2])
    return tuple(fact for _, _, fact in weighed[:max_facts])


def fact_named(case: RuleContext, question: str, world: str) -> Fact:
    """A fact that the user names: its value as it is written, or `STEP:PATH` of a result.

    Raises NotFound where there is no such step, result or field.
    """
    step, colon, path = world.partition(":")
    if not colon or not step.isdecimal() or not path:
        return Fact(about=question, history=(Shown(visible=0, value=world, act=None),))
    acts = [act for act in case.reading.acts if act.step == int(step)]
    for act in acts:
        for each, leaf in leaves(decoded(act.reply.text)):
            if path in (each, each.rpartition(".")[2]):
                shown = Shown(visible=act.step + 1, value=leaf, act=act)
                return Fact(about=question, history=(shown,))
    known = [each for act in acts for each, _ in leaves(decoded(act.reply.text))]
    hint = f"it has {', '.join(known[:12])}" if known else "no result of that step is JSON"
    raise NotFound("field in the results of a step", world, hint=hint)


def agrees(answer: str, value: Json) -> bool:
    """Is what the model says the world's value: the same number, moment, state or words?"""
    shown = bare_text(value)
    if fold(answer).strip(" .#\"'") == fold(shown):
        return True
    mine, worlds = next(moments(answer), None), next(moments(shown), None)
    if mine is not None and worlds is not None:
        return _overlap(mine, worlds)
    digits = number(fold(answer))
    if digits is not None:
        return digits == number(fold(shown))
    states = STATUS_GROUPS.get(fold(answer)), STATUS_GROUPS.get(fold(shown))
    return states[0] is not None and states[0] == states[1]


def _overlap(one: Moment, other: Moment) -> bool:
    """May both mean the same instant? A date alone is the whole day, without the next one's
    first instant."""
    if one.at == other.at:
        return True
    return one.at < other.latest and other.at < one.latest


def _fields(records: Records, thing: Thing) -> Iterator[tuple[str, tuple[Shown, ...]]]:
    """The fields of a thing that are facts of the world, with their history."""
    for name in dict.fromkeys(name for each in records.of(thing) for name in each.fields):
        history = records.history(thing, name)
        values = [each.value for each in history if each.value is not None]
        if values and name.rpartition(".")[2] != thing.name and sort_of(name, values[0]):
            yield name, history


Sort: TypeAlias = Literal["amount", "state", "date"]

NAMED, CHANGED, USED = 100, 10, 1
"""What it weighs that a contradiction names a field, a change hangs on it, a step uses it."""

_AMOUNTS = frozenset("amount price total cost balance fee fare payment sum cents".split())
_STATES = frozenset({"status", "state"})
_DATES = frozenset("at date time placed expected delivered created due departure arrival".split())
_SHORTEST = 3


def sort_of(path: str, value: Json) -> Sort | None:
    """What sort of fact a field is, by its name and value; None for none to be asked about."""
    words = set(words_of(path.rpartition(".")[2]))
    if isinstance(value, bool) or value in ("", None):
        return None
    if isinstance(value, (int, float)):
        return "amount" if words & _AMOUNTS and value >= SMALLEST_AMOUNT else None
    if isinstance(value, str) and words & _STATES:
        return "state"
    dated = isinstance(value, str) and words & _DATES and next(moments(value), None) is not None
    return "date" if dated else None


class DependentValues:
    """What the steps of a run use and change, so that a field can be weighed by it."""

    def __init__(self, reading: Reading, records: Records, found: Iterable[Contradiction]) -> None:
        self._cited = [each for one in found for each in one.against if each.span is not None]
        self._used: dict[str, list[int]] = defaultdict(list)
        self._changed: dict[tuple[Thing, Sort], list[int]] = defaultdict(list)
        for turn in reading.turns:
            passed = [(p, leaf) for act in turn.acts for p, leaf in leaves(act.span.arguments)]
            words = {word.strip(".,:;!?$€£\"'()") for word in turn.said.split()}
            mentioned = {word for word in words if len(word) >= _SHORTEST} | day_keys(turn.said)
            for value in {bare_text(leaf) for _, leaf in passed} | mentioned:
                self._used[value].append(turn.index)
            for act in turn.acts:
                if mutates(act.span) is not False:
                    sorts = {sort_of(p, leaf) for p, leaf in leaves(act.span.arguments)} - {None}
                    for thing in records.named_by(act):
                        for sort in sorts:
                            if sort is not None:
                                self._changed[thing, sort].append(turn.index)

    def weight(self, thing: Thing, field: str, history: Sequence[Shown]) -> int:
        """How much hangs on a field of a thing; 0 where nothing does."""
        first = next(each for each in history if each.value is not None)
        spans = {each.act.span.id for each in history if each.act is not None}
        name, value = field.rpartition(".")[2], bare_text(first.value)
        if any(e.span in spans and name in e.text and value in e.text for e in self._cited):
            return NAMED
        sort = sort_of(field, first.value)
        changed = _since(self._changed.get((thing, sort), ()), first.visible) if sort else 0
        keys = {value} | (day_keys(value) if sort == "date" else set())
        used = max(_since(self._used.get(key, ()), first.visible) for key in keys)
        return CHANGED * changed + USED * used


def _since(steps: Sequence[int], first: int) -> int:
    """How many of these steps, in order, are `first` or later."""
    return len(steps) - bisect_left(steps, first)
