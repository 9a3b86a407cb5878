"""Where the search for the step at which belief left the world stands, as one value; what finding
the step and testing it would ask; and what the screen says of it, by its keys.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.progress import ExperimentState, as_sentence
from arc_tui.experiments.request import CostEstimate
from arc_tui.features.bisect_steps import view as views
from arc_tui.features.bisect_steps.plan import (
    BisectStepsRequest,
    RunsEstimate,
    StepPlan,
    estimate_plan,
)
from arc_tui.features.bisect_steps.run import HYPOTHESIS, READ_OFF
from arc_tui.features.bisect_steps.view import StepRow, StepsView, build_steps, not_judged
from arc_tui.ui import format
from arc_tui.ui.format import cost
from replay.bisection.scan import Located
from replay.errors import ArcError
from replay.locked.estimate import Estimate, estimate
from replay.locked.row import Models, fixed
from replay.models import protocol
from replay.models.choose import DEMO, label
from replay.plan import plans
from replay.statistics import Rate
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import NO_TOOLS
from taxonomy.first_contradiction.judged import JudgeScoreDetector
from taxonomy.first_contradiction.question import BeliefDetector
from taxonomy.first_contradiction.recoverable import RecoverableDetector

ORACLES = {
    "contradiction": "what the rules hold against what was shown; nobody is asked",
    "belief": "what the model believes at each step, asked and held against what was shown",
    "judge": "what a judge says of each step; the judge is asked",
    "recoverable": "from which step on a fix no longer saves the run, which goes on with it",
}
"""What each oracle goes by; one that is not here says so by its name alone."""


# --- what it would ask

NOT_YET = Located(status="budget", first_bad=None, among=(), asked=(), scanned=False)


class StepsCost(CostEstimate, frozen=True, eq=False, kw_only=True):
    """What asking comes to; without `models` nobody is asked.

    `calls` is None where nobody knows beforehand; at most `most` are made. Of `runs` that go on it
    is what they would ask going as the recorded steps went. A `judge` is asked about each answer on
    top of it, None where no model judges. `refused` is why it cannot be asked.
    """

    most: int = 0
    runs: RunsEstimate | None = None
    judge: str | None = None
    refused: str | None = None

    @property
    def is_free(self) -> bool:
        return {*self.models, self.judge} <= {None, DEMO}

    @property
    def is_settled(self) -> bool:
        """Is nobody to be asked, or everything answered already?"""
        answered = self.calls is not None and not self.calls.calls and self.calls.stored > 0
        return not self.models or answered

    def question(self) -> str:
        if self.calls is not None:
            judge = format.one_line(self.judge)
            most = format.count(self.most, "answer")
            also = f"\n{judge} judges each of at most {most}; that comes on top." if judge else ""
            return f"{super().question()}{also}"
        whom = " and ".join(map(format.one_line, self.models))
        return (
            f"At most {format.count(self.most, 'call')} to {whom}; how many, and what they cost,"
            " nobody knows before the runs have gone on.\n"
            f"They go to {protocol.address(protocol.server_url())}."
            " Answers are kept and never paid for twice."
        )


class SearchCost(StepsCost, frozen=True, eq=False, kw_only=True):
    """A search before it: its rows with why some cannot be asked. `steps` is how many can be; the
    facts that are asked about stand in the view."""

    request: BisectStepsRequest
    view: StepsView
    steps: int


class TrialCost(StepsCost, frozen=True, eq=False, kw_only=True):
    """The test of a step that was found: with `samples` answers, or runs, of each arm."""

    step: int
    samples: int


def build_search_cost(store: Store, request: BisectStepsRequest) -> SearchCost:
    """The cost of a search. Asks nothing. Raises as `run_step_bisection` does."""
    plan = StepPlan(store, structs.replace(request, validate=False), ModelPool(store))
    seen = estimate_plan(plan)
    return SearchCost(
        models=() if plan.asker is None else (plan.asker.name,),
        calls=seen.estimate,
        most=max(seen.estimate.calls, seen.estimate.most_calls),
        runs=seen.runs,
        request=request,
        view=build_steps(
            plan.trace,
            plan.oracle,
            {},
            NOT_YET,
            None,
            facts=seen.facts,
            fix=request.fix,
            about=request.oracle,
            going=True,
        ),
        steps=len(plan.oracle.steps),
    )


def build_trial_cost(store: Store, request: BisectStepsRequest, step: int) -> TrialCost:
    """What testing a step that was found would ask: why it cannot be is said, not raised."""
    request = structs.replace(request, validate=True)
    bare = TrialCost(step=step, samples=request.samples)
    try:
        return _trial_cost(StepPlan(store, request, ModelPool(store)), bare)
    except ArcError as error:
        models = () if request.model is None else (request.model,)
        return structs.replace(bare, models=models, refused=str(error))


def _trial_cost(plan: StepPlan, bare: TrialCost) -> TrialCost:
    """A request of either arm a sample, or whole runs."""
    oracle, model, step, samples = plan.oracle, plan.model, bare.step, bare.samples
    assert model is not None
    bare = structs.replace(bare, models=(model.name,))
    if isinstance(oracle, RecoverableDetector):
        return structs.replace(bare, most=2 * oracle.calls)
    (planned,) = plans(plan.trace, None, model.name, {step})
    if planned.refusal is not None:
        return structs.replace(bare, refused=planned.refusal)
    fix = plan.fix_for(oracle.at(step))
    calls = estimate(plan.trace, fix, Models.one(model), sampling=fixed(samples), steps={step})
    if isinstance(oracle, BeliefDetector):
        calls = _beliefs(oracle, step, calls, samples)
    judge = oracle.judge.name if isinstance(oracle, JudgeScoreDetector) and oracle.judge else None
    return structs.replace(bare, most=2 * samples, calls=calls, judge=judge)


def _beliefs(oracle: BeliefDetector, step: int, replayed: Estimate, samples: int) -> Estimate:
    """A belief is asked with the request of a replay and a question after it, which is short: what
    a replay costs. Control is known by what is stored, the other arm only once it is asked."""
    sent = oracle.sent(step)
    stored = sum(oracle.model.stored(sent, sample) for sample in range(1, samples + 1))
    calls = 2 * samples - stored
    share = calls / replayed.calls if replayed.calls else None
    usd = None if share is None or replayed.usd is None else share * replayed.usd
    return structs.replace(
        replayed, calls=calls, stored=stored, by_size=calls, usd=usd, most_calls=0, most_usd=None
    )


# --- where it stands


class BisectStepsState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """A request, what it would ask, what is known so far, and how that ended.

    `run` is what the run is called. `search` is the cost of the search, where a model is to be
    asked for it; `trial` that of the test of the step that was found.
    """

    request: BisectStepsRequest
    run: str = ""
    search: SearchCost | None = None
    trial: TrialCost | None = None
    view: StepsView = views.EMPTY

    @property
    def found(self) -> StepRow | None:
        """The step that was found."""
        step = self.view.decisive
        return None if step is None or self.running else self.view.rows[step]

    @property
    def testable(self) -> bool:
        """Can the step that was found be tested now?"""
        tested = self.view.trial is not None
        return self.trial is not None and self.trial.refused is None and not tested

    @property
    def lacks(self) -> tuple[str, ...]:
        """What must be attached before the step can be tested, or any can be asked."""
        refused = self.trial.refused if self.trial is not None else None
        said = [refused or "", *(row.phrase for row in self._unasked)]
        return (NO_TOOLS,) if any(NO_TOOLS in each for each in said) else ()

    @property
    def _unasked(self) -> tuple[StepRow, ...]:
        """The steps of a search that can ask none."""
        return () if any(row.asked for row in self.view.rows) else self.view.rows

    @property
    def is_incomplete(self) -> bool:
        """Must it still be said what a saved run does, or what saves it?"""
        request = self.request
        return request.oracle == "recoverable" and (request.fix is None or request.expect is None)

    @property
    def title(self) -> str:
        """Whose steps they are."""
        return f"steps of {self.run}" if self.run else ""

    @property
    def lines(self) -> tuple[str, ...]:
        """What is to be said first: the step, then what its test came to."""
        if self.trouble is not None:
            kept = "What was answered is kept." if any(r.asked for r in self.view.rows) else ""
            why = as_sentence(format.one_line(by_keys(self.trouble.message)))
            return (f"{why} {kept}".rstrip(),)
        match self.phase:
            case "estimating":
                return ("Reading the run.",)
            case "idle":
                return (self._said_before,)
            case "running" | "stopping" if self.request.validate and self._searched:
                return (self.view.sentence, f"Testing step {self.view.decisive}.")
            case "running" | "stopping":
                return (f"So far: {self.view.sentence}",) if self.view.rows else ("Asking.",)
            case _:
                return self._said_after

    @property
    def _said_after(self) -> tuple[str, ...]:
        stopped = "Stopped; what was answered is kept. " if self.phase == "stopped" else ""
        first = f"{stopped}{self.view.sentence}"
        trial = self.view.trial
        return (first,) if trial is None else (first, by_keys(trial.sentence))

    @property
    def _searched(self) -> bool:
        """Was every step looked at that is going to be?"""
        return self.view.status != "budget" and self.view.decisive is not None

    @property
    def _said_before(self) -> str:
        if self.search is None:
            return lacking(self.request)
        return before(self.search)

    @property
    def _open(self) -> bool:
        """Has no test settled yet whether it broke there?"""
        return self.view.trial is None or self.view.trial.status == "inconclusive"

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against reading that alone."""
        return tuple(self._notices())

    def _notices(self) -> Iterator[str]:
        if self.trouble is not None and self.trouble.hint:
            yield by_keys(format.one_line(self.trouble.hint))
        if self.found is not None and self._open:
            yield HYPOTHESIS
        if self.request.oracle == "recoverable" and self.request.allow_stale:
            yield "Answers of another moment are allowed (‹steps.stale› takes that back)."
        shown = self.view.notices if self.phase not in ("estimating", "idle") else ()
        said_else = (HYPOTHESIS, READ_OFF)
        yield from (by_keys(said) for said in shown if said not in said_else)

    @property
    def doing(self) -> str:
        """What a person can do about it now."""
        if self.phase not in ("done", "stopped"):
            return ""
        if self.found is None:
            return elsewhere(self.request)
        if self.view.trial is not None:
            return after_trial(self.view)
        return "" if self.trial is None else testing(self.trial)


EMPTY = BisectStepsState(request=BisectStepsRequest(trace=""))


def build_run(store: Store, trace: str) -> str:
    """What a run is called: its task and trial, else its title, else where it is from."""
    row = trace_row(store, trace)
    if row.task:
        return " · ".join(filter(None, map(format.one_line, (row.task, row.trial))))
    return format.one_line(row.title or row.source_id)


# --- what is said

_KEYS = (
    ("--question QUESTION --truth VALUE", "‹steps.fact›"),
    ("--fix EDIT", "‹steps.fix›"),
    ("--expect", "‹steps.expect›"),
    ("`arc attach`", "‹steps.attach›"),
    ("--judge NAME", "‹steps.judge›"),
    ("--judge demo", "‹steps.judge›, demo"),
    ("--model", "‹steps.model›"),
    ("--confirm", "‹steps.validate›"),
    ("--allow-stale", "‹steps.stale›"),
    (". Try: --max-samples", "; ask again"),
    ("(-k)", "(‹steps.samples›)"),
)


def by_keys(said: str) -> str:
    """Words of a command, its options as the keys that do the same here."""
    for option, key in _KEYS:
        said = said.replace(option, key)
    return said


# --- before


def lacking(request: BisectStepsRequest) -> str:
    """What must be said before runs can go on."""
    needs = [
        words
        for given, words in (
            (request.fix, "‹steps.fix› chooses the fix"),
            (request.expect, "‹steps.expect› says what a saved run does"),
        )
        if given is None
    ]
    return f"Whether a fix saves the run is tried by letting it go on: {', '.join(needs)}."


def before(found: SearchCost) -> str:
    """What a search would ask, of whom, and for how much."""
    steps = format.count(found.steps, "step")
    if not found.steps:
        return "No step can be asked; why stands beside each."
    whom = _whom(found)
    assert found.calls is not None
    calls = format.count(found.calls.calls, "call")
    if found.runs is not None:
        runs = format.count(found.runs.each, "run")
        return (
            f"‹steps.run› lets {whom} go on with the fix, {runs} from each of about"
            f" {found.runs.steps} of {steps}: about {calls}, at most {format.number(found.most)}"
            f"{_price(found)}."
        )
    if not found.models:
        return "The rules judge each step; nobody is asked."
    facts = format.count(len(found.view.facts), "fact")
    about = f"about {facts} at {steps}" if found.view.facts else f"at {steps}"
    return f"‹steps.run› asks {whom}, {about}: {calls}{_stored(found)}{_price(found)}."


def _whom(found: StepsCost) -> str:
    return ", ".join(format.one_line(label(name)) for name in found.models) or "nobody"


def _stored(found: StepsCost) -> str:
    stored = found.calls.stored if found.calls is not None else 0
    return f", {format.number(stored)} more answered already" if stored else ""


def _price(found: StepsCost) -> str:
    """What it costs, and that of the judge is no part of it."""
    if found.judge is not None:
        return (
            f", and {format.one_line(label(found.judge))} judges each: a limit is asked for first"
        )
    if found.is_free:
        return ", free"
    price = cost(found.calls) if found.calls is not None else "what they cost nobody knows"
    return f", {price}, within a limit asked for first"


# --- the test


def testing(found: TrialCost) -> str:
    """What testing the step would ask, or why it cannot be tested."""
    if found.refused is not None:
        return f"It cannot be tested: {by_keys(format.one_line(found.refused))}."
    runs = found.calls is None
    calls = found.most if found.calls is None else found.calls.calls
    extent = f"{'at most ' if runs else ''}{format.count(calls, 'call')}{_stored(found)}"
    each = f"{format.number(found.samples)}{' runs' if runs else ''}"
    return (
        f"‹steps.validate› tests it: {each} as recorded, {each} with the fix · {_whom(found)},"
        f" {extent}{_price(found)}"
    )


def after_trial(view: StepsView) -> str:
    """Where to go from a test."""
    assert view.trial is not None
    assert view.fix is not None
    fix = format.one_line(view.fix.name)
    match view.trial.status:
        case "validated":
            return (
                f"The fix is kept as {fix!r}: ‹trace.replay:r› on the run, then"
                " ‹replay.stored:o›, asks every step with it."
            )
        case "refuted":
            return (
                "‹steps.fix› tries another fix there;"
                " ‹steps.oracle› lets another oracle name the step."
            )
        case _ if view.trial.control.n and view.trial.fixed.n:
            return "‹steps.samples› asks more often; ‹steps.fix› tries another fix."
        case _:
            return "‹steps.fix› tries another fix; ‹steps.oracle› goes by another oracle."


def elsewhere(request: BisectStepsRequest) -> str:
    """What to try where no step was found."""
    if request.oracle == "contradiction":
        return (
            "‹steps.oracle› asks the model what it believes at each step;"
            " ‹steps.fact› names the fact to ask about."
        )
    if request.oracle == "belief":
        return "‹steps.fact› asks about another fact; ‹steps.oracle› goes by another oracle."
    other = "‹steps.oracle› goes by another oracle."
    if request.oracle == "recoverable" and not request.allow_stale:
        return f"‹steps.stale› lets what was read at another moment answer; {other}"
    return other


def rate_words(given: Rate, lost: int, why: str | None) -> str:
    """One arm of a test: its share with its interval, and how many could not be judged."""
    censored = not_judged(lost, why)
    if given.value is None:
        return f"no answer that can be judged{censored}"
    share = f"{round(given.value * given.n)}/{given.n}"
    return f"{share} ({given.low:.2f}–{given.high:.2f}){censored}"


def spent(view: StepsView) -> str:
    """What was asked and what it cost."""
    usd = format.usd(view.spent_usd, complete=view.spent_complete)
    return f"{view.asked} asked, {view.kept} kept, {usd} spent"


def figures(view: StepsView) -> str:
    """Who was asked and what it took, of how many steps, and how the one found is known."""
    there = f"fidelity {view.fidelity.value}" if view.fidelity is not None else ""
    way = "every step" if view.scanned else "by halves, with spots"
    asked = (view.model, spent(view)) if view.model is not None else ("nobody asked",)
    said = (*asked, way, there)
    return " · ".join(format.one_line(each) for each in said if each)
