"""At which step did it go wrong? One question a step, of as few steps as the detector allows.

A detector whose answer, once bad, stays bad may be asked by halves: both ends first (without a good
and a bad one there is no boundary), then the middle of what is left, then a few steps far from the
boundary, which must agree with it. Where they do not, the order was no order, the search says so
and asks every step. Any other detector is asked every step to begin with. Like `search` it is a
generator of wishes and asks nobody: the same answers lead it the same way.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

Bad: TypeAlias = bool | None
"""Has it gone wrong by this step? None where that cannot be known (censored)."""

Status: TypeAlias = Literal["found", "none", "non-monotone", "censored", "budget"]
"""`none`: it is bad at no step that was asked. `non-monotone`: a detector that was to stay bad did
not, and every step was asked. `censored`: no step gave an answer. `budget`: the questions ran
out."""

SPOTS = 3
"""The most steps that are asked far from the boundary, to see that it is one."""


class Located(Struct, frozen=True, kw_only=True):
    """What the questions came to.

    `first_bad` is the first step known to be bad, None where none is. `among` are the steps that
    may be the first bad one: itself, and those just before it that gave no answer. `answers` are in
    step order; `scanned` tells that every step was evaluated.
    """

    status: Status
    first_bad: int | None
    among: tuple[int, ...]
    answers: tuple[tuple[int, Bad], ...]
    scanned: bool


Asking: TypeAlias = Generator[int, Bad, Located]


def locate(steps: Sequence[int], *, monotone: bool, max_steps: int | None = None) -> Asking:
    """Find the first bad of these steps (ascending). Yields a step to ask, is sent its answer.

    At most `max_steps` steps are asked, None for all that it takes.
    """
    under_way = _Locating(steps, max_steps)
    try:
        located = yield from under_way.by_halves() if monotone else under_way.all()
    except _Spent:
        located = under_way.located("budget")
    return located


class _Spent(Exception):
    """The questions ran out."""


class _Locating:
    """The answers so far, by the place of their step."""

    def __init__(self, steps: Sequence[int], max_steps: int | None) -> None:
        self._steps = tuple(steps)
        self._max_steps = len(self._steps) if max_steps is None else max_steps
        self._known: dict[int, Bad] = {}

    # --- the two ways

    def all(self) -> Asking:
        yield from self._ask(range(len(self._steps)))
        return self.located("found")

    def by_halves(self) -> Asking:
        good = yield from self._end(range(len(self._steps)), bad=False)
        bad = yield from self._end(reversed(range(len(self._steps))), bad=True)
        if good is not None and bad is not None and good < bad:
            while (middle := self._middle(good, bad)) is not None:
                yield from self._ask([middle])
                if self._known[middle] is not None:
                    good, bad = (good, middle) if self._known[middle] else (middle, bad)
        yield from self._ask(self._far(bad))
        if not self._is_boundary():
            yield from self._ask(range(len(self._steps)))
            return self.located("non-monotone")
        return self.located("found")

    # --- asking

    def _ask(self, places: Iterable[int]) -> Generator[int, Bad, None]:
        for place in places:
            if place in self._known:
                continue
            if len(self._known) >= self._max_steps:
                raise _Spent
            self._known[place] = yield self._steps[place]

    def _end(self, inwards: Iterable[int], *, bad: bool) -> Generator[int, Bad, int | None]:
        """The outermost place with an answer, None where it is not the one an end should have."""
        for place in inwards:
            yield from self._ask([place])
            if self._known[place] is not None:
                return place if self._known[place] is bad else None
        return None

    def _middle(self, good: int, bad: int) -> int | None:
        """The place nearest the middle between the two that nobody was asked at."""
        middle = (good + bad) / 2
        open_ = [place for place in range(good + 1, bad) if place not in self._known]
        return min(open_, key=lambda place: (abs(place - middle), place), default=None)

    def _far(self, boundary: int | None) -> list[int]:
        """Up to three places that were not asked, far from the boundary and from each other."""
        last = len(self._steps) - 1
        at = boundary if boundary is not None else last
        wider = at // 4 if at > last - at else (at + 3 * last) // 4
        spots = dict.fromkeys((at // 2, (at + last) // 2, wider))
        return [spot for spot in spots if spot not in self._known][:SPOTS] if last > 0 else []

    # --- what is known

    def _is_boundary(self) -> bool:
        """Does no good answer follow a bad one?"""
        known = [bad for _, bad in sorted(self._known.items()) if bad is not None]
        return known == sorted(known)

    def located(self, status: Status) -> Located:
        """The answers as they are; `found` becomes what they allow to say."""
        places = sorted(self._known)
        known = [place for place in places if self._known[place] is not None]
        first = next((place for place in known if self._known[place]), None)
        if status == "found":
            status = "found" if first is not None else "none" if known else "censored"
        return Located(
            status=status,
            first_bad=None if first is None else self._steps[first],
            among=() if first is None else self._among(first),
            answers=tuple((self._steps[place], self._known[place]) for place in places),
            scanned=len(places) == len(self._steps),
        )

    def _among(self, first: int) -> tuple[int, ...]:
        """The first known bad step and those before it, back to one that is known to be good."""
        low = first
        while low > 0 and self._known.get(low - 1) is None:
            low -= 1
        return self._steps[low : first + 1]
