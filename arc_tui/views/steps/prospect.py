"""What would finding the step, and testing it, ask of a model? Said before anything is asked."""

from __future__ import annotations

from msgspec import Struct, structs

from arc_tui.jobs.bisect.step_estimate import RunsOutlook, outlook_of
from arc_tui.jobs.bisect.step_plan import StepPlan, StepsWanted
from arc_tui.views.steps.view import StepsView, build_steps
from replay.bisection.scan import Located
from replay.errors import ArcError
from replay.locked.estimate import Estimate, estimate
from replay.locked.row import Models
from replay.locked.sampling import fixed
from replay.models.choose import DEMO
from replay.plan import plans
from replay.store import Store
from taxonomy.belief.judged import JudgedOracle
from taxonomy.belief.probe import BeliefOracle
from taxonomy.belief.savable import SavableOracle

NOT_YET = Located(status="budget", first_bad=None, among=(), asked=(), scanned=False)


class Bill(Struct, frozen=True, kw_only=True):
    """What asking comes to: of whom (None: of nobody), and how often.

    `estimate` is None where nobody knows beforehand; at most `most` calls are made. Of `runs` that
    go on it is what they would ask going as the recorded steps went. A `judge` is asked about each
    answer on top of it, None where no model judges. `refused` is why it cannot be asked.
    """

    model: str | None
    most: int
    estimate: Estimate | None
    runs: RunsOutlook | None = None
    judge: str | None = None
    refused: str | None = None

    @property
    def local(self) -> bool:
        """Is it asked on this machine, for free?"""
        return {self.model, self.judge} <= {None, DEMO}

    @property
    def settled(self) -> bool:
        """Is nobody to be asked, or everything answered already?"""
        known = self.estimate
        answered = known is not None and not known.calls and known.stored > 0
        return self.model is None or answered


class Prospect(Struct, frozen=True, eq=False, kw_only=True):
    """A search before it: its rows with why some cannot be asked, and its bill.

    `steps` is how many can be asked; the facts that are asked about stand in the view.
    """

    wanted: StepsWanted
    view: StepsView
    steps: int
    bill: Bill


class TrialProspect(Struct, frozen=True, kw_only=True):
    """The test of a step that was found: with `samples` answers, or runs, of each arm."""

    step: int
    samples: int
    bill: Bill


def build_prospect(store: Store, wanted: StepsWanted) -> Prospect:
    """The prospect of a search. Asks nothing. Raises as `bisecting_steps` does before it asks."""
    wanted = structs.replace(wanted, validate=False, live=False)
    plan = StepPlan(store, wanted)
    seen = outlook_of(plan)
    oracle, asker, fix = plan.oracle, plan.asker, wanted.fix
    bill = Bill(
        model=None if asker is None else asker.name,
        most=max(seen.estimate.calls, seen.estimate.most_calls),
        estimate=seen.estimate,
        runs=seen.runs,
    )
    return Prospect(
        wanted=wanted,
        view=build_steps(
            plan.trace,
            oracle,
            {},
            NOT_YET,
            None,
            facts=seen.facts,
            fix=fix,
            about=wanted.oracle,
            going=True,
        ),
        steps=len(oracle.steps),
        bill=bill,
    )


def build_trial(store: Store, wanted: StepsWanted, step: int) -> TrialProspect:
    """What testing a step that was found would ask: why it cannot be is said, not raised."""
    wanted = structs.replace(wanted, validate=True, live=False)
    try:
        bill = _trial_bill(StepPlan(store, wanted), step)
    except ArcError as error:
        bill = Bill(model=wanted.model, most=0, estimate=None, refused=str(error))
    return TrialProspect(step=step, samples=wanted.samples, bill=bill)


def _trial_bill(plan: StepPlan, step: int) -> Bill:
    """A request of either arm a sample, or whole runs."""
    oracle, model, samples = plan.oracle, plan.model, plan.wanted.samples
    assert model is not None
    if isinstance(oracle, SavableOracle):
        return Bill(model=model.name, most=2 * oracle.calls, estimate=None)
    (planned,) = plans(plan.trace, None, model.name, {step})
    if planned.refusal is not None:
        return Bill(model=model.name, most=0, estimate=None, refused=planned.refusal)
    fix = plan.fix_for(oracle.at(step))
    asked = estimate(plan.trace, fix, Models.one(model), sampling=fixed(samples), steps={step})
    if isinstance(oracle, BeliefOracle):
        asked = _beliefs(oracle, step, asked, samples)
    judge = oracle.judge.name if isinstance(oracle, JudgedOracle) and oracle.judge else None
    return Bill(model=model.name, most=2 * samples, estimate=asked, judge=judge)


def _beliefs(oracle: BeliefOracle, step: int, replayed: Estimate, samples: int) -> Estimate:
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
