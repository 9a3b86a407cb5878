"""How likely is each version the first bad one, after what its samples showed?

The model: versions before the change are bad at one rate, from the change on at another, or all at
one; no rate is known, each has Jeffreys' prior Beta(½, ½). That nothing changed is one of the
answers, so that noise is not taken for a culprit however long one looks. Counts may be fractions
(an expected outcome). The method is that of Bayesian change points; asking next where the expected
entropy of the posterior is least makes it a noisy bisection.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

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
    side = slice(0, at) if version < at else slice(at, None)
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
