"""Our break points: what speaks against each step, weighed, and the best three of them.

A run is one choice among its steps: each step's signs add up, each feature once, by the weights
of a model, and the softmax of the sums is how likely each step is the break, as far as those
features tell. Only so many rivals count: a hundred steps with nothing against them must not
drown the one that has. How often first candidates as likely were right, on labelled runs of agents
that the weights were not fitted on, is their band.

Where only place, size and role point at a step, it is shown as a positional guess, with no band.
A run in which nothing points anywhere has no candidate, and one that passed only has those with
much evidence against them.

Scores that someone gave are used as they are: the first clear failure is the break. Where there
is none, a step that was scored is no candidate, and signs speak of the others alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from taxonomy.findings import FAILURE, Band, Candidate, Finding, Signal, StepScore
from taxonomy.localiser.baselines import eligible
from taxonomy.localiser.features import POINTERS, Model, StepSignal
from taxonomy.localiser.run_structure import is_group
from taxonomy.localiser.signals import step_signals, strongest
from taxonomy.localiser.weights import MODEL
from taxonomy.rules.rule import RuleContext

EVIDENCE = 0.6
"""What the signs of something wrong weigh at least at a candidate, in log odds: nearly twice as
likely as a step without any. With less it is a positional guess."""

LEAST = 0.1
"""What all signs of a first candidate weigh at least, pointers among them. Those after it need only
have one that speaks against them."""

PASSED_EVIDENCE = 2.0
"""What the signs of something wrong weigh at least where the run passed: nothing need have broken
there."""

MOST = 3

RIVALS = 20
"""So many steps, those with most against them, share the likelihood; more than most labelled runs
have."""

SCORE = "score"
"""The sign of a given score. It is no feature: it is not weighed against others."""

Against = Mapping[int, Mapping[str, StepSignal]]


class RunSignals(Struct, frozen=True, eq=False, kw_only=True):
    """What speaks against each step of a run, and which of its steps may be candidates.

    `is_group`: several agents speak in turn. One source of such runs was labelled, so that no band
    could be held against another: none is stated.
    """

    choices: tuple[int, ...]
    against: Against
    is_group: bool = False


def run_signals(
    case: RuleContext, found: Sequence[Finding], own: Sequence[StepScore]
) -> RunSignals:
    """The signals of a run; `own` are the rules' scores."""
    against = strongest(step_signals(case, found, own))
    return RunSignals(
        choices=eligible(case.reading), against=against, is_group=is_group(case.reading)
    )


def candidates(
    case: RuleContext,
    found: Sequence[Finding],
    own: Sequence[StepScore],
    given: Mapping[int, StepScore],
) -> tuple[Candidate, ...]:
    """Up to three steps, best first; none where nothing points at any step.

    `own` are the rules' scores, `given` the most trusted score of each step that someone else
    scored. A band is stated where it was measured: not of a run that passed, and not where given
    scores had a say.
    """
    failed = failures(given)
    if failed:
        return failed
    run = run_signals(case, found, own)
    model = Model(weights=MODEL.weights) if given or case.reading.passed else MODEL
    if given:
        free = tuple(step for step in run.choices if step not in given)
        run = RunSignals(choices=free, against=run.against, is_group=run.is_group)
    best = shown(run, model)
    if case.reading.passed:
        return tuple(
            each
            for each in best
            if evidence(run.against.get(each.step, {}), model.weights) >= PASSED_EVIDENCE
        )
    return best


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


def shown(run: RunSignals, model: Model) -> tuple[Candidate, ...]:
    """The best steps of a run, none where its signs weigh too little."""
    ranked = ranking(run.against, run.choices, model.weights)[:MOST]
    found = [
        _candidate(
            step,
            None if place or run.is_group else band_of(chance, model),
            run.against.get(step, {}),
            model.weights,
        )
        for place, (step, chance) in enumerate(ranked)
    ]
    if not found or found[0].weight < LEAST:
        return ()
    return tuple(each for each in found if each.signals)


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


def band_of(chance: float, model: Model) -> Band | None:
    """The band of a step so likely: that of the last row it reaches."""
    return next((band for least, band in reversed(model.bands) if chance >= least), None)


def evidence(named: Mapping[str, StepSignal], weights: Mapping[str, float]) -> float:
    """What the signs of something wrong weigh at a step, pointers left out."""
    return _weight({name: sign for name, sign in named.items() if name not in POINTERS}, weights)


def _weight(named: Mapping[str, StepSignal], weights: Mapping[str, float]) -> float:
    return math.fsum(weights[name] * (sign.strength or 0.0) for name, sign in named.items())


def _candidate(
    step: int, band: Band | None, named: Mapping[str, StepSignal], weights: Mapping[str, float]
) -> Candidate:
    """The signs of something wrong come first where they suffice, then what points at the step."""
    is_positional = evidence(named, weights) < EVIDENCE
    signals = sorted(
        (
            Signal(
                name=name,
                weight=round(weights[name] * (sign.strength or 0.0), 3),
                phrase=sign.phrase,
            )
            for name, sign in named.items()
        ),
        key=lambda signal: ((signal.name in POINTERS) is not is_positional, -signal.weight),
    )
    speaking = tuple(signal for signal in signals if signal.weight > 0)
    return Candidate(
        step=step,
        weight=round(_weight(named, weights), 3),
        why=_why(speaking, is_positional),
        signals=speaking,
        is_positional=is_positional,
        band=None if is_positional else band,
    )


def _why(signals: Iterable[Signal], is_positional: bool) -> str:
    """The weightiest sign; of a step that only its place points at, that it is a guess."""
    phrase = next((signal.phrase for signal in signals), "")
    return f"positional guess: {phrase}" if phrase and is_positional else phrase
