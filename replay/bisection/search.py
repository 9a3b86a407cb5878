"""Which samples are wanted next, and when is enough known?

First both ends, once: without them nothing can be known. Then the samples that tell most, until one
place of the change is likely; that nothing changed is one of the answers, and where it may be, the
ends are sampled until they differ or do not. Then fresh samples of both sides of the boundary must
say the same, and samples far from it that there is no other. They count for the place too, which in
the end is as likely as was asked for. The search is a generator of wishes and never asks anybody:
the same answers lead it the same way, so one that was killed and is begun again wants what it
wanted before.

Is the boundary that was found the only one (`others`)? The model: a history of one change, or of
three, which are taken for equally likely beforehand: it broke, was mended and broke again, each
such history as likely as another. Against a boundary that was found, the second kind is a stretch
of versions away from it that lies on the other side; how much likelier that makes the samples is
the ratio of `change_point`'s likelihoods, so that here too no rate is known. Where nothing seems to
have changed, it is a stretch of a rate of its own (it broke and was mended). The ends are what the
search is about, and lie in no such stretch.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from replay.bisection.change_point import (
    RETRIES,
    Counts,
    Tally,
    expected,
    log_beta,
    next_versions,
    posterior,
)
from replay.bisection.rounds import (
    ALONE,
    CHECKS,
    USUAL,
    Found,
    Outcome,
    Round,
    Seen,
    Settings,
    Spent,
    Status,
    Steps,
    Why,
)

SIDES = (6, 12, 20)
"""Samples of each of two versions that are held against each other: at first, and where that leaves
it open whether they differ."""

AGAIN = (2, 3, 4, 6, 8, 12, 16, 20)
"""The same for the two sides of a boundary that seems to be there."""


class Asking:
    """Rounds of samples under some settings; what they show goes to `counts`."""

    def __init__(self, counts: Counts, settings: Settings) -> None:
        self.counts = counts
        self.settings = settings

    def is_confident(self, shares: Iterable[float]) -> bool:
        """Are these shares of what is likely enough together?"""
        return math.fsum(shares) >= self.settings.confidence

    def ask(self, why: Why, versions: Sequence[int]) -> Steps:
        """One round: a fresh sample of each. Raises Spent where none is left to ask for."""
        left = min(len(versions), self.settings.max_samples - self.counts.samples)
        if left <= 0:
            raise Spent
        wishes = tuple(self.counts.next_sample(version) for version in versions[:left])
        outcomes = yield Round(why=why, wishes=wishes)
        self.counts.add(wishes, outcomes, check=why in CHECKS)

    def fill(self, why: Why, versions: Iterable[int], level: int) -> Steps:
        """Bring each version to `level` judged samples; of those that cannot be judged, a few more
        are asked for."""
        wanted, again, tally = tuple(versions), RETRIES, self.counts.tally
        while again >= 0:
            lacking = [
                version for version in wanted for _ in range(level - round(tally.n[version]))
            ]
            if not lacking:
                return
            yield from self.ask(why, lacking)
            again -= 1

    def separate(
        self, why: Why, better: int, worse: int, levels: Sequence[int]
    ) -> Generator[Round, Sequence[Outcome], float]:
        """How likely `worse` is the worse one, both sampled until that is plain."""
        for level in levels:
            yield from self.fill(why, (better, worse), level)
            likely = self.counts.likely_worse(better, worse)
            if self.is_confident([likely]) or self.is_confident([1 - likely]):
                break
        return likely


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
    judged = [version for version in range(len(tally)) if version not in mute]
    place = len(judged) if boundary is None else sum(version < boundary for version in judged)
    running = _Running([(tally.bad[version], tally.n[version]) for version in judged])
    ratios, changes, misfits = 0.0, [0.0] * (len(judged) + 1), set[int]()
    for first, end, ratio in running.stretches(place):
        ratios += ratio
        changes[first] += ratio
        changes[end] -= ratio
        if end == first + 1 and ratio > MISFIT:
            misfits.add(judged[first])
    apart = [0.0] * len(tally)
    for version, share in zip(judged, accumulate(changes[:-1]), strict=True):
        apart[version] = share / ratios if ratios else 0.0
        if apart[version] > SUSPECT:
            misfits.add(version)
    odds = ratios / _histories(len(judged), found=boundary is not None)
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


PATIENCE = 40
"""Samples after which the ends are asked whether anything changed at all, where that is open."""

SMALL, ALIKE = 6, 3
"""With so few versions all get so many samples to begin with."""

ROUGH = 0.8
"""How likely a place of the change is when it is checked. What the checks ask makes it likelier
still, so that more beforehand would be asked for twice."""

ALL = 6
"""Samples of every version, where one change does not explain them."""

Searching: TypeAlias = Generator[Round, Sequence[Outcome], Found]
Ended: TypeAlias = Literal["found", "no change", "reversed"]


def search(versions: int, settings: Settings = USUAL) -> Searching:
    """Find the first bad of so many versions (2 and more), the oldest first.

    Yields the samples wanted next and is sent their outcomes, in their order. Thrown `Spent`, it
    ends with what it knows by then.
    """
    return (yield from _Search(versions, settings).found())


class _Again(NamedTuple):
    """What fresh samples of both sides of the boundary of `among` showed."""

    among: tuple[int, ...]
    seen: tuple[Seen, Seen]
    confirmed: bool


class _Search:
    """A search under way. It goes on until a place of the change is `enough` likely; `doubted`: the
    ends were not found to differ yet; `looked`: every version was looked at, for there seemed to be
    more than one boundary."""

    def __init__(self, versions: int, settings: Settings) -> None:
        self.counts = Counts(versions)
        self.asking = Asking(self.counts, settings)
        self.confidence, self.check = settings.confidence, settings.check
        self.enough = min(ROUGH, self.confidence) if self.check else self.confidence
        self.doubted = True
        self.again: _Again | None = None
        self.beside = Others()
        self.looked = False

    def found(self) -> Searching:
        try:
            status = yield from self._status()
        except Spent:
            status = "found" if self.counts.confidence() >= self.confidence else "budget"
        if status == "found" or (status == "budget" and self.looked):
            self.beside = self._others("found")
            status = "non-monotone" if self.beside.likely >= SEVERAL else status
        among, again = self.counts.named(), self._asked_again()
        if status == "non-monotone" and not (again and again.confirmed):
            among, again = (), None
        return self.counts.found(
            status,
            among if status in ("found", "non-monotone", "budget") else (),
            again=again.seen if again else None,
            verified=again.confirmed if again else None,
            several=self.beside.likely if status in ("found", "non-monotone") else None,
            misfits=self.beside.misfits if status == "non-monotone" else (),
        )

    def _status(self) -> Generator[Round, Sequence[Outcome], Status]:
        """Narrow it down, ask again, look elsewhere; and on from there, where that moves it."""
        counts, asking = self.counts, self.asking
        few = counts.last < SMALL
        ends = counts.versions if few else (0, counts.last)
        yield from asking.fill("ends", ends, ALIKE if few else 1)
        if {0, counts.last} & counts.mute():
            return "censored"
        while True:
            status = yield from self._narrowed()
            if status == "reversed" or not self.check:
                return status
            again = self._asked_again()
            if status == "found" and (again is None or not again.confirmed):
                if again is None:
                    yield from self._ask_again()
                elif self.enough >= self.confidence:
                    return status
                else:
                    self.enough, self.again = self.confidence, None
                continue
            self.beside = self._others(status)
            if self.beside.likely >= SEVERAL:
                if self.looked:
                    return "non-monotone"
                self.looked = True
                yield from asking.fill("all", counts.usable(), ALL)
            elif spots := self._spots(status):
                yield from asking.ask("far from it", spots)
            elif status == "no change" or counts.confidence() >= self.confidence:
                return status
            else:
                self.enough = self.confidence

    def _narrowed(self) -> Generator[Round, Sequence[Outcome], Ended]:
        """Sample until one place is likely enough, or plainly none is."""
        counts, asking, last = self.counts, self.asking, self.counts.last
        while True:
            likely = posterior(counts.tally)
            share = counts.confidence()
            if share >= self.enough and (counts.worse() or share >= self.confidence):
                return "found" if counts.worse() else "reversed"
            if asking.is_confident(likely[:1]) and not self.doubted:
                return "no change"
            if self.doubted and self._may_be_alike(likely[0]):
                worse = yield from asking.separate("any change?", 0, last, SIDES)
                if not asking.is_confident([worse]) and not asking.is_confident([1 - worse]):
                    return "no change"
                self.doubted = False
            many, mute = asking.settings.at_once, counts.mute()
            versions = next_versions(counts.tally, many, mute, self.enough)
            yield from asking.ask("tells most", versions)

    def _may_be_alike(self, unchanged: float) -> bool:
        """Is it time to ask the ends whether there is anything to find? They are alike where
        nothing changed, and where it broke and was mended."""
        if self.counts.samples < PATIENCE:
            return self.asking.is_confident([unchanged])
        alike = unchanged * (1 + self._others("no change").odds)
        return alike / (alike + 1 - unchanged) > 1 - self.confidence

    # --- the checks

    def _asked_again(self) -> _Again | None:
        """What both sides of the boundary showed when they were asked again, if they were."""
        again = self.again
        return again if again is not None and again.among == self.counts.named() else None

    def _ask_again(self) -> Steps:
        """Do fresh samples of both sides say that the change is there?"""
        counts = self.counts
        among = counts.named()
        before, after = min(among) - 1, max(among)
        kept, counts.tally = counts.tally, Tally(len(counts.versions))
        try:
            worse = yield from self.asking.separate("fresh", before, after, AGAIN)
        finally:
            fresh, counts.tally = counts.tally, kept + counts.tally
        seen = (counts.seen(fresh)[before], counts.seen(fresh)[after])
        self.again = _Again(among, seen, self.asking.is_confident([worse]))

    def _others(self, status: Status) -> Others:
        """How likely there are other boundaries beside the one that is likeliest."""
        boundary = None if status == "no change" else min(self.counts.named())
        return others(self.counts.tally, boundary, self.counts.mute())

    def _spots(self, status: Status) -> list[int]:
        """The versions to sample next, far from the boundary; none where nothing is open there."""
        enough = ALONE if status == "found" else SUSPECT
        if self.beside.likely <= enough:
            return []
        boundary = None if status == "no change" else min(self.counts.named())
        many, mute = self.asking.settings.at_once, self.counts.mute()
        return far(self.counts.tally, boundary, many, mute, enough)
