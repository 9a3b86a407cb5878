"""Weights and confidences of runs that a fit did not see.

Five folds by trace, each set dealt out by itself; the ridge is chosen inside the folds that are
fitted on. A fit counts each label set by the root of its size, so that none drowns the others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from msgspec import Struct

from taxonomy.localiser.candidates import ranking, shown
from taxonomy.localiser.features import FEATURES
from taxonomy.localiser.signals import strength
from taxonomy.metrics.agreement import Reliability, reliability
from tests.bench.labelled import Labelled
from tests.bench.logit import Choice, fit, log_loss

GUESSES = {feature.name: feature.guess for feature in FEATURES}
FITTED = tuple(GUESSES)
EARLY = "early"

RIDGES = (1.0, 3.0, 10.0, 30.0)
FOLDS = 5
SEEDS = 5
EDGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.55)
"""Where the rows of the confidence table begin, in likelihood."""

SHRINK = 5
"""So many candidates, of what is believed beforehand, each row of the table begins with."""

Weights = Mapping[str, float]
Sets = Mapping[str, Sequence[Labelled]]
Table = tuple[tuple[float, float], ...]


class HeldOut(Struct, frozen=True, eq=False):
    """A run, the set it is of, and weights that did not see it."""

    of: str
    run: Labelled
    weights: Weights


# --- fitting


def choice(run: Labelled, names: Sequence[str], weight: float = 1.0) -> Choice:
    """The run as a choice; `early` is how near the beginning a step is, for comparison only."""
    rows = [
        [
            1 - step / max(run.steps - 1, 1)
            if name == EARLY
            else strength(run.against.get(step, {}), name)
            for name in names
        ]
        for step in run.choices
    ]
    right = frozenset(at for at, step in enumerate(run.choices) if step in run.decisive)
    return Choice(rows=rows, right=right, weight=weight)


def choices(sets: Sets, names: Sequence[str]) -> list[Choice]:
    """All runs; the runs of a set weigh together what the root of their number says."""
    return [choice(run, names, len(runs) ** -0.5 * _EVEN) for runs in sets.values() for run in runs]


_EVEN = 5.0
"""Puts the weight of a run of a set of 25 at 1, so that a ridge means about what it says."""


def fitted(sets: Sets, ridge: float, names: Sequence[str] = FITTED) -> dict[str, float]:
    """Weights fitted on the sets, none below zero: a sign speaks against a step or not at all."""
    prior = [GUESSES.get(name, 0.0) for name in names]
    found = fit(choices(sets, names), prior, ridge)
    return {
        name: value if name == EARLY else max(0.0, value)
        for name, value in zip(names, found, strict=True)
    }


def chosen_ridge(sets: Sets, seed: int, names: Sequence[str] = FITTED) -> float:
    """The ridge whose fits lose least on held-out folds of these very sets."""
    losses = {
        ridge: sum(
            log_loss(choices(test, names), list(fitted(train, ridge, names).values()))
            for train, test in folds(sets, seed)
        )
        for ridge in RIDGES
    }
    return min(RIDGES, key=lambda ridge: losses[ridge])


def folds(sets: Sets, seed: int) -> list[tuple[Sets, Sets]]:
    """(train, test) five times; each set is dealt out by itself."""
    parts: list[tuple[dict[str, list[Labelled]], dict[str, list[Labelled]]]]
    parts = [({}, {}) for _ in range(FOLDS)]
    for name, runs in sets.items():
        order = sorted(runs, key=lambda run: run.name)
        random.Random(f"{seed} {name}").shuffle(order)
        for place, (train, test) in enumerate(parts):
            test[name] = order[place::FOLDS]
            train[name] = [run for at, run in enumerate(order) if at % FOLDS != place]
    return [(train, test) for train, test in parts]


def held_out(sets: Sets, seed: int, names: Sequence[str] = FITTED) -> list[HeldOut]:
    """Every run with weights fitted on the other folds, the ridge chosen inside them."""
    return [
        HeldOut(name, run, weights)
        for train, test in folds(sets, seed)
        for weights in [fitted(train, chosen_ridge(train, seed, names), names)]
        for name, runs in test.items()
        for run in runs
    ]


# --- confidence


def claims(runs: Sequence[HeldOut]) -> list[tuple[float, bool]]:
    """(likelihood, was it right) of every candidate."""
    found: list[tuple[float, bool]] = []
    for each in runs:
        chances = dict(ranking(each.run.against, each.run.choices, each.weights))
        found += [
            (chances[candidate.step], candidate.step in each.run.decisive)
            for candidate in shown(each.run.against, each.run.choices, each.weights)
        ]
    return found


def table_of(found: Sequence[tuple[float, bool]], seeds: int = SEEDS) -> Table:
    """How often a candidate so likely was right: never falling (rows that would are pooled), and
    each row shrunk towards the lower of its likelihood and what the runs of all rows give.

    Claims of several seeds are of the same runs and count for one.
    """
    overall = _share_right(found)
    pools: list[tuple[float, float, float]] = []  # from, weight, right
    for place, edge in enumerate(EDGES):
        above = EDGES[place + 1] if place + 1 < len(EDGES) else 1.01
        inside = [(chance, right) for chance, right in found if edge <= chance < above]
        n = len(inside) / seeds
        mean = sum(chance for chance, _ in inside) / len(inside) if inside else (edge + above) / 2
        towards = min(mean, overall)
        right = (n * _share_right(inside) + SHRINK * towards) / (n + SHRINK)
        pools.append((edge, n + SHRINK, right))
        while len(pools) > 1 and pools[-2][2] > pools[-1][2]:
            (low, m, one), (_, k, two) = pools[-2:]
            pools[-2:] = [(low, m + k, (m * one + k * two) / (m + k))]
    return tuple((edge, round(right, 2)) for edge, _, right in pools)


def _share_right(found: Sequence[tuple[float, bool]]) -> float:
    return sum(right for _, right in found) / len(found) if found else 0.0


def honest(by_seed: Sequence[Sequence[HeldOut]], most: int) -> Reliability:
    """Stated confidences of the first `most` candidates against what was right.

    Each by a table that did not see its run: odd runs by that of even ones, even by that of odd.
    """
    stated: list[tuple[float | None, bool]] = []
    for half in (0, 1):
        other = [_half(runs, 1 - half) for runs in by_seed]
        table = table_of([claim for runs in other for claim in claims(runs)], len(by_seed))
        for each in _half(by_seed[0], half):
            given = shown(each.run.against, each.run.choices, each.weights, table)[:most]
            stated += [(one.confidence, one.step in each.run.decisive) for one in given]
    return reliability(stated)


def _half(runs: Sequence[HeldOut], half: int) -> list[HeldOut]:
    return [run for place, run in enumerate(sorted(runs, key=_name)) if place % 2 == half]


def _name(each: HeldOut) -> str:
    return each.run.name
