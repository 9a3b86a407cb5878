"""A free run from its options to its views: `arc replay --free` drains them, the screen's worker
posts. No tool is run: what a call gets is recorded text, or a text the user wrote.
"""

from __future__ import annotations

import time
from collections.abc import Generator

from msgspec import Struct, structs

from arc_tui.experiments.models import ModelPool, Spending
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.experiments.request import FreeRunRequest
from arc_tui.features.free.view import FreeView, free_view
from replay import kept as replays
from replay import kept as stubs
from replay.edit.changes import Edit
from replay.free import run as free
from replay.free.recorded_results import Terms
from replay.free.result import FreeCore, FreeRun
from replay.kept import stubs_of_trace
from replay.locked.estimate import Estimate, estimate
from replay.locked.row import LOOK, Models
from replay.models.cached import Cached
from replay.models.choose import default_name
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.rows import step_rows, trace_row
from replay.trace import Trace
from taxonomy.query.failures import break_and_notice


def run_free_replays(
    store: Store, request: FreeRunRequest, models: ModelPool
) -> Generator[FreeView]:
    """Run on, `samples` times; yields the view of a run whenever more of it is known.

    The last view of each run has its `stop`, and a digest unless it stopped at something that
    says nothing of the run. What was answered is kept: run again, it asks only what is new.

    Raises NotFound for the trace or the step, BadEdit, ModelRefused and OfflineMiss with
    sentences, and Stopped.
    """
    trace = read.load(store, trace_row(store, request.trace).trace)
    edit = edits.save(store, request.edit) if request.edit is not None else None
    for stub in request.stubs:
        stubs.put(store, trace.id, stub, source="file")
    runs = _FreeRuns(store, trace, edit, models.named(_actor(request, trace)), request, models)
    for sample in range(request.samples):
        yield from runs.run(sample)


def _actor(request: FreeRunRequest, trace: Trace) -> str | None:
    """Who acts, None where nobody is named."""
    edited = request.edit.model if request.edit is not None else None
    return request.model or edited or default_name(trace)


def kept_run(store: Store, digest: str) -> tuple[FreeCore, Terms]:
    """What a kept run came to, and the terms it had: the stubs are those of its trace by now.

    Raises NotFound where there is none.
    """
    core = replays.find(store, digest, FreeCore)
    known = stubs_of_trace(store, core.trace)
    return core, Terms(stubs=known, allow_stale=core.allow_stale, effects=core.yours)


class FreeRunEstimate(Struct, frozen=True, kw_only=True):
    """What a free run of a server's model may come to. How often it will ask nobody knows: at most
    `most` times a run; `as_recorded` is what its recorded steps would ask and cost, all afresh."""

    model: str
    most: int
    as_recorded: Estimate


def estimate_cost(store: Store, request: FreeRunRequest) -> FreeRunEstimate:
    """What to say before the first live call. Asks nothing.

    Raises as `run_free_replays` does before it asks.
    """
    trace = read.load(store, trace_row(store, request.trace).trace)
    name = ModelPool(store).named(_actor(request, trace)).name
    road = free.recorded_actions(trace, request.edit, name, request.start)
    steps = {plan.step.index for plan in road}
    with Store.open(":memory:") as empty:
        model = Cached(empty, name)
        found = estimate(trace, None, Models(model, model), sampling=LOOK, steps=steps)
    return FreeRunEstimate(
        model=name, most=free.limit_of(road, request.max_steps), as_recorded=found
    )


class _FreeRuns:
    """The runs of one wish, and what their views share."""

    def __init__(
        self,
        store: Store,
        trace: Trace,
        edit: Edit | None,
        model: Cached,
        request: FreeRunRequest,
        models: ModelPool,
    ) -> None:
        self._models = models
        self._store = store
        self._trace = trace
        self._edit = edit
        self._model = model
        self._request = request
        self._terms = Terms(
            stubs=stubs_of_trace(store, trace.id),
            allow_stale=request.allow_stale,
            effects=request.effects,
        )
        self._notice = break_and_notice(store, trace.id)[1]
        self._masked = {row.step: row.masked for row in step_rows(store, trace.id) if row.masked}

    def run(self, sample: int) -> Generator[FreeView]:
        before = self._models.spending
        going = free.run(
            self._trace,
            self._edit,
            self._model,
            self._terms,
            start=self._request.start,
            sample=sample,
            max_steps=self._request.max_steps,
            rules=self._request.rules,
        )
        shown = 0.0
        for made in going:
            if made.stop is not None:
                view = self._view(made, before)
                kept = None if made.stop.passing else replays.keep(self._store, made.core())
                yield structs.replace(view, digest=kept)
            elif time.monotonic() - shown >= BETWEEN_VIEWS_S:
                yield self._view(made, before)
                shown = time.monotonic()

    def _view(self, made: FreeRun, before: Spending) -> FreeView:
        return free_view(
            made,
            self._trace,
            edit=self._edit.name if self._edit is not None else None,
            spent=self._models.spending.since(before),
            masked=self._masked,
            notice=self._notice,
            stubs=self._terms.stubs,
        )
