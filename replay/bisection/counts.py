"""What do the samples so far say of the versions? Their counts, and what may be read off them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from replay.bisection.change_point import Tally, posterior
from replay.bisection.result import Found, Seen, Status
from replay.bisection.rounds import Outcome, SampleRequest
from replay.statistics import greater_probability

RETRIES = 2
"""Further samples of a version whose first could not be judged, before it is left out."""


class Counts:
    """The samples of so many versions, the oldest first. `samples` and `rounds` count them all,
    `checks` the samples that checked what the others found."""

    def __init__(self, versions: int) -> None:
        self.versions = range(versions)
        self.last = versions - 1
        self.tally = Tally(versions)
        self.samples = 0
        self.checks = 0
        self.rounds = 0
        self._censored = [0] * versions
        self._taken = [0] * versions

    def next_sample(self, version: int) -> SampleRequest:
        """The next sample of a version that nobody has asked for."""
        self._taken[version] += 1
        return SampleRequest(version, self._taken[version] - 1)

    def add(
        self, wishes: Sequence[SampleRequest], outcomes: Sequence[Outcome], *, check: bool
    ) -> None:
        """A round that was answered."""
        self.samples += len(wishes)
        self.checks += len(wishes) if check else 0
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

    def named(self) -> tuple[int, ...]:
        """`among`, by all samples so far."""
        return self.among(posterior(self.tally))

    def confidence(self) -> float:
        """How likely the change is among the versions that would be named."""
        likely = posterior(self.tally)
        return math.fsum(likely[c] for c in self.among(likely))

    def usable(self) -> list[int]:
        """The versions that gave something to judge, or were not asked yet."""
        mute = self.mute()
        return [version for version in self.versions if version not in mute]

    def worse(self) -> bool:
        """Are the versions after the likeliest change the worse ones?"""
        boundary = min(self.named())
        before, after = self._side(range(boundary)), self._side(range(boundary, self.last + 1))
        return after[0] * before[1] > before[0] * after[1]

    def _side(self, versions: Iterable[int]) -> tuple[float, float]:
        """(bad, n) of these versions together."""
        tally, versions = self.tally, tuple(versions)
        return sum(tally.bad[v] for v in versions), sum(tally.n[v] for v in versions)

    def seen(self, tally: Tally | None = None) -> tuple[Seen, ...]:
        """The samples by version; of a `tally`, only its own."""
        tally = tally or self.tally
        counts = zip(tally.bad, tally.n, self._censored, strict=True)
        return tuple(Seen(bad=round(bad), n=round(n), censored=lost) for bad, n, lost in counts)

    def found(
        self,
        status: Status,
        among: tuple[int, ...],
        *,
        again: tuple[Seen, Seen] | None,
        verified: bool | None,
        several: float | None,
        misfits: tuple[int, ...],
    ) -> Found:
        """What a search came to."""
        likely = posterior(self.tally)
        return Found(
            status=status,
            first_bad=max(among, key=lambda c: likely[c]) if among else None,
            among=among,
            confidence=math.fsum(likely[c] for c in among),
            likely=tuple(likely),
            worse=self.likely_worse(0, self.last),
            seen=self.seen(),
            samples=self.samples - self.checks,
            more=self.checks,
            rounds=self.rounds,
            verified=verified,
            again=again,
            several=several,
            misfits=misfits,
        )
