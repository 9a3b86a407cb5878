"""Does a candidate do worse than a baseline on the same tasks? Paired by task, on counts.

Each task gives one number, d = mean(candidate) − mean(baseline): trials of one task are alike, so a
task, and not a run, is what is counted. Blocked where the one-sided sign-flip permutation test of
the d says so (`sign_flip`) and the mean drop is as large as a person cares for. A green gate is no
proof: the smallest drop that such a set would have shown is part of the result.
"""

from __future__ import annotations

import math
import random
import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from replay.statistics import Rate, clustered
from replay.store.rows import TraceRow
from taxonomy.golden.sets import stamp_of
from taxonomy.metrics import cost
from taxonomy.metrics.cost import Money
from taxonomy.metrics.reliability import Trials, mean_rate, pass_hat
from taxonomy.stats.runs import money_of

MIN_DROP = 0.03
ALPHA = 0.05
POWER = 0.8
"""How often the smallest drop that is printed would be blocked."""

INTERVAL = 0.90
"""Of the change and of costs: its lower end is a one-sided bound at .05."""

RESAMPLES = 2_000
DRAWS = 20_000
"""Of signs, where there are too many ways to count them all."""

_COUNTABLE_BITS = 20_000_000_000
"""Bits that counting all signs may move: about two seconds."""

Reason: TypeAlias = Literal["drop", "tasks lost", "cost"]
Status: TypeAlias = Literal["regression", "green", "too little power", "cost unknown", "incomplete"]


class TaskPair(Struct, frozen=True, kw_only=True):
    """A task with outcomes in both groups. `change` is d, under 0 where the candidate is worse."""

    task: str
    baseline: Trials
    candidate: Trials
    change: float

    @property
    def exact(self) -> Fraction:
        return _share(self.candidate) - _share(self.baseline)

    @property
    def is_lost(self) -> bool:
        """Always passed before, never now."""
        return self.baseline.passed == self.baseline.n and not self.candidate.passed


def task_pair(task: str, baseline: Trials, candidate: Trials) -> TaskPair:
    """Both groups of a task; each must have an outcome."""
    change = _share(candidate) - _share(baseline)
    return TaskPair(task=task, baseline=baseline, candidate=candidate, change=float(change))


def _share(trials: Trials) -> Fraction:
    return Fraction(trials.passed, trials.n)


# --- from runs to trials


class Group(Struct, frozen=True, kw_only=True):
    """The runs of one side. `taskless` name no task, `unknown` have no outcome. `verifiers` say who
    decided the outcomes, `golden` which golden sets were measured (None: a run names none)."""

    runs: int
    tasks: dict[str, Trials]
    taskless: int
    unknown: int
    verifiers: tuple[str, ...]
    golden: tuple[str | None, ...]


def read_group(rows: Sequence[TraceRow]) -> Group:
    """The trials of each task, tasks in the order of their names. Unknown is never failed."""
    by_task: dict[str, list[TraceRow]] = {}
    for row in rows:
        if row.task is not None:
            by_task.setdefault(row.task, []).append(row)
    return Group(
        runs=len(rows),
        tasks={task: _trials(by_task[task]) for task in sorted(by_task)},
        taskless=sum(row.task is None for row in rows),
        unknown=sum(row.outcome == "unknown" for row in rows),
        verifiers=tuple(sorted({row.outcome_by for row in rows if row.outcome_by})),
        golden=tuple(sorted({stamp_of(row) for row in rows}, key=lambda name: name or "")),
    )


def _trials(rows: Sequence[TraceRow]) -> Trials:
    decided = [row for row in rows if row.outcome != "unknown"]
    return Trials(
        n=len(decided),
        passed=sum(row.outcome == "passed" for row in decided),
        unknown=len(rows) - len(decided),
        traces=tuple(row.trace for row in rows),
        cost=cost.total(map(money_of, decided)),
    )


class Paired(Struct, frozen=True, kw_only=True):
    """The tasks of two groups: those that can be compared, and those that cannot, by the reason."""

    pairs: tuple[TaskPair, ...]
    only_baseline: tuple[str, ...]
    only_candidate: tuple[str, ...]
    no_outcome: tuple[str, ...]


def pair_tasks(baseline: Group, candidate: Group) -> Paired:
    """Tasks by name. One without an outcome in a group that has runs of it is `no_outcome`."""
    both = [task for task in baseline.tasks if task in candidate.tasks]
    known = [task for task in both if baseline.tasks[task].n and candidate.tasks[task].n]
    return Paired(
        pairs=tuple(task_pair(t, baseline.tasks[t], candidate.tasks[t]) for t in known),
        only_baseline=tuple(task for task in baseline.tasks if task not in candidate.tasks),
        only_candidate=tuple(task for task in candidate.tasks if task not in baseline.tasks),
        no_outcome=tuple(task for task in both if task not in known),
    )


# --- the test


class SignFlip(NamedTuple):
    """One-sided p. `draws` None: all signs were counted, else so many were drawn."""

    p: float
    draws: int | None


def sign_flip(changes: Iterable[Fraction]) -> SignFlip:
    """How often the changes are together as low as they are, if each was as likely the other way.

    The permutation test of Fisher (1935) for paired differences: of all 2^m signs of the m changes
    that are not 0, the share whose sum is at most the one seen. Exact by counting, unless sizes
    are so odd and tasks so many that it would take seconds: then signs are drawn, by a fixed seed,
    and the one seen counts as one of them. 1 where nothing changed.
    """
    found = [change for change in changes if change]
    if not found:
        return SignFlip(1.0, None)
    unit = math.lcm(*(change.denominator for change in found))
    sizes = sorted(abs(int(change * unit)) for change in found)
    better = sum(int(change * unit) for change in found if change > 0)
    width = len(sizes) + 1
    if len(sizes) * (better + 1) * width > _COUNTABLE_BITS:
        return SignFlip(_draw_subsets(sizes, better), DRAWS)
    return SignFlip(_count_subsets(sizes, better, width), None)


def _count_subsets(sizes: Sequence[int], better: int, width: int) -> float:
    """The share of all subsets of the sizes whose sum is at most `better`.

    The coefficients of Π (1 + x^size) up to that power, each in `width` bits of one number, so
    that a product is a shift and an addition; the sum of them is the rest modulo 2^width − 1.
    """
    kept = (1 << (better + 1) * width) - 1
    ways = 1
    for size in sizes:
        if size > better:
            break
        ways = (ways + (ways << size * width)) & kept
    return (ways % ((1 << width) - 1)) / (1 << len(sizes))


def _draw_subsets(sizes: Sequence[int], better: int) -> float:
    chance = random.Random(0)
    hits = 0
    for _ in range(DRAWS):
        signs = chance.getrandbits(len(sizes))
        hits += sum(size for at, size in enumerate(sizes) if signs >> at & 1) <= better
    return (1 + hits) / (1 + DRAWS)


def is_drop(changes: Sequence[Fraction], alpha: float, min_drop: float) -> bool:
    """Is the mean drop as large as `min_drop`, and beyond chance?"""
    mean = sum(changes, Fraction(0)) / len(changes)
    return -mean >= _exactly(min_drop) and sign_flip(changes).p < alpha


def fewest_tasks(alpha: float) -> int:
    """Tasks that must change, all for the worse, before any drop can be blocked."""
    return math.floor(-math.log2(alpha)) + 1


def _exactly(value: float) -> Fraction:
    """The number that was written: .03 is 3/100, not the nearest binary fraction."""
    return Fraction(repr(value))


# --- what such a set could have shown


def smallest_drop(
    pairs: Sequence[TaskPair], alpha: float, min_drop: float, *, whole: bool = False
) -> float | None:
    """The smallest drop of the pass rate, in whole points, that would be blocked 4 times of 5.

    Simulated by a fixed seed with these tasks and numbers of trials: each task passes as often as
    the baseline says (drawn towards the mean as much as tasks are alike), the drop takes the same
    share of each, and tasks move besides as much as they were seen to beyond chance. With `whole`
    a task rather changes in all of its trials or in none, as decisions at one step do. None where
    not even a candidate that never passes would be blocked so often.
    """
    design = _Design.of(pairs)
    if whole:
        design = design._replace(moves=1.0)
    least, most = max(math.ceil(min_drop * 100), 1), int(design.mean * 100)
    if most < least or design.power(most / 100, alpha, min_drop) < POWER:
        return None
    while least < most:
        middle = (least + most) // 2
        if design.power(middle / 100, alpha, min_drop) >= POWER:
            most = middle
        else:
            least = middle + 1
    return most / 100


_FEW = 60
"""Changes up to which a simulated test is exact; of more, the sum is as good as normal."""


class _Design(NamedTuple):
    """Tasks as they are simulated: trials of both groups, how often the baseline passes, and the
    variance by which a task moves besides."""

    trials: tuple[tuple[int, int], ...]
    shares: tuple[float, ...]
    mean: float
    moves: float

    @classmethod
    def of(cls, pairs: Sequence[TaskPair]) -> _Design:
        before = _shrink([pair.baseline for pair in pairs])
        after = _shrink([pair.candidate for pair in pairs])
        trials = tuple((pair.baseline.n, pair.candidate.n) for pair in pairs)
        by_chance = statistics.fmean(
            p * (1 - p) / n + q * (1 - q) / m
            for p, q, (n, m) in zip(before, after, trials, strict=True)
        )
        seen = statistics.variance([pair.change for pair in pairs]) if len(pairs) > 1 else 0.0
        return cls(trials, tuple(before), statistics.fmean(before), max(0.0, seen - by_chance))

    def power(self, drop: float, alpha: float, min_drop: float) -> float:
        """How often such a drop is blocked."""
        chance = random.Random(0)
        left = 1 - drop / self.mean
        tables = [
            (_cumulate(n, p, 0.0), _cumulate(m, p * left, self.moves))
            for p, (n, m) in zip(self.shares, self.trials, strict=True)
        ]
        repeats = max(40, min(200, 60_000 // len(self.trials)))
        hits = 0
        for _ in range(repeats):
            changes = []
            for (n, m), (before, after) in zip(self.trials, tables, strict=True):
                was = bisect_left(before, chance.random())
                now = bisect_left(after, chance.random())
                changes.append(_fraction(now, m) - _fraction(was, n))
            hits += _is_simulated_drop(changes, alpha, min_drop)
        return hits / repeats


_fraction = lru_cache(maxsize=4096)(Fraction)


def _is_simulated_drop(changes: Sequence[Fraction], alpha: float, min_drop: float) -> bool:
    moved = [float(change) for change in changes if change]
    if len(moved) <= _FEW:
        return is_drop(changes, alpha, min_drop)
    whole = math.fsum(moved)
    z = whole / math.sqrt(math.fsum(change * change for change in moved))
    return -whole / len(changes) >= min_drop and statistics.NormalDist().cdf(z) < alpha


def _shrink(trials: Sequence[Trials]) -> list[float]:
    """How often each task passes, drawn towards the mean of all by how alike its trials are."""
    n, passed = sum(each.n for each in trials), sum(each.passed for each in trials)
    mean = (passed + 0.5) / (n + 1)
    alike = clustered(
        (str(at), hit < each.passed) for at, each in enumerate(trials) for hit in range(each.n)
    ).likeness
    if alike == 0:
        return [mean] * len(trials)
    weight = (1 - alike) / alike
    return [(each.passed + weight * mean) / (each.n + weight) for each in trials]


_ALIKE = 1e-6, 1 - 1e-6
"""Between these, trials of a task are simulated as correlated; above, as one and the same."""


@lru_cache(maxsize=4096)
def _cumulate(n: int, mean: float, variance: float) -> tuple[float, ...]:
    """The chances of at most 0, 1 … n − 1 of n trials passing, of a task whose chance to pass has
    that mean and, as far as a chance can, that variance (beta-binomial)."""
    mean = min(max(mean, 0.0), 1.0)
    most = mean * (1 - mean)
    alike = min(variance / most, _ALIKE[1]) if most else 0.0
    if alike < _ALIKE[0]:
        each = (math.comb(n, k) * mean**k * (1 - mean) ** (n - k) for k in range(n))
        return tuple(accumulate(each))
    a, b = mean * (1 - alike) / alike, (1 - mean) * (1 - alike) / alike
    whole = _log_beta(a, b)
    return tuple(
        accumulate(
            math.comb(n, k) * math.exp(_log_beta(k + a, n - k + b) - whole) for k in range(n)
        )
    )


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


# --- intervals over tasks


class Bounds(Struct, frozen=True, kw_only=True):
    """A 90 % interval of a bootstrap over tasks. An end is None where it is not bounded."""

    low: float | None
    high: float | None


def _bounds(values: Iterable[float]) -> Bounds:
    """The middle 90 % of some resampled values."""
    ordered = sorted(values)
    cut = int((1 - INTERVAL) / 2 * len(ordered))
    low, high = ordered[cut], ordered[-1 - cut]
    return Bounds(
        low=low if math.isfinite(low) else None, high=high if math.isfinite(high) else None
    )


class CostChange(Struct, frozen=True, kw_only=True):
    """Cost per resolved task of the tasks compared, with intervals; `rise` is how much more of it
    the candidate takes, .10 for a tenth more. None where a cost is not wholly known, or nothing is
    resolved."""

    baseline: Money
    candidate: Money
    baseline_bounds: Bounds | None
    candidate_bounds: Bounds | None
    rise: float | None
    rise_bounds: Bounds | None


class _Resampled(NamedTuple):
    change: Bounds | None
    cost: CostChange


def _resample(pairs: Sequence[TaskPair]) -> _Resampled:
    """The intervals, tasks drawn anew with replacement, by a fixed seed."""
    sides = [[pair.baseline for pair in pairs], [pair.candidate for pair in pairs]]
    per = [
        cost.per(cost.total(each.cost for each in side), sum(each.passed for each in side))
        for side in sides
    ]
    whole = all(each.cost.cost_complete for side in sides for each in side)
    changes = [pair.change for pair in pairs]
    spent = [[each.cost.cost_usd or 0.0 for each in side] for side in sides]
    passed = [[each.passed for each in side] for side in sides]
    if len(pairs) < 2:
        return _Resampled(None, _cost_change(per, None))
    vary = len(set(changes)) > 1
    chance = random.Random(0)
    means: list[float] = []
    ratios: tuple[list[float], list[float], list[float]] = ([], [], [])
    for _ in range(RESAMPLES):
        drawn = chance.choices(range(len(pairs)), k=len(pairs))
        means.append(math.fsum(changes[at] for at in drawn) / len(drawn))
        if whole:
            first, second = (
                _ratio(sum(spent[side][at] for at in drawn), sum(passed[side][at] for at in drawn))
                for side in (0, 1)
            )
            ratios[0].append(first)
            ratios[1].append(second)
            ratios[2].append(_rise(first, second))
    return _Resampled(
        _bounds(means) if vary else None, _cost_change(per, ratios if whole else None)
    )


def _ratio(usd: float, resolved: int) -> float:
    return usd / resolved if resolved else math.inf


def _rise(before: float, after: float) -> float:
    """How much more the candidate takes; where the baseline resolves nothing, or for nothing, no
    rise is shown."""
    if math.isinf(before) or (before == 0 and after == 0):
        return 0.0
    return after / before - 1 if before else math.inf


def _cost_change(per: Sequence[Money], ratios: Sequence[Sequence[float]] | None) -> CostChange:
    before, after = per
    known = before.cost_complete and after.cost_complete
    rise = None
    if known and before.cost_usd and after.cost_usd is not None:
        rise = after.cost_usd / before.cost_usd - 1
    bounds = [_bounds(each) for each in ratios] if ratios is not None else [None] * 3
    return CostChange(
        baseline=before,
        candidate=after,
        baseline_bounds=bounds[0] if before.cost_complete else None,
        candidate_bounds=bounds[1] if after.cost_complete else None,
        rise=rise,
        rise_bounds=bounds[2] if rise is not None else None,
    )


# --- the decision


class Limits(Struct, frozen=True, kw_only=True):
    """What blocks. `power` is the drop that a green gate must have been able to show; None asks for
    none. `strict` blocks on any task always passed before and never now; `max_cost_rise` on a cost
    per resolved task whose interval lies above it, None on no cost."""

    min_drop: float = MIN_DROP
    alpha: float = ALPHA
    power: float | None = None
    strict: bool = False
    max_cost_rise: float | None = None


class AllOfK(Struct, frozen=True, kw_only=True):
    """pass^k of both groups, over the tasks that have k trials in each."""

    k: int
    baseline: Rate
    candidate: Rate


class Decision(Struct, frozen=True, kw_only=True):
    """What became of a comparison of at least one task.

    `baseline` and `candidate` are pass@1: the mean over tasks, with Wilson's interval at so many
    tasks. `change` is the mean of d with the interval of a bootstrap over tasks (None where all
    changed alike: of that it says nothing), `p` that of the sign-flip test, `draws` None where it
    is exact. `smallest_drop` None: such a set cannot reliably show any. `reasons` block; `lost`
    tasks passed always and now never.
    """

    status: Status
    reasons: tuple[Reason, ...]
    tasks: int
    worse: int
    better: int
    baseline: Rate
    candidate: Rate
    all_of_k: AllOfK | None
    change: float
    change_bounds: Bounds | None
    p: float
    draws: int | None
    smallest_drop: float | None
    lost: tuple[str, ...]
    cost: CostChange


def decide(pairs: Sequence[TaskPair], limits: Limits, *, whole: bool = False) -> Decision:
    """The decision over at least one pair of groups of trials; `whole` as of `smallest_drop`."""
    changes = [pair.exact for pair in pairs]
    test = sign_flip(changes)
    resampled = _resample(pairs)
    lost = tuple(pair.task for pair in pairs if pair.is_lost)
    smallest = smallest_drop(pairs, limits.alpha, limits.min_drop, whole=whole)
    reasons = tuple(_reasons(changes, lost, resampled.cost, limits))
    return Decision(
        status=_status(reasons, smallest, resampled.cost, limits),
        reasons=reasons,
        tasks=len(pairs),
        worse=sum(change < 0 for change in changes),
        better=sum(change > 0 for change in changes),
        baseline=mean_rate([pair.baseline.passed / pair.baseline.n for pair in pairs]),
        candidate=mean_rate([pair.candidate.passed / pair.candidate.n for pair in pairs]),
        all_of_k=_all_of_k(pairs),
        change=float(sum(changes, Fraction(0)) / len(changes)),
        change_bounds=resampled.change,
        p=test.p,
        draws=test.draws,
        smallest_drop=smallest,
        lost=lost,
        cost=resampled.cost,
    )


def _reasons(
    changes: Sequence[Fraction], lost: Sequence[str], spent: CostChange, limits: Limits
) -> Iterable[Reason]:
    if is_drop(changes, limits.alpha, limits.min_drop):
        yield "drop"
    if limits.strict and lost:
        yield "tasks lost"
    if limits.max_cost_rise is not None and spent.rise_bounds is not None:
        least = spent.rise_bounds.low
        if least is None or least > limits.max_cost_rise:
            yield "cost"


def _status(
    reasons: Sequence[Reason], smallest: float | None, spent: CostChange, limits: Limits
) -> Status:
    if reasons:
        return "regression"
    if limits.max_cost_rise is not None and spent.rise_bounds is None:
        return "cost unknown"
    if limits.power is not None and (smallest is None or smallest > limits.power):
        return "too little power"
    return "green"


def _all_of_k(pairs: Sequence[TaskPair]) -> AllOfK | None:
    """With the largest k that at least half of the tasks have trials for in both groups; None where
    that is 1."""
    trials = sorted((min(pair.baseline.n, pair.candidate.n) for pair in pairs), reverse=True)
    k = trials[(len(trials) - 1) // 2]
    if k < 2:
        return None
    return AllOfK(
        k=k,
        baseline=_hat(pairs, k, lambda pair: pair.baseline),
        candidate=_hat(pairs, k, lambda pair: pair.candidate),
    )


def _hat(pairs: Sequence[TaskPair], k: int, side: Callable[[TaskPair], Trials]) -> Rate:
    kept = [pair for pair in pairs if min(pair.baseline.n, pair.candidate.n) >= k]
    found = [pass_hat(side(pair).n, side(pair).passed, k) for pair in kept]
    return mean_rate([value for value in found if value is not None])
