"""Our break points: what speaks against each step, weighed, and the best three of them.

Every sign has its weight in one table. They are set by hand until they are fitted on labels, so a
candidate has no confidence yet. Signs of one step add up, each kind once; a run in which no step
has real evidence against it has no candidate, and that is an answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from taxonomy.findings import Candidate, Finding, Signal, StepScore
from taxonomy.rules import (
    bad_args,
    cap_hit,
    contradiction,
    gave_up,
    hallucinated_state,
    loop,
    malformed,
    wrong_tool,
)
from taxonomy.rules.case import Case
from taxonomy.signs import signs

WEIGHTS: dict[str, float] = {
    # findings, by rule
    malformed.NAME: 3.0,
    contradiction.NAME: 3.0,
    hallucinated_state.NAME: 2.6,
    wrong_tool.NAME: 2.2,
    bad_args.NAME: 2.0,
    loop.NAME: 1.8,
    gave_up.NAME: 1.6,
    cap_hit.NAME: 0.6,
    # signs of a step
    "first finding": 1.5,
    "assumption": 1.2,
    "user stepped in": 1.2,
    "user objected": 1.0,
    "first error": 1.0,
    "stop reason": 1.0,
    "ungrounded": 1.0,
    "first code": 1.0,  # in chats without calls rules see little else: a third of labels stand here
    "first action": 0.5,
    "last chance": 0.5,
    "repeat": 0.4,
    "unverified": 0.3,
    "score drop": 0.3,
    # weak pointers: on labelled trees prompt size points better than latency
    "context growth": 0.2,
    "error": 0.2,
    "latency spike": 0.1,
    "cost spike": 0.1,
}
"""What each sign weighs, best evidence first."""

EVIDENCE = 1.0
"""A candidate needs one sign of at least this weight: pointers alone are no evidence."""

PASSED_FLOOR = 2.0
"""What a candidate must weigh where the run passed."""

MOST = 3


def candidates(
    case: Case, found: Sequence[Finding], scores: Sequence[StepScore]
) -> tuple[Candidate, ...]:
    """Up to three steps, best first; none where no step has enough against it."""
    against: dict[int, dict[str, Signal]] = {}
    for step, name, phrase in signs(case, found, scores):
        signal = Signal(name=name, weight=WEIGHTS[name], phrase=phrase)
        against.setdefault(step, {}).setdefault(name, signal)
    ranked = sorted(
        (_candidate(step, tuple(named.values())) for step, named in against.items()),
        key=lambda candidate: (-candidate.weight, candidate.step),
    )
    floor = PASSED_FLOOR if case.reading.passed else EVIDENCE
    shown = (
        candidate
        for candidate in ranked
        if candidate.weight >= floor and candidate.signals[0].weight >= EVIDENCE
    )
    return tuple(shown)[:MOST]


def _candidate(step: int, signs: tuple[Signal, ...]) -> Candidate:
    strongest_first = tuple(sorted(signs, key=lambda sign: -sign.weight))
    return Candidate(
        step=step,
        weight=round(sum(sign.weight for sign in signs), 3),
        why=strongest_first[0].phrase,
        signals=strongest_first,
    )
