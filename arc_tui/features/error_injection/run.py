"""Errors put into runs: from a request to the views that the command drains."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from msgspec import structs

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.request import ExperimentRequest
from arc_tui.features.error_injection.view import InjectView, LeftOut, build_inject
from replay import kept
from replay.edit.changes import Edit
from replay.error_injection.run import (
    WINDOW,
    NotPut,
    Trial,
    asked_after,
    chosen,
    inject,
    put,
    yours,
)
from replay.error_injection.values import Kind, Wrong
from replay.errors import ModelRefused
from replay.free.recorded_results import BARE
from replay.locked.estimate import Estimate, estimate, total_estimate
from replay.locked.row import Models, fixed
from replay.locked.tally import same_model
from replay.models import default_name, label
from replay.models.cached import Cached
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.stats import recovery
from taxonomy.stats.recovery import Injected, Tried

UNKNOWN = "unknown"
"""Stands for the name of a model that nobody knows, where a request is only measured."""


class ErrorInjectionRequest(ExperimentRequest, frozen=True, kw_only=True):
    """What to put in. `at` None lets the rule choose among the third and the fourth step; `edit`
    is the user's own error, whatever `kind` and `at` say. `model` None is each trace's own."""

    traces: tuple[str, ...]
    kind: Kind = "observation"
    at: int | None = None
    edit: Edit | None = None
    samples: int = 1


def run_error_injection(
    store: Store, request: ErrorInjectionRequest, models: ModelPool
) -> Generator[InjectView]:
    """Put an error into each run and let the model go on; yields the view as more is known.

    A run of an unknown model is listed with its error, and nobody is asked. What became of an
    error is kept when its last sample is in, and every answer as it comes: run again it asks only
    what is missing.
    Raises NotFound, BadEdit, ModelRefused, OfflineMiss and Stopped.
    """
    work = _Work(store, request, models)
    for trace, wrong in _errors(store, request):
        if isinstance(wrong, NotPut):
            work.left.append(LeftOut(trace=trace.id, task=trace.header.task, why=wrong.why))
            yield work.view()
            continue
        if _name(request, trace) is None:
            work.list(trace, wrong)
            yield work.view()
            continue
        yield from work.put(trace, wrong, models.named(_name(request, trace)))
    yield work.view(done=True)


def estimate_cost(store: Store, request: ErrorInjectionRequest) -> Estimate:
    """What it would ask and cost, were every run to stay on its recorded path. Asks nothing.

    Where no model is known, the price is not.
    """
    parts: list[Estimate] = []
    for trace, wrong in _errors(store, request):
        if isinstance(wrong, NotPut):
            continue
        name = _name(request, trace)
        model = Cached(store, UNKNOWN) if name is None else ModelPool(store).named(name)
        parts.append(
            estimate(
                put(trace, wrong),
                None,
                Models.one(model),
                sampling=fixed(request.samples),
                steps=_likely_steps(trace, wrong),
            )
        )
    return total_estimate(parts)


def _errors(store: Store, request: ErrorInjectionRequest) -> Iterator[tuple[Trace, Wrong | NotPut]]:
    """Each run with its error. Raises where a run, a step or the edit is not there."""
    for name in request.traces:
        trace = read.load(store, trace_row(store, name).trace)
        if request.edit is not None:
            yield trace, yours(trace, request.edit)
        else:
            yield trace, chosen(trace, request.kind, request.at)


def _name(request: ErrorInjectionRequest, trace: Trace) -> str | None:
    return request.model or default_name(trace)


def _likely_steps(trace: Trace, wrong: Wrong) -> set[int]:
    """The recorded steps that the answers after the error stand in for."""
    first = asked_after(trace, wrong)
    assert first is not None
    later = [s.index for s in trace.steps if s.thread == first.thread and s.index >= first.index]
    return set(later[:WINDOW])


class _Work:
    """The errors so far, and what the views share."""

    def __init__(self, store: Store, request: ErrorInjectionRequest, models: ModelPool) -> None:
        self._pool = models
        self.left: list[LeftOut] = []
        self._store = store
        self._request = request
        self._found: list[Injected] = []
        self._paths: dict[str, tuple[str, ...]] = {}
        self._models: dict[str, None] = {}

    def list(self, trace: Trace, wrong: Wrong) -> None:
        """An error that nobody is shown, for it is not known who."""
        self._found.append(_untried(trace, wrong, ""))

    def put(self, trace: Trace, wrong: Wrong, model: Cached) -> Iterator[InjectView]:
        self._models[label(model.name)] = None
        found = _untried(trace, wrong, model.name)
        self._found.append(found)
        for sample in range(self._request.samples):
            trial = self._tried(trace, wrong, model, sample)
            assert trial.mended is not None
            if not sample:
                self._paths[trace.id] = trial.run.path
            one = Tried(
                sample=sample,
                outcome=trial.mended.outcome,
                because=trial.mended.because,
                after=trial.mended.after,
            )
            found = structs.replace(found, tried=(*found.tried, one))
            self._found[-1] = found
            yield self.view()
            stop = trial.run.stop
            if stop is not None and stop.passing:  # a limit, no key: it says nothing of the agent
                raise ModelRefused(stop.sentence, "the same command asks only what is missing")
        recovery.keep(self._store, found)

    def _tried(self, trace: Trace, wrong: Wrong, model: Cached, sample: int) -> Trial:
        terms = structs.replace(BARE, stubs=kept.stubs_of_trace(self._store, trace.id))
        *_, last = inject(trace, wrong, model, terms, sample=sample)
        return last

    def view(self, *, done: bool = False) -> InjectView:
        return build_inject(
            self._found,
            self.left,
            self._paths,
            self._pool.spending,
            models=tuple(self._models),
            samples=self._request.samples,
            total=len(self._request.traces),
            done=done,
        )


def _untried(trace: Trace, wrong: Wrong, model: str) -> Injected:
    recorded = default_name(trace)
    return Injected(
        trace=trace.id,
        task=trace.header.task,
        model=model,
        own=recorded is not None and same_model(model, recorded),
        wrong=wrong,
        tried=(),
    )
