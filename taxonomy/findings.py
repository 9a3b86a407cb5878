"""What a judgement says: findings with their evidence, scores, and a diagnosis of one trace.

A finding of a rule or a judge is a suggestion until a person accepts it. Every one cites the spans
and values it rests on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from taxonomy.classes import Attribution, FailureClass, Shape

Source = Literal["human", "judge", "file", "import", "rule"]
"""Who says so, most trusted first: `file` is a file of scores that was brought in, `import` the
trace's own source."""


class Evidence(Struct, frozen=True, kw_only=True):
    """One thing a finding rests on.

    `role` is how it bears on it ("says", "observed", "stated", "called", "error", "repeats"…),
    `text` the value or words, `span` and `step` where they stand (None: the system prompt or the
    user's words before the first step), `place` a short word for that in print.
    """

    role: str
    text: str
    step: int | None = None
    span: str | None = None
    place: str = ""


SURE = 0.5
"""A finding less sure than this is a hint: shown beside its step, counted nowhere, and it decides
nothing."""


class Finding(Struct, frozen=True, kw_only=True):
    """A failure seen at a step. `why` is one phrase for a list; `confidence` 0..1, None unknown.

    `rule` names the detector, `sub` the sub-label of `other`, `attribution` who caused it where
    the evidence tells.
    """

    failure: FailureClass
    step: int
    why: str
    rule: str
    span: str | None = None
    sub: str | None = None
    attribution: Attribution | None = None
    confidence: float | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_hint(self) -> bool:
        """Is it too unsure to be counted?"""
        return self.confidence is not None and self.confidence < SURE


class Item(Struct, frozen=True, kw_only=True, gc=False):
    """One rubric item of a step: True or False where it was decided, None where it cannot be."""

    name: str
    held: bool | None
    because: str = ""


class StepScore(Struct, frozen=True, kw_only=True, gc=False):
    """A score 0..1 of one step and who gave it; `value` None where no item was decided."""

    step: int
    value: float | None
    source: Source
    by: str
    span: str | None = None
    items: tuple[Item, ...] = ()


TRUST: tuple[Source, ...] = ("human", "judge", "file", "import", "rule")

_PEOPLE = {"human", "person", "people", "annotation", "annotator"}
"""First words of the name of a person's score, as tools that people score in write it."""

FAILURE = 0.5
"""A score below is a clear failure; the middle of the scale is neutral: it decides nothing."""


def trust_rank(score: StepScore) -> tuple[bool, int]:
    """How much a score is trusted, the most first: a person's is, wherever it came from."""
    named = score.by.lower().split(maxsplit=1)
    person = score.source == "human" or (
        score.source in ("file", "import") and bool(named) and named[0].strip(":·") in _PEOPLE
    )
    return not person, TRUST.index(score.source)


def most_trusted(scores: Iterable[StepScore]) -> dict[int, StepScore]:
    """The most trusted score of each step that has one with a value. Scores are never mixed: of
    several that are trusted alike the middle one is taken, of an even number the lower."""
    by_step: dict[int, list[StepScore]] = defaultdict(list)
    for score in scores:
        if score.value is not None and math.isfinite(score.value):
            by_step[score.step].append(score)
    found: dict[int, StepScore] = {}
    for step, given in by_step.items():
        best = min(map(trust_rank, given))
        alike = [each for each in given if trust_rank(each) == best]
        alike.sort(key=lambda each: (each.value or 0.0, each.by))
        found[step] = alike[(len(alike) - 1) // 2]
    return found


class Signal(Struct, frozen=True, kw_only=True):
    """One sign that a step may be the break: its name, how much it weighs, its phrase."""

    name: str
    weight: float
    phrase: str


class Candidate(Struct, frozen=True, kw_only=True):
    """A step that may be where the run broke.

    `confidence` is how often such a step was the break on labelled runs that the fit did not see;
    None where that was not measured.
    """

    step: int
    weight: float
    why: str
    signals: tuple[Signal, ...]
    confidence: float | None = None

    @property
    def accuracy(self) -> str:
        """The confidence in words, in tens: more would claim more than was measured."""
        if self.confidence is None:
            return "accuracy unknown"
        tens = round(self.confidence * 10)
        return f"correct in {f'about {tens}' if tens else 'less than 1'} of 10 labelled runs"


class Diagnosis(Struct, frozen=True, kw_only=True):
    """Everything the rules say of one trace.

    `candidates` are up to three, best first, none where the rules abstain. `published` is the
    step of the plain published rule beside ours. `warnings` are why a passed run is `✓!`.
    """

    trace: str
    shape: Shape | None
    scores: tuple[StepScore, ...]
    findings: tuple[Finding, ...]
    candidates: tuple[Candidate, ...]
    published: int | None = None
    published_votes: tuple[Signal, ...] = ()
    published_shape: Shape | None = None
    warnings: tuple[str, ...] = ()
