"""What would a replay ask of a draft: of which steps, in how many arms, and for how much?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from msgspec import structs

from arc_tui.experiments.edits import Draft, edit_of
from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.request import CostEstimate, ReplayRequest, asked_models
from replay.edit.changes import Edit
from replay.kept import next_range
from replay.locked.estimate import Estimate, estimate
from replay.locked.row import AUTO, Models, Sampling
from replay.models import protocol
from replay.models.choose import default_name
from replay.models.wire import is_keyless
from replay.plan import Plan, plans
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace

Reasons: TypeAlias = tuple[tuple[str, int], ...]
"""Why steps cannot be asked, with their number, the most frequent first."""


class ReplayEstimate(CostEstimate, frozen=True, eq=False, kw_only=True):
    """What a replay can ask, at first and at the most.

    `models` are those of control and, where it is another one, of the edit; () where it is not
    known which one to ask. `arms` is 1 where nothing can be edited that every step has.
    `keyless`: there is no key to ask a server with. `refused` counts the steps that cannot be
    asked, by the reason, `edit_refused` those that only the edit cannot be asked at.
    """

    steps: int
    arms: int
    refused: Reasons = ()
    edit_refused: Reasons = ()
    sampling: Sampling = AUTO
    resample: bool = False
    keyless: bool = False


def estimate_draft(store: Store, draft: Draft, request: ReplayRequest) -> ReplayEstimate:
    """The estimate of the draft's edit, or of one that reaches every step. Asks nothing.

    Raises BadEdit where the edit does not apply.
    """
    edit = draft.edit or _everywhere(draft)
    models = asked_models(request.model or draft.model, edit)
    planned = _planned(draft, edit, models)
    request = structs.replace(request, trace=draft.trace, edit=edit)
    return ReplayEstimate(
        models=models,
        steps=len(draft.rows),
        arms=2 if edit is not None else 1,
        calls=estimate_cost(store, request) if models else None,
        refused=_reasons(plan.refusal for plan in planned),
        edit_refused=_reasons(plan.edited_refusal for plan in planned),
        sampling=request.sampling,
        resample=request.resample,
        keyless=is_keyless(protocol.server_url()),
    )


def _everywhere(draft: Draft) -> Edit | None:
    """Another system prompt, else another first message: either is in every request."""
    first = [target for target in draft.targets if target.kind in ("system", "message")][:1]
    return edit_of(draft, {target.label: f"{target.text}\n." for target in first}, "any")


def _planned(draft: Draft, edit: Edit | None, models: tuple[str, ...]) -> list[Plan]:
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
