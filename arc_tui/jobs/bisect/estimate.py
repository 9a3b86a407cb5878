"""What will a bisection ask, and about what does it cost? Said before the first call."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct, structs

from arc_tui.jobs.bisect.plan import Plan, Wanted
from replay.bisection import foreseen
from replay.bisection.course import bisect, bisect_hunks
from replay.bisection.trials import Trials
from replay.errors import ModelRefused, OfflineMiss
from replay.free import run as free
from replay.locked.estimate import estimate
from replay.locked.row import Models
from replay.locked.sampling import fixed
from replay.models.cached import Cached
from replay.models.choose import DEMO
from replay.store import Store
from taxonomy.expectations import JudgeOracle


class Outlook(Struct, frozen=True, kw_only=True):
    """What a bisection may come to.

    `stored` samples are there already; about `samples` in all are wanted where a version fails in
    1 of 10 answers before the change and in 8 of 10 after it, and never more than `most`. A sample
    is one call, or for whole runs up to `calls_each`. `input_tokens` and `usd` are those of one
    sample, as its recorded steps were; None where that is not known. `settled`: the search comes to
    its end with what is stored. A `judge` is asked once more for every answer that is unlike those
    before it, for `judge_usd`; None where no model judges.
    """

    model: str
    stored: int
    samples: int
    most: int
    calls_each: int
    input_tokens: int
    usd: float | None
    settled: bool = False
    judge: str | None = None
    judge_usd: float | None = 0.0

    @property
    def about_usd(self) -> float | None:
        """What the samples that are not stored are about to cost, and judging them."""
        if self.usd is None or self.judge_usd is None:
            return None
        return (self.usd + self.judge_usd) * max(0, self.samples - self.stored)


def estimated(store: Store, wanted: Wanted) -> Outlook:
    """What `bisecting` with the same wish may ask and cost. Asks nothing.

    Raises as `bisecting` does before it asks.
    """
    plan = Plan(store, structs.replace(wanted, live=False))
    model = plan.asked.model
    stored, settled = (0, False) if wanted.resample else _stored(plan)
    if plan.parts:
        about = foreseen.of_hunks(len(plan.parts), plan.settings)
    else:
        about = foreseen.of_versions(len(plan.asked.versions), plan.settings)
    road = free.road(plan.trace, wanted.fix, model.name, plan.step) if plan.free else []
    steps = {each.step.index for each in road} if plan.free else {plan.step or 0}
    with Store.open(":memory:") as empty:
        one = Models.one(Cached(empty, model.name))
        each = estimate(plan.trace, None, one, sampling=fixed(1), steps=steps)
    oracle = plan.asked.oracle if isinstance(plan.asked, Trials) else None
    judged = oracle if isinstance(oracle, JudgeOracle) and oracle.judge is not None else None
    return Outlook(
        model=model.name,
        stored=stored,
        samples=about,
        most=plan.settings.most,
        calls_each=free.limit_of(road, wanted.max_steps) if plan.free else 1,
        input_tokens=each.input_tokens,
        usd=0.0 if model.name == DEMO else each.usd,
        settled=settled,
        judge=judged.judge.name if judged is not None and judged.judge is not None else None,
        judge_usd=judged.foreseen((), 1).usd if judged is not None else 0.0,
    )


def _stored(plan: Plan) -> tuple[int, bool]:
    """How far the search gets with what is stored, and whether that is its end."""
    if plan.asked.model.name == DEMO:  # it would answer
        return 0, False
    going = (
        bisect_hunks(plan.asked, plan.old, plan.parts, plan.hunk_edit, plan.settings)
        if plan.parts
        else bisect(plan.asked, len(plan.asked.versions), plan.settings)
    )
    settled = False
    with suppress(OfflineMiss, ModelRefused):
        for _ in going:
            pass
        settled = True
    return len(plan.asked.evidence), settled
