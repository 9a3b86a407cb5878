"""Calls that one run made together and the other one after the other are the same calls.

A model that asks for two look-ups in one turn, and one that asks for them in two, did the same; it
is chance, or the wish to save a turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from replay.action import Action
from replay.alignment.deed import Terms, call_key


def regrouped(
    rows: Sequence[tuple[Action | None, Action | None]], apart: Sequence[bool], terms: Terms
) -> set[int]:
    """The rows of those that are `apart` whose calls are the same when steps of one run are taken
    together: a pair of which one made more calls, and the steps alone around it that made them."""
    found: set[int] = set()
    for place, (mine, other) in enumerate(rows):
        if not apart[place] or mine is None or other is None:
            continue
        side = int(len(mine.calls) > len(other.calls))
        fewer, more = (other, mine) if side else (mine, other)
        missing = _missing(fewer, more, terms)
        if missing:
            found |= _supplied(rows, place, side, missing, terms)
    return found


def _missing(fewer: Action, more: Action, terms: Terms) -> Counter[str]:
    """The calls that one makes besides those of the other; none where it lacks one of these."""
    if len(fewer.calls) == len(more.calls):
        return Counter()
    has, wants = _calls(more, terms), _calls(fewer, terms)
    return has - wants if wants and wants <= has else Counter()


def _supplied(
    rows: Sequence[tuple[Action | None, Action | None]],
    place: int,
    side: int,
    missing: Counter[str],
    terms: Terms,
) -> set[int]:
    """The row and the steps alone of one run, next to it, that make what is missing; () if they do
    not."""
    taken = {place}
    for around in (range(place - 1, -1, -1), range(place + 1, len(rows))):
        for row in around:
            alone, theirs = rows[row][side], rows[row][1 - side]
            if alone is not None and theirs is not None:
                break
            if alone is None:  # the other run's
                continue
            calls = _calls(alone, terms)
            if not missing or not calls or not calls <= missing:
                break
            missing = missing - calls
            taken.add(row)
    return set() if missing else taken


def _calls(action: Action, terms: Terms) -> Counter[str]:
    return Counter() if action.cut else Counter(call_key(c, terms) for c in action.calls)
