"""Which shape do the two classifiers see in a run whose shape is known? By noise and length.

Runs are made: each shape drawn over n steps, with normal noise on every score. Seeded, so that the
table is the same everywhere. The binned rule may say `unclear`; the published one always names a
shape.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from msgspec import Struct

from replay.statistics import Rate, rate
from taxonomy.classes import Shape
from taxonomy.metrics.agreement import Confusion, confusion
from taxonomy.shapes import Scores, classify, classify_binned

SIGMAS = (0.0, 0.05, 0.10, 0.20)
LENGTHS = (6, 12, 24, 48, 96)
RUNS = 50
"""Of each shape, in each cell of the table."""

NONE = "no shape"

RULES: dict[str, Callable[[Scores], Shape | None]] = {
    "binned": classify_binned,
    "published": classify,
}


def _early_collapse(at: float) -> float:
    return 0.90 if at < 1 / 3 else 0.50


def _late_drift(at: float) -> float:
    return 0.85 if at < 2 / 3 else 0.85 - 1.5 * (at - 2 / 3)


def _steady_degradation(at: float) -> float:
    return 0.90 - 0.35 * at


def _recovery(at: float) -> float:
    return 0.40 if 0.30 <= at < 0.55 else 0.90


def _healthy(_: float) -> float:
    return 0.85


TRUE: dict[Shape, Callable[[float], float]] = {
    Shape.EARLY_COLLAPSE: _early_collapse,
    Shape.LATE_DRIFT: _late_drift,
    Shape.STEADY_DEGRADATION: _steady_degradation,
    Shape.RECOVERY: _recovery,
    Shape.HEALTHY: _healthy,
}
"""Each shape as a score over the relative position 0..1 in a run."""


class Cell(Struct, frozen=True, kw_only=True):
    """One rule at one noise and length. `right`, `unclear` and `wrong` add up to all runs."""

    rule: str
    sigma: float
    steps: int
    right: Rate
    unclear: Rate
    wrong: Rate
    confusion: Confusion


def noise_table(runs: int = RUNS) -> Iterator[Cell]:
    """Every cell: rule by rule, noise by noise, length by length."""
    for rule in RULES:
        for sigma in SIGMAS:
            for steps in LENGTHS:
                yield cell(rule, sigma, steps, runs)


def cell(rule: str, sigma: float, steps: int, runs: int = RUNS) -> Cell:
    """`runs` runs of each shape, seen by one rule."""
    seen = [
        (shape, RULES[rule](made))
        for shape in TRUE
        for made in trajectories(shape, sigma, steps, runs)
    ]
    n = len(seen)
    right = sum(shape is verdict for shape, verdict in seen)
    unclear = sum(verdict in {Shape.UNCLEAR, None} for _, verdict in seen)
    return Cell(
        rule=rule,
        sigma=sigma,
        steps=steps,
        right=rate(right, n),
        unclear=rate(unclear, n),
        wrong=rate(n - right - unclear, n),
        confusion=confusion(
            ((shape.value, verdict.value if verdict else NONE) for shape, verdict in seen),
            [shape.value for shape in TRUE],
            [*(shape.value for shape in Shape), NONE],
        ),
    )


def trajectories(shape: Shape, sigma: float, steps: int, runs: int) -> Iterator[list[float]]:
    """Score lists of that shape; the same for every rule."""
    chance = random.Random(f"{shape.value}/{sigma}/{steps}")
    for _ in range(runs):
        exact = (TRUE[shape](at / max(steps - 1, 1)) for at in range(steps))
        yield [min(1.0, max(0.0, score + chance.gauss(0, sigma))) for score in exact]
