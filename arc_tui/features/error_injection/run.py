"""Errors put into runs, from the options to the views: `arc inject` drains them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from msgspec import Struct, structs

from arc_tui.features.error_injection.view import InjectView, LeftOut, Spent, build_inject
from replay import kept
from replay.budget import Budget, Limits
from replay.edit.changes import Edit
from replay.error_injection.corrected import WINDOW
from replay.error_injection.run import NotPut, Trial, asked_after, chosen, inject, put, yours
from replay.error_injection.values import Kind, Wrong
from replay.errors import ModelRefused
from replay.free.recorded_results import BARE
from replay.locked.estimate import Estimate, estimate, total_estimate
from replay.locked.row import Models, fixed
from replay.locked.tally import same_model
from replay.models.cached import Cached
from replay.models.choose import choose, default_name, label
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.stats import recovery
from taxonomy.stats.recovery import Injected, Tried

UNKNOWN = "unknown"
"""Stands for the name of a model that nobody knows, where a request is only measured."""


class ErrorInjectionRequest(Struct, frozen=True, kw_only=True):
    """What to put in. `at` None lets the rule choose among the third and the fourth step; `edit`
    is the user's own error, whatever `kind` and `at` say. `model` None is each trace's own; live
    calls need a limit, which holds for all runs together."""

    traces: tuple[str, ...]
    kind: Kind = "observation"
    at: int | None = None
    edit: Edit | None = None
    samples: int = 1
    model: str | None = None
    live: bool = False
    limits: Limits = Limits()


def injecting(
    store: Store, request: ErrorInjectionRequest, *, hold: Callable[[Cached], object] | None = None
) -> Generator[InjectView]:
    """Put an error into each run and let the model go on; yields the view as more is known.

    A run of an unknown model is listed with its error, and nobody is asked. What became of an
    error is kept when its last sample is in, and every answer as it comes: run again it asks only
    what is missing. `hold` is given each model, for another thread to stop.
    Raises NotFound, BadEdit, ModelRefused, OfflineMiss and Stopped.
    """
    budget = Budget(request.limits)
    work = _Work(store, request)
    for trace, wrong in _errors(store, request):
        if isinstance(wrong, NotPut):
            work.left.append(LeftOut(trace=trace.id, task=trace.header.task, why=wrong.why))
            yield work.view()
            continue
        if _name(request, trace) is None:
            work.list(trace, wrong)
            yield work.view()
            continue
        with _asked(store, request, trace, budget) as model:
            if hold is not None:
                hold(model)
            yield from work.put(trace, wrong, model)
    yield work.view(done=True)


def estimated(store: Store, request: ErrorInjectionRequest) -> Estimate:
    """What `injecting` would ask and cost, were every run to stay on its road. Asks nothing.

    Where no model is known, the price is not.
    """
    quiet = structs.replace(request, live=False)
    parts: list[Estimate] = []
    for trace, wrong in _errors(store, quiet):
        if isinstance(wrong, NotPut):
            continue
        known = _name(request, trace) is not None
        model = (
            _asked(store, quiet, trace, Budget(request.limits)) if known else Cached(store, UNKNOWN)
        )
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


def _asked(store: Store, request: ErrorInjectionRequest, trace: Trace, budget: Budget) -> Cached:
    return choose(_name(request, trace), store, live=request.live, budget=budget)


def _likely_steps(trace: Trace, wrong: Wrong) -> set[int]:
    """The recorded steps that the answers after the error stand in for."""
    first = asked_after(trace, wrong)
    assert first is not None
    later = [s.index for s in trace.steps if s.thread == first.thread and s.index >= first.index]
    return set(later[:WINDOW])


class _Work:
    """The errors so far, and what the views share."""

    def __init__(self, store: Store, request: ErrorInjectionRequest) -> None:
        self.left: list[LeftOut] = []
        self._store = store
        self._request = request
        self._found: list[Injected] = []
        self._paths: dict[str, tuple[str, ...]] = {}
        self._spent = Spent()
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
        before = model.asks, model.hits, model.usd
        going = inject(trace, wrong, model, terms, sample=sample)
        *_, last = going
        self._spent = self._spent.more(
            asked=model.asks - before[0],
            kept=model.hits - before[1],
            usd=model.usd - before[2],
            complete=model.usd_complete,
        )
        return last

    def view(self, *, done: bool = False) -> InjectView:
        return build_inject(
            self._found,
            self.left,
            self._paths,
            self._spent,
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
