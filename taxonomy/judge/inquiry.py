"""The requests that ask a judge about a run: a step each, or one for the whole of it.

A request is a plain body of the Messages API with a JSON Schema for its answer. What a mode cannot
ask is said beside, never asked in another way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from replay import canon
from replay.convert import Converter, Sent
from replay.trace import Message, Request, SourceScore, Trace, extend
from taxonomy.evidence.reading import Turn
from taxonomy.goals import Goal
from taxonomy.judge.exhibit import Exhibits, SubGoal
from taxonomy.judge.fence import fenced
from taxonomy.judge.sheet import Exhibit
from taxonomy.rubrics import Rubric

ANSWER_TOKENS = 4096
"""Room for an answer, and for the thinking of models that cannot leave it."""

ANSWER_TOKENS_A_STEP = 150
"""What each step adds to it where the answer is about all of them."""


class Place(NamedTuple):
    """A step and its model span."""

    step: int
    span: str


class Inquiry(Struct, frozen=True, eq=False, kw_only=True):
    """A request about `places`: one step, or every step of a run."""

    rubric: Rubric
    places: tuple[Place, ...]
    exhibit: Exhibit
    sent: Sent
    goal: SubGoal | None = None


class Unasked(Struct, frozen=True, kw_only=True):
    """A step that is not asked about, and why; `step` None: the run."""

    step: int | None
    why: str
    span: str = ""


def inquiries(
    trace: Trace,
    rubric: Rubric,
    model: str,
    *,
    goals: Sequence[Goal] = (),
    scores: Sequence[SourceScore] = (),
) -> Iterator[Inquiry | Unasked]:
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


def _of_step(exhibits: Exhibits, turn: Turn, rubric: Rubric, model: str) -> Inquiry | Unasked:
    goal = exhibits.sub_goal(turn)
    if rubric.mode == "window":
        shown = exhibits.of_window(turn, goal)
    elif goal is not None:
        shown = exhibits.of_step(turn, goal)
    else:
        why = "no goal covers it, and no user had asked for anything"
        return Unasked(step=turn.index, why=why, span=turn.ask.id)
    return Inquiry(
        rubric=rubric,
        places=(Place(turn.index, turn.ask.id),),
        exhibit=shown,
        sent=_sent(rubric, model, shown, f"step {turn.index}", ANSWER_TOKENS),
        goal=goal,
    )


def _of_run(
    exhibits: Exhibits, turns: Sequence[Turn], rubric: Rubric, model: str
) -> Inquiry | Unasked:
    shown = exhibits.of_run()
    if shown is None:
        return Unasked(step=None, why="too long to be shown at once; score its steps one by one")
    places = tuple(Place(turn.index, turn.ask.id) for turn in turns)
    what = f"each of the steps {', '.join(str(place.step) for place in places)}, and the run"
    room = ANSWER_TOKENS + ANSWER_TOKENS_A_STEP * len(places)
    return Inquiry(
        rubric=rubric,
        places=places,
        exhibit=shown,
        sent=_sent(rubric, model, shown, what, room),
    )


def _sent(rubric: Rubric, model: str, shown: Exhibit, what: str, max_tokens: int) -> Sent:
    words = f"{fenced(shown.pieces)}\n\nNow judge {what} by the rubric."
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


def size(inquiry: Inquiry) -> int:
    """The characters of a request."""
    return len(canon.encode(inquiry.sent.body()))
