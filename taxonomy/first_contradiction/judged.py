"""Which steps does a judge score under a half? Its word on each, by the rubric in force.

A judge is asked about every step by itself, in mode `step`; a good step after a bad one is
nothing unusual, so all are asked. What it said before, under the same rubric, is stored and not
asked again. Its word is a hypothesis, and how far the judge may be trusted stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.errors import OfflineMiss
from replay.locked.estimate import Estimate
from replay.models.cached import Cached
from replay.models.choose import DEMO, label
from replay.trace import SourceScore, Trace
from taxonomy.findings import Evidence, Item
from taxonomy.first_contradiction.contradictions import Answer
from taxonomy.first_contradiction.question import NOTHING
from taxonomy.goals import Goal
from taxonomy.judge.requests import JudgeRequest, Unasked, judge_requests
from taxonomy.judge.rubrics import ACHIEVED_SCORE, RUBRICS
from taxonomy.judge.scores import (
    RULE_VERSION,
    Judged,
    ScoreSet,
    estimate_cost,
    judged_each,
    rule_judged,
)

AT_ONCE = 8
"""Steps that are asked together: the one that is wanted, and those after it."""


class JudgeScoreDetector:
    """As `StepDetector`: does the judge score the step under a half? `judge` None judges by rule.

    `by` names the set its scores belong to. At most `max_steps` steps are asked, None for all.
    """

    monotone = False

    def __init__(
        self,
        trace: Trace,
        judge: Cached | None,
        *,
        goals: Sequence[Goal] = (),
        scores: Sequence[SourceScore] = (),
        max_steps: int | None = None,
    ) -> None:
        self.judge = judge
        name, version = DEMO, RULE_VERSION
        self._known: dict[int, Judged] = {}
        self._requests: dict[int, JudgeRequest] = {}
        self.unasked: Mapping[int, str] = {}
        if judge is None:
            scores_by_step = {each.step: each for each in rule_judged(trace, "step")}
            self._known = {step: each for step, each in scores_by_step.items() if step is not None}
        else:
            name, version = judge.name, RUBRICS["step"].version
            requests = list(
                judge_requests(trace, RUBRICS["step"], name, goals=goals, scores=scores)
            )
            self._requests = {e.places[0].step: e for e in requests if isinstance(e, JudgeRequest)}
            unasked = [each for each in requests if isinstance(each, Unasked)]
            self.unasked = {each.step: each.why for each in unasked if each.step is not None}
        self.name = f"scored under {ACHIEVED_SCORE} by the judge {label(name)}"
        self.by = ScoreSet(mode="step", model=name, rubric=version).by
        self.calls = 0 if judge is None else 1
        self.steps = tuple(sorted(self._known or self._requests))
        self._askable = self.steps[:max_steps]

    def at(self, step: int) -> Answer:
        """As `StepDetector.at`. Raises OfflineMiss naming the step, ModelRefused, Stopped."""
        if step not in self._known:
            self._ask(step)
        score = self._known[step]
        if score.value is None:
            return Answer(step=step, bad=None, phrase=_silence(score))
        bad = score.value < ACHIEVED_SCORE
        because = _because(score)
        shown = Evidence(
            role="judge",
            text=because or "nothing more",
            step=step,
            span=score.span,
            place=f"scored {score.value:.2f}",
        )
        return Answer(
            step=step,
            bad=bad,
            phrase=f"scored {score.value:.2f}{f': {because}' if because else ''}",
            evidence=(shown,) if bad else (),
        )

    @property
    def lowest(self) -> Answer | None:
        """Of the steps scored so far the first that has the lowest score."""
        scored = {step: each.value for step, each in self._known.items() if each.value is not None}
        step = min(scored, key=lambda at: (scored[at], at), default=None)
        return None if step is None else self.at(step)

    def estimate_cost(self) -> Estimate:
        """What asking about every step costs. Asks nothing."""
        if self.judge is None:
            return NOTHING
        return estimate_cost([self._requests[step] for step in self._askable], self.judge, 1)

    def _ask(self, step: int) -> None:
        """Ask about a step and those after it that nobody has asked about, together."""
        assert self.judge is not None
        ahead = [each for each in self._askable if each >= step and each not in self._known]
        batch = (ahead or [step])[:AT_ONCE]
        for place, score in judged_each([self._requests[e] for e in batch], self.judge, 1):
            if score.missing:
                raise OfflineMiss(
                    f"step {batch[place]}: no stored score of the judge {self.judge.name}",
                    "Try: --live --budget 0.50, or --judge demo (by rule)",
                )
            self._known[batch[place]] = score


def _silence(score: Judged) -> str:
    return score.unasked or next(iter(score.refused), "no score")


def _because(score: Judged) -> str:
    """What speaks against the step, and the words that stand beside a band."""
    return " · ".join(filter(None, map(_item, score.items)))


def _item(item: Item) -> str:
    if item.held is not None:
        return "" if item.held else f"{item.name}: no{f', {item.because}' * bool(item.because)}"
    return item.because
