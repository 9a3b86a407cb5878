"""Our break points: what speaks against each step, weighed, and the best three of them.

A run is one choice among its steps: each step's signs add up, each feature once, by the weights
in `weights`, and the softmax of the sums is how likely each step is the break, as far as those
features tell. Only so many rivals count: a hundred steps with nothing against them must not
drown the one that has, nor a stated confidence, learnt on short runs, mean another thing in a
long one. How often such a step was right on labelled runs is its confidence. A run in which no
step has enough against it has no candidate, and that is an answer.

Scores that someone gave are used as they are: the first clear failure is the break. Where there
is none, a step that was scored is no candidate, and signs speak of the others alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from taxonomy.findings import FAILURE, Candidate, Finding, Signal, StepScore
from taxonomy.localiser.features import POINTERS
from taxonomy.localiser.signals import StepSignal, step_signals, strongest
from taxonomy.localiser.weights import CONFIDENCE, WEIGHTS
from taxonomy.rules.rule import RuleContext

EVIDENCE = 0.4
"""What the signs of a first candidate weigh at least, in log odds: half as likely again as a step
without any."""

ALSO = 0.2
"""What the signs of the candidates after the first weigh at least."""

PASSED_EVIDENCE = 3.0
"""What they weigh at least where the run passed: nothing need have broken there."""

WORTH = 0.05
"""A first candidate that is right less often than once in twenty is not worth a look."""

MOST = 3

RIVALS = 20
"""So many steps, those with most against them, share the likelihood; more than the labelled runs
that confidence was learnt on have."""

SCORE = "score"
"""The sign of a given score. It is no feature: it is not weighed against others."""

Against = Mapping[int, Mapping[str, StepSignal]]


def candidates(
    case: RuleContext,
    found: Sequence[Finding],
    own: Sequence[StepScore],
    given: Mapping[int, StepScore],
) -> tuple[Candidate, ...]:
    """Up to three steps, best first; none where no step has enough against it.

    `own` are the rules' scores, `given` the most trusted score of each step that someone else
    scored. A confidence is stated where it was measured: not of a run that passed, and not where
    given scores had a say.
    """
    failed = failures(given)
    if failed:
        return failed
    against = strongest(step_signals(case, found, own))
    turns = case.reading.turns
    choices = [turn.index for turn in turns if not turn.observer and turn.index not in given]
    if case.reading.passed:
        return shown(against, choices, WEIGHTS, floors=(PASSED_EVIDENCE, PASSED_EVIDENCE))
    return shown(against, choices, WEIGHTS, () if given else CONFIDENCE)


def failures(given: Mapping[int, StepScore]) -> tuple[Candidate, ...]:
    """The first steps that given scores call a clear failure, earliest first: what comes after
    the first may be its consequence."""
    failed = [
        (step, f"{score.value:.2f} by {score.by}")
        for step, score in sorted(given.items())
        if score.value is not None and score.value < FAILURE
    ]
    return tuple(
        Candidate(
            step=step,
            weight=1.0,
            why=f"{'a later' if place else 'the first'} clear failure: score {phrase}",
            signals=(Signal(name=SCORE, weight=1.0, phrase=phrase),),
        )
        for place, (step, phrase) in enumerate(failed[:MOST])
    )


def shown(
    against: Against,
    choices: Sequence[int],
    weights: Mapping[str, float],
    table: Sequence[tuple[float, float]] = (),
    floors: tuple[float, float] = (EVIDENCE, ALSO),
) -> tuple[Candidate, ...]:
    """The best of `choices`; none where the first weighs too little or is right too seldom.

    `floors` are what the first and the others weigh at least, `table` the confidences.
    """
    least, also = floors
    ranked = [
        _candidate(step, chance, against.get(step, {}), weights, table)
        for step, chance in ranking(against, choices, weights)[:MOST]
    ]
    if not ranked or ranked[0].weight < least:
        return ()
    if ranked[0].confidence is not None and ranked[0].confidence < WORTH:
        return ()
    return tuple(candidate for candidate in ranked if candidate.weight >= also)


def ranking(
    against: Against, choices: Sequence[int], weights: Mapping[str, float]
) -> list[tuple[int, float]]:
    """(step, likelihood among the best `RIVALS`) of each of `choices`, best first, the earlier on
    a tie."""
    sums = {step: _weight(against.get(step, {}), weights) for step in choices}
    top = max(sums.values(), default=0.0)
    odds = {step: math.exp(each - top) for step, each in sums.items()}
    ranked = sorted(odds, key=lambda step: (-odds[step], step))
    whole = math.fsum(odds[step] for step in ranked[:RIVALS])
    return [(step, odds[step] / whole) for step in ranked]


def confidence(chance: float, table: Sequence[tuple[float, float]]) -> float | None:
    """How often a step so likely was right: the last row of (from, right) that it reaches."""
    return next((right for least, right in reversed(table) if chance >= least), None)


def _weight(named: Mapping[str, StepSignal], weights: Mapping[str, float]) -> float:
    return math.fsum(weights[name] * (sign.strength or 0.0) for name, sign in named.items())


def _candidate(
    step: int,
    chance: float,
    named: Mapping[str, StepSignal],
    weights: Mapping[str, float],
    table: Sequence[tuple[float, float]],
) -> Candidate:
    signals = sorted(
        (
            Signal(
                name=name,
                weight=round(weights[name] * (sign.strength or 0.0), 3),
                phrase=sign.phrase,
            )
            for name, sign in named.items()
        ),
        key=lambda signal: -signal.weight,
    )
    return Candidate(
        step=step,
        weight=round(_weight(named, weights), 3),
        why=_why(signals),
        signals=tuple(signal for signal in signals if signal.weight > 0),
        confidence=confidence(chance, table),
    )


def _why(signals: Sequence[Signal]) -> str:
    """The weightiest sign; one of position alone is called a guess."""
    if not signals:
        return ""
    phrase = signals[0].phrase
    return f"positional guess: {phrase}" if signals[0].name in POINTERS else phrase
