"""The search for the first contradiction as one value: its progress, what finding the step and
confirming it cost, and the sentences of the screen with their keys.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from arc_tui.experiments.models import ModelPool, servers_of
from arc_tui.experiments.progress import ExperimentState, as_sentence
from arc_tui.experiments.request import CostEstimate
from arc_tui.features.bisect_steps import view as views
from arc_tui.features.bisect_steps.plan import (
    BisectStepsRequest,
    RunsEstimate,
    StepPlan,
    estimate_plan,
)
from arc_tui.features.bisect_steps.run import FROM_RECORDING, NOT_CONFIRMED
from arc_tui.features.bisect_steps.view import StepRow, StepsView, build_steps, unusable
from arc_tui.ui import format
from arc_tui.ui.format import cost
from replay.bisection.scan import Located
from replay.errors import ArcError
from replay.locked.estimate import Estimate, estimate
from replay.locked.row import Models, fixed
from replay.models.choose import DEMO, label
from replay.plan import plans
from replay.statistics import Rate
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import NO_TOOLS
from taxonomy.first_contradiction.judged import JudgeScoreDetector
from taxonomy.first_contradiction.question import BeliefDetector
from taxonomy.first_contradiction.recoverable import RecoverableDetector

DETECTORS = {
    "contradiction": "rules compare each step with its context; no model call",
    "belief": "the model answers what the facts are at each step; rules compare",
    "judge": "a judge scores each step",
    "recoverable": "free runs with a fix from each step; the last that recovers",
}
"""How each detector decides."""


# --- what it costs

NOT_YET = Located(status="budget", first_bad=None, among=(), answers=(), scanned=False)


class StepsCost(CostEstimate, frozen=True, eq=False, kw_only=True):
    """An estimate; without `models` there is no call.

    `calls` is None where that is unknown beforehand; at most `max_calls` are made. With free `runs`
    it is for runs as long as the recording. A `judge` is called for each sample on top of it, None
    where no model judges. `refused` is why no call can be made.
    """

    max_calls: int = 0
    runs: RunsEstimate | None = None
    judge: str | None = None
    refused: str | None = None

    @property
    def is_free(self) -> bool:
        return {*self.models, self.judge} <= {None, DEMO}

    @property
    def is_settled(self) -> bool:
        """Is there no call to make, or is every call cached?"""
        answered = self.calls is not None and not self.calls.calls and self.calls.stored > 0
        return not self.models or answered

    def question(self) -> str:
        if self.calls is not None:
            judge = format.one_line(self.judge)
            samples = format.count(self.max_calls, "sample")
            also = (
                f"\nPlus calls of the judge {judge}: at most {samples} to score." if judge else ""
            )
            return f"{super().question()}{also}"
        whom = " and ".join(map(format.one_line, self.models))
        return (
            f"At most {format.count(self.max_calls, 'call')} to {whom}; number and cost unknown"
            " before the runs.\n"
            f"Server: {servers_of(self.models)}. Responses are cached."
        )


class SearchCost(StepsCost, frozen=True, eq=False, kw_only=True):
    """A search before it starts: the rows say why some steps cannot be evaluated, `steps` is how
    many can. The facts are in the view."""

    request: BisectStepsRequest
    view: StepsView
    steps: int


class TrialCost(StepsCost, frozen=True, eq=False, kw_only=True):
    """The test of the step that was found: `samples`, or runs, of each arm."""

    step: int
    samples: int


def build_search_cost(store: Store, request: BisectStepsRequest) -> SearchCost:
    """The cost of a search. Makes no call. Raises as `run_step_bisection` does."""
    plan = StepPlan(store, structs.replace(request, confirm=False), ModelPool(store))
    seen = estimate_plan(plan)
    return SearchCost(
        models=() if plan.asker is None else (plan.asker.name,),
        calls=seen.estimate,
        max_calls=max(seen.estimate.calls, seen.estimate.max_calls),
        runs=seen.runs,
        request=request,
        view=build_steps(
            plan.trace,
            plan.detector,
            {},
            NOT_YET,
            None,
            facts=seen.facts,
            fix=request.fix,
            about=request.detector,
            running=True,
        ),
        steps=len(plan.detector.steps),
    )


def build_trial_cost(store: Store, request: BisectStepsRequest, step: int) -> TrialCost:
    """The cost of testing the step that was found; why it cannot be is in it, not raised."""
    request = structs.replace(request, confirm=True)
    bare = TrialCost(step=step, samples=request.samples)
    try:
        return _trial_cost(StepPlan(store, request, ModelPool(store)), bare)
    except ArcError as error:
        models = () if request.model is None else (request.model,)
        return structs.replace(bare, models=models, refused=str(error))


def _trial_cost(plan: StepPlan, bare: TrialCost) -> TrialCost:
    """A request per sample and arm, or whole runs."""
    detector, model, step, samples = plan.detector, plan.model, bare.step, bare.samples
    assert model is not None
    bare = structs.replace(bare, models=(model.name,))
    if isinstance(detector, RecoverableDetector):
        return structs.replace(bare, max_calls=2 * detector.calls)
    (planned,) = plans(plan.trace, None, model.name, {step})
    if planned.refusal is not None:
        return structs.replace(bare, refused=planned.refusal)
    fix = plan.fix_for(detector.at(step))
    calls = estimate(plan.trace, fix, Models.one(model), sampling=fixed(samples), steps={step})
    if isinstance(detector, BeliefDetector):
        calls = _beliefs(detector, step, calls, samples)
    judge = (
        detector.judge.name if isinstance(detector, JudgeScoreDetector) and detector.judge else None
    )
    return structs.replace(bare, max_calls=2 * samples, calls=calls, judge=judge)


def _beliefs(detector: BeliefDetector, step: int, replayed: Estimate, samples: int) -> Estimate:
    """The request of a replay with a short question after it costs what the replay costs. Cached
    calls are known of control only: the edited arm's are not yet made."""
    sent = detector.sent(step)
    stored = sum(detector.model.stored(sent, sample) for sample in range(1, samples + 1))
    calls = 2 * samples - stored
    share = calls / replayed.calls if replayed.calls else None
    usd = None if share is None or replayed.usd is None else share * replayed.usd
    return structs.replace(
        replayed, calls=calls, stored=stored, by_size=calls, usd=usd, max_calls=0, max_usd=None
    )


# --- the state


class BisectStepsState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """A request, its cost, the result so far, and how that ended.

    `run` is the run's name. `search` is the cost of the search, where it makes calls; `trial` that
    of confirming the step that was found.
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
        tested = self.view.confirmation is not None
        return self.trial is not None and self.trial.refused is None and not tested

    @property
    def lacks(self) -> tuple[str, ...]:
        """What must be attached before the step can be tested, or any can be evaluated."""
        refused = self.trial.refused if self.trial is not None else None
        reasons = [refused or "", *(row.phrase for row in self._blocked)]
        return (NO_TOOLS,) if any(NO_TOOLS in each for each in reasons) else ()

    @property
    def _blocked(self) -> tuple[StepRow, ...]:
        """The steps of a search that can evaluate none."""
        return () if any(row.evaluated for row in self.view.rows) else self.view.rows

    @property
    def is_incomplete(self) -> bool:
        """Is the fix, or what a recovered run does, still missing?"""
        request = self.request
        return request.detector == "recoverable" and (request.fix is None or request.expect is None)

    @property
    def title(self) -> str:
        """The run."""
        return f"steps · {self.run}" if self.run else ""

    @property
    def lines(self) -> tuple[str, ...]:
        """The sentences on top: the step, then its confirmation."""
        if self.trouble is not None:
            saved = SAVED if any(row.evaluated for row in self.view.rows) else ""
            why = as_sentence(format.one_line(by_keys(self.trouble.message)))
            return (f"{why} {saved}".rstrip(),)
        match self.phase:
            case "estimating":
                return ("Reading the run.",)
            case "idle":
                return (self._before,)
            case "running" | "stopping" if self.request.confirm and self._is_searched:
                return (self.view.sentence, f"Confirming step {self.view.decisive}.")
            case "running" | "stopping":
                return (f"So far: {self.view.sentence}",) if self.view.rows else ("Running.",)
            case _:
                return self._after

    @property
    def _after(self) -> tuple[str, ...]:
        stopped = f"Stopped. {SAVED} " if self.phase == "stopped" else ""
        first = f"{stopped}{self.view.sentence}"
        given = self.view.confirmation
        return (first,) if given is None else (first, by_keys(given.sentence))

    @property
    def _is_searched(self) -> bool:
        """Has the search for the step ended?"""
        return self.view.status != "budget" and self.view.decisive is not None

    @property
    def _before(self) -> str:
        if self.search is None:
            return lacking(self.request)
        return before(self.search)

    @property
    def _open(self) -> bool:
        """Is the step neither confirmed nor refuted?"""
        given = self.view.confirmation
        return given is None or given.status == "inconclusive"

    @property
    def notices(self) -> tuple[str, ...]:
        """What limits the sentences."""
        return tuple(self._notices())

    def _notices(self) -> Iterator[str]:
        if self.trouble is not None and self.trouble.hint:
            yield by_keys(format.one_line(self.trouble.hint))
        if self.found is not None and self._open:
            yield NOT_CONFIRMED
        if self.request.detector == "recoverable" and self.request.allow_stale:
            yield "Stale results allowed. ‹steps.stale› disallow"
        shown = self.view.notices if self.phase not in ("estimating", "idle") else ()
        elsewhere = (NOT_CONFIRMED, FROM_RECORDING)
        yield from (by_keys(each) for each in shown if each not in elsewhere)

    @property
    def doing(self) -> str:
        """The next action."""
        if self.phase not in ("done", "stopped"):
            return ""
        if self.found is None:
            return without_step(self.request)
        if self.view.confirmation is not None:
            return after_confirmation(self.view)
        return "" if self.trial is None else confirming(self.trial)


EMPTY = BisectStepsState(request=BisectStepsRequest(trace=""))


def build_run(store: Store, trace: str) -> str:
    """The name of a run: its task and trial, else its title, else its place in the source."""
    row = trace_row(store, trace)
    if row.task:
        return " · ".join(filter(None, map(format.one_line, (row.task, row.trial))))
    return format.one_line(row.title or row.source_id)


# --- sentences

SAVED = "Completed calls are saved."

_KEYS = (
    ("--question QUESTION --truth VALUE", "‹steps.fact›"),
    ("--fix EDIT", "‹steps.fix›"),
    ("--expect", "‹steps.expect›"),
    ("`arc attach`", "‹steps.attach›"),
    ("--judge NAME", "‹steps.judge›"),
    ("--judge demo", "‹steps.judge›, demo"),
    ("--model", "‹steps.model›"),
    ("--confirm", "‹steps.confirm›"),
    ("--allow-stale", "‹steps.stale›"),
    (". Try: --max-samples N", "; ‹steps.run› run again"),
    ("(-k)", "(‹steps.samples›)"),
)


def by_keys(text: str) -> str:
    """The text of a command, its options as the keys that do the same here."""
    for option, key in _KEYS:
        text = text.replace(option, key)
    return text


# --- before


def lacking(request: BisectStepsRequest) -> str:
    """What free runs still need."""
    needs = [
        words
        for given, words in (
            (request.fix, "‹steps.fix› choose the fix"),
            (request.expect, "‹steps.expect› set what a recovered run does"),
        )
        if given is None
    ]
    return f"Free runs from each step need: {', '.join(needs)}."


def before(found: SearchCost) -> str:
    """What a search calls, and for how much."""
    steps = format.count(found.steps, "step")
    if not found.steps:
        return "No step can be evaluated; each row gives the reason."
    whom = _whom(found)
    assert found.calls is not None
    calls = format.count(found.calls.calls, "call")
    if found.runs is not None:
        runs = format.count(found.runs.each, "free run")
        return (
            f"{runs} of {whom} with the fix, from each of about {found.runs.steps} of {steps}:"
            f" about {calls}, at most {format.number(found.max_calls)}{_price(found)}."
            " ‹steps.run› run"
        )
    if not found.models:
        return "Rules evaluate each step; no model call."
    facts = format.count(len(found.view.facts), "fact")
    about = f"{facts} at {steps}" if found.view.facts else steps
    return f"{about}: {calls} to {whom}{_cached(found)}{_price(found)}. ‹steps.run› run"


def _whom(found: StepsCost) -> str:
    return ", ".join(format.one_line(label(name)) for name in found.models) or "no model"


def _cached(found: StepsCost) -> str:
    stored = found.calls.stored if found.calls is not None else 0
    return f", {format.number(stored)} more cached" if stored else ""


def _price(found: StepsCost) -> str:
    """The cost, without that of the judge."""
    if found.judge is not None:
        return f", plus one call of {format.one_line(label(found.judge))} for each; needs a limit"
    if found.is_free:
        return ", free"
    price = cost(found.calls) if found.calls is not None else "cost unknown"
    return f", {price}; needs a limit"


# --- the confirmation


def confirming(found: TrialCost) -> str:
    """What testing the step costs, or why it cannot be tested."""
    if found.refused is not None:
        return f"Cannot confirm: {by_keys(format.one_line(found.refused))}."
    runs = found.calls is None
    calls = found.max_calls if found.calls is None else found.calls.calls
    extent = f"{'at most ' if runs else ''}{format.count(calls, 'call')}"
    each = format.count(found.samples, "run" if runs else "sample")
    said = f"‹steps.confirm› confirm: {each} per arm, {extent} to {_whom(found)}"
    if not calls and found.calls is not None and found.calls.stored:
        return f"‹steps.confirm› confirm: {each} per arm, all cached{_price(found)}."
    return f"{said}{_cached(found)}{_price(found)}."


def after_confirmation(view: StepsView) -> str:
    """The next action after a confirmation."""
    assert view.confirmation is not None
    assert view.fix is not None
    fix = format.one_line(view.fix.name)
    match view.confirmation.status:
        case "confirmed":
            return (
                f"The fix is saved as {fix!r}. To replay every step with it: ‹trace.replay:r› on"
                " the run, then ‹replay.stored:o›."
            )
        case "refuted":
            return "‹steps.fix› try another fix, ‹steps.detector› another detector"
        case _ if view.confirmation.control.n and view.confirmation.edited.n:
            return "‹steps.samples› try more samples, ‹steps.fix› another fix"
        case _:
            return "‹steps.fix› try another fix, ‹steps.detector› another detector"


def without_step(request: BisectStepsRequest) -> str:
    """The next action where no step was found."""
    if request.detector == "contradiction":
        return (
            "‹steps.detector› try another detector, such as the model's belief;"
            " ‹steps.fact› choose a fact to ask about"
        )
    if request.detector == "belief":
        return "‹steps.fact› try another fact, ‹steps.detector› another detector"
    if request.detector == "recoverable" and not request.allow_stale:
        return "‹steps.stale› allow stale results, ‹steps.detector› try another detector"
    return "‹steps.detector› try another detector"


def rate_words(given: Rate, lost: int, why: str | None) -> str:
    """One arm of a test: its failures with the interval, and how many samples are unusable."""
    without = unusable(lost, why)
    if given.value is None:
        return f"no usable sample{without}"
    share = f"failure in {round(given.value * given.n)}/{given.n}"
    return f"{share} ({given.low:.2f}–{given.high:.2f}){without}"


def spent(view: StepsView) -> str:
    """The calls and their cost."""
    usd = format.usd(view.spent_usd, complete=view.spent_complete)
    return f"{format.count(view.calls, 'call')} · {view.cached} cached · {usd}"


def figures(view: StepsView) -> str:
    """The model, its calls and their cost, how the search went, and the fidelity of the step."""
    fidelity = f"fidelity {view.fidelity.value}" if view.fidelity is not None else ""
    way = "all steps" if view.scanned else "bisected, with spot checks"
    calls = (view.model, spent(view)) if view.model is not None else ("no model call",)
    figures = (*calls, way, fidelity)
    return " · ".join(format.one_line(each) for each in figures if each)
