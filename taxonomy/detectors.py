"""The detectors of `replay` that need judgement: what tells a bad answer, or a run that went wrong?

A rule: the answer is put in the place of the recorded one, the trace ends there, and the rule that
found the failure reads it again. Only rules that need nothing of what came back later can answer
so; of the others, an answer with the recorded calls shows the failure, and of another nothing is
known.

The gold calls of the source. A judge, who sees the answer in the place of the recorded one: every
wording is held to the same sub-goal, in the words the user really used. Were the judge shown the
paraphrase, its own way with words would be measured too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

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
from replay.trace import Message, Response, SourceScore, Step, ToolCall, Trace
from taxonomy.findings import Finding
from taxonomy.goals import Goal
from taxonomy.judge.requests import JudgeRequest, Unasked, judge_requests
from taxonomy.judge.rubrics import ACHIEVED_SCORE, RUBRICS, Rubric
from taxonomy.judge.scores import Judged, estimate_cost, judged_each, rule_judged
from taxonomy.metrics.calls import counted, pairs
from taxonomy.metrics.gold import gold_of
from taxonomy.rules import EVERY_RULE, rule_of
from taxonomy.rules.rule import RuleContext, Shown


class RuleDetector:
    """A finding of a rule, asked of other answers at its step."""

    def __init__(self, trace: Trace, finding: Finding) -> None:
        self.name = f"{finding.rule}, by rule"
        self.step = finding.step
        self._trace = trace
        self._finding = finding
        self._at = trace.steps[finding.step]
        recorded = action(self._at.ask.response, self._at.ask.error)
        self._recorded = _identity(recorded)
        self._recorded_acted = bool(recorded.calls)
        self._known: dict[str, bool | None] = {}

    @property
    def reads_answers(self) -> bool:
        """Can the rule tell of another answer that it no longer shows the failure?"""
        return _shown(self._finding) != "later"

    def shows(self, given: Action) -> bool | None:
        """As `replay.predicate.Detector`; the recorded answer shows what was found in it."""
        identity = _identity(given)
        if identity not in self._known:
            same = identity == self._recorded
            self._known[identity] = True if same else self._judged(given)
        return self._known[identity]

    def _judged(self, given: Action) -> bool | None:
        if given.cut is not None:
            return None
        shown = _shown(self._finding)
        if shown == "answer":
            return self._found(given)
        if shown == "repeated calls":
            return None if not given.calls else self._repeats(given)
        if shown == "no calls" and not self._recorded_acted:
            return False if given.calls else True if self._found(given) else None
        return True if self._found(given) else None

    def _found(self, given: Action) -> bool:
        """Does the rule say the same of a run that ends with this answer?"""
        case = RuleContext(supposed(self._trace, self._at, given))
        return any(
            found.step == self.step and found.rule == self._finding.rule
            for rule in EVERY_RULE
            for found in rule.find(case)
        )

    def _repeats(self, given: Action) -> bool:
        """Are all its calls ones that were made before?"""
        before = {
            _recorded_call(act) for step in self._trace.steps[: self.step + 1] for act in step.acts
        }
        return all(_call(call) in before for call in given.calls)


class TaggedCallDetector:
    """A call that a person tagged: an answer that makes it shows the failure, no other does."""

    def __init__(self, tagged: ToolCall, step: int, by: str) -> None:
        self.name = by
        self.step = step
        self._tagged = _recorded_call(tagged)

    def shows(self, given: Action) -> bool | None:
        """As `replay.predicate.Detector`."""
        if any(_call(call) == self._tagged for call in given.calls):
            return True
        return None if given.cut is not None else False


def _shown(finding: Finding) -> Shown:
    rule = rule_of(finding)
    return "later" if rule is None else rule.shown


def detector_at(trace: Trace, findings: Iterable[Finding], step: int | None) -> RuleDetector | None:
    """The detector of what was found at a step, None where no rule found anything there."""
    here = [found for found in findings if found.step == step]
    direct = [found for found in here if _shown(found) == "answer"]
    for found in (*direct, *here):
        return RuleDetector(trace, found)
    return None


def supposed(trace: Trace, at: Step, given: Action) -> Trace:
    """The trace up to a step, ending with another answer there, whose calls nothing answered."""
    blocks = [{"type": "text", "text": given.text}] if given.text else []
    calls = [
        ToolCall(
            id=f"{at.ask.id}/{place}",
            name=call.tool,
            parent=at.ask.parent,
            asked_by=at.ask.id,
            call_id=f"supposed_{place}",
            arguments=None if call.raw is not None else call.arguments,
            arguments_raw=call.raw,
        )
        for place, call in enumerate(given.calls)
    ]
    uses = [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.arguments or {}}
        for call in calls
    ]
    message = Message(dialect="anthropic", body={"role": "assistant", "content": [*blocks, *uses]})
    response = Response(message=message, stop="tool" if calls else "end")
    step = structs.replace(
        at, ask=structs.replace(at.ask, response=response, error=None), acts=tuple(calls)
    )
    return structs.replace(trace, steps=(*trace.steps[: at.index], step))


def _identity(given: Action) -> str:
    """What tells answers apart."""
    return digests.canonical([[_call(call) for call in given.calls], given.text, given.cut])


def _recorded_call(act: ToolCall) -> str:
    return _call(Act(tool=act.name, arguments=act.arguments, raw=act.arguments_raw))


def _call(call: Act) -> str:
    return digests.canonical([call.tool, call.arguments, call.raw])


class NothingExpected(ArcError):
    """There is nothing to hold an answer against; the hint says what could be."""


class GoldDetector:
    """Does an answer make the gold call that is due? Gold is of the whole run: the user's, else the
    source's.

    Due are the gold calls that no step before made. An answer is not bad where all it changes is
    due, bad where it changes something else; one that only looks something up decides nothing, nor
    does one that speaks while calls are due.
    """

    def __init__(self, trace: Trace, step: int) -> None:
        """Raises NothingExpected where neither user nor source gives gold calls."""
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
        """Raises NothingExpected where neither user nor source gives gold calls."""
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
            self._known[_identity(self._recorded)] = recorded

    def shows(self, given: Action) -> bool | None:
        """As `replay.predicate.Detector`. Raises as `consider`."""
        self.consider([given])
        return self._known[_identity(given)]

    def consider(self, actions: Sequence[Action]) -> None:
        """Have the judge say of answers what it has not said yet, several at once.

        Raises OfflineMiss where the judge's word is not stored and may not be asked for,
        ModelRefused where the judge declines altogether.
        """
        open_ = {name: each for each in actions if (name := _identity(each)) not in self._known}
        if self.judge is None:
            for name, each in open_.items():
                self._known[name] = _bad(by_rule(self._trace, self.step, each))
            return
        asked = {name: self._judge_request(each, self.judge) for name, each in open_.items()}
        self._known |= {name: None for name, each in asked.items() if isinstance(each, Unasked)}
        about = {name: each for name, each in asked.items() if isinstance(each, JudgeRequest)}
        names = list(about)
        for place, said in judged_each(list(about.values()), self.judge, 1):
            if said.missing:
                raise OfflineMiss(
                    f"no stored score of the judge {self.judge.name} on an answer",
                    "Try: --live --budget 0.50, or --judge demo (by rule)",
                )
            self._known[names[place]] = _bad(said)

    def estimate_cost(self, actions: Sequence[Action], others: int = 0) -> Estimate:
        """What judging answers would ask and cost, and `others` that nobody has seen yet, each
        taken to be new and of the recorded one's size. Asks nothing."""
        if self.judge is None:
            return NO_CALLS
        distinct = {_identity(each): each for each in actions}
        known = estimate_cost(
            [self._judge_request(each, self.judge) for each in distinct.values()], self.judge, 1
        )
        with Store.open(":memory:") as empty:
            nobody = Cached(empty, self.judge.name)
            like = self._judge_request(self._recorded, self.judge)
            each = estimate_cost([like], nobody, 1)
        return total_estimate([known, *[each] * others])

    @property
    def _recorded(self) -> Action:
        at = self._trace.steps[self.step].ask
        return action(at.response, at.error)

    def _judge_request(self, given: Action, judge: Cached) -> JudgeRequest | Unasked:
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


def _gold(trace: Trace) -> tuple[Act, ...]:
    """The gold calls of a run, () where nothing was to be done."""
    gold = gold_of(trace.header.reference or {})
    if gold is None:
        raise NothingExpected(
            "this run has no gold actions",
            "Try: --expect 'tool=NAME', or arc gold import FILE",
        )
    return gold.calls


def judge_needed(name: str | None, model: str) -> str:
    """Who judges: as asked for, else the rules where the demo model answers.

    Raises ModelRefused where a judge must be named.
    """
    if name is None and model != DEMO:
        raise ModelRefused(
            "no judge given",
            "Try: --judge NAME, of another model family, or --judge demo (by rule)",
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
        return Unasked(step=step, why=f"the response is {given.cut}", span=_span(trace, step))
    shown = supposed(trace, trace.steps[step], given)
    *_, last = judge_requests(shown, rubric, model, goals=goals, scores=scores)
    return last


def by_rule(trace: Trace, step: int, given: Action) -> Judged:
    """What the rules say of an answer at a step."""
    if given.cut is not None:
        return Judged(step=step, span=_span(trace, step), unasked=f"the response is {given.cut}")
    shown = supposed(trace, trace.steps[step], given)
    return next(each for each in rule_judged(shown, "step") if each.step == step)


def _span(trace: Trace, step: int) -> str:
    return trace.steps[step].ask.id
