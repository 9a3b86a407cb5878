"""Is the boundary that a search found the only one? How likely a history is to have others.

The model: a history of one change, or of three, which are taken for equally likely beforehand: it
broke, was mended and broke again, each such history as likely as another. Against a boundary that
was found, the second kind is a stretch of versions away from it that lies on the other side; how
much likelier that makes the samples is the ratio of `change_point`'s likelihoods, so that here
too no rate is known. Where nothing seems to have changed, it is a stretch of a rate of its own
(it broke and was mended). The ends are what the search is about, and lie in no such stretch.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from replay.bisection.change_point import Tally, expected, log_beta

SEVERAL = 0.99
"""The boundary is one of several where others are so likely."""

SUSPECT = 0.5
"""From here on a stretch is looked into though the ends do not differ."""

MISFIT = 20.0
"""How many times likelier a version's samples must be on the other side to be named for it."""


_CERTAIN = 600.0
"""The log of a ratio that is as good as any greater one, and still a number."""


class Others(NamedTuple):
    """The `odds` of other boundaries; `apart`, by version, how likely it lies in the stretch
    between them, if there is one; the versions that one boundary does not explain."""

    odds: float = 0.0
    apart: Sequence[float] = ()
    misfits: tuple[int, ...] = ()

    @property
    def likely(self) -> float:
        """How likely there are others."""
        return self.odds / (1 + self.odds)


def others(tally: Tally, boundary: int | None, mute: Collection[int] = ()) -> Others:
    """Other boundaries beside `boundary`, the first bad version; None where nothing changed.

    `mute` versions gave nothing to judge and are passed over.
    """
    told = [version for version in range(len(tally)) if version not in mute]
    place = len(told) if boundary is None else sum(version < boundary for version in told)
    running = _Running([(tally.bad[version], tally.n[version]) for version in told])
    ratios, changes, misfits = 0.0, [0.0] * (len(told) + 1), set[int]()
    for first, end, ratio in running.stretches(place):
        ratios += ratio
        changes[first] += ratio
        changes[end] -= ratio
        if end == first + 1 and ratio > MISFIT:
            misfits.add(told[first])
    apart = [0.0] * len(tally)
    for version, share in zip(told, accumulate(changes), strict=False):
        apart[version] = share / ratios if ratios else 0.0
        if apart[version] > SUSPECT:
            misfits.add(version)
    odds = ratios / _histories(len(told), found=boundary is not None)
    return Others(odds, apart, tuple(sorted(misfits)))


def far(
    tally: Tally, boundary: int | None, many: int, mute: Collection[int], enough: float
) -> list[int]:
    """Versions to sample next, `many` at once: each the likeliest to lie on another side, if the
    ones before gave what is expected; fewer where that would leave others at most `enough` likely.
    """
    believed = tally.copy()
    picked: list[int] = []
    while len(picked) < many:
        found = others(believed, boundary, mute)
        version = max(range(len(tally)), key=lambda each: found.apart[each])
        if (picked and found.likely <= enough) or not found.apart[version]:
            break
        picked.append(version)
        believed.add(version, expected(believed, boundary, version))
    return picked


class _Running:
    """(bad, n) of the versions before each, to add up any stretch at once."""

    def __init__(self, counts: Sequence[tuple[float, float]]) -> None:
        self._bad = list(accumulate((bad for bad, _ in counts), initial=0.0))
        self._n = list(accumulate((n for _, n in counts), initial=0.0))

    def stretches(self, boundary: int) -> Iterator[tuple[int, int, float]]:
        """Each stretch away from the boundary and the ends (first, end), and how much likelier the
        samples are if it lies on the other side."""
        last = len(self._n) - 1
        before = (self._bad[boundary], self._n[boundary])
        after = (self._bad[last] - before[0], self._n[last] - before[1])
        yield from self._within(1, boundary - 1, before, after)
        yield from self._within(boundary + 1, last - 1, after, before)

    def _within(
        self, start: int, end: int, own: tuple[float, float], other: tuple[float, float]
    ) -> Iterator[tuple[int, int, float]]:
        known = {(0.0, 0.0): 1.0}
        whole = log_beta(*own) + log_beta(*other)
        for first in range(start, end):
            for past in range(first + 1, end + 1):
                bad, n = self._bad[past] - self._bad[first], self._n[past] - self._n[first]
                ratio = known.get((bad, n))
                if ratio is None:
                    left = log_beta(own[0] - bad, own[1] - n)
                    moved = left + log_beta(other[0] + bad, other[1] + n)
                    known[bad, n] = ratio = math.exp(min(moved - whole, _CERTAIN))
                yield first, past, ratio


def _histories(versions: int, *, found: bool) -> float:
    """How many histories with further boundaries there are, for each with this one; for none."""
    if found:  # three places of all, of which each single one stands for as many
        return max(1.0, (versions - 2) * (versions - 3) / 6)
    return max(1.0, (versions - 1) * (versions - 2) / 2)
