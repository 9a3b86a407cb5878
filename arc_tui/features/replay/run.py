"""A replay from its options to its views: `arc replay` drains them, the screen's worker posts."""

from __future__ import annotations

import time
from collections.abc import Generator

from msgspec import structs

from arc_tui.experiments.locked_view import ReplayView, edit_diff, replay_rows
from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.experiments.request import ReplayRequest
from arc_tui.features.replay.plan import sampling_of
from replay import kept as replays
from replay.edit.changes import Edit
from replay.errors import Stopped
from replay.locked import run as locked
from replay.locked.row import Models, Sampling
from replay.locked.run import core
from replay.locked.tally import StepResult
from replay.locked.verdict import summary
from replay.models.choose import default_name, label
from replay.plan import plans
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.rows import step_rows, trace_row
from replay.trace import Trace
from taxonomy.detectors import detector_at
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.query.failures import break_and_notice


def run_replay(store: Store, request: ReplayRequest, pool: ModelPool) -> Generator[ReplayView]:
    """Ask both arms; yields the view whenever more is known, the last one with its digest.

    What was answered is kept: closed and run again, it asks only what is missing. A replay that
    was cut short has no digest. Raises
    BadEdit, ModelRefused, OfflineMiss with sentences, and Stopped.
    """
    trace = read.load(store, trace_row(store, request.trace).trace)
    edit = edits.save(store, request.edit) if request.edit is not None else None
    models = pool.arms(request.model or default_name(trace), request.edit)
    sampling = sampling_of(store, request, trace, models)
    work = _Work(store, trace, edit, models, request, sampling, pool)
    going = locked.replay(
        trace,
        edit,
        models,
        sampling=sampling,
        steps=request.steps,
        rules=request.rules,
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
        trace, edit, models, results, sampling=sampling, steps=request.steps, rules=request.rules
    )
    yield structs.replace(view, digest=replays.keep(store, kept))


class _Work:
    """A replay under way: what is in so far, as a view."""

    def __init__(
        self,
        store: Store,
        trace: Trace,
        edit: Edit | None,
        models: Models,
        request: ReplayRequest,
        sampling: Sampling,
        pool: ModelPool,
    ) -> None:
        self._pool = pool
        self.results: dict[int, StepResult] = {}
        self._trace = trace
        self._edit = edit
        self._models = models
        self._request = request
        self._sampling = sampling
        self._total = len(trace.steps) if request.steps is None else len(request.steps)
        names = [model.name for model in models]
        planned = plans(trace, edit, names[0], request.steps, edited_model=names[1])
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
        spent = self._pool.spending
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
            asked=spent.asked,
            kept=spent.kept,
            spent_usd=spent.usd,
            spent_complete=spent.complete,
            schedule=self._sampling.schedule,
            range=self._sampling.range,
            rules=self._request.rules.lines,
            unanswered=sum(each.declined is not None for each in results),
            ended=next((each.ended for each in results if each.ended is not None), None),
        )
