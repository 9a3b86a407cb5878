"""Oracles that hold an answer against something beside the rules: the gold calls, a judge.

`taxonomy.detectors` has the one that asks whether a rule would find the same failure again.

What does a judge say of an answer that stands in no trace? It takes the recorded one's place.

Every wording is held to the same sub-goal, in the words the user really used: were the judge
shown the paraphrase, its own way with words would be measured too.
"""

from __future__ import annotations

from collections.abc import Sequence

from replay import digests
from replay.action import Act, Action, action
from replay.bisection.trials import as_one
from replay.errors import ArcError, ModelRefused, OfflineMiss
from replay.free.recorded import effect_of, effects_of
from replay.free.result import FreeRun
from replay.locked.estimate import NO_CALLS, Estimate, total_estimate
from replay.models.cached import Cached
from replay.models.choose import DEMO, label
from replay.store.handle import Store
from replay.trace import SourceScore, Trace
from taxonomy.detectors import supposed
from taxonomy.goals import Goal
from taxonomy.judge.requests import JudgeRequest, Unasked, judge_requests
from taxonomy.judge.rubrics import ACHIEVED_SCORE, RUBRICS, Rubric
from taxonomy.judge.run import Judged, estimate_cost, judged_each, rule_judged
from taxonomy.metrics.calls import counted, gold_of, pairs


class NothingExpected(ArcError):
    """There is nothing to hold an answer against; the hint says what could be."""


class GoldDetector:
    """Does an answer make the gold call that is due? Gold is the source's own, for the whole run.

    Due are the gold calls that no step before made. An answer is not bad where all it changes is
    due, bad where it changes something else; one that only looks something up decides nothing, nor
    does one that speaks while calls are due.
    """

    def __init__(self, trace: Trace, step: int) -> None:
        """Raises NothingExpected where the source of the trace has no gold calls."""
        gold = _gold(trace)
        made = [
            counted(call)
            for before in trace.steps[:step]
            for call in action(before.ask.response, before.ask.error).calls
        ]
        done = {place for _, place in pairs(made, [counted(call) for call in gold])}
        self.name = "not the gold action"
        self.step = step
        self.due = tuple(call for place, call in enumerate(gold) if place not in done)
        self._effects = effects_of(trace, {})

    def shows(self, given: Action) -> bool | None:
        """As `replay.predicate.Detector`."""
        if given.cut is not None:
            return None
        due = [self._is_due(call) for call in given.calls]
        if any(
            not hit and not self._reads(call) for hit, call in zip(due, given.calls, strict=True)
        ):
            return True
        if any(due) or (not given.calls and not self.due):
            return False
        return None

    def _is_due(self, call: Act) -> bool:
        return any(counted(call).like(counted(each)) for each in self.due)

    def _reads(self, call: Act) -> bool:
        return effect_of(call, self._effects).reads


class GoldEnding:
    """Did a run change what gold changes, and nothing else? A `replay.bisection.trials.Ending`.

    Its calls that may write, those recorded before its start among them, must be the gold ones, as
    a multiset. One that is not gold settles it, whatever comes later; reads do not count.
    """

    def __init__(self, trace: Trace) -> None:
        """Raises NothingExpected where the source of the trace has no gold calls."""
        self.name = "the gold actions"
        self._effects = effects_of(trace, {})
        self._gold = [counted(call) for call in _gold(trace) if self._writes(call)]

    def met(self, trace: Trace, run: FreeRun) -> bool | None:
        made = [counted(call) for call in as_one(trace, run).calls if self._writes(call)]
        found = pairs(made, self._gold)
        if len(found) < len(made):
            return False
        if run.status != "finished":
            return None
        return len(found) == len(self._gold)

    def _writes(self, call: Act) -> bool:
        return not effect_of(call, self._effects).reads


class JudgeDetector:
    """Does a judge score the answer under a half? It is shown in the place of the recorded one.

    `judge` None judges by rule. An answer is judged once; what a judge said is stored. `recorded`
    is the verdict on the recorded answer where there is one, given with what came back in sight:
    the same answer gets the same.
    """

    def __init__(
        self,
        trace: Trace,
        step: int,
        judge: Cached | None,
        *,
        goals: Sequence[Goal] = (),
        scores: Sequence[SourceScore] = (),
        recorded: bool | None = None,
    ) -> None:
        named = label(DEMO if judge is None else judge.name)
        self.name = f"scored under {ACHIEVED_SCORE} by the judge {named}"
        self.step = step
        self.judge = judge
        self._trace = trace
        self._goals = goals
        self._scores = scores
        self._known: dict[str, bool | None] = {}
        if recorded is not None:
            self._known[_words(self._recorded)] = recorded

    def shows(self, given: Action) -> bool | None:
        """As `replay.predicate.Detector`. Raises as `consider`."""
        self.consider([given])
        return self._known[_words(given)]

    def consider(self, actions: Sequence[Action]) -> None:
        """Have the judge say of answers what it has not said yet, several at once.

        Raises OfflineMiss where the judge's word is not stored and may not be asked for,
        ModelRefused where the judge declines altogether.
        """
        open_ = {name: each for each in actions if (name := _words(each)) not in self._known}
        if self.judge is None:
            for name, each in open_.items():
                self._known[name] = _bad(by_rule(self._trace, self.step, each))
            return
        asked = {name: self._inquiry(each, self.judge) for name, each in open_.items()}
        self._known |= {name: None for name, each in asked.items() if isinstance(each, Unasked)}
        about = {name: each for name, each in asked.items() if isinstance(each, JudgeRequest)}
        names = list(about)
        for place, said in judged_each(list(about.values()), self.judge, 1):
            if said.missing:
                raise OfflineMiss(
                    f"no stored word of the judge {self.judge.name} on an answer",
                    "--live with a limit (--budget USD) asks for it; --judge demo judges by rule",
                )
            self._known[names[place]] = _bad(said)

    def estimate_cost(self, actions: Sequence[Action], others: int = 0) -> Estimate:
        """What judging answers would ask and cost, and `others` that nobody has seen yet, each
        taken to be new and of the recorded one's size. Asks nothing."""
        if self.judge is None:
            return NO_CALLS
        distinct = {_words(each): each for each in actions}
        known = estimate_cost(
            [self._inquiry(each, self.judge) for each in distinct.values()], self.judge, 1
        )
        with Store.open(":memory:") as empty:
            nobody = Cached(empty, self.judge.name)
            like = self._inquiry(self._recorded, self.judge)
            each = estimate_cost([like], nobody, 1)
        return total_estimate([known, *[each] * others])

    @property
    def _recorded(self) -> Action:
        at = self._trace.steps[self.step].ask
        return action(at.response, at.error)

    def _inquiry(self, given: Action, judge: Cached) -> JudgeRequest | Unasked:
        return asked_of(
            self._trace,
            self.step,
            given,
            RUBRICS["step"],
            judge.name,
            goals=self._goals,
            scores=self._scores,
        )


def _bad(said: Judged) -> bool | None:
    return None if said.value is None else said.value < ACHIEVED_SCORE


def _words(given: Action) -> str:
    """What tells answers apart."""
    return digests.canonical(
        [[[each.tool, each.arguments, each.raw] for each in given.calls], given.text, given.cut]
    )


def _gold(trace: Trace) -> tuple[Act, ...]:
    """The gold calls of a run, () where nothing was to be done."""
    gold = gold_of(trace.header.reference or {})
    if gold is None:
        raise NothingExpected(
            "the source of this run holds no gold actions",
            "say what is expected: --expect 'tool=NAME'",
        )
    return gold.calls


def judge_needed(name: str | None, model: str) -> str:
    """Who judges: as asked for, else the rules where the demo model answers.

    Raises ModelRefused where a judge must be named.
    """
    if name is None and model != DEMO:
        raise ModelRefused(
            "a judge must be named",
            "--judge NAME, of another family than the agent's; --judge demo judges by rule",
        )
    return name or DEMO


def asked_of(
    trace: Trace,
    step: int,
    given: Action,
    rubric: Rubric,
    model: str,
    *,
    goals: Sequence[Goal] = (),
    scores: Sequence[SourceScore] = (),
) -> JudgeRequest | Unasked:
    """What to ask a model about an answer at a step. A whole answer is needed to judge."""
    if given.cut is not None:
        return Unasked(step=step, why=f"the answer is {given.cut}", span=_span(trace, step))
    shown = supposed(trace, trace.steps[step], given)
    *_, last = judge_requests(shown, rubric, model, goals=goals, scores=scores)
    return last


def by_rule(trace: Trace, step: int, given: Action) -> Judged:
    """What the rules say of an answer at a step."""
    if given.cut is not None:
        return Judged(step=step, span=_span(trace, step), unasked=f"the answer is {given.cut}")
    shown = supposed(trace, trace.steps[step], given)
    return next(each for each in rule_judged(shown, "step") if each.step == step)


def _span(trace: Trace, step: int) -> str:
    return trace.steps[step].ask.id
