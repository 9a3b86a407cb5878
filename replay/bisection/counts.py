"""What do the samples so far say of the versions? Their counts, and what may be read off them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from replay.bisection.change_point import Tally, log_beta, posterior
from replay.bisection.result import Found, Seen, Status
from replay.bisection.rounds import Outcome, Wish
from replay.statistics import greater_probability

RETRIES = 2
"""Further samples of a version whose first could not be judged, before it is left out."""


class Counts:
    """The samples of so many versions, the oldest first. `samples` and `rounds` count them all."""

    def __init__(self, versions: int) -> None:
        self.versions = range(versions)
        self.last = versions - 1
        self.tally = Tally(versions)
        self.samples = 0
        self.rounds = 0
        self._censored = [0] * versions
        self._taken = [0] * versions

    def wish(self, version: int) -> Wish:
        """The next sample of a version that nobody has asked for."""
        self._taken[version] += 1
        return Wish(version, self._taken[version] - 1)

    def add(self, wishes: Sequence[Wish], outcomes: Sequence[Outcome]) -> None:
        """A round that was answered."""
        self.samples += len(wishes)
        self.rounds += 1
        for wish, bad in zip(wishes, outcomes, strict=True):
            if bad is None:
                self._censored[wish.version] += 1
            else:
                self.tally.add(wish.version, float(bad))

    # --- what is known

    def mute(self) -> set[int]:
        """Versions that gave nothing to judge, though asked again."""
        return {
            version
            for version, censored in enumerate(self._censored)
            if censored > RETRIES and not self.tally.n[version]
        }

    def likely_worse(self, better: int, worse: int) -> float:
        """How likely `worse` fails more often, by the samples of these two alone."""
        bad, n = self.tally.bad, self.tally.n
        return greater_probability(
            round(bad[worse]), round(n[worse]), round(bad[better]), round(n[better])
        )

    def among(self, likely: Sequence[float]) -> tuple[int, ...]:
        """The likeliest first bad version and those no sample can tell from it."""
        best = max(range(1, len(likely)), key=lambda at: likely[at])
        mute = self.mute()
        low = high = best
        while low - 1 in mute and low > 1:
            low -= 1
        while high in mute and high < self.last:
            high += 1
        return tuple(range(low, high + 1))

    def boundary(self) -> int:
        """The likeliest first bad version, the first of those no sample can tell from it."""
        return self.among(posterior(self.tally))[0]

    def worse(self) -> bool:
        """Are the versions after the likeliest change the worse ones?"""
        boundary = self.boundary()
        before = self._side(range(boundary))
        after = self._side(range(boundary, self.last + 1))
        return after[0] * before[1] > before[0] * after[1]

    def misfit(self, version: int, boundary: int) -> float:
        """How many times likelier a version's samples are under a rate of their own."""
        low, high = (0, boundary) if version < boundary else (boundary, self.last + 1)
        bad, n = self.tally.bad[version], self.tally.n[version]
        others = self._side(v for v in range(low, high) if v != version)
        if not n or not others[1]:
            return 0.0
        apart = log_beta(bad, n) + log_beta(*others) - log_beta(0, 0)
        return math.exp(apart - log_beta(bad + others[0], n + others[1]))

    def _side(self, versions: Iterable[int]) -> tuple[float, float]:
        """(bad, n) of these versions together."""
        tally, versions = self.tally, tuple(versions)
        return sum(tally.bad[v] for v in versions), sum(tally.n[v] for v in versions)

    def found(
        self,
        status: Status,
        *,
        samples: int | None = None,
        verified: bool | None = None,
        misfits: tuple[int, ...] = (),
    ) -> Found:
        """What a search came to; `samples` of them were the search's, the rest its checks'."""
        likely = posterior(self.tally)
        among = self.among(likely) if status in ("found", "budget") else ()
        searched = self.samples if samples is None else samples
        counts = zip(self.tally.bad, self.tally.n, self._censored, strict=True)
        return Found(
            status=status,
            first_bad=max(among, key=lambda c: likely[c]) if among else None,
            among=among,
            confidence=math.fsum(likely[c] for c in among),
            likely=tuple(likely),
            worse=self.likely_worse(0, self.last),
            seen=tuple(Seen(bad=round(bad), n=round(n), censored=lost) for bad, n, lost in counts),
            samples=searched,
            more=self.samples - searched,
            rounds=self.rounds,
            verified=verified,
            misfits=misfits,
        )
