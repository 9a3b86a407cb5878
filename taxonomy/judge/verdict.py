"""What did the judge say? One answer, read strictly: marks of steps, or why it will not do.

An answer that does not parse, leaves its scale, or cites a step that was not shown to it is refused
as a whole. It is counted and never scored: who cites what it cannot have seen made the rest up too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from replay.messages import content_text
from taxonomy.judge.requests import JudgeRequest
from taxonomy.judge.rubrics import Rubric


class Cited(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An opinion's one sentence and the steps it rests on."""

    rationale: str
    steps: tuple[int, ...]


class Band(Cited, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A score on the bands, 0..1."""

    score: float


class StepBand(Band, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same of a step of a run."""

    step: int


class ItemMark(Cited, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A yes or no item."""

    verdict: Literal["yes", "no", "not applicable"]


class Mark(Struct, frozen=True, kw_only=True):
    """What one answer says of a step (None: of the whole run).

    `value` 0..1 is the band, or the share of yes among the items that apply, None where none does.
    `said` are the opinions behind it, by the name of their item.
    """

    step: int | None
    value: float | None
    said: Mapping[str, Band | ItemMark]


class Refused(Struct, frozen=True):
    """Why an answer is not counted."""

    why: str


class _Run(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scored: tuple[StepBand, ...]
    overall: Band


OVERALL = "band"
"""The name of the one opinion of a band score."""

_ENDS = {
    "max_tokens": "it was cut at the token limit",
    "refusal": "the provider declined to answer",
    "model_context_window_exceeded": "it ran out of context window",
}


def marks(inquiry: JudgeRequest, answer: Mapping[str, Any]) -> tuple[Mark, ...] | Refused:
    """What a message of the Messages API says in answer to an inquiry."""
    ended = _ENDS.get(str(answer.get("stop_reason")))
    if ended is not None:
        return Refused(ended)
    try:
        found = tuple(_read(inquiry, content_text(answer.get("content"))))
    except msgspec.DecodeError as error:
        return Refused(f"it does not follow its schema: {error}")
    wrong = next(_flaws(inquiry, found), None)
    return found if wrong is None else Refused(wrong)


def _read(inquiry: JudgeRequest, text: str) -> Iterator[Mark]:
    match inquiry.rubric.mode:
        case "step":
            yield _band(inquiry.places[0].step, msgspec.json.decode(text, type=Band))
        case "window":
            yield _items(inquiry.rubric, inquiry.places[0].step, text)
        case "run":
            run = msgspec.json.decode(text, type=_Run)
            yield from (_band(each.step, each) for each in run.scored)
            yield _band(None, run.overall)


def _band(step: int | None, said: Band) -> Mark:
    return Mark(step=step, value=said.score, said={OVERALL: said})


def _items(rubric: Rubric, step: int, text: str) -> Mark:
    given = msgspec.json.decode(text, type=dict[str, ItemMark])
    if set(given) != {question.key for question in rubric.questions}:
        raise msgspec.ValidationError("not the items that were asked for")
    said = {question.name: given[question.key] for question in rubric.questions}
    decided = [each.verdict == "yes" for each in said.values() if each.verdict != "not applicable"]
    return Mark(step=step, value=sum(decided) / len(decided) if decided else None, said=said)


def _flaws(inquiry: JudgeRequest, found: Sequence[Mark]) -> Iterator[str]:
    known = {place.step for place in inquiry.places}
    scored = [mark.step for mark in found if mark.step is not None]
    yield from (f"it scores step {step}, which it was not asked about" for step in scored
                if step not in known)  # fmt: skip
    if len(set(scored)) < len(scored):
        yield "it scores a step twice"
    for mark in found:
        if mark.value is not None and not (math.isfinite(mark.value) and 0 <= mark.value <= 1):
            yield f"its score {mark.value:g} is not from 0 to 1"
        for said in mark.said.values():
            yield from _flaws_of(said, inquiry.exhibit.steps)


def _flaws_of(said: Band | ItemMark, shown: frozenset[int]) -> Iterator[str]:
    yield from (f"it cites step {step}, which it was not shown" for step in said.steps
                if step not in shown)  # fmt: skip
    if isinstance(said, ItemMark) and said.verdict == "not applicable":
        return
    if not said.rationale.strip():
        yield "it gives no reason"
    if not said.steps:
        yield "it cites no step"
