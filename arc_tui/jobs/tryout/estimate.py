"""What would trying an edit ask, of whom, and about what would it cost? Said before any call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from arc_tui.jobs.tryout.kept import KeptTry, fresh_range, tried_before
from arc_tui.jobs.tryout.plan import Tryout, by_trace, tryout
from arc_tui.jobs.tryout.wish import Wanted, Whom
from replay.locked.estimate import Estimate, estimate
from replay.store import Store, read
from taxonomy.tryout import Spot
from taxonomy.wording.foreseen import total


class Foreseen(NamedTuple):
    """The plan, the models it asks, what that would cost; and `before`, the latest finished try of
    the same edit on the same runs by the same models."""

    plan: Tryout
    models: tuple[str, ...]
    estimate: Estimate
    before: KeptTry | None


def foreseen(store: Store, wanted: Wanted) -> Foreseen:
    """What trying would ask. Asks nothing. Raises as `plan.tryout` does."""
    whom = Whom(store, wanted, live=False)
    plan = tryout(store, wanted, whom)
    estimate = total(_estimates(store, wanted, plan, whom))
    models = tuple(model.name for model in whom.all)
    return Foreseen(plan, models, estimate, tried_before(store, wanted, plan, models))


def _estimates(store: Store, wanted: Wanted, plan: Tryout, whom: Whom) -> Iterator[Estimate]:
    """What each run would ask, a question that two of them ask once."""
    sampling = wanted.sampling(fresh_range(store, plan, whom) if wanted.resample else 0)
    questions = {case.asks: Spot(case.broke.trace, case.broke.step, "") for case in plan.cases}
    controls = [control.spot for control in plan.controls]
    for key, steps in by_trace((*questions.values(), *controls)):
        trace = read.load(store, key)
        models = whom.of(trace)
        if models is not None:
            yield estimate(trace, wanted.edit, models, sampling=sampling, steps=steps)
