"""Which step is the break, by the article's vote? `find_break_point`, made total.

Takes numbers, not traces: a score, a latency and a cost each step (`formulas.md`, trajectory).
Ours, which weighs more signs and may abstain, is in `candidates`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from taxonomy.findings import Signal
from taxonomy.shapes import Scores, known, mean

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
