"""A replay from its options to its views: `arc replay` drains them, the screen's worker posts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator

from msgspec import Struct, structs

from arc_tui.views.replay import ReplayView, edit_diff, replay_rows
from replay import locked
from replay.budget import Budget, Estimate, Limits
from replay.edit import Edit
from replay.locked import StepResult
from replay.models.cached import Cached
from replay.models.choose import choose, default_name, label
from replay.plan import estimate
from replay.store import Store, edits, read, replays
from replay.store.rows import trace_row
from replay.trace import Trace
from replay.verdict import summary
from taxonomy import ledger
from taxonomy.classes import Fault
from taxonomy.query import tag_rows


class Wanted(Struct, frozen=True, kw_only=True):
    """What to replay. `model` None is the trace's own; live calls need `live` and a limit."""

    trace: str
    edit: Edit | None = None
    model: str | None = None
    live: bool = False
    limits: Limits = Limits()
    steps: Collection[int] | None = None


def replaying(
    store: Store, wanted: Wanted, *, hold: Callable[[Cached], object] | None = None
) -> Generator[ReplayView, None, None]:
    """Ask both arms step by step; yields the view after each, the last one with its digest.

    What was answered is kept: closed and run again, it asks only what is missing. `hold` is given
    the model, for another thread to stop. Raises BadEdit, ModelRefused, OfflineMiss with
    sentences, and Stopped.
    """
    trace = read.load(store, trace_row(store, wanted.trace).trace)
    edit = edits.save(store, wanted.edit) if wanted.edit is not None else None
    with _model(store, wanted, trace) as model:
        if hold is not None:
            hold(model)
        work = _Work(store, trace, edit, model, wanted.steps)
        view = work.view()
        for result in locked.replay(trace, edit, model, steps=wanted.steps):
            work.results.append(result)
            view = work.view()
            yield view
    core = locked.core(trace, edit, model.name, work.results)
    yield structs.replace(view, digest=replays.keep(store, core))


def estimated(store: Store, wanted: Wanted) -> Estimate:
    """What `replaying` with the same wish would ask and cost. Asks nothing."""
    trace = read.load(store, trace_row(store, wanted.trace).trace)
    model = _model(store, structs.replace(wanted, live=False), trace)
    return estimate(trace, wanted.edit, model, steps=wanted.steps)


def _model(store: Store, wanted: Wanted, trace: Trace) -> Cached:
    name = wanted.model or default_name(trace)
    return choose(name, store, live=wanted.live, budget=Budget(wanted.limits))


class _Work:
    """A replay under way: what is in so far, as a view."""

    def __init__(
        self,
        store: Store,
        trace: Trace,
        edit: Edit | None,
        model: Cached,
        steps: Collection[int] | None,
    ) -> None:
        self.results: list[StepResult] = []
        self._trace = trace
        self._edit = edit
        self._model = model
        self._total = len(trace.steps) if steps is None else len(steps)
        self._diff = edit_diff(trace, edit)
        self._break, self._notice = break_and_notice(store, trace.id)

    def view(self) -> ReplayView:
        verdict = summary(self.results, self._break, notice=self._notice)
        return ReplayView(
            trace=self._trace.id,
            edit=self._edit.name if self._edit else None,
            diff=self._diff,
            model=label(self._model.name),
            verdict=verdict,
            rows=replay_rows(self.results, verdict),
            done=len(self.results),
            total=self._total,
            asked=self._model.asks,
            kept=self._model.hits,
            spent_usd=self._model.usd,
            spent_complete=self._model.usd_complete,
        )


def break_and_notice(store: Store, key: str) -> tuple[int | None, str | None]:
    """The step where a trace broke, as far as is known, and what speaks against a prompt edit.

    A person's tag says more than the first candidate of the rules.
    """
    said = ledger.diagnosis(store, key)
    tagged = tag_rows(store, "trace = ? AND accepted", (key,))
    candidate = said.candidates[0].step if said and said.candidates else None
    at = min(tag.step for tag in tagged) if tagged else candidate
    harness = [f for f in (said.findings if said else ()) if f.fault is Fault.HARNESS]
    notice = (
        f"The failure is the harness's, not the prompt's ({harness[0].why}): no prompt edit can"
        " answer it"
        if harness
        else None
    )
    return at, notice
