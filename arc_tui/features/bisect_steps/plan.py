"""`arc bisect steps` made ready: its detector, its models, how the step found is confirmed; and
what both cost, estimated before the first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from arc_tui.experiments.expectation import JUDGE, ending, judge_of
from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.request import ExperimentRequest
from replay import kept
from replay.bisection.rounds import SampleRequest
from replay.bisection.scan import locate
from replay.bisection.trials import Trials, Version
from replay.edit.changes import Edit
from replay.errors import BadEdit, ModelRefused
from replay.free import run as free
from replay.free.recorded_results import Terms
from replay.locked.estimate import Estimate, estimate
from replay.locked.row import Models, fixed
from replay.models.cached import Cached
from replay.models.choose import DEMO, default_name
from replay.plan import plans
from replay.predicate import Detector
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import NO_TOOLS, Trace
from taxonomy.detectors import JudgeDetector, RuleDetector
from taxonomy.first_contradiction import facts
from taxonomy.first_contradiction.contradictions import (
    Answer,
    Contradiction,
    ContradictionDetector,
    StepDetector,
    contradictions,
)
from taxonomy.first_contradiction.judged import JudgeScoreDetector
from taxonomy.first_contradiction.question import (
    NOTHING,
    BeliefDetector,
    DemoBeliefs,
    estimate_cost,
    shown_words,
)
from taxonomy.first_contradiction.recoverable import (
    Arm,
    RecoverableDetector,
    Trial,
    arm,
    fix_of,
    instruct_at,
    reproached,
    telling,
)
from taxonomy.judgements.golds import with_own_gold
from taxonomy.rules.rule import RuleContext

DetectorName: TypeAlias = Literal["contradiction", "belief", "judge", "recoverable"]

SAMPLES = 8
"""Samples of each arm of a test, and runs from a step, unless the user says otherwise."""

NO_FACT = "no tool result of this run has a fact that a later step depends on"


class BisectStepsRequest(ExperimentRequest, frozen=True, kw_only=True):
    """What to search for.

    `question` and `truth` name one fact, what it is and its value (`STEP:PATH` of a tool result, or
    as written); without them facts are chosen by rule. `fix` None is made from the finding;
    `recoverable` needs one, and `expect`, what a recovered run does; its reads get stale results
    where `allow_stale`. `judge` None is the demo judge for the demo model. `samples` are those of
    each arm of the test, and the runs from a step; `max_samples` limits the steps evaluated.
    """

    trace: str
    detector: DetectorName = "contradiction"
    question: str | None = None
    truth: str | None = None
    fix: Edit | None = None
    confirm: bool = False
    samples: int = SAMPLES
    expect: str | None = None
    allow_stale: bool = False
    judge: str | None = None
    max_samples: int | None = None


class StepPlan:
    """A search for the step made ready. `detector` evaluates a step; it calls `asker`, and the test
    calls `model` (None: no call). Both may be one; `models` has all of them.

    Makes no call. Raises as `run_step_bisection` does before its first call.
    """

    def __init__(self, store: Store, request: BisectStepsRequest, models: ModelPool) -> None:
        self.request = request
        found = read.load(store, trace_row(store, request.trace).trace)
        self.trace: Trace = with_own_gold(store, found)
        self.models = models
        self.model = _model(store, request, self.trace, models)
        self._judge = self._judged_by()
        self._scores = read.scores(store, self.trace.id)
        self.detector: StepDetector = self._detector(store)

    @property
    def asker(self) -> Cached | None:
        """The model that the detector calls."""
        match self.request.detector:
            case "contradiction":
                return None
            case "judge":
                return self._judge
            case _:
                return self.model

    def fix_for(self, found: Answer) -> Edit:
        """The user's fix, else one made from the finding."""
        if self.request.fix is not None:
            return self.request.fix
        if isinstance(self.detector, ContradictionDetector):
            return fix_of(self.trace, self._contradiction(found.step))
        if isinstance(self.detector, JudgeScoreDetector):
            return instruct_at(self.trace, found.step, reproached(found))
        shown = [each for each in found.evidence if each.role != "believes"]
        return instruct_at(self.trace, found.step, telling(shown))

    def tried(self, step: int, fix: Edit) -> Trial:
        """The fix at the step against control, by the detector."""
        control, with_fix = self._arms(step, fix)
        return Trial(step=step, by=self.detector.name, fix=fix, control=control, fixed=with_fix)

    def lacks_tools(self, found: Answer | None) -> bool:
        """Must tools be attached before the step that was found, or any, can be replayed?"""
        if found is None:
            refused = any(NO_TOOLS in why for why in self.detector.unasked.values())
            return refused and not self.detector.steps
        model = self.model.name if self.model is not None else ""
        planned = plans(self.trace, None, model, {found.step})
        return any(plan.refusal is not None and NO_TOOLS in plan.refusal for plan in planned)

    def who(self) -> tuple[str, ...]:
        """The options that name the model, and allow its calls."""
        recorded = default_name(self.trace)
        name = self.request.model or recorded
        named = ("--model", name or "NAME") if self.request.model or name is None else ()
        local = name == DEMO and self._judge is None
        return named if local else (*named, "--live", "--budget", "1")

    # --- the detectors

    def _detector(self, store: Store) -> StepDetector:
        request = self.request
        if request.detector == "contradiction":
            return ContradictionDetector(self.trace)
        if request.detector == "judge":
            scores, max_steps = self._scores, request.max_samples
            return JudgeScoreDetector(self.trace, self._judge, scores=scores, max_steps=max_steps)
        assert self.model is not None
        if request.detector == "belief":
            return BeliefDetector(self.trace, self._facts(), self.model)
        if request.fix is None or request.expect is None:
            raise BadEdit(
                "--detector recoverable needs a fix, and what a recovered run does",
                "Try: --fix EDIT --expect 'tool=…'",
            )
        known = kept.stubs_of_trace(store, self.trace.id)
        return RecoverableDetector(
            self.trace,
            request.fix,
            ending(self.trace, request.expect),
            self.model,
            request.samples,
            Terms(stubs=known, allow_stale=request.allow_stale),
        )

    def _judged_by(self) -> Cached | None:
        request = self.request
        if request.detector != "judge":
            return None
        model = request.model or default_name(self.trace) or ""
        return judge_of(self.models, JUDGE, request.judge, model)

    def _facts(self) -> Sequence[facts.Fact]:
        case = RuleContext(self.trace)
        if self.request.question is not None and self.request.truth is not None:
            return [facts.fact_named(case, self.request.question, self.request.truth)]
        found = facts.chosen(case, contradictions(self.trace))
        if not found:
            raise ModelRefused(NO_FACT, "Try: --question QUESTION --truth VALUE")
        return found

    def _contradiction(self, step: int) -> Contradiction:
        assert isinstance(self.detector, ContradictionDetector)
        return next(each for each in self.detector.found if each.step == step)

    # --- the test

    def _arms(self, step: int, fix: Edit) -> tuple[Arm, Arm]:
        samples = self.request.samples
        if isinstance(self.detector, BeliefDetector):
            return self.detector.trial(step, fix, samples)
        if isinstance(self.detector, RecoverableDetector):
            return self.detector.trial(step, samples)
        return self._answered(step, fix, self._of_answers(step))

    def _of_answers(self, step: int) -> Detector:
        """Decides whether another sample of the step shows the failure."""
        if isinstance(self.detector, JudgeScoreDetector):
            recorded = self.detector.at(step).bad
            return JudgeDetector(
                self.trace, step, self._judge, scores=self._scores, recorded=recorded
            )
        return RuleDetector(self.trace, self._contradiction(step).finding)

    def _answered(self, step: int, fix: Edit, detector: Detector) -> tuple[Arm, Arm]:
        """The one step sampled again: how many samples of each arm show the failure."""
        assert self.model is not None
        arms = (Version(name="as recorded", edit=None), Version(name=fix.name, edit=fix))
        trials = Trials(self.trace, detector, self.model, arms)
        control, fixed = (
            [SampleRequest(version, sample) for sample in range(self.request.samples)]
            for version in (0, 1)
        )
        ends = [trials.asks([wishes[0]])[0].sent for wishes in (control, fixed)]
        if ends[0].asks_as(ends[1]):
            raise BadEdit(
                f"the fix changes nothing at step {step}", "it must apply at or before that step"
            )
        shown = trials.outcomes([*control, *fixed])
        of_control, of_fixed = shown[: len(control)], shown[len(control) :]
        return arm(of_control, trials.lost.get(0)), arm(of_fixed, trials.lost.get(1))


def _model(
    store: Store, request: BisectStepsRequest, trace: Trace, models: ModelPool
) -> Cached | None:
    """The model to call, None for none. Raises ModelRefused where no model is known."""
    if request.detector in ("contradiction", "judge") and not request.confirm:
        return None
    edited = (
        request.fix.model if request.fix is not None and request.detector == "recoverable" else None
    )
    name = request.model or edited or default_name(trace)
    if name == DEMO and request.detector == "belief":
        return models.add(DEMO, Cached(store, DEMO, DemoBeliefs(), source=DEMO))
    return models.named(name)


class RunsEstimate(Struct, frozen=True, kw_only=True):
    """Free runs: `each` from every step evaluated, about `steps` of `of`. A run makes at most
    `max_calls` calls; how many is unknown beforehand."""

    steps: int
    of: int
    each: int
    max_calls: int


class BisectStepsEstimate(Struct, frozen=True, kw_only=True):
    """The calls for the steps, and `test_calls` to confirm the step, if one is found. `facts` are
    those the model is asked about.

    With free runs, `runs` are how many, the estimate is of runs as long as the recording with no
    cached call, and `test_calls` is an upper bound.
    """

    estimate: Estimate
    test_calls: int
    facts: tuple[str, ...]
    runs: RunsEstimate | None = None


def estimate_search(store: Store, request: BisectStepsRequest) -> BisectStepsEstimate:
    """What `run_step_bisection` costs with the same request. Makes no call.

    Raises as `run_step_bisection` does before its first call.
    """
    return estimate_plan(StepPlan(store, request, ModelPool(store)))


def estimate_plan(plan: StepPlan) -> BisectStepsEstimate:
    """What the search that was made ready costs."""
    answers = 2 * plan.request.samples if plan.request.confirm else 0
    match plan.detector:
        case BeliefDetector() as beliefs:
            found, facts = estimate_cost(plan.trace, beliefs), shown_words(beliefs.facts)
            return BisectStepsEstimate(estimate=found, test_calls=answers, facts=facts)
        case JudgeScoreDetector() as judged:
            judges = answers if judged.judge is not None else 0
            return BisectStepsEstimate(
                estimate=judged.estimate_cost(), test_calls=answers + judges, facts=()
            )
        case RecoverableDetector() as recoverable:
            return _of_runs(plan, recoverable)
        case _:
            return BisectStepsEstimate(estimate=NOTHING, test_calls=answers, facts=())


def _of_runs(plan: StepPlan, detector: RecoverableDetector) -> BisectStepsEstimate:
    request, name = plan.request, detector.model.name
    road = free.recorded_actions(plan.trace, request.fix, name, None)
    limit = free.limit_of(road, None)
    of, runs = len(detector.steps), request.samples
    limit_of_steps = request.max_samples
    steps = min(of, _mean_steps_evaluated(of) if limit_of_steps is None else limit_of_steps)
    return BisectStepsEstimate(
        estimate=structs.replace(
            _half(_one_run(plan, name, {each.step.index for each in road}), steps * runs, name),
            max_calls=min(of, request.max_samples or of) * runs * limit,
        ),
        test_calls=2 * runs * limit if request.confirm else 0,
        facts=(),
        runs=RunsEstimate(steps=steps, of=of, each=runs, max_calls=limit),
    )


def _mean_steps_evaluated(steps: int) -> int:
    """How many steps a bisection evaluates, the mean over the places of the boundary."""
    counts = []
    for boundary in range(steps + 1):
        search, count = locate(range(steps), monotone=True), 0
        try:
            step = next(search)
            while True:
                count += 1
                step = search.send(step >= boundary)
        except StopIteration:
            counts.append(count)
    return round(sum(counts) / len(counts))


def _one_run(plan: StepPlan, name: str, steps: set[int]) -> Estimate:
    """All the recorded steps once, nothing of it cached."""
    with Store.open(":memory:") as empty:
        one = Models.one(Cached(empty, name))
        return estimate(plan.trace, None, one, sampling=fixed(1), steps=steps)


def _half(whole: Estimate, runs: int, name: str) -> Estimate:
    """So many runs, of which a mean one has half of the recorded steps ahead."""
    usd = 0.0 if name == DEMO else whole.usd
    return Estimate(
        calls=whole.calls * runs // 2,
        stored=0,
        input_tokens=whole.input_tokens * runs // 2,
        output_tokens=whole.output_tokens * runs // 2,
        by_size=whole.by_size * runs // 2,
        usd=None if usd is None else usd * runs / 2,
    )
