"""Errors inserted into runs, and what the agent did about them: from a request to the views
that the command drains, a row an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from arc_tui.experiments.models import ModelPool, Spending
from arc_tui.experiments.request import ExperimentRequest
from arc_tui.ui import format
from replay import kept
from replay.edit.changes import Edit
from replay.error_injection.run import (
    PLACES,
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
from replay.models.cached import Cached
from replay.models.choose import default_name, label
from replay.statistics import Rate, rate
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.stats import recovery
from taxonomy.stats.recovery import TASKS, Injected, Tried


class ErrorInjectionRequest(ExperimentRequest, frozen=True, kw_only=True):
    """What to put in. `at` None lets the rule choose among the third and the fourth step; `edit`
    is the user's own error, whatever `kind` and `at` say. `model` None is each trace's own."""

    traces: tuple[str, ...]
    kind: Kind = "observation"
    at: int | None = None
    edit: Edit | None = None
    samples: int = 1


class InjectRow(Struct, frozen=True, kw_only=True):
    """An error and what became of it. `step` counts from 0.

    `what` says in one line what was put in, `shown` is what the agent was shown; `tried` holds a
    sample each, `path` what the first of them did. `corrected` of `decided` samples.
    """

    trace: str
    task: str | None
    step: int
    kind: Kind
    what: str
    shown: str
    path: tuple[str, ...]
    tried: tuple[Tried, ...]
    corrected: int
    decided: int


class LeftOut(Struct, frozen=True, kw_only=True):
    """A run that got no error, and why."""

    trace: str
    task: str | None
    why: str


class InjectView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything `arc experiment inject-error` prints. `recovery` is over errors, each by the share
    of its samples that corrected it; errors of which nothing can be told are not in it. `done` at
    the end."""

    sentence: str
    recovery: Rate
    rows: tuple[InjectRow, ...]
    left_out: tuple[LeftOut, ...]
    notices: tuple[str, ...]
    models: tuple[str, ...]
    k: int
    total: int
    calls: int = 0
    cached: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True
    done: bool = False


EMPTY = InjectView(
    sentence="",
    recovery=rate(0, 0),
    rows=(),
    left_out=(),
    notices=(),
    models=(),
    k=1,
    total=0,
)


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


UNKNOWN = "unknown"
"""Stands for the name of a model that nobody knows, where a request is only measured."""


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
                raise ModelRefused(stop.sentence, "run it again: completed calls are cached")
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


# --- the view


def build_inject(
    found: Sequence[Injected],
    left: Sequence[LeftOut],
    paths: Mapping[str, tuple[str, ...]],
    spent: Spending,
    *,
    models: tuple[str, ...],
    samples: int,
    total: int,
    done: bool = False,
) -> InjectView:
    """The view of the errors so far. `paths` says by trace what the first sample did."""
    told = [each for each in found if each.decided]
    recovery = rate(sum(each.corrected / len(each.decided) for each in told), len(told))
    return InjectView(
        sentence=_sentence(found, recovery),
        recovery=recovery,
        rows=tuple(_row(each, paths.get(each.trace, ())) for each in found),
        left_out=tuple(left),
        notices=tuple(_notices(found, told)),
        models=models,
        k=samples,
        total=total,
        calls=spent.calls,
        cached=spent.cached,
        spent_usd=spent.usd,
        spent_complete=spent.complete,
        done=done,
    )


def _row(found: Injected, path: tuple[str, ...]) -> InjectRow:
    wrong = found.wrong
    return InjectRow(
        trace=found.trace,
        task=found.task,
        step=wrong.step,
        kind=wrong.kind,
        what=wrong.phrase,
        shown=wrong.text,
        path=path,
        tried=found.tried,
        corrected=found.corrected,
        decided=len(found.decided),
    )


def _sentence(found: Sequence[Injected], recovery: Rate) -> str:
    """How many errors were corrected, and what the others came to."""
    if not found:
        return "No error inserted."
    counted = Counter(each.outcome for one in found for each in one.tried)
    tried = sum(counted.values())
    if not any(one.model for one in found):
        return f"{format.count(len(found), 'error')} ready; no model called."
    if not tried:
        return "No response yet."
    said = f"Corrected {counted['corrected']} of {format.count(tried, 'error')} within"
    said += f" {WINDOW} steps"
    if any(len(one.tried) > 1 for one in found):
        said = said.replace("errors", f"trials of {format.count(len(found), 'error')}")
    parts = [
        f"acted on {counted['acted']}" if counted["acted"] else "",
        f"continued {counted['carried']}" if counted["carried"] else "",
        f"unknown {counted['unknown']}" if counted["unknown"] else "",
    ]
    said = "; ".join([said, *filter(None, parts)])
    if recovery.value is None:
        return f"{said}."
    between = f"{recovery.low:.2f} to {recovery.high:.2f}"
    return f"{said}. Recovery rate {recovery.value:.2f} ({between})."


def _notices(found: Sequence[Injected], told: Sequence[Injected]) -> Iterator[str]:
    """What a reader must know besides the rate."""
    if told and len(told) < TASKS[0]:
        few = format.count(len(told), "error")
        yield f"{few}: not conclusive; the article uses {TASKS[0]} to {TASKS[-1]} tasks"
    away = [each for each in found if each.wrong.step not in PLACES]
    if away:
        yield (
            f"{len(away)} inserted at another step than {PLACES[0]} or {PLACES[1]}: neither was"
            " possible, or --step or --edit set it"
        )
    nobody = sum(not each.model for each in found)
    if nobody:
        yield f"model unknown in {format.count(nobody, 'run')}. Try: --model NAME"
    other = sorted({each.model for each in found if each.model and not each.own})
    if other:
        yield (
            f"{', '.join(other)} is not the recorded model: not counted as the agent's own in"
            " `arc stats`"
        )
