"""Can the eval still be trusted? Held-out gap, contamination, wording, recovery, production.

Source: the ARC article, "Calibrate" and "Surface-feature variation". Takes names, scores and
counts. Every function is total; where there is too little to say anything the answer is None.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from replay import digests
from replay.statistics import Rate, rate
from taxonomy.shapes import Scores, known

HELD_OUT = Fraction(1, 5)

# --- tasks kept apart


def held_out(
    strata: Mapping[str, str], share: Fraction = HELD_OUT, already: Collection[str] = ()
) -> frozenset[str]:
    """Which tasks to keep out of training and tuning: `share` of them, spread over the strata.

    `strata` gives the type and difficulty of each task, in one word. Deterministic: within a
    stratum the tasks of the lowest digests are taken, and the strata's shares are rounded so that
    the whole share is met (largest remainder). Tasks that are `already` held out stay so, and
    fill the share of their stratum: a set that had been seen would be none.
    """
    kept = frozenset(already) & strata.keys()
    by_stratum: dict[str, list[str]] = {}
    for task in sorted(
        strata, key=lambda task: (task not in kept, digests.digest("held out", task))
    ):
        by_stratum.setdefault(strata[task], []).append(task)
    quota = quotas({name: len(tasks) for name, tasks in by_stratum.items()}, share)
    chosen = (tasks[: quota[name]] for name, tasks in by_stratum.items())
    return kept.union(*chosen)


def quotas(sizes: Mapping[str, int], share: Fraction) -> dict[str, int]:
    """How many of each stratum: its share rounded down, the rest to the largest remainders."""
    wanted = {name: size * share for name, size in sizes.items()}
    quota = {name: math.floor(want) for name, want in wanted.items()}
    rest = round(sum(sizes.values()) * share) - sum(quota.values())
    order = sorted(wanted, key=lambda name: (quota[name] - wanted[name], name))
    for name in order[:rest]:
        quota[name] += 1
    return quota


class Gap(Struct, frozen=True, kw_only=True):
    """In-distribution minus held-out, with a 95 % interval."""

    value: float
    low: float
    high: float
    reading: Literal["healthy", "watch", "surface inflation"]


def held_out_gap(trained_on: Rate, kept_out: Rate) -> Gap | None:
    """The held-out gap: under .05 healthy, to .10 watch, over it pause and investigate.

    The reading is of the value; with few tasks the interval holds others. None where a side is
    empty.
    """
    found = gap_between(trained_on, kept_out)
    if found is None:
        return None
    return Gap(value=found[0], low=found[1], high=found[2], reading=_gap_reading(found[0]))


def gap_between(one: Rate, other: Rate) -> tuple[float, float, float] | None:
    """(one minus other, low, high), 95 % by Newcombe (1998, method 10) from the Wilson intervals
    of the two; None where a side is empty."""
    if one.value is None or other.value is None:
        return None
    gap = one.value - other.value
    low = gap - math.hypot(one.value - one.low, other.high - other.value)
    return gap, low, gap + math.hypot(one.high - one.value, other.value - other.low)


def _gap_reading(gap: float) -> Literal["healthy", "watch", "surface inflation"]:
    gap = round(gap, 9)
    return "healthy" if gap < 0.05 else "watch" if gap <= 0.10 else "surface inflation"


# --- a benchmark that was seen


TOO_GOOD = 0.92
IN_A_ROW = 3


def contaminated(scores: Sequence[float | None]) -> bool | None:
    """Did three consecutive runs of a benchmark score above .92? Then retire it.

    A run without a score breaks a row; None where no three consecutive runs have one.
    """
    rows = [
        [score for score in scores[at : at + IN_A_ROW] if score is not None]
        for at in range(len(scores) - IN_A_ROW + 1)
    ]
    whole = [row for row in rows if len(row) == IN_A_ROW]
    return any(min(row) > TOO_GOOD for row in whole) if whole else None


# --- the same task in other words


class Surface(Struct, frozen=True, kw_only=True):
    """How the scores of paraphrases of one failing task spread.

    The article calls its .56 a variance; it is the range. Of its three scores .31 .87 .82 the
    variance is .096 (sample) or .064 (population).
    """

    n: int
    range: float
    variance: float
    population_variance: float
    reading: Literal["surface sensitivity", "undecided", "consistent capability gap"]


def surface_variation(scores: Scores) -> Surface | None:
    """The spread over paraphrases; None for fewer than two scores.

    The article's thresholds apply to the range: over .15 the wording decides, under .08 the
    failure is the same however it is asked.
    """
    values = [score for _, score in known(scores)]
    if len(values) < 2:
        return None
    spread = round(max(values) - min(values), 9)
    return Surface(
        n=len(values),
        range=spread,
        variance=statistics.variance(values),
        population_variance=statistics.pvariance(values),
        reading="surface sensitivity"
        if spread > 0.15
        else "consistent capability gap"
        if spread < 0.08
        else "undecided",
    )


SHUFFLES = 2_000


def by_chance(samples: Sequence[Sequence[float]]) -> float | None:
    """How often chance alone spreads the means of the wordings at least so far.

    A permutation test: `samples` of all wordings are dealt out again `SHUFFLES` times, in an order
    that is the same every time. None where no wording has two samples, or fewer than two any.
    """
    groups = tuple(tuple(each) for each in samples if each)
    return None if len(groups) < 2 or max(map(len, groups)) < 2 else _shuffled(groups)


@lru_cache(maxsize=64)
def _shuffled(groups: tuple[tuple[float, ...], ...]) -> float:
    pool = [value for each in groups for value in each]
    ends = list(itertools.accumulate(map(len, groups)))
    seen = _range_of_means(pool, ends) - 1e-9
    dealt = random.Random(0)
    hits = 0
    for _ in range(SHUFFLES):
        dealt.shuffle(pool)
        hits += _range_of_means(pool, ends) >= seen
    return (hits + 1) / (SHUFFLES + 1)


def _range_of_means(pool: Sequence[float], ends: Sequence[int]) -> float:
    starts = [0, *ends[:-1]]
    means = [sum(pool[a:b]) / (b - a) for a, b in zip(starts, ends, strict=True)]
    return max(means) - min(means)


# --- errors put in on purpose


CORRECTED_WITHIN = 2
"""So many steps after an error that was put in may pass until it is corrected."""


def corrected_after(scores: Scores, at: int, good: float = 0.5) -> int | None:
    """After how many steps the run scores `good` again after an error at step `at`.

    None where it never does. Steps without a score are no sign of a correction.
    """
    return next((step - at for step, score in known(scores) if step > at and score >= good), None)


def recovery_rate(delays: Iterable[int | None], within: int = CORRECTED_WITHIN) -> Rate:
    """Corrected / injected: a delay in steps for each error put in, None where none corrected it.

    The article puts errors at position 3 or 4 (counted from 1) of 5 to 10 tasks a run.
    """
    given = list(delays)
    return rate(sum(delay is not None and delay <= within for delay in given), len(given))


# --- eval against production


Distribution: TypeAlias = Mapping[str, int]
"""How many runs show each shape."""

APART, FAR_APART = 15.0, 20.0

PRODUCTION = 50
"""With fewer production runs a distance is a hint."""


class Distance(Struct, frozen=True, kw_only=True):
    """How far two distributions are apart, in percentage points, production minus eval.

    `points` by shape; `widest` is the shape furthest apart; `total` half the sum of all
    differences, the share of runs that would have to change their shape.
    """

    points: dict[str, float]
    widest: str
    total: float
    runs: tuple[int, int]
    reading: Literal["alike", "watch", "apart"]


def distance(evaluated: Distribution, production: Distribution) -> Distance | None:
    """Shapes in the eval against shapes in production; None where either counts nothing.

    More than 15 to 20 points apart on any shape, the eval's tasks or the taxonomy are wrong: to
    15 alike, to 20 watch, beyond apart. The article asks for 50 to 100 production runs.
    """
    before, after = sum(evaluated.values()), sum(production.values())
    if not before or not after:
        return None
    points = {
        name: 100 * (production.get(name, 0) / after - evaluated.get(name, 0) / before)
        for name in sorted({*evaluated, *production})
    }
    widest = max(points, key=lambda name: (round(abs(points[name]), 9), name))
    most = round(abs(points[widest]), 9)
    return Distance(
        points=points,
        widest=widest,
        total=math.fsum(map(abs, points.values())) / 2,
        runs=(before, after),
        reading="alike" if most <= APART else "watch" if most <= FAR_APART else "apart",
    )
