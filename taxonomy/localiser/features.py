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

from taxonomy.shapes import Scores, known
from taxonomy.signals import Values, ratio

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
SCORE_DROP = "score drop"
LOW_SCORE = "low score"


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
        meaning="acts on what nothing it saw contains, or says what a result denies",
        guess=2.5,
    ),
    Feature(
        name=BAD_CALL,
        meaning="a call malformed, refused for its arguments, or of the wrong tool",
        guess=2.5,
    ),
    Feature(
        name=REPEATS,
        meaning="a loop begins; a quarter where one call brings nothing new",
        guess=1.5,
    ),
    Feature(
        name=BAD_END,
        meaning="gives up or was cut off; less where a cap ended the run",
        guess=1.5,
    ),
    Feature(name=OTHER, meaning="any other finding of the rules", guess=1.5),
    Feature(name=FIRST_FINDING, meaning="the earliest finding that is no bad end", guess=1.5),
    Feature(
        name=FIRST_ERROR,
        meaning="a call or code fails for the first time; a fifth later",
        guess=1.0,
    ),
    Feature(name=ASSUMPTION, meaning="says that it assumes, simulates or makes up", guess=1.0),
    Feature(
        name=NEW_FACTS, meaning="says numbers and names that nothing before contains", guess=1.0
    ),
    Feature(name=OBJECTION, meaning="a person stepped in or objected right after", guess=1.0),
    Feature(
        name=FIRST_ACTION,
        meaning="the first step that acts: writes code or changes something",
        guess=0.5,
    ),
    Feature(name=LAST_CHANCE, meaning="the last step that changed something", guess=0.5),
    Feature(
        name=GROWTH,
        meaning="writes much more for once, or the context leaps; half: cost, latency",
        guess=0.5,
    ),
    Feature(
        name=SCORE_DROP,
        meaning="a trusted score falls against those before it, and stays",
        guess=4.0,
    ),
    Feature(name=LOW_SCORE, meaning="the first trusted score below a half", guess=2.0),
)

SCORES = (SCORE_DROP, LOW_SCORE)
"""Features of given scores: no labelled set here has any, so made runs set their weights."""

LOW = 0.5
SPREE = 20
"""As many new facts as count for the whole feature."""

_AHEAD = 3
_BEFORE = 4


def score_drops(scores: Scores) -> Iterator[tuple[int, float, str]]:
    """(step, strength, phrase) of each fall of the scores; steps without a score left out.

    The fall is from the mean of up to four scores before, to the score of the step and, as much,
    to the mean of it and the two after: a dip that noise made does not stay. It counts for less
    where the scores before were low already, because then the run had broken before.
    """
    scored = known(scores)
    for place in range(1, len(scored)):
        step, here = scored[place]
        before = _mean(scored[max(0, place - _BEFORE) : place])
        after = _mean(scored[place : place + _AHEAD])
        fall = ((before - here) + (before - after)) / 2 * min(1.0, before / LOW)
        if fall > 0:
            yield step, min(fall, 1.0), f"score {scored[place - 1][1]:.2f} → {here:.2f}"


def low_score(scores: Scores) -> Iterator[tuple[int, float, str]]:
    """The first step whose score is below a half."""
    for step, score in known(scores):
        if score < LOW:
            yield step, 1.0, f"the first score below {LOW:g}: {score:.2f}"
            return


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


def _mean(scored: Sequence[tuple[int, float]]) -> float:
    return sum(score for _, score in scored) / len(scored)
