"""Does it succeed again, and does it go on succeeding as tasks get longer?

pass@k, pass^k, and how much the first flatters: articles on trajectory metrics (pass^k, after
τ-bench) and on agent evals (pass@k, after the Codex paper). Takes counts: n trials of a task, c of
them passed.

RDC, VAF, GDS, MOP: how success goes down with length, and whether errors persist; article on
reliability in long-horizon tasks. Takes the size of each run's task, and whether the run passed. A
size should be known before the run: a run that gave up is short because it failed, and buckets by
its own steps then say nothing of the task.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.statistics import Rate, rate
from taxonomy.metrics.cost import NOTHING_KNOWN, Money


class Trials(Struct, frozen=True, kw_only=True):
    """The runs of one task in one group: `passed` of the `n` with an outcome, and those without
    one, which are in no rate. `cost` is that of the n; `traces` are all of them, None where only
    counts are known."""

    n: int
    passed: int
    unknown: int = 0
    cost: Money = NOTHING_KNOWN
    traces: tuple[str, ...] | None = None

    @property
    def runs(self) -> int:
        return self.n + self.unknown

    @property
    def share(self) -> float | None:
        """The share that passed, None where no outcome is known."""
        return self.passed / self.n if self.n else None


def pass_at(n: int, c: int, k: int) -> float | None:
    """pass@k: the chance that at least one of k trials passes, 1 − C(n−c, k) / C(n, k).

    Exactly 1 where n − c < k. None where k trials cannot be drawn from n, or the counts are none.
    """
    if not 1 <= k <= n or not 0 <= c <= n:
        return None
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat(n: int, c: int, k: int) -> float | None:
    """pass^k: the chance that all of k trials pass, C(c, k) / C(n, k). None as `pass_at`."""
    if not 1 <= k <= n or not 0 <= c <= n:
        return None
    return math.comb(c, k) / math.comb(n, k)


def if_independent(p: float, k: int) -> float:
    """p^k: what pass^k would be if each trial of each task passed with chance p, unrelated."""
    return p**k


class Repeated(Struct, frozen=True, kw_only=True):
    """pass@k and pass^k, each a mean over tasks.

    `pass_one` is pass@1 of the same tasks, `independent` that to the power of k (with the ends of
    its interval): pass^k if all trials passed with that chance, unrelated. It is less than pass^k
    where tasks differ in how hard they are. `flattery` is pass@k / pass@1 (None where that is 0),
    `left_out` the tasks with fewer than k trials. `trials` are the fewest and the most trials of
    a task that counts, None where none does.
    """

    k: int
    pass_at: Rate
    pass_hat: Rate
    pass_one: Rate
    independent: Rate
    flattery: float | None
    left_out: int
    trials: tuple[int, int] | None


def over_tasks(counts: Sequence[tuple[int, int]], k: int) -> Repeated:
    """Both rates over tasks given as (trials, passed). Intervals: `mean_rate`, n tasks.

    A task without k trials, or whose counts are none, is left out.
    """
    kept = [(n, c) for n, c in counts if 1 <= k <= n and 0 <= c <= n]
    at, one = _mean(pass_at, kept, k), _mean(pass_at, kept, 1)
    return Repeated(
        k=k,
        pass_at=at,
        pass_hat=_mean(pass_hat, kept, k),
        pass_one=one,
        independent=_independent(one, k),
        flattery=flattery(at.value, one.value),
        left_out=len(counts) - len(kept),
        trials=(min(kept)[0], max(kept)[0]) if kept else None,
    )


def _independent(one: Rate, k: int) -> Rate:
    if one.value is None:
        return one
    value, low, high = (if_independent(p, k) for p in (one.value, one.low, one.high))
    return Rate(value=value, n=one.n, low=low, high=high)


def _mean(
    measure: Callable[[int, int, int], float | None], counts: Sequence[tuple[int, int]], k: int
) -> Rate:
    found = (measure(n, c, k) for n, c in counts)
    return mean_rate([value for value in found if value is not None])


def flattery(at_k: float | None, at_one: float | None) -> float | None:
    """pass@k / pass@1: how many times better k tries and a free judge of them look."""
    return at_k / at_one if at_k is not None and at_one else None


def mean_rate(values: Sequence[float]) -> Rate:
    """The mean of values in 0..1 with Wilson's interval at n values.

    No value in 0..1 varies more than a yes or no of the same mean, so the interval is, if
    anything, too wide.
    """
    return rate(math.fsum(values), len(values))


MELTDOWN = 0.15
"""A bucket this far below the shortest one, in rates 0..1, and more, has melted down."""

BRITTLE, GRACEFUL = 0.5, 0.8
UNPREDICTABLE = 0.5
_ROUNDING = 1e-9


class Bucket(Struct, frozen=True, kw_only=True):
    """pass@1 of the runs whose task is larger than `above` and at most `up_to`.

    None is no bound on that side.
    """

    above: float | None
    up_to: float | None
    passed: Rate

    @property
    def label(self) -> str:
        if self.up_to is None:
            return "all" if self.above is None else f"> {self.above:g}"
        return f"≤ {self.up_to:g}" if self.above is None else f"to {self.up_to:g}"


class Decay(Struct, frozen=True, kw_only=True):
    """The reliability decay curve and what is read from it.

    `buckets` are the curve, shortest tasks first, empty ones left out. `onset` is the label of the
    meltdown onset point, None where no bucket melts down. `unsized` runs have an outcome and no
    size, `undecided` ones no outcome.
    """

    buckets: tuple[Bucket, ...]
    variance: float | None
    graceful: float | None
    onset: str | None
    unsized: int
    undecided: int


def decay(
    sizes: Sequence[float | None], passed: Sequence[bool | None], edges: Sequence[float] = ()
) -> Decay:
    """The curve over runs, a size and an outcome each; without `edges`, over quartiles of sizes.

    Edges are upper bounds, the last bucket has none. Runs weigh the same, whatever their task.
    """
    runs = [(size, ok) for size, ok in zip(sizes, passed, strict=True) if ok is not None]
    sized = [(size, ok) for size, ok in runs if size is not None and math.isfinite(size)]
    bounds = sorted(set(edges)) or quartiles([size for size, _ in sized])
    ends: list[float | None] = [None, *bounds, None]
    made = [_bucket(sized, above, up_to) for above, up_to in pairwise(ends)]
    buckets = tuple(bucket for bucket in made if bucket.passed.n)
    rates = [bucket.passed.value or 0.0 for bucket in buckets]
    onset = meltdown_onset(rates)
    return Decay(
        buckets=buckets,
        variance=variance_amplification(rates),
        graceful=graceful_degradation(rates),
        onset=None if onset is None else buckets[onset].label,
        unsized=len(runs) - len(sized),
        undecided=len(passed) - len(runs),
    )


def _bucket(runs: Iterable[tuple[float, bool]], above: float | None, up_to: float | None) -> Bucket:
    low = -math.inf if above is None else above
    high = math.inf if up_to is None else up_to
    inside = [ok for size, ok in runs if low < size <= high]
    return Bucket(above=above, up_to=up_to, passed=rate(sum(inside), len(inside)))


def quartiles(sizes: Sequence[float]) -> list[float]:
    """The inner bounds of four buckets of about equal count; fewer where sizes repeat.

    A bound that is the largest size bounds nothing and is left out.
    """
    if len(sizes) < 2:
        return []
    cuts = sorted(set(statistics.quantiles(sizes, n=4, method="inclusive")))
    return [cut for cut in cuts if cut < max(sizes)]


def variance_amplification(rates: Sequence[float]) -> float | None:
    """VAF: sample standard deviation / mean of the bucket rates.

    None for fewer than two buckets, and where no run of any bucket passed.
    """
    if len(rates) < 2 or not any(rates):
        return None
    return statistics.stdev(rates) / statistics.fmean(rates)


def graceful_degradation(rates: Sequence[float]) -> float | None:
    """GDS: 1 − (max − min) of the bucket rates in 0..1; None for fewer than two buckets."""
    return 1 - (max(rates) - min(rates)) if len(rates) > 1 else None


def meltdown_onset(rates: Sequence[float]) -> int | None:
    """MOP: the first bucket more than 15 points under the shortest one; None where none is."""
    under = (at for at, each in enumerate(rates) if rates[0] - each > MELTDOWN + _ROUNDING)
    return next(under, None)


def degradation_reading(score: float | None) -> str | None:
    """The article's word on a GDS: under .5 brittle, over .8 graceful, between neither."""
    if score is None:
        return None
    return "brittle" if score < BRITTLE else "graceful" if score > GRACEFUL else "in between"


def variance_reading(factor: float | None) -> str | None:
    """The article's word on a VAF: over .5 unpredictable."""
    if factor is None:
        return None
    return "unpredictable" if factor > UNPREDICTABLE else "predictable"


# --- which sizes


Basis: TypeAlias = Literal["label", "gold length", "steps of passing runs", "own steps"]

WARNINGS: dict[Basis, str] = {
    "steps of passing runs": "tasks that no run solved have no size: the curve is too high",
    "own steps": "length depends on the outcome",
}
"""What must be printed beside a curve whose sizes were not known before the run."""


def passing_sizes(
    tasks: Sequence[str | None], steps: Sequence[int], passed: Sequence[bool | None]
) -> list[float | None]:
    """For each run the median steps of the passing runs of its task, None where none passed."""
    found: dict[str, list[int]] = {}
    for task, length, ok in zip(tasks, steps, passed, strict=True):
        if task is not None and ok:
            found.setdefault(task, []).append(length)
    medians = {task: float(statistics.median(lengths)) for task, lengths in found.items()}
    return [None if task is None else medians.get(task) for task in tasks]


# --- errors that persist


class Persistence(Struct, frozen=True, kw_only=True):
    """How often a step fails after one that failed, beside after one that did not."""

    after_failure: Rate
    after_success: Rate


def persistence(runs: Iterable[Sequence[bool | None]]) -> Persistence:
    """Error persistence over runs, for each step whether it failed, None where nobody knows.

    Only neighbours that are both known are counted. The article models it (65 % stay in error).
    """
    after: dict[bool, list[bool]] = {True: [], False: []}
    for failed in runs:
        for before, here in pairwise(failed):
            if before is not None and here is not None:
                after[before].append(here)
    return Persistence(
        after_failure=rate(sum(after[True]), len(after[True])),
        after_success=rate(sum(after[False]), len(after[False])),
    )
