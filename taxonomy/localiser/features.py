"""What may point at the step where a run broke: the features, and those that are numbers alone.

A feature of a step is a strength 0..1, or None where the run cannot tell; None counts for nothing.
The table says what each means and what a person would have it weigh. What it does weigh, fitted
on labels, stands in `weights`; `signs` finds the features in a trace.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from msgspec import Struct

from taxonomy.shapes import Values, ratio

UNFOUNDED = "unfounded"
BAD_CALL = "bad call"
REPEATS = "repeats"
BAD_END = "bad end"
OTHER = "other finding"
FIRST_FINDING = "first finding"
FIRST_ERROR = "error"
ASSUMPTION = "assumption"
NEW_FACTS = "new facts"
OBJECTION = "objection"
FIRST_ACTION = "first action"
LAST_CHANCE = "last chance"
GROWTH = "growth"

POINTERS = frozenset({FIRST_ACTION, LAST_CHANCE, GROWTH})
"""Features of a step's place and size, which say nothing of what went wrong there."""


class Feature(Struct, frozen=True, kw_only=True):
    """One row of the table. `guess` is the weight a person gave it, in log odds."""

    name: str
    meaning: str
    guess: float


FEATURES: tuple[Feature, ...] = (
    Feature(
        name=UNFOUNDED,
        meaning="acts on a value not found in context, or contradicts a result",
        guess=2.5,
    ),
    Feature(
        name=BAD_CALL,
        meaning="a malformed call, rejected arguments, or the wrong tool",
        guess=2.5,
    ),
    Feature(
        name=REPEATS,
        meaning="a loop begins; one call that returns nothing new counts a quarter",
        guess=1.5,
    ),
    Feature(
        name=BAD_END,
        meaning="gives up or is truncated; counts less where a limit ended the run",
        guess=1.5,
    ),
    Feature(name=OTHER, meaning="any other finding of the rules", guess=1.5),
    Feature(name=FIRST_FINDING, meaning="the earliest finding other than a bad end", guess=1.5),
    Feature(
        name=FIRST_ERROR,
        meaning="a call or code fails for the first time; later failures count a fifth",
        guess=1.0,
    ),
    Feature(name=ASSUMPTION, meaning="states that it assumes, simulates or makes up", guess=1.0),
    Feature(name=NEW_FACTS, meaning="states numbers and names not found in context", guess=1.0),
    Feature(name=OBJECTION, meaning="the user intervened or objected right after", guess=1.0),
    Feature(
        name=FIRST_ACTION,
        meaning="the first step that acts: writes code or changes something",
        guess=0.5,
    ),
    Feature(name=LAST_CHANCE, meaning="the last step that changed something", guess=0.5),
    Feature(
        name=GROWTH,
        meaning="output or context grows sharply; cost or latency counts half",
        guess=0.5,
    ),
)

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
