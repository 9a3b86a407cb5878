"""What is a judge asked about a run, and what did it say? A request a step, or one for all of it.

Models favour answers of their own family, so a judge of the agent's family is warned about.

An answer is read strictly: one that does not parse, leaves its scale, or cites a step that was not
shown to it is refused as a whole. It is counted and never scored: who cites what it cannot have
seen made the rest up too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from replay import digests
from replay.convert import Converter, Sent
from replay.messages import content_text
from replay.providers import family
from replay.trace import Message, Request, SourceScore, Trace, extend
from taxonomy.evidence.reading import Turn
from taxonomy.goals import Goal
from taxonomy.judge.exhibit import Exhibit, Exhibits, Piece, SubGoal, fenced
from taxonomy.judge.rubrics import Rubric

ANSWER_TOKENS = 4096
"""Room for an answer, and for the thinking of models that cannot leave it."""

ANSWER_TOKENS_A_STEP = 150
"""What each step adds to it where the answer is about all of them."""

_BAND_TOKENS = 80
_ITEM_TOKENS = 60
"""About what a score, and a verdict on an item, take."""


class Place(NamedTuple):
    """A step and its model span."""

    step: int
    span: str


class JudgeRequest(Struct, frozen=True, eq=False, kw_only=True):
    """A request about `places`: one step, or every step of a run. `answer_tokens` is about what an
    answer takes."""

    rubric: Rubric
    places: tuple[Place, ...]
    exhibit: Exhibit
    sent: Sent
    answer_tokens: int
    goal: SubGoal | None = None


class Unasked(Struct, frozen=True, kw_only=True):
    """A step that is not asked about, and why; `step` None: the run."""

    step: int | None
    why: str
    span: str = ""


def judge_requests(
    trace: Trace,
    rubric: Rubric,
    model: str,
    *,
    goals: Sequence[Goal] = (),
    scores: Sequence[SourceScore] = (),
) -> Iterator[JudgeRequest | Unasked]:
    """What to ask a model about a trace, in step order.

    `model` is its name as the server knows it; `goals` are those of the trace's task. `scores`
    are the source's own, whose words are withheld.
    """
    exhibits = Exhibits(trace, goals, scores)
    asked: list[Turn] = []
    for turn in exhibits.reading.turns:
        why = _nothing_to_judge(turn)
        if why is not None:
            yield Unasked(step=turn.index, why=why, span=turn.ask.id)
        elif rubric.mode == "run":
            asked.append(turn)
        else:
            yield _of_step(exhibits, turn, rubric, model)
    if rubric.mode == "run" and asked:
        yield _of_run(exhibits, asked, rubric, model)


def _nothing_to_judge(turn: Turn) -> str | None:
    if turn.observer:
        return "a terminal's message, not a model's"
    if turn.ask.response.message is None:
        return "no answer was recorded"
    return None


def _of_step(exhibits: Exhibits, turn: Turn, rubric: Rubric, model: str) -> JudgeRequest | Unasked:
    goal = exhibits.sub_goal(turn)
    if rubric.mode == "window":
        shown = exhibits.of_window(turn, goal)
    elif goal is not None:
        shown = exhibits.of_step(turn, goal)
    else:
        why = "no goal covers it, and no user had asked for anything"
        return Unasked(step=turn.index, why=why, span=turn.ask.id)
    return JudgeRequest(
        rubric=rubric,
        places=(Place(turn.index, turn.ask.id),),
        exhibit=shown,
        sent=_sent(rubric, model, shown, f"step {turn.index}", ANSWER_TOKENS),
        answer_tokens=_ITEM_TOKENS * len(rubric.questions) or _BAND_TOKENS,
        goal=goal,
    )


def _of_run(
    exhibits: Exhibits, turns: Sequence[Turn], rubric: Rubric, model: str
) -> JudgeRequest | Unasked:
    shown = exhibits.of_run()
    if shown is None:
        return Unasked(step=None, why="too long to be shown at once; score its steps one by one")
    places = tuple(Place(turn.index, turn.ask.id) for turn in turns)
    what = f"each of the steps {', '.join(str(place.step) for place in places)}, and the run"
    room = ANSWER_TOKENS + ANSWER_TOKENS_A_STEP * len(places)
    return JudgeRequest(
        rubric=rubric,
        places=places,
        exhibit=shown,
        sent=_sent(rubric, model, shown, what, room),
        answer_tokens=_BAND_TOKENS * len(places),
    )


def _sent(rubric: Rubric, model: str, shown: Exhibit, what: str, max_tokens: int) -> Sent:
    return sent_to(model, rubric, shown.pieces, f"Now judge {what} by the rubric.", max_tokens)


def sent_to(
    model: str,
    rubric: Rubric,
    pieces: Sequence[Piece],
    question: str,
    max_tokens: int = ANSWER_TOKENS,
) -> Sent:
    """A request about what is quoted, for an answer in the shape of the rubric."""
    words = f"{fenced(pieces)}\n\n{question}"
    request = Request(
        system=Message(dialect="anthropic", body={"role": "system", "content": rubric.system}),
        params={
            "max_tokens": max_tokens,
            "output_config": {"format": {"type": "json_schema", "schema": rubric.shape}},
        },
        context=extend(
            None, [Message(dialect="anthropic", body={"role": "user", "content": words})]
        ),
    )
    return Converter(model).sent(request)


def size(inquiry: JudgeRequest) -> int:
    """The characters of a request."""
    return len(digests.encode(inquiry.sent.body()))


def warning(judge: str, agents: Iterable[str]) -> str | None:
    """What speaks against a judge of these agents' models, None where nothing is known to."""
    models = list(dict.fromkeys(agents))
    if not models:
        return "which model the agent ran on is not recorded: the judge may be of its family"
    own = family(judge)
    same = [model for model in models if model == judge or (own and family(model) == own)]
    if not same:
        return None
    kind = f"of one family ({own})" if own else "one model"
    return f"{judge} judges {', '.join(same)}: {kind}; models favour their own, use another family"


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


def why_incomplete(answer: Mapping[str, Any]) -> Refused | None:
    """Why a message of the Messages API is no whole answer, None where it is one."""
    ended = _ENDS.get(str(answer.get("stop_reason")))
    return None if ended is None else Refused(ended)


def marks(inquiry: JudgeRequest, answer: Mapping[str, Any]) -> tuple[Mark, ...] | Refused:
    """What a message of the Messages API says in answer to an inquiry."""
    incomplete = why_incomplete(answer)
    if incomplete is not None:
        return incomplete
    try:
        found = tuple(_read(inquiry, content_text(answer.get("content"))))
    except msgspec.DecodeError as error:
        return Refused(f"it does not follow its schema: {error}")
    wrong = next(_flaws(inquiry, found), None)
    return found if wrong is None else Refused(wrong)


def _read(inquiry: JudgeRequest, text: str) -> Iterator[Mark]:
    if inquiry.rubric.questions:
        yield _items(inquiry.rubric, inquiry.places[0].step, text)
    elif inquiry.rubric.mode == "run":
        run = msgspec.json.decode(text, type=_Run)
        yield from (_band(each.step, each) for each in run.scored)
        yield _band(None, run.overall)
    else:
        yield _band(inquiry.places[0].step, msgspec.json.decode(text, type=Band))


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
