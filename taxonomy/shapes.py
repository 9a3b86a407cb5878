"""How do the step scores of a run go, and which step does the article's vote name?

The published shape and ours for runs of any length; then `find_break_point` of the article, made
total: it gives no step where nothing votes. Formulas: ARC article (000), "Trajectory".
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise

from taxonomy.classes import Shape
from taxonomy.findings import Signal

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


DROP = 0.20
BELOW_BASE = 0.20
LATENCY = 1.5
COST = 1.4

Values = Sequence[float | None]


def published_votes(
    scores: Scores, latencies: Values = (), costs: Values = ()
) -> dict[int, tuple[Signal, ...]]:
    """The votes each scored step gets, from its second on; steps without a vote left out.

    A step without a score is left out, positions kept: a drop is measured from the scored step
    before. The base is the mean of the first third and casts no vote where that is empty. Ratios
    are to the step right before; a missing or zero one casts no vote.
    """
    scored = known(scores)
    base = mean([score for _, score in scored[: len(scored) // 3]])
    votes: dict[int, tuple[Signal, ...]] = {}
    for (_, before), (step, score) in pairwise(scored):
        cast = [
            _vote("score drop", before - score > DROP, f"score {before:.2f} → {score:.2f}"),
            _vote(
                "below base",
                base is not None and base - score > BELOW_BASE,
                f"score {score:.2f} under a base of {base or 0:.2f}",
            ),
            _spike("latency spike", latencies, step, LATENCY, "latency"),
            _spike("cost spike", costs, step, COST, "cost"),
        ]
        found = tuple(vote for vote in cast if vote is not None)
        if found:
            votes[step] = found
    return votes


def published_break(scores: Scores, latencies: Values = (), costs: Values = ()) -> int | None:
    """The step with most votes, the earliest on a tie; None where none is cast."""
    return most_voted(published_votes(scores, latencies, costs))


def most_voted(votes: Mapping[int, tuple[Signal, ...]]) -> int | None:
    """The step with most votes, the earliest on a tie; None where none is cast."""
    return min(votes, key=lambda step: (-len(votes[step]), step)) if votes else None


def published_reading(votes: Sequence[Signal]) -> str | None:
    """The article's word on a step's votes: a drop with a latency spike, or a spike alone."""
    names = {vote.name for vote in votes}
    if "latency spike" not in names:
        return None
    if names & {"score drop", "below base"}:
        return "high confidence"
    return "uncertain but recovered, watch it"


def ratio(values: Values, step: int) -> float | None:
    """How many times the value before, None where either is unknown or that one is zero."""
    if not 0 < step < len(values):
        return None
    before, here = values[step - 1], values[step]
    if before is None or here is None or before == 0:
        return None
    found = here / before
    return found if math.isfinite(found) else None


def _vote(name: str, cast: bool, phrase: str) -> Signal | None:
    return Signal(name=name, weight=1.0, phrase=phrase) if cast else None


def _spike(name: str, values: Values, step: int, limit: float, what: str) -> Signal | None:
    times = ratio(values, step)
    return _vote(name, times is not None and times > limit, f"{what} × {times or 0:.1f}")
