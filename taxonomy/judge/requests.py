"""The requests that ask a judge about a run: a step each, or one for the whole of it.

Models favour answers of their own family, so a judge of the agent's family is warned about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from replay import digests
from replay.convert import Converter, Sent
from replay.trace import Message, Request, SourceScore, Trace, extend
from taxonomy.evidence.reading import Turn
from taxonomy.goals import Goal
from taxonomy.judge.exhibit import Exhibit, Exhibits, SubGoal, fenced
from taxonomy.judge.rubrics import Rubric

ANSWER_TOKENS = 4096
"""Room for an answer, and for the thinking of models that cannot leave it."""

ANSWER_TOKENS_A_STEP = 150
"""What each step adds to it where the answer is about all of them."""


class Place(NamedTuple):
    """A step and its model span."""

    step: int
    span: str


class JudgeRequest(Struct, frozen=True, eq=False, kw_only=True):
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


def size(inquiry: JudgeRequest) -> int:
    """The characters of a request."""
    return len(digests.encode(inquiry.sent.body()))


_FAMILIES: dict[str, str] = {
    "Claude": r"claude",
    "GPT": r"gpt|chatgpt|davinci|codex|o[1-9](?=$|-)",
    "Gemini": r"gemini|gemma|palm",
    "Llama": r"(?:meta-)?llama|codellama",
    "Mistral": r"mistral|mixtral|codestral|devstral|magistral|ministral",
    "Qwen": r"qwen|qwq",
    "DeepSeek": r"deepseek",
    "Grok": r"grok",
    "Command": r"command",
    "Kimi": r"kimi|moonshot",
    "GLM": r"glm|chatglm",
    "Nova": r"nova",
    "Phi": r"phi(?=[-\d])",
}
_PATTERNS = {name: re.compile(pattern) for name, pattern in _FAMILIES.items()}


def family(model: str) -> str | None:
    """The family a model's name belongs to, None where the name does not tell."""
    for part in re.split(r"[/:.]", model.lower()):
        for name, pattern in _PATTERNS.items():
            if pattern.match(part):
                return name
    return None


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
