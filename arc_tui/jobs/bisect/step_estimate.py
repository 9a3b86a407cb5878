"""What will finding the step, and testing it, ask? Said before the first call."""

from __future__ import annotations

from msgspec import Struct, structs

from arc_tui.jobs.bisect.step_plan import StepPlan, StepsWanted
from replay.bisection.scan import locate
from replay.free import run as free
from replay.locked.estimate import Estimate, estimate
from replay.locked.row import Models
from replay.locked.sampling import fixed
from replay.models.cached import Cached
from replay.models.choose import DEMO
from replay.store import Store
from taxonomy.belief.foreseen import NOTHING, foreseen
from taxonomy.belief.judged import JudgedOracle
from taxonomy.belief.probe import BeliefOracle, shown_words
from taxonomy.belief.savable import SavableOracle


class RunsOutlook(Struct, frozen=True, kw_only=True):
    """Of runs that go on: `each` from every step that is asked, about `steps` of `of`. A run asks
    at most `most_calls` answers; how many it will, nobody knows."""

    steps: int
    of: int
    each: int
    most_calls: int


class StepsOutlook(Struct, frozen=True, kw_only=True):
    """What is to be asked before the first call: for the steps, and `test_calls` for the test, if a
    step is found. `facts` are those a belief is asked about.

    Where runs go on, `runs` says how many, the estimate is of runs that go as the recorded steps
    went, all asked afresh, and `test_calls` is the most it can be.
    """

    estimate: Estimate
    test_calls: int
    facts: tuple[str, ...]
    runs: RunsOutlook | None = None


def outlook(store: Store, wanted: StepsWanted) -> StepsOutlook:
    """What `bisecting_steps` with the same wish would ask. Asks nothing.

    Raises as `bisecting_steps` does before it asks.
    """
    return outlook_of(StepPlan(store, structs.replace(wanted, live=False)))


def outlook_of(plan: StepPlan) -> StepsOutlook:
    """What the search that was made ready would ask."""
    answers = 2 * plan.wanted.samples if plan.wanted.validate else 0
    match plan.oracle:
        case BeliefOracle() as beliefs:
            found, facts = foreseen(plan.trace, beliefs), shown_words(beliefs.facts)
            return StepsOutlook(estimate=found, test_calls=answers, facts=facts)
        case JudgedOracle() as judged:
            judges = answers if judged.judge is not None else 0
            return StepsOutlook(estimate=judged.foreseen(), test_calls=answers + judges, facts=())
        case SavableOracle() as savable:
            return _of_runs(plan, savable)
        case _:
            return StepsOutlook(estimate=NOTHING, test_calls=answers, facts=())


def _of_runs(plan: StepPlan, oracle: SavableOracle) -> StepsOutlook:
    wanted, name = plan.wanted, oracle.model.name
    road = free.road(plan.trace, wanted.fix, name, None)
    limit = free.limit_of(road, None)
    of, runs = len(oracle.steps), wanted.samples
    steps = min(of, _asked(of) if wanted.most is None else wanted.most)
    return StepsOutlook(
        estimate=structs.replace(
            _half(_one_run(plan, name, {each.step.index for each in road}), steps * runs, name),
            most_calls=min(of, wanted.most or of) * runs * limit,
        ),
        test_calls=2 * runs * limit if wanted.validate else 0,
        facts=(),
        runs=RunsOutlook(steps=steps, of=of, each=runs, most_calls=limit),
    )


def _asked(steps: int) -> int:
    """How many steps a search by halves asks, the mean over the places of the boundary."""
    counts = []
    for boundary in range(steps + 1):
        asking, count = locate(range(steps), monotone=True), 0
        try:
            step = next(asking)
            while True:
                count += 1
                step = asking.send(step >= boundary)
        except StopIteration:
            counts.append(count)
    return round(sum(counts) / len(counts))


def _one_run(plan: StepPlan, name: str, steps: set[int]) -> Estimate:
    """All the recorded steps once, nothing of it stored."""
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
