"""Which samples are wanted next, and when is enough known?

First both ends, once: without them nothing can be told. Then the samples that tell most, until one
place of the change is likely enough; that nothing changed is one of the answers, and where it may
be, the ends are sampled until they differ or do not. Then two checks that can take the answer back:
a few samples far from the boundary, which one change must explain too, and fresh samples of both
neighbours. The search is a generator of wishes and never asks anybody: the same answers lead it the
same way, so one that was killed and is begun again wants what it wanted before.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from replay.bisection.change_point import Tally, log_beta, next_versions, posterior
from replay.bisection.result import Found, Seen, Status
from replay.statistics import greater_probability

SURE = 0.95
PATIENCE = 40
"""Samples after which the ends are asked whether anything changed at all, where that is open."""

SIDES = (6, 12, 20)
"""Samples of each of two versions that are held against each other: at first, and where that leaves
it open whether they differ."""

SMALL, ALIKE = 6, 3
"""With so few versions all get so many samples to begin with."""

SPOTS = (3, 8)
"""Samples of a version far from the boundary, and of one that does not seem to fit."""

SUSPECT, MISFIT = 10.0, 20.0
"""How many times likelier a version's samples must be under a rate of their own than under that of
their side, to be sampled more and to be called a misfit."""

RETRIES = 2
"""Further samples of a version whose first could not be judged, before it is left out."""


class Wish(NamedTuple):
    """A sample that is wanted: the `sample`-th of a version, counted from 0."""

    version: int
    sample: int


Outcome: TypeAlias = bool | None
"""Was the sample bad? None where that cannot be told (censored)."""

Why: TypeAlias = Literal["ends", "tells most", "any change?", "far from it", "all", "fresh"]
"""What a round of samples is for. `ends`: without both nothing can be told. `tells most`: they are
expected to leave the least open. `any change?`: do the ends differ at all? `far from it`: one
change must explain them too. `all`: it does not, so every version is looked at. `fresh`: do new
samples of both neighbours say the same?"""


class Round(Struct, frozen=True, kw_only=True):
    """The samples that are wanted next, and what for."""

    why: Why
    wishes: tuple[Wish, ...]


Steps: TypeAlias = Generator[Round, Sequence[Outcome]]


class Settings(Struct, frozen=True, kw_only=True):
    """`most` samples before a search gives up, `at_once` in one round, `sure` the confidence."""

    most: int = 500
    at_once: int = 4
    sure: float = SURE
    check: bool = True


USUAL = Settings()


def search(versions: int, settings: Settings = USUAL) -> Generator[Round, Sequence[Outcome], Found]:
    """Find the first bad of so many versions (2 and more), the oldest first.

    Yields the samples wanted next and is sent their outcomes, in their order. Thrown `Spent`, it
    ends with what it knows by then.
    """
    under_way = _Search(versions, settings)
    found = yield from under_way.run()
    return found


class Spent(Exception):
    """The samples ran out, or whoever asks may ask no more."""


class _Search:
    def __init__(self, versions: int, settings: Settings) -> None:
        self._settings = settings
        self._last = versions - 1
        self._tally = Tally(versions)
        self._censored = [0] * versions
        self._taken = [0] * versions
        self._samples = 0
        self._rounds = 0

    def run(self) -> Generator[Round, Sequence[Outcome], Found]:
        try:
            status = yield from self._narrow()
        except Spent:
            status = "budget"
        found = self._found(status)
        if status not in {"found", "no change"} or not self._settings.check:
            return found
        try:
            return (yield from self._checked(found))
        except Spent:
            return self._found(status, samples=found.samples)

    # --- the parts

    def _narrow(self) -> Generator[Round, Sequence[Outcome], Status]:
        """Sample until one place is likely enough, or plainly none is."""
        few = self._last < SMALL
        yield from self._fill(
            "ends", range(self._last + 1) if few else (0, self._last), ALIKE if few else 1
        )
        if {0, self._last} & self._mute():
            return "censored"
        doubted = True
        while True:
            likely = posterior(self._tally)
            if self._sure(likely[c] for c in self._among(likely)):
                return "found" if self._worse() else "reversed"
            if self._sure(likely[:1]) and not doubted:
                return "no change"
            if doubted and self._may_be_unchanged(likely[0]):
                worse = yield from self._separate("any change?", 0, self._last)
                if not self._sure([worse]) and not self._sure([1 - worse]):
                    return "no change"
                doubted = False
            versions = next_versions(self._tally, self._settings.at_once, self._mute())
            yield from self._ask("tells most", versions)

    def _checked(self, found: Found) -> Generator[Round, Sequence[Outcome], Found]:
        misfits = yield from self._misfits(found)
        if misfits:
            yield from self._fill("all", range(self._last + 1), SIDES[0])
            return self._found("non-monotone", samples=found.samples, misfits=misfits)
        if found.status == "no change":
            return self._found("no change", samples=found.samples)
        verified = yield from self._verified(found)
        return self._found("found", samples=found.samples, verified=verified)

    def _misfits(self, found: Found) -> Generator[Round, Sequence[Outcome], tuple[int, ...]]:
        """Versions whose samples one change, or none, does not explain, after looking again."""
        boundary = found.first_bad or 0
        mute = self._mute()
        spots = [v for v in _far(boundary, self._last) if v not in mute] if boundary else []
        yield from self._fill("far from it", spots, SPOTS[0])
        suspects = [v for v in range(self._last + 1) if self._misfit(v, boundary) > SUSPECT]
        yield from self._fill("far from it", suspects, SPOTS[1])
        return tuple(v for v in suspects if self._misfit(v, boundary) > MISFIT)

    def _verified(self, found: Found) -> Generator[Round, Sequence[Outcome], bool]:
        """Do fresh samples of the neighbours say that the change is there?"""
        kept, self._tally = self._tally, Tally(self._last + 1)
        try:
            worse = yield from self._separate("fresh", min(found.among) - 1, max(found.among))
        finally:
            self._tally = _sum(kept, self._tally)
        return self._sure([worse])

    # --- asking

    def _separate(
        self, why: Why, better: int, worse: int
    ) -> Generator[Round, Sequence[Outcome], float]:
        """How likely `worse` is the worse one, both sampled until that is plain."""
        for level in SIDES:
            yield from self._fill(why, (better, worse), level)
            likely = self._likely_worse(better, worse)
            if self._sure([likely]) or self._sure([1 - likely]):
                break
        return likely

    def _likely_worse(self, better: int, worse: int) -> float:
        bad, n = self._tally.bad, self._tally.n
        return greater_probability(
            round(bad[worse]), round(n[worse]), round(bad[better]), round(n[better])
        )

    def _fill(self, why: Why, versions: Iterable[int], level: int) -> Steps:
        """Bring each version to `level` judged samples; of those that cannot be judged, a few more
        are asked for."""
        wanted, again = tuple(versions), RETRIES
        while again >= 0:
            lacking = [
                version for version in wanted for _ in range(level - round(self._tally.n[version]))
            ]
            if not lacking:
                return
            yield from self._ask(why, lacking)
            again -= 1

    def _ask(self, why: Why, versions: Sequence[int]) -> Steps:
        left = min(len(versions), self._settings.most - self._samples)
        if left <= 0:
            raise Spent
        wishes = []
        for version in versions[:left]:
            wishes.append(Wish(version, self._taken[version]))
            self._taken[version] += 1
        outcomes = yield Round(why=why, wishes=tuple(wishes))
        self._samples += len(wishes)
        self._rounds += 1
        for wish, bad in zip(wishes, outcomes, strict=True):
            if bad is None:
                self._censored[wish.version] += 1
            else:
                self._tally.add(wish.version, float(bad))

    def _mute(self) -> set[int]:
        """Versions that gave nothing to judge, though asked again."""
        return {
            version
            for version, censored in enumerate(self._censored)
            if censored > RETRIES and not self._tally.n[version]
        }

    # --- what is known

    def _sure(self, shares: Iterable[float]) -> bool:
        return math.fsum(shares) >= self._settings.sure

    def _may_be_unchanged(self, unchanged: float) -> bool:
        """Is it time to ask the ends whether there is anything to find?"""
        if self._samples < PATIENCE:
            return self._sure([unchanged])
        return unchanged > 1 - self._settings.sure or self._is_mixed()

    def _is_mixed(self) -> bool:
        """Does a version not fit the likeliest change?"""
        boundary = self._among(posterior(self._tally))[0]
        return any(self._misfit(v, boundary) > MISFIT for v in range(self._last + 1))

    def _among(self, likely: Sequence[float]) -> tuple[int, ...]:
        """The likeliest first bad version and those no sample can tell from it."""
        best = max(range(1, len(likely)), key=lambda at: likely[at])
        mute = self._mute()
        low = high = best
        while low - 1 in mute and low > 1:
            low -= 1
        while high in mute and high < self._last:
            high += 1
        return tuple(range(low, high + 1))

    def _worse(self) -> bool:
        """Are the versions after the likeliest change the worse ones?"""
        boundary = self._among(posterior(self._tally))[0]
        before = self._side(range(boundary))
        after = self._side(range(boundary, self._last + 1))
        return after[0] * before[1] > before[0] * after[1]

    def _side(self, versions: Iterable[int]) -> tuple[float, float]:
        """(bad, n) of these versions together."""
        tally, versions = self._tally, tuple(versions)
        return sum(tally.bad[v] for v in versions), sum(tally.n[v] for v in versions)

    def _misfit(self, version: int, boundary: int) -> float:
        """How many times likelier a version's samples are under a rate of their own."""
        low, high = (0, boundary) if version < boundary else (boundary, self._last + 1)
        bad, n = self._tally.bad[version], self._tally.n[version]
        others = self._side(v for v in range(low, high) if v != version)
        if not n or not others[1]:
            return 0.0
        apart = log_beta(bad, n) + log_beta(*others) - log_beta(0, 0)
        return math.exp(apart - log_beta(bad + others[0], n + others[1]))

    def _found(
        self,
        status: Status,
        *,
        samples: int | None = None,
        verified: bool | None = None,
        misfits: tuple[int, ...] = (),
    ) -> Found:
        likely = posterior(self._tally)
        among = self._among(likely) if status in ("found", "budget") else ()
        searched = self._samples if samples is None else samples
        counts = zip(self._tally.bad, self._tally.n, self._censored, strict=True)
        return Found(
            status=status,
            first_bad=max(among, key=lambda c: likely[c]) if among else None,
            among=among,
            confidence=math.fsum(likely[c] for c in among),
            likely=tuple(likely),
            worse=self._likely_worse(0, self._last),
            seen=tuple(Seen(bad=round(bad), n=round(n), censored=lost) for bad, n, lost in counts),
            samples=searched,
            more=self._samples - searched,
            rounds=self._rounds,
            verified=verified,
            misfits=misfits,
        )


def _far(boundary: int, last: int) -> list[int]:
    """Up to three versions far from the boundary and from the ends."""
    wider = boundary // 4 if boundary > last - boundary else (boundary + 3 * last) // 4
    spots = {boundary // 2, (boundary + last) // 2, wider}
    return sorted(spot for spot in spots if 0 < spot < last and spot != boundary)


def _sum(one: Tally, other: Tally) -> Tally:
    whole = one.copy()
    for version in range(len(other)):
        whole.add(version, other.bad[version], other.n[version])
    return whole
