"""How likely is each version the first bad one, after what its samples showed?

The model: versions before the change are bad at one rate, from the change on at another, or all at
one; no rate is known, each has Jeffreys' prior Beta(½, ½). That nothing changed is one of the
answers, so that noise is not taken for a culprit however long one looks. Counts may be fractions
(an expected outcome). The method is that of Bayesian change points; asking next where the expected
entropy of the posterior is least makes it a noisy bisection.

`Counts` holds the samples so far and reads the model off them. `is_majority` is the same question
for a single version: of one sample or two, their own word where they agree, which is a look. Of
more, yes where the share of met ones is above a bound with a probability of .95, no where it is
below with as much, and else nobody can tell; for the bound of a half three of three are enough,
seven of eight, and fourteen of twenty.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from replay.bisection.rounds import SURE, Found, Outcome, SampleRequest, Seen, Status
from replay.statistics import greater_probability

PRIOR = 0.5

NO_CHANGE = 0.1
"""How likely it is beforehand that nothing changed: whoever looks has seen a failure, once.
Measured over 300 searches of 16 versions of one rate: a culprit is named in none or one of them at
a rate of .1, in 8 at .5, and after the checks of `search` in none. At .2 a search among versions
that do differ takes a half to two answers more, and is as often right."""


class Tally:
    """What the samples of each version showed: how many were bad, of how many."""

    def __init__(self, versions: int) -> None:
        self.bad = [0.0] * versions
        self.n = [0.0] * versions

    def copy(self) -> Tally:
        other = Tally(0)
        other.bad, other.n = list(self.bad), list(self.n)
        return other

    def add(self, version: int, bad: float, n: float = 1.0) -> None:
        self.bad[version] += bad
        self.n[version] += n

    def __add__(self, other: Tally) -> Tally:
        whole = self.copy()
        for version, (bad, n) in enumerate(zip(other.bad, other.n, strict=True)):
            whole.add(version, bad, n)
        return whole

    def __len__(self) -> int:
        return len(self.n)


def posterior(tally: Tally) -> list[float]:
    """How likely each version is the first bad one; item 0 that nothing changed at all.

    Version 0 is before the change by definition. The other places are equally likely beforehand.
    """
    versions = len(tally)
    bad, n = sum(tally.bad), sum(tally.n)
    odds = NO_CHANGE / (1 - NO_CHANGE) * (versions - 1)
    logs = [math.log(odds) + log_beta(bad, n) + log_beta(0.0, 0.0)]
    for bad_before, n_before in _before(tally):
        logs.append(log_beta(bad_before, n_before) + log_beta(bad - bad_before, n - n_before))
    top = max(logs)
    weights = [math.exp(each - top) for each in logs]
    whole = math.fsum(weights)
    return [weight / whole for weight in weights]


def _before(tally: Tally) -> Iterator[tuple[float, float]]:
    """(bad, n) of all versions before each place of the change, from place 1 on."""
    bad = n = 0.0
    for version in range(len(tally) - 1):
        bad += tally.bad[version]
        n += tally.n[version]
        yield bad, n


def log_beta(bad: float, n: float) -> float:
    """The log of B(½ + bad, ½ + good): how likely such counts are under an unknown rate, but for
    a constant."""
    good = n - bad
    return math.lgamma(PRIOR + bad) + math.lgamma(PRIOR + good) - math.lgamma(2 * PRIOR + n)


def next_versions(
    tally: Tally, many: int, apart: Collection[int] = (), enough: float = 1.0
) -> list[int]:
    """Which versions to sample next, `many` at once, without those `apart`.

    Each is the one whose answer is expected to leave the least entropy; the next is picked as if
    it had given its expected answer, and none where one place of the change is then `enough`.
    """
    believed = tally.copy()
    picked = []
    for _ in range(many):
        choice = _best(believed, apart)
        if choice is None:
            break
        version, share = choice
        believed.add(version, share)
        picked.append(version)
        if max(posterior(believed)[1:]) >= enough:
            break
    return picked


def _best(tally: Tally, apart: Collection[int]) -> tuple[int, float] | None:
    """The version to ask, and how likely its answer is bad."""
    likely, rates = posterior(tally), _rates(tally)
    bad = Split(likely, rates)
    good = Split(likely, [Rates(1 - rate.before, 1 - rate.after) for rate in rates])
    found: tuple[float, int] | None = None
    for version in range(len(tally)):
        if version in apart:
            continue
        entropy = bad.entropy(version) + good.entropy(version)
        if found is None or entropy < found[0] - 1e-12:
            found = entropy, version
    return None if found is None else (found[1], bad.weight(found[1]))


class Rates(NamedTuple):
    """The expected share of bad answers before and after a place of the change."""

    before: float
    after: float


def _rates(tally: Tally) -> list[Rates]:
    """Of each place; without a change, both are the rate of all."""
    bad, n = sum(tally.bad), sum(tally.n)
    same = _rate(bad, n)
    split = (
        Rates(_rate(bad_before, n_before), _rate(bad - bad_before, n - n_before))
        for bad_before, n_before in _before(tally)
    )
    return [Rates(same, same), *split]


def expected(tally: Tally, boundary: int | None, version: int) -> float:
    """How likely a sample of the version is bad, by what its side of the boundary showed."""
    at = len(tally) if boundary is None else boundary
    side = slice(at) if version < at else slice(at, None)
    return _rate(sum(tally.bad[side]), sum(tally.n[side]))


def _rate(bad: float, n: float) -> float:
    return (PRIOR + bad) / (2 * PRIOR + n)


class Split:
    """One outcome of one more sample, for every version it might be of, in one pass.

    A sample of version v lies after the change where the change is at v or before, else before it.
    """

    def __init__(self, likely: Sequence[float], rates: Sequence[Rates]) -> None:
        weighed = list(zip(likely, rates, strict=True))
        after = [place * rate.after for place, rate in weighed]
        before = [place * rate.before for place, rate in weighed[1:]]
        self._after, self._after_logs = _running(after), _running(map(_x_log_x, after))
        self._before, self._before_logs = _running(before), _running(map(_x_log_x, before))

    def weight(self, version: int) -> float:
        """How likely a sample of the version has this outcome."""
        return self._at(version, self._after, self._before)

    def entropy(self, version: int) -> float:
        """The entropy of the posterior after it, times its weight."""
        whole = self.weight(version)
        return _x_log_x(whole) - self._at(version, self._after_logs, self._before_logs)

    @staticmethod
    def _at(version: int, after: Sequence[float], before: Sequence[float]) -> float:
        return after[version + 1] + before[-1] - before[version]


def _running(values: Iterable[float]) -> list[float]:
    return list(accumulate(values, initial=0.0))


def _x_log_x(x: float) -> float:
    return x * math.log(x) if x > 0.0 else 0.0


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
        before, every = self._side(range(boundary)), self._side(self.versions)
        # all are worse than those before just where those after are
        return every[0] * before[1] > before[0] * every[1]

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


LOOK = 2
"""So many samples, or fewer, are a look."""

HALF = 0.5

_CELLS = 512


def is_majority(met: int, n: int, bound: float = HALF) -> bool | None:
    """Is it met, by `met` of `n` samples? None where they leave it open, or there are none."""
    if n <= LOOK:
        return None if not n or 0 < met < n else met == n
    likely = over(met, n, bound)
    return True if likely >= SURE else False if likely <= 1 - SURE else None


def over(met: int, n: int, bound: float = HALF) -> float:
    """How likely the rate is above a bound between 0 and 1.

    With x = sin²φ the density of Beta(met + ½, n − met + ½) becomes sin^2met φ · cos^2(n − met) φ,
    which is smooth: it is summed on a grid in φ.
    """
    width = math.pi / 2 / _CELLS
    edge = math.asin(math.sqrt(bound)) / width
    above = whole = 0.0
    for cell in range(_CELLS):
        at = (cell + 0.5) * width
        weight = math.exp(2 * met * math.log(math.sin(at)) + 2 * (n - met) * math.log(math.cos(at)))
        whole += weight
        above += weight * min(1.0, max(0.0, cell + 1 - edge))
    return above / whole
