"""A replay: what it would ask of a draft and for how much, and from its options to its views.

`arc replay` drains the views, the screen's worker posts them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Sequence
from typing import TypeAlias

from msgspec import structs

from arc_tui.experiments.edits import Draft, edit_of
from arc_tui.experiments.locked_view import ReplayView, edit_diff, replay_rows
from arc_tui.experiments.models import ModelPool, lacking_key, whole_names
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.experiments.request import CostEstimate, ReplayRequest, asked_models
from replay.bundle import kept_models
from replay.compare.rules import Rules
from replay.edit.changes import Edit
from replay.errors import ArcError, Stopped
from replay.kept import keep, next_range
from replay.locked.arms import beside_one_control, verdicts
from replay.locked.estimate import Estimate, estimate_arms
from replay.locked.row import AUTO, Models, Sampling
from replay.locked.run import Core, core, replay_arms, run_again
from replay.locked.tally import StepResult
from replay.locked.verdict import Verdict
from replay.models.choose import default_name, label
from replay.plan import Plan, naming_arm, plans
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
    known which one to ask. `arms` is 1 where nothing can be edited that every step has; `names`
    are those of the edits, "" of one that has none yet;
    `supposed`: there is no edit yet, and one that reaches every step is reckoned with.
    `keyless`: there is no key to ask a server with. `refused` counts the steps that cannot be
    asked, by the reason, `edit_refused` those that only the edit cannot be asked at.
    """

    steps: int
    arms: int
    names: tuple[str, ...] = ()
    supposed: bool = False
    refused: Reasons = ()
    edit_refused: Reasons = ()
    sampling: Sampling = AUTO
    resample: bool = False
    keyless: str | None = None


def estimate_draft(store: Store, draft: Draft, request: ReplayRequest) -> ReplayEstimate:
    """The estimate of the draft's edit and of the other arms, or of an edit that reaches every
    step. Asks nothing.

    Raises BadEdit where an edit does not apply.
    """
    edit = draft.edit
    if edit is None and not request.others:
        edit = _everywhere(draft)
    request = structs.replace(request, trace=draft.trace, edit=edit)
    arms = [each for each in request.edits if each is not None]
    models = asked_models(request.model or draft.model, *request.edits)
    planned = _planned(draft, request, models)
    return ReplayEstimate(
        models=models,
        steps=len(draft.rows),
        arms=1 + len(arms),
        names=tuple(each.name for each in arms),
        supposed=draft.edit is None and not request.others,
        calls=estimate_cost(store, request) if models else None,
        refused=_reasons(plan.refusal for plan in planned[0]) if planned else (),
        edit_refused=_reasons(plan.edited_refusal for arm in planned for plan in arm),
        sampling=request.sampling,
        resample=request.resample,
        keyless=lacking_key(models),
    )


def _everywhere(draft: Draft) -> Edit | None:
    """Another system prompt, else another first message: either is in every request."""
    first = [target for target in draft.targets if target.kind in ("system", "message")][:1]
    return edit_of(draft, {target.label: f"{target.text}\n." for target in first}, "any")


def _planned(draft: Draft, request: ReplayRequest, models: Sequence[str]) -> list[list[Plan]]:
    """The steps of each arm."""
    if not models or draft.source is None:
        return []
    control, *_ = whole_names(models)
    planned = []
    for edit in request.edits:
        other = edit.model if edit is not None else None
        edited = control if other is None else whole_names([other])[0]
        with naming_arm(edit, len(request.edits)):
            planned.append(plans(draft.source, edit, control, None, edited_model=edited))
    return planned


def _reasons(refusals: Iterable[str | None]) -> Reasons:
    return tuple(Counter(why for why in refusals if why is not None).most_common())


def estimate_cost(store: Store, request: ReplayRequest) -> Estimate:
    """What `run_replay` would ask and cost. Asks nothing."""
    trace = read.load(store, trace_row(store, request.trace).trace)
    pool = ModelPool(store)
    name = request.model or default_name(trace)
    arms = [(edit, pool.arms(name, edit)) for edit in request.edits]
    sampling = sampling_of(store, request, trace, arms[0][1])
    return estimate_arms(trace, arms, sampling=sampling, steps=request.steps)


def sampling_of(store: Store, request: ReplayRequest, trace: Trace, models: Models) -> Sampling:
    """How often each request is asked: afresh in a range of samples that nothing has used."""
    if not request.resample:
        return request.sampling
    fresh = next_range(store, trace.id, models.control.name)
    return structs.replace(request.sampling, range=fresh)


# --- the replay


def run_replay(store: Store, request: ReplayRequest, pool: ModelPool) -> Generator[ReplayView]:
    """Ask control and every edit; yields the view whenever more is known, the last one with its
    digest.

    What was answered is kept: closed and run again, it asks only what is missing. A replay that
    was cut short has no digest. Raises BadEdit, ModelRefused, OfflineMiss with sentences, and
    Stopped.
    """
    work = _Work(store, request, pool)
    shown = 0.0
    try:
        for place, result in work.replay():
            work.arms[place].results[result.step] = result
            if time.monotonic() - shown >= BETWEEN_VIEWS_S:
                yield work.view()
                shown = time.monotonic()
    except Stopped:
        yield work.view()
        raise
    view = work.view()
    yield view
    if view.ended is None:
        yield work.kept(view)


class _Arm:
    """One edit under way: what is in so far."""

    def __init__(
        self, trace: Trace, edit: Edit | None, models: Models, steps: Collection[int] | None
    ) -> None:
        self.edit = edit
        self.models = models
        self.results: dict[int, StepResult] = {}
        control, edited = (model.name for model in models)
        planned = plans(trace, edit, control, steps, edited_model=edited)
        asked = {plan.step.index for plan in planned if plan.refusal is None}
        self.diff = edit_diff(trace, edit, asked)


class _Work:
    """A replay under way."""

    def __init__(self, store: Store, request: ReplayRequest, pool: ModelPool) -> None:
        self._store = store
        self._request = request
        self._pool = pool
        self._trace = trace = read.load(store, trace_row(store, request.trace).trace)
        name = request.model or default_name(trace)
        kept = [edits.save(store, each) if each is not None else None for each in request.edits]
        self.arms = []
        for edit in kept:
            with naming_arm(edit, len(kept)):
                self.arms.append(_Arm(trace, edit, pool.arms(name, edit), request.steps))
        self._sampling = sampling_of(store, request, trace, self.arms[0].models)
        self._total = len(trace.steps) if request.steps is None else len(request.steps)
        self._break, self._notice = break_and_notice(store, trace.id)
        self._masked = {row.step: row.masked for row in step_rows(store, trace.id) if row.masked}

    def replay(self) -> Generator[tuple[int, StepResult]]:
        said = diagnosis(self._store, self._trace.id)
        return replay_arms(
            self._trace,
            [(arm.edit, arm.models) for arm in self.arms],
            sampling=self._sampling,
            steps=self._request.steps,
            rules=self._request.rules,
            detector=detector_at(self._trace, said.findings if said else (), self._break),
        )

    def kept(self, view: ReplayView) -> ReplayView:
        """The view of a replay that is over, each arm kept under its digest."""
        first, *others = (
            structs.replace(shown, digest=self._keep(arm))
            for arm, shown in zip(self.arms, view.arms, strict=True)
        )
        return structs.replace(first, others=tuple(others))

    def _keep(self, arm: _Arm) -> str:
        return keep(
            self._store,
            core(
                self._trace,
                arm.edit,
                arm.models,
                arm.results.values(),
                sampling=self._sampling,
                steps=self._request.steps,
                rules=self._request.rules,
            ),
        )

    def view(self) -> ReplayView:
        found = beside_one_control([arm.results.values() for arm in self.arms])
        said = verdicts(
            found,
            self._break,
            models=[_other_model(arm.models) for arm in self.arms],
            notice=self._notice,
            masked=self._masked,
        )
        first, *others = map(self._view, self.arms, found, said)
        return structs.replace(first, others=tuple(others))

    def _view(self, arm: _Arm, results: Sequence[StepResult], verdict: Verdict) -> ReplayView:
        control, _ = arm.models
        spent = self._pool.spending
        return ReplayView(
            trace=self._trace.id,
            edit=arm.edit.name if arm.edit else None,
            diff=arm.diff,
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
            ended=next((why for why in map(_ended, self.arms) if why is not None), None),
        )


def _ended(arm: _Arm) -> str | None:
    """Why nothing more was asked."""
    return next((each.ended for each in arm.results.values() if each.ended is not None), None)


def _other_model(models: Models) -> str | None:
    """The model of the edited arm, where that is another one."""
    return models.edited.name if models.edited is not models.control else None


# --- a kept one


def show_kept(store: Store, kept: Core) -> ReplayView:
    """What a kept replay came to, from stored answers alone: it is run again, and shown only where
    it comes to the same. Raises ArcError where it does not."""
    trace = read.load(store, kept.trace)
    edit = edits.find(store, kept.edit) if kept.edit is not None else None
    models = kept_models(store, kept, trace, edit)
    if run_again(kept, trace, edit, models, least=1).digest != kept.digest:
        raise ArcError(
            f"replay {kept.digest} is not reproducible any more: the run was completed since, or a"
            " response is gone",
            f"Try: arc replay {kept.trace[:8]}",
        )
    counts = {row.step: max(len(row.control), len(row.edited), 1) for row in kept.rows}
    request = ReplayRequest(
        trace=kept.trace,
        edit=edit,
        model=kept.model,
        steps=kept.steps,
        sampling=Sampling(levels=kept.levels, range=kept.range, counts=counts),
        rules=Rules(kept.paths),
    )
    with ModelPool(store) as pool:
        pool.add(kept.model, models.control)
        if edit is not None and edit.model is not None:
            pool.add(edit.model, models.edited)
        *_, view = run_replay(store, request, pool)
    return view
