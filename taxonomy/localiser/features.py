"""What may point at the step where a run broke: the features, and those that are numbers alone.

A feature of a step is a strength 0..1, or None where the run cannot tell; None counts for nothing.
The table says what each means and what a person would have it weigh. What it does weigh, fitted
on labels, stands in `weights`; `signs` finds the features in a trace.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from taxonomy.findings import Band
from taxonomy.shapes import Values, ratio

UNFOUNDED = "unfounded"
BAD_CALL = "bad call"
REPEATS = "repeats"
BAD_END = "bad end"
OTHER = "other finding"
FIRST_FINDING = "first finding"
FIRST_ERROR = "error"
ASSUMPTION = "assumption"
THIN = "thin grounds"
NEW_FACTS = "new facts"
OBJECTION = "objection"
FIRST_WRITE = "first write"
FIRST_ACTION = "first action"
FIRST_WORK = "first work"
LAST_CHANCE = "last chance"
LATE = "late"
GROWTH = "growth"
COORDINATES = "coordinates"


class Feature(Struct, frozen=True, kw_only=True):
    """One row of the table. `guess` is the weight a person gave it, in log odds; `is_pointer`: it
    says where a run decided something and nothing of what went wrong there."""

    name: str
    meaning: str
    guess: float
    is_pointer: bool = False


def _sign(name: str, guess: float, meaning: str) -> Feature:
    return Feature(name=name, meaning=meaning, guess=guess)


def _pointer(name: str, guess: float, meaning: str) -> Feature:
    return Feature(name=name, meaning=meaning, guess=guess, is_pointer=True)


FEATURES: tuple[Feature, ...] = (
    _sign(UNFOUNDED, 1.5, "acts on a value not found in context, or contradicts a result"),
    _sign(BAD_CALL, 1.5, "a malformed call, rejected arguments, or the wrong tool"),
    _sign(REPEATS, 0.75, "a loop begins; one call that returns nothing new counts a quarter"),
    _sign(BAD_END, 0.5, "gives up or is truncated; counts less where a limit ended the run"),
    _sign(OTHER, 1.0, "any other finding of the rules"),
    _sign(FIRST_FINDING, 1.0, "the earliest finding other than a bad end"),
    _sign(FIRST_ERROR, 1.0, "a call or code fails for the first time; later ones count a fifth"),
    _sign(ASSUMPTION, 1.5, "states that it assumes, simulates or makes up"),
    _sign(THIN, 0.5, "states the final answer, which no result holds"),
    _sign(NEW_FACTS, 0.5, "states numbers and names not found in context"),
    _sign(OBJECTION, 0.75, "the user intervened or objected right after"),
    _pointer(FIRST_WRITE, 2.0, "the first write; counts less the more steps write"),
    _pointer(FIRST_ACTION, 0.5, "the first step that acts: writes code or changes something"),
    _pointer(FIRST_WORK, 0.5, "the first of a group to do something for the task"),
    _pointer(LAST_CHANCE, 0.5, "the last step that changed something"),
    _pointer(LATE, 1.0, "how late in a run that answers a question and changes nothing"),
    _pointer(GROWTH, 0.25, "output or context grows sharply; cost or latency counts half"),
    _pointer(COORDINATES, -1.5, "only plans, routes, quotes the task or closes"),
)

POINTERS = frozenset(feature.name for feature in FEATURES if feature.is_pointer)
"""Features that say where a run decided something, and nothing of what went wrong there."""


class Model(Struct, frozen=True, eq=False, kw_only=True):
    """What each feature weighs, and the bands of first candidates: (from this likelihood on, how
    often right), the least likely first; None where none held."""

    weights: Mapping[str, float]
    bands: tuple[tuple[float, Band | None], ...] = ()


class StepSignal(NamedTuple):
    """One sign against a step; `strength` 0..1 of its feature, None where it cannot be told."""

    step: int
    feature: str
    phrase: str
    strength: float | None = 1.0


SPREE = 20
"""As many new facts as count for the whole feature."""


def first_leap(values: Values, limit: float) -> tuple[int, float] | None:
    """(step, times) of the first value over `limit` times the one before, None for none."""
    for step in range(len(values)):
        times = ratio(values, step)
        if times is not None and times > limit:
            return step, times
    return None


def leaps(values: Values, limit: float) -> Iterator[tuple[int, float]]:
    """(step, times) where a value is over `limit` times the one before and above the median."""
    given = [value for value in values if value is not None]
    middle = statistics.median(given) if given else 0.0
    for step, value in enumerate(values):
        times = ratio(values, step)
        if value is not None and times is not None and times > limit and value > middle:
            yield step, times


def spree(facts: int) -> float:
    """How strong so many new facts are: the logarithm, 1.0 from `SPREE` on."""
    return min(math.log1p(facts) / math.log1p(SPREE), 1.0)


def own_time_ns(start_ns: int, end_ns: int, others: Sequence[tuple[int, int]]) -> int:
    """The time between two moments that no other interval covers, in nanoseconds."""
    inside = sorted(
        (max(start, start_ns), min(end, end_ns))
        for start, end in others
        if start < end_ns and end > start_ns
    )
    covered, reached = 0, start_ns
    for start, end in inside:
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return max(0, end_ns - start_ns - covered)
