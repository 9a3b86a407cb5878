"""A replay: what it would ask of a draft and for how much, and from its options to its views.

`arc replay` drains the views, the screen's worker posts them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from typing import TypeAlias

from msgspec import structs

from arc_tui.experiments.edits import Draft, edit_of
from arc_tui.experiments.locked_view import ReplayView, edit_diff, replay_rows
from arc_tui.experiments.models import ModelPool, lacking_key, whole_names
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.experiments.request import CostEstimate, ReplayRequest, asked_models
from replay.edit.changes import Edit
from replay.errors import Stopped
from replay.kept import keep, next_range
from replay.locked.estimate import Estimate, estimate
from replay.locked.row import AUTO, Models, Sampling
from replay.locked.run import core, replay
from replay.locked.tally import StepResult
from replay.locked.verdict import summary
from replay.models.choose import default_name, label
from replay.plan import Plan, plans
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.rows import step_rows, trace_row
from replay.trace import Trace
from taxonomy.detectors import detector_at
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.query.failures import break_and_notice

# --- what it would ask

Reasons: TypeAlias = tuple[tuple[str, int], ...]
"""Why steps cannot be asked, with their number, the most frequent first."""


class ReplayEstimate(CostEstimate, frozen=True, eq=False, kw_only=True):
    """What a replay can ask, at first and at the most.

    `models` are those of control and, where it is another one, of the edit; () where it is not
    known which one to ask. `arms` is 1 where nothing can be edited that every step has;
    `supposed`: there is no edit yet, and one that reaches every step is reckoned with.
    `keyless`: there is no key to ask a server with. `refused` counts the steps that cannot be
    asked, by the reason, `edit_refused` those that only the edit cannot be asked at.
    """

    steps: int
    arms: int
    supposed: bool = False
    refused: Reasons = ()
    edit_refused: Reasons = ()
    sampling: Sampling = AUTO
    resample: bool = False
    keyless: str | None = None


def estimate_draft(store: Store, draft: Draft, request: ReplayRequest) -> ReplayEstimate:
    """The estimate of the draft's edit, or of one that reaches every step. Asks nothing.

    Raises BadEdit where the edit does not apply.
    """
    edit = draft.edit or _everywhere(draft)
    models = asked_models(request.model or draft.model, edit)
    planned = _planned(draft, edit, whole_names(models))
    request = structs.replace(request, trace=draft.trace, edit=edit)
    return ReplayEstimate(
        models=models,
        steps=len(draft.rows),
        arms=2 if edit is not None else 1,
        supposed=draft.edit is None,
        calls=estimate_cost(store, request) if models else None,
        refused=_reasons(plan.refusal for plan in planned),
        edit_refused=_reasons(plan.edited_refusal for plan in planned),
        sampling=request.sampling,
        resample=request.resample,
        keyless=lacking_key(models),
    )


def _everywhere(draft: Draft) -> Edit | None:
    """Another system prompt, else another first message: either is in every request."""
    first = [target for target in draft.targets if target.kind in ("system", "message")][:1]
    return edit_of(draft, {target.label: f"{target.text}\n." for target in first}, "any")


def _planned(draft: Draft, edit: Edit | None, models: Sequence[str]) -> list[Plan]:
    if not models or draft.source is None:
        return []
    return plans(draft.source, edit, models[0], None, edited_model=models[-1])


def _reasons(refusals: Iterable[str | None]) -> Reasons:
    return tuple(Counter(why for why in refusals if why is not None).most_common())


def estimate_cost(store: Store, request: ReplayRequest) -> Estimate:
    """What `run_replay` would ask and cost. Asks nothing."""
    trace = read.load(store, trace_row(store, request.trace).trace)
    models = ModelPool(store).arms(request.model or default_name(trace), request.edit)
    sampling = sampling_of(store, request, trace, models)
    return estimate(trace, request.edit, models, sampling=sampling, steps=request.steps)


def sampling_of(store: Store, request: ReplayRequest, trace: Trace, models: Models) -> Sampling:
    """How often each request is asked: afresh in a range of samples that nothing has used."""
    if not request.resample:
        return request.sampling
    fresh = next_range(store, trace.id, models.control.name)
    return structs.replace(request.sampling, range=fresh)


# --- the replay


def run_replay(store: Store, request: ReplayRequest, pool: ModelPool) -> Generator[ReplayView]:
    """Ask both arms; yields the view whenever more is known, the last one with its digest.

    What was answered is kept: closed and run again, it asks only what is missing. A replay that
    was cut short has no digest. Raises BadEdit, ModelRefused, OfflineMiss with sentences, and
    Stopped.
    """
    trace = read.load(store, trace_row(store, request.trace).trace)
    edit = edits.save(store, request.edit) if request.edit is not None else None
    models = pool.arms(request.model or default_name(trace), request.edit)
    sampling = sampling_of(store, request, trace, models)
    work = _Work(store, trace, edit, models, request, sampling, pool)
    going = replay(
        trace,
        edit,
        models,
        sampling=sampling,
        steps=request.steps,
        rules=request.rules,
        detector=work.detector,
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
    yield structs.replace(view, digest=keep(store, kept))


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
        self.detector = detector_at(trace, said.findings if said else (), self._break)
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
            calls=spent.calls,
            cached=spent.cached,
            spent_usd=spent.usd,
            spent_complete=spent.complete,
            schedule=self._sampling.schedule,
            range=self._sampling.range,
            rules=self._request.rules.lines,
            unanswered=sum(each.declined is not None for each in results),
            ended=next((each.ended for each in results if each.ended is not None), None),
        )
