"""What does a judge say of an answer that stands in no trace? It takes the recorded one's place.

Every wording is held to the same sub-goal, in the words the user really used: were the judge shown
the paraphrase, its own way with words would be measured too.
"""

from __future__ import annotations

from collections.abc import Sequence

from replay.action import Action
from replay.trace import SourceScore, Trace
from taxonomy.goals import Goal
from taxonomy.judge.bench import Judged
from taxonomy.judge.inquiry import Inquiry, Unasked, inquiries
from taxonomy.judge.rule_judge import rule_judged
from taxonomy.oracles import supposed
from taxonomy.rubrics import Rubric


def asked_of(
    trace: Trace,
    step: int,
    given: Action,
    rubric: Rubric,
    model: str,
    *,
    goals: Sequence[Goal] = (),
    scores: Sequence[SourceScore] = (),
) -> Inquiry | Unasked:
    """What to ask a model about an answer at a step. A whole answer is needed to judge."""
    if given.cut is not None:
        return Unasked(step=step, why=f"the answer is {given.cut}", span=_span(trace, step))
    shown = supposed(trace, trace.steps[step], given)
    *_, last = inquiries(shown, rubric, model, goals=goals, scores=scores)
    return last


def by_rule(trace: Trace, step: int, given: Action) -> Judged:
    """What the rules say of an answer at a step."""
    if given.cut is not None:
        return Judged(step=step, span=_span(trace, step), unasked=f"the answer is {given.cut}")
    shown = supposed(trace, trace.steps[step], given)
    return next(each for each in rule_judged(shown, "step") if each.step == step)


def _span(trace: Trace, step: int) -> str:
    return trace.steps[step].ask.id
