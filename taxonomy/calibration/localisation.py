"""How near do guesses at the decisive step come, and how near would a blind guess have come?

Takes step numbers, knows nothing of traces. A run has one or more decisive steps (alternatives:
any of them is right), its length, and guesses, best first. Runs without a guess are abstentions:
figures are given over all runs, where an abstention is a miss, and over the answered ones.

The baselines know nothing of a run but its length: one step number for all, or one relative
position for all. Each of their figures is the best that any such number reaches on these very
labels, chosen in hindsight and for that figure alone: no constant rule can do better.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from msgspec import Struct

from replay.statistics import Rate, rate
from taxonomy.findings import Candidate
from taxonomy.localiser.weights import FITTED

NEAR = (0, 1, 3, 5)
"""Distances, in steps, at which a guess counts."""

TOP = 3
"""How many guesses of a run are looked at."""

POSITIONS = 101
"""Relative positions tried: every hundredth of a run from its first step to its last."""


ID_LENGTH = 8
"""Of the id of a run that a fit saw, so many digits are kept."""


class Run(Struct, frozen=True, kw_only=True):
    """A labelled run: its decisive steps (at least one), its guesses, how many steps it has."""

    decisive: tuple[int, ...]
    guesses: tuple[int, ...]
    steps: int


class Hits(Struct, frozen=True, kw_only=True):
    """How often the first guess is within so many steps, or one of the first three is exact.

    `mean_distance` is in steps, over the runs that have a guess; None where none has.
    """

    exact: Rate
    within_1: Rate
    within_3: Rate
    within_5: Rate
    top_3: Rate
    mean_distance: float | None


class Localisation(Struct, frozen=True, kw_only=True):
    """The figures of one guesser over all runs and over those it answered."""

    name: str
    abstained: Rate
    over_all: Hits
    over_answered: Hits


class Baselines(Struct, frozen=True, kw_only=True):
    """What the best constant step and the best relative position reach, in hindsight.

    `step` and `position` (0..1) are those of the figure `exact`.
    """

    constant: Hits
    step: int
    relative: Hits
    position: float


def localisation(name: str, runs: Sequence[Run]) -> Localisation:
    """The figures of a guesser."""
    answered = [run for run in runs if run.guesses]
    return Localisation(
        name=name,
        abstained=rate(len(runs) - len(answered), len(runs)),
        over_all=hits(runs),
        over_answered=hits(answered),
    )


def hits(runs: Sequence[Run]) -> Hits:
    """Counts over the given runs; one without a guess is a miss and has no distance."""
    known = [found for found in map(distance, runs) if found is not None]
    near = [rate(sum(found <= reach for found in known), len(runs)) for reach in NEAR]
    top = sum(not set(run.decisive).isdisjoint(run.guesses[:TOP]) for run in runs)
    return Hits(
        exact=near[0],
        within_1=near[1],
        within_3=near[2],
        within_5=near[3],
        top_3=rate(top, len(runs)),
        mean_distance=sum(known) / len(known) if known else None,
    )


def distance(run: Run) -> int | None:
    """From the first guess to the nearest decisive step, in steps; None without a guess."""
    return _distance(run, run.guesses[0]) if run.guesses else None


def _distance(run: Run, guess: int) -> int:
    return min(abs(guess - step) for step in run.decisive)


def baselines(runs: Sequence[Run]) -> Baselines | None:
    """The two best blind guessers, None without runs."""
    if not runs:
        return None
    latest = max(step for run in runs for step in run.decisive)
    constants = [[step] * len(runs) for step in range(latest + 1)]
    positions = [place / (POSITIONS - 1) for place in range(POSITIONS)]
    relatives = [[at_position(position, run.steps) for run in runs] for position in positions]
    constant, step = _best(runs, constants)
    relative, place = _best(runs, relatives)
    return Baselines(constant=constant, step=step, relative=relative, position=positions[place])


def at_position(position: float, steps: int) -> int:
    """The step at a relative position, 0 the first and 1 the last."""
    return int(position * max(steps - 1, 0) + 0.5)


def _best(runs: Sequence[Run], guessers: Sequence[Sequence[int]]) -> tuple[Hits, int]:
    """The best of each figure over all guessers, and which of them has the best `exact`.

    A guesser is its guess for each run.
    """
    far = [[_distance(run, at) for run, at in zip(runs, row, strict=True)] for row in guessers]
    n = len(runs)
    right = [_bits(each == 0 for each in row) for row in far]
    near = [rate(max(sum(each <= reach for each in row) for row in far), n) for reach in NEAR]
    found = Hits(
        exact=near[0],
        within_1=near[1],
        within_3=near[2],
        within_5=near[3],
        top_3=rate(_cover(right), n),
        mean_distance=min(map(sum, far)) / n,
    )
    return found, max(range(len(right)), key=lambda place: right[place].bit_count())


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << place for place, flag in enumerate(flags) if flag)


def _cover(sets: Iterable[int]) -> int:
    """How many runs three sets of them hold together at most. Sets are bits of whole numbers."""
    largest = sorted(set(sets), key=int.bit_count, reverse=True)
    size = [each.bit_count() for each in largest]
    best = size[0] if size else 0
    for i, one in enumerate(largest):
        if TOP * size[i] <= best:
            break
        for j in range(i, len(largest)):
            if size[i] + 2 * size[j] <= best:
                break
            two = one | largest[j]
            for k in range(j, len(largest)):
                if two.bit_count() + size[k] <= best:
                    break
                best = max(best, (two | largest[k]).bit_count())
    return best


# --- what is stated, and of whom it may be measured


class Stated(Struct, frozen=True, kw_only=True):
    """First candidates of one stated band, and how often they were right."""

    low: float
    right: Rate

    @property
    def holds(self) -> bool:
        """Were at least as many right?"""
        return self.right.value is not None and self.right.value >= self.low


def stated_bands(claims: Iterable[tuple[Candidate, bool]]) -> tuple[Stated, ...]:
    """How often first candidates were right, by the band that they state."""
    bands: dict[float, list[bool]] = defaultdict(list)
    for candidate, right in claims:
        if candidate.band is not None:
            bands[candidate.band.low].append(right)
    return tuple(
        Stated(low=low, right=rate(sum(right), len(right))) for low, right in sorted(bands.items())
    )


@cache
def _source_by_trace() -> Mapping[str, str]:
    return {each: source for source, keys in FITTED.items() for each in keys.split()}


def fitted_source(trace: str) -> str | None:
    """The source of labelled runs that a trace belongs to, where weights were fitted, or signs
    chosen, with its label in sight."""
    return _source_by_trace().get(trace[:ID_LENGTH])
