"""A choice among the steps of a run, as a logit: likelihood, fit, and which step it picks.

Each run is one choice (McFadden's conditional logit); where several steps are right, any of them
is. Weights are drawn to a prior by a ridge, so that a feature the labels say nothing about keeps
what it had. Plain Python: the tables are small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

Vector = list[float]

_ROUNDS = 50
_CLOSE = 1e-6


class Choice(Struct, frozen=True, eq=False, kw_only=True):
    """One run: a row of feature values a step, which rows are right, and how much it counts."""

    rows: Sequence[Sequence[float]]
    right: frozenset[int]
    weight: float = 1.0


def probabilities(rows: Sequence[Sequence[float]], weights: Sequence[float]) -> Vector:
    """How likely each row is the one, by the softmax of its weighted sum."""
    sums = [math.fsum(w * x for w, x in zip(weights, row, strict=True) if x) for row in rows]
    top = max(sums, default=0.0)
    each = [math.exp(value - top) for value in sums]
    whole = math.fsum(each)
    return [value / whole for value in each]


def fit(choices: Sequence[Choice], prior: Sequence[float], ridge: float) -> Vector:
    """The weights of greatest posterior: Newton's steps, halved until the posterior grows.

    `ridge` is the inverse variance of the prior around `prior`. A run with no right row among its
    rows says nothing. The curvature leaves out the share of the right rows, which keeps it
    positive where several are right.
    """
    told = [choice for choice in choices if choice.right and len(choice.rows) > 1]
    weights = list(prior)
    height = _posterior(told, weights, prior, ridge)
    for _ in range(_ROUNDS):
        slope, curve = _slope_and_curve(told, weights, prior, ridge)
        move = solve(curve, slope)
        length = 1.0
        while length > _CLOSE:
            tried = [w + length * step for w, step in zip(weights, move, strict=True)]
            higher = _posterior(told, tried, prior, ridge)
            if higher > height:
                break
            length /= 2
        else:
            break
        gain, weights, height = higher - height, tried, higher
        if gain < _CLOSE:
            break
    return weights


def log_loss(choices: Sequence[Choice], weights: Sequence[float]) -> float:
    """Minus the log likelihood of what was right, per weight of run; 0.0 of no run."""
    told = [choice for choice in choices if choice.right]
    whole = math.fsum(choice.weight for choice in told)
    return -math.fsum(_likelihood(choice, weights) for choice in told) / whole if whole else 0.0


def _likelihood(choice: Choice, weights: Sequence[float]) -> float:
    chances = probabilities(choice.rows, weights)
    right = math.fsum(chances[row] for row in choice.right)
    return choice.weight * math.log(max(right, 1e-300))


def _posterior(
    choices: Sequence[Choice], weights: Vector, prior: Sequence[float], ridge: float
) -> float:
    away = math.fsum((w - p) ** 2 for w, p in zip(weights, prior, strict=True))
    return math.fsum(_likelihood(choice, weights) for choice in choices) - ridge * away / 2


def _slope_and_curve(
    choices: Sequence[Choice], weights: Vector, prior: Sequence[float], ridge: float
) -> tuple[Vector, list[Vector]]:
    size = len(weights)
    slope = [ridge * (p - w) for w, p in zip(weights, prior, strict=True)]
    curve = [[ridge if i == j else 0.0 for j in range(size)] for i in range(size)]
    for choice in choices:
        chances = probabilities(choice.rows, weights)
        right = math.fsum(chances[row] for row in choice.right) or 1e-300
        mean = [0.0] * size
        for place, (row, chance) in enumerate(zip(choice.rows, chances, strict=True)):
            held = [(i, x) for i, x in enumerate(row) if x]
            share = chance / right if place in choice.right else 0.0
            for i, x in held:
                mean[i] += chance * x
                slope[i] += choice.weight * share * x
                for j, y in held:
                    curve[i][j] += choice.weight * chance * x * y
        for i, x in enumerate(mean):
            slope[i] -= choice.weight * x
            for j, y in enumerate(mean):
                curve[i][j] -= choice.weight * x * y
    return slope, curve


def solve(matrix: Sequence[Sequence[float]], wanted: Sequence[float]) -> Vector:
    """x of `matrix` x = `wanted`, by elimination with pivots; the matrix must have full rank."""
    size = len(wanted)
    rows = [[*row, value] for row, value in zip(matrix, wanted, strict=True)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for row in range(column + 1, size):
            factor = rows[row][column] / rows[column][column]
            if factor:
                for at in range(column, size + 1):
                    rows[row][at] -= factor * rows[column][at]
    found = [0.0] * size
    for row in reversed(range(size)):
        known = math.fsum(rows[row][at] * found[at] for at in range(row + 1, size))
        found[row] = (rows[row][size] - known) / rows[row][row]
    return found
