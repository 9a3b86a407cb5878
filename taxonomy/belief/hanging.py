"""How much of a run hangs on a field that an observation showed?

First comes what a contradiction is about; then the fields of a thing that a call changes by a value
of the same sort; then those whose value later calls pass on, or words say.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from replay.effects import words_of
from replay.trace import Json
from taxonomy.belief.contradictions import Contradiction
from taxonomy.belief.records import Records, Shown, Thing
from taxonomy.evidence.identifiers import SMALLEST_AMOUNT
from taxonomy.evidence.moments import day_keys, moments
from taxonomy.evidence.reading import Reading, leaves, mutates

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


def written(value: Json) -> str:
    """A value as it stands in a result, a text without its quotes."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class Hanging:
    """What the steps of a run use and change, so that a field can be weighed by it."""

    def __init__(self, reading: Reading, records: Records, found: Iterable[Contradiction]) -> None:
        self._cited = [each for one in found for each in one.against if each.span is not None]
        self._used: dict[str, list[int]] = defaultdict(list)
        self._changed: dict[tuple[Thing, Sort], list[int]] = defaultdict(list)
        for turn in reading.turns:
            passed = [(p, leaf) for act in turn.acts for p, leaf in leaves(act.span.arguments)]
            words = {word.strip(".,:;!?$€£\"'()") for word in turn.said.split()}
            said = {word for word in words if len(word) >= _SHORTEST} | day_keys(turn.said)
            for value in {written(leaf) for _, leaf in passed} | said:
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
        name, value = field.rpartition(".")[2], written(first.value)
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
