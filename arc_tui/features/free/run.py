"""A free run from its options to its views: `arc replay --free` drains them, the screen's worker
posts. No tool is run: what a call gets is recorded text, or a text the user wrote.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator

from msgspec import Struct, structs

from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.experiments.request import FreeRunRequest
from arc_tui.features.free.view import FreeView, Spent, free_view
from replay import kept as replays
from replay import kept as stubs
from replay.budget import Budget
from replay.edit.changes import Edit
from replay.free import run as free
from replay.free.recorded_results import Terms
from replay.free.result import FreeCore, FreeRun
from replay.kept import stubs_of_trace
from replay.locked.estimate import Estimate, estimate
from replay.locked.row import LOOK, Models
from replay.models.cached import Cached
from replay.models.choose import choose, default_name
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.rows import step_rows, trace_row
from replay.trace import Trace
from taxonomy.query.failures import break_and_notice


def freeing(
    store: Store, request: FreeRunRequest, *, hold: Callable[[Cached], object] | None = None
) -> Generator[FreeView]:
    """Run on, `samples` times; yields the view of a run whenever more of it is known.

    The last view of each run has its `stop`, and a digest unless it stopped at something that
    says nothing of the run. What was answered is kept: run again, it asks only what is new. `hold`
    is given the model, for another thread to stop.

    Raises NotFound for the trace or the step, BadEdit, ModelRefused and OfflineMiss with
    sentences, and Stopped.
    """
    trace = read.load(store, trace_row(store, request.trace).trace)
    edit = edits.save(store, request.edit) if request.edit is not None else None
    for stub in request.stubs:
        stubs.put(store, trace.id, stub, source="file")
    with actor(store, request, trace) as model:
        if hold is not None:
            hold(model)
        course = _Course(store, trace, edit, model, request)
        for sample in range(request.samples):
            yield from course.run(sample)


def actor(store: Store, request: FreeRunRequest, trace: Trace) -> Cached:
    """Who acts. Raises ModelRefused where nobody is named, or live calls have no limit."""
    edited = request.edit.model if request.edit is not None else None
    name = request.model or edited or default_name(trace)
    return choose(name, store, live=request.live, budget=Budget(request.limits))


def kept_run(store: Store, digest: str) -> tuple[FreeCore, Terms]:
    """What a kept run came to, and the terms it had: the stubs are those of its trace by now.

    Raises NotFound where there is none.
    """
    core = replays.find(store, digest, FreeCore)
    known = stubs_of_trace(store, core.trace)
    return core, Terms(stubs=known, allow_stale=core.allow_stale, effects=core.yours)


class Outlook(Struct, frozen=True, kw_only=True):
    """What a free run of a server's model may come to. How often it will ask nobody knows: at most
    `most` times a run; `as_recorded` is what its recorded steps would ask and cost, all afresh."""

    model: str
    most: int
    as_recorded: Estimate


def outlook(store: Store, request: FreeRunRequest) -> Outlook:
    """What to say before the first live call. Asks nothing.

    Raises as `freeing` does before it asks.
    """
    trace = read.load(store, trace_row(store, request.trace).trace)
    name = actor(store, structs.replace(request, live=False), trace).name
    road = free.recorded_actions(trace, request.edit, name, request.start)
    steps = {plan.step.index for plan in road}
    with Store.open(":memory:") as empty:
        model = Cached(empty, name)
        found = estimate(trace, None, Models(model, model), sampling=LOOK, steps=steps)
    return Outlook(model=name, most=free.limit_of(road, request.max_steps), as_recorded=found)


class _Course:
    """The runs of one wish, and what their views share."""

    def __init__(
        self, store: Store, trace: Trace, edit: Edit | None, model: Cached, request: FreeRunRequest
    ) -> None:
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
        before = _spent(self._model)
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

    def _view(self, made: FreeRun, before: Spent) -> FreeView:
        return free_view(
            made,
            self._trace,
            edit=self._edit.name if self._edit is not None else None,
            spent=_spent(self._model).since(before),
            masked=self._masked,
            notice=self._notice,
            stubs=self._terms.stubs,
        )


def _spent(model: Cached) -> Spent:
    return Spent(asked=model.asks, kept=model.hits, usd=model.usd, complete=model.usd_complete)
