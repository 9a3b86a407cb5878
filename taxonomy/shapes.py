"""How do the step scores of a run go? The published shape, and ours for runs of any length.

`classify` is the article's `classify_trajectory` (`formulas.md`, trajectory), made total.
`classify_binned` asks the same of nine equal bins of steps where a run is long enough to fill
them, because the published rule cannot see a late drift in a run of 28 or more steps and calls
noise a recovery; where the noise could have made the movement, it says so. Both take numbers,
not traces: a score each step, 0..1, None where a step has none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from taxonomy.classes import Shape

BINS = 9
"""The thirds of nine bins hold three means each: enough for a slope, few enough to be steady."""

DIP = 0.20
RETURN = 0.10
COLLAPSE = 0.20
DRIFT = -0.12
DEGRADATION = 0.15

FLOOR = 0.05
"""A span of bin means this small is no movement, whatever the noise."""

CHANCE = 4.4
"""The studentized range: nine equal means span fewer standard errors in 19 runs of 20."""

Scores = Sequence[float | None]


def known(scores: Scores) -> list[tuple[int, float]]:
    """(position, score) of the steps that have a finite score; positions kept."""
    return [
        (position, score)
        for position, score in enumerate(scores)
        if score is not None and math.isfinite(score)
    ]


def mean(values: Sequence[float]) -> float | None:
    """The mean, None of nothing."""
    return sum(values) / len(values) if values else None


def slope(values: Sequence[float]) -> float | None:
    """Rise per step from the first value to the last; 0 for one value, None for none."""
    return (values[-1] - values[0]) / max(len(values) - 1, 1) if values else None


def slopes(scores: Scores) -> tuple[float | None, float | None, float | None]:
    """The early, mid and late slope; a third without a score has none."""
    early, mid, late = _thirds([score for _, score in known(scores)])
    return slope(early), slope(mid), slope(late)


def classify(scores: Scores) -> Shape | None:
    """The published shape, None for fewer than three scores. Steps without one are left out."""
    s = [score for _, score in known(scores)]
    if len(s) < 3:
        return None
    early, mid, late = _thirds(s)
    e, m, last = sum(early) / len(early), sum(mid) / len(mid), sum(late) / len(late)
    dips = [i for i in range(1, len(s) - 1) if s[i] < s[i - 1] - DIP]
    if dips and s[-1] > s[dips[0]] + RETURN:
        return Shape.RECOVERY
    if e - m > COLLAPSE and e - last > COLLAPSE:
        return Shape.EARLY_COLLAPSE
    if (late[-1] - late[0]) / max(len(late) - 1, 1) < DRIFT:
        return Shape.LATE_DRIFT
    if s[0] - s[-1] > DEGRADATION:
        return Shape.STEADY_DEGRADATION
    return Shape.HEALTHY


def classify_binned(scores: Scores, bins: int = BINS) -> Shape | None:
    """The shape over `bins` equal bins of steps, None for fewer than three known bins.

    A run too short to put two steps in each bin is taken step by step. UNCLEAR where the bins
    would, by the noise alone, often span what the verdict rests on.
    """
    groups = binned(scores, bins)
    means = [sum(group) / len(group) for group in groups if group]
    verdict = classify(means)
    if verdict is None:
        return None
    span = max(means) - min(means)
    noise = standard_error(groups)
    if noise is None:
        noise = jitter(means)
    if span <= FLOOR:
        return Shape.HEALTHY
    if verdict is Shape.HEALTHY:
        return Shape.UNCLEAR if 2 * noise > DIP else verdict
    return Shape.UNCLEAR if span <= CHANCE * noise else verdict


def binned(scores: Scores, bins: int = BINS) -> list[list[float]]:
    """The known scores of each of `bins` equal stretches of steps, in order.

    One step a stretch where there are not two for each: bins of one and two steps would move the
    thirds that the verdict compares.
    """
    count = bins if 0 < 2 * bins <= len(scores) else len(scores)
    groups: list[list[float]] = [[] for _ in range(count)]
    for position, score in known(scores):
        groups[position * count // len(scores)].append(score)
    return groups


def standard_error(groups: Sequence[Sequence[float]]) -> float | None:
    """Of the mean of a group, pooled over the groups; None where no group holds two scores."""
    squares, freedom, sizes = 0.0, 0, []
    for group in groups:
        if not group:
            continue
        sizes.append(len(group))
        centre = sum(group) / len(group)
        squares += sum((score - centre) * (score - centre) for score in group)
        freedom += len(group) - 1
    if not freedom:
        return None
    return math.sqrt(squares / freedom * len(sizes) / sum(sizes))


def jitter(values: Sequence[float]) -> float:
    """The noise of single scores, from how far each lies off the line between its neighbours.

    The two largest bends are left out, so that one true jump is not taken for noise; 0 where
    nothing remains.
    """
    bends = sorted(
        abs(before - 2 * here + after)
        for before, here, after in zip(values, values[1:], values[2:], strict=False)
    )[:-2]
    # The median absolute deviate of a normal is .6745 of its sd; three of them add to sqrt(6) sd.
    return statistics.median(bends) / (0.6745 * math.sqrt(6)) if bends else 0.0


def _thirds(values: list[float]) -> tuple[list[float], list[float], list[float]]:
    t = len(values) // 3
    return values[:t], values[t : 2 * t], values[2 * t :]
