"""A replay from its options to its views: `arc replay` drains them, the screen's worker posts."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator

from msgspec import Struct, structs

from arc_tui.experiments.locked_view import ReplayView, edit_diff, replay_rows
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from replay import kept as replays
from replay.budget import Budget, Limits
from replay.compare.rules import PLAIN, Rules
from replay.edit.changes import Edit
from replay.errors import Stopped
from replay.kept import next_range
from replay.locked import run as locked
from replay.locked.estimate import Estimate, estimate
from replay.locked.result import core
from replay.locked.row import AUTO, Models, Sampling
from replay.locked.tally import StepResult
from replay.locked.verdict import summary
from replay.models.choose import choose, default_name, label
from replay.plan import plans
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.rows import step_rows, trace_row
from replay.trace import Trace
from taxonomy.detectors import detector_at
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.query.failures import break_and_notice


class Wanted(Struct, frozen=True, kw_only=True):
    """What to replay. `model` None is the trace's own; live calls need `live` and a limit.

    `resample` asks everything afresh, in a new range of samples beside those that are kept.
    """

    trace: str
    edit: Edit | None = None
    model: str | None = None
    live: bool = False
    limits: Limits = Limits()
    steps: Collection[int] | None = None
    sampling: Sampling = AUTO
    resample: bool = False
    rules: Rules = PLAIN


def replaying(
    store: Store, wanted: Wanted, *, hold: Callable[[Models], object] | None = None
) -> Generator[ReplayView, None, None]:
    """Ask both arms; yields the view whenever more is known, the last one with its digest.

    What was answered is kept: closed and run again, it asks only what is missing. A replay that
    was cut short has no digest. `hold` is given the models, for another thread to stop. Raises
    BadEdit, ModelRefused, OfflineMiss with sentences, and Stopped.
    """
    trace = read.load(store, trace_row(store, wanted.trace).trace)
    edit = edits.save(store, wanted.edit) if wanted.edit is not None else None
    models = chosen(store, wanted, trace)
    sampling = _sampling(store, wanted, trace, models)
    with models.control, models.edited:
        if hold is not None:
            hold(models)
        work = _Work(store, trace, edit, models, wanted, sampling)
        going = locked.replay(
            trace,
            edit,
            models,
            sampling=sampling,
            steps=wanted.steps,
            rules=wanted.rules,
            oracle=work.oracle,
        )
        shown = 0.0
        try:
            for result in going:
                work.results[result.step] = result
                if time.monotonic() - shown >= BETWEEN_VIEWS_S:
                    yield work.view()
                    shown = time.monotonic()
        except Stopped:
            yield work.view()
            raise
        view = work.view()
        yield view
    if view.ended is not None:
        return
    results = list(work.results.values())
    kept = core(
        trace, edit, models, results, sampling=sampling, steps=wanted.steps, rules=wanted.rules
    )
    yield structs.replace(view, digest=replays.keep(store, kept))


def estimated(store: Store, wanted: Wanted) -> Estimate:
    """What `replaying` with the same wish would ask and cost. Asks nothing."""
    trace = read.load(store, trace_row(store, wanted.trace).trace)
    models = chosen(store, structs.replace(wanted, live=False), trace)
    sampling = _sampling(store, wanted, trace, models)
    return estimate(trace, wanted.edit, models, sampling=sampling, steps=wanted.steps)


def chosen(store: Store, wanted: Wanted, trace: Trace) -> Models:
    """Who is asked in each arm, under one budget: an edit may name another model."""
    budget = Budget(wanted.limits)
    name = wanted.model or default_name(trace)
    control = choose(name, store, live=wanted.live, budget=budget)
    other = wanted.edit.model if wanted.edit is not None else None
    if other is None:
        return Models(control, control)
    edited = choose(other, store, live=wanted.live, budget=budget)
    return Models(control, control if edited.name == control.name else edited)


def _sampling(store: Store, wanted: Wanted, trace: Trace, models: Models) -> Sampling:
    if not wanted.resample:
        return wanted.sampling
    fresh = next_range(store, trace.id, models.control.name)
    return structs.replace(wanted.sampling, range=fresh)


class _Work:
    """A replay under way: what is in so far, as a view."""

    def __init__(
        self,
        store: Store,
        trace: Trace,
        edit: Edit | None,
        models: Models,
        wanted: Wanted,
        sampling: Sampling,
    ) -> None:
        self.results: dict[int, StepResult] = {}
        self._trace = trace
        self._edit = edit
        self._models = models
        self._wanted = wanted
        self._sampling = sampling
        self._total = len(trace.steps) if wanted.steps is None else len(wanted.steps)
        names = [model.name for model in models]
        planned = plans(trace, edit, names[0], wanted.steps, edited_model=names[1])
        asked = {plan.step.index for plan in planned if plan.refusal is None}
        self._diff = edit_diff(trace, edit, asked)
        self._break, self._notice = break_and_notice(store, trace.id)
        said = diagnosis(store, trace.id)
        self.oracle = detector_at(trace, said.findings if said else (), self._break)
        self._masked = {row.step: row.masked for row in step_rows(store, trace.id) if row.masked}

    def view(self) -> ReplayView:
        results = list(self.results.values())
        control, edited = self._models
        verdict = summary(
            results,
            self._break,
            notice=self._notice,
            masked=self._masked,
            edited_model=edited.name if edited is not control else None,
        )
        models = (control,) if edited is control else (control, edited)
        return ReplayView(
            trace=self._trace.id,
            edit=self._edit.name if self._edit else None,
            diff=self._diff,
            model=label(control.name),
            server=control.server,
            verdict=verdict,
            rows=replay_rows(results, verdict, self._masked),
            done=len(results),
            total=self._total,
            asked=sum(model.asks for model in models),
            kept=sum(model.hits for model in models),
            spent_usd=sum(model.usd for model in models),
            spent_complete=all(model.usd_complete for model in models),
            schedule=self._sampling.schedule,
            range=self._sampling.range,
            rules=self._wanted.rules.lines,
            unanswered=sum(each.declined is not None for each in results),
            ended=next((each.ended for each in results if each.ended is not None), None),
        )
