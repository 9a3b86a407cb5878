"""A free run from its options to its views: `arc replay --free` drains them, the screen's worker
posts. No tool is run: what a call gets is recorded text, or a text the user wrote.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence

from msgspec import structs

from arc_tui.experiments.models import NOTHING_SPENT, ModelPool, Spending
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.experiments.request import FreeRunRequest
from arc_tui.features.free.view import (
    ONE_RUN,
    FreeRow,
    FreeRunEstimate,
    FreeRuns,
    FreeStop,
    FreeView,
    Got,
    Mark,
    Missed,
    NearCall,
    run_notices,
    run_sentence,
    runs_sentence,
)
from arc_tui.ui import format
from replay import kept
from replay.action import Act, Action, action, shown
from replay.compare.actions import Difference
from replay.compare.rules import Rules
from replay.edit.changes import Edit
from replay.effects import takes_program
from replay.errors import ArcError
from replay.free import run as free
from replay.free.recorded_results import Found, Near, Stub, Terms, draft
from replay.free.result import FreeCore, FreeRun, FreeStep, Stop, Unanswered
from replay.locked.estimate import estimate
from replay.locked.row import LOOK, Models
from replay.models.cached import Cached
from replay.models.choose import default_name, label
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.rows import step_rows, trace_row
from replay.tool_errors import says_error, unwrapped
from replay.trace import Step, Trace
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
        kept.put(store, trace.id, stub, source="file")
    runs = _FreeRuns(store, trace, edit, models.named(_actor(request, trace)), request, models)
    for sample in range(request.samples):
        yield from runs.run(sample)


def _actor(request: FreeRunRequest, trace: Trace) -> str | None:
    """The model of the run, None where none is known."""
    edited = request.edit.model if request.edit is not None else None
    return request.model or edited or default_name(trace)


def kept_run(store: Store, digest: str) -> tuple[FreeCore, Terms]:
    """What a kept run came to, and the terms it had: the stubs are those of its trace by now.

    Raises NotFound where there is none.
    """
    core = kept.find(store, digest, FreeCore)
    known = kept.stubs_of_trace(store, core.trace)
    return core, Terms(stubs=known, allow_stale=core.allow_stale, effects=core.yours)


def show_kept_run(store: Store, digest: str) -> FreeView:
    """What a kept run came to, from stored answers alone: it is run again, and shown only where it
    comes to the same. Raises NotFound where there is none, ArcError where it does not."""
    core, terms = kept_run(store, digest)
    trace = read.load(store, core.trace)
    edit = edits.find(store, core.edit) if core.edit is not None else None
    model = Cached(store, core.model, server=core.server)
    *_, made = free.run(
        trace,
        edit,
        model,
        terms,
        start=core.start,
        sample=core.sample,
        max_steps=core.limit,
        rules=Rules(core.paths),
    )
    if made.core().digest != digest:
        raise ArcError(
            f"free replay {digest} is not reproducible any more: the run was completed since, or a"
            " response or stub is gone",
            f"Try: arc replay {core.trace[:8]} --free",
        )
    view = free_view(
        made,
        trace,
        edit=edit.name if edit is not None else None,
        masked={row.step: row.masked for row in step_rows(store, trace.id) if row.masked},
        notice=break_and_notice(store, trace.id)[1],
        stubs=terms.stubs,
    )
    return structs.replace(view, digest=digest)


def estimate_cost(store: Store, request: FreeRunRequest) -> FreeRunEstimate:
    """What to show before the first live call. Asks nothing.

    Raises as `run_free_replays` does before it asks.
    """
    trace = read.load(store, trace_row(store, request.trace).trace)
    name = ModelPool(store).named(_actor(request, trace)).name
    path = free.recorded_actions(trace, request.edit, name, request.start)
    steps = {plan.step.index for plan in path}
    with Store.open(":memory:") as empty:
        model = Cached(empty, name)
        found = estimate(trace, None, Models(model, model), sampling=LOOK, steps=steps)
    return FreeRunEstimate(
        models=(name,), max_calls=free.limit_of(path, request.max_steps), as_recorded=found
    )


class _FreeRuns:
    """The runs of one request, and what their views share."""

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
            stubs=kept.stubs_of_trace(store, trace.id),
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
                digest = None if made.stop.passing else kept.keep(self._store, made.core())
                yield structs.replace(view, digest=digest)
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


def free_runs(views: Iterable[FreeView]) -> FreeRuns:
    """The runs together: of one, its own sentence, and that one run is not conclusive."""
    runs = tuple(views)
    if len(runs) > 1:
        return FreeRuns(sentence=runs_sentence(runs), runs=runs)
    answered = runs[0].spent.calls + runs[0].spent.cached > 0
    said = f"{runs[0].sentence} {ONE_RUN}" if answered else runs[0].sentence
    return FreeRuns(sentence=said, runs=runs)


def free_view(
    made: FreeRun,
    trace: Trace,
    *,
    edit: str | None = None,
    spent: Spending = NOTHING_SPENT,
    masked: Mapping[int, int] = {},
    notice: str | None = None,
    stubs: Sequence[Stub] = (),
) -> FreeView:
    """The view of a run so far. `masked` counts masked values by step; `notice` speaks against any
    edit of the trace; `stubs` are those the run could use."""
    recorded = {step.index: step for step in trace.steps}
    by_digest = {stub.digest: stub for stub in stubs}
    rows = tuple(
        _row(step, each, recorded, by_digest)
        for step in made.steps
        if (each := step.action) is not None
    )
    weakest = made.weakest
    said = (notice,) if notice is not None else ()
    return FreeView(
        trace=made.trace,
        run=format.cut(format.one_line(trace.header.source_id), 40),
        edit=edit,
        model=label(made.model),
        server=made.server,
        start=made.start,
        sample=made.sample,
        allow_stale=made.allow_stale,
        limit=made.limit,
        recorded_steps=sum(s.thread == made.thread and s.index >= made.start for s in trace.steps),
        sentence=run_sentence(made),
        rows=rows,
        stop=_stop(made.stop) if made.stop is not None else None,
        notices=(*said, *made.notices, *run_notices(made)),
        ranks=dict(made.ranks),
        guessed=made.guessed,
        fidelity=weakest.level if weakest is not None else None,
        masked=sum(masked.get(row.step, 0) for row in rows if row.step is not None),
        spent=spent,
    )


def _row(
    step: FreeStep, did: Action, recorded: Mapping[int, Step], stubs: Mapping[str, Stub]
) -> FreeRow:
    was = recorded[step.step].ask if step.step is not None else None
    then = action(was.response, was.error) if was is not None else Action()
    return FreeRow(
        index=step.index,
        step=step.step,
        mark=_mark(step.against),
        phrase=did.cut or did.phrase,
        text=did.text,
        calls=did.calls,
        got=tuple(_got(found, stubs) for found in step.found),
        recorded=then.phrase if was is not None else "",
        recorded_text=then.text,
        recorded_calls=then.calls,
        why=step.against.brief if step.against is not None and not step.against.same else "",
        flaws=step.flaws,
        fidelity=step.fidelity.level,
        reasons=step.fidelity.reasons,
        losses=step.losses,
    )


def _mark(against: Difference | None) -> Mark:
    if against is None:
        return "own"
    return "same" if against.same else "diverged" if against.diverges else "unclear"


def _got(found: Found, stubs: Mapping[str, Stub]) -> Got:
    return Got(
        call=found.call,
        phrase=_phrase(found.call),
        rank=found.rank,
        effect=found.effect.effect,
        by=found.effect.by,
        text=found.text,
        is_error=bool(found.is_error) or _says_error(found.call, found.text),
        step=found.step,
        stub=stubs.get(found.stub) if found.stub is not None else None,
        why=found.why or "",
        guesses=found.guesses,
    )


def _says_error(call: Act, text: str | None) -> bool:
    """Is a result an error by its words? Served as recorded, it need not be marked as one."""
    program = takes_program(call.arguments)
    return text is not None and says_error(unwrapped(text), program=program)


def _stop(stop: Stop) -> FreeStop:
    return FreeStop(
        status=stop.status,
        sentence=stop.sentence,
        missed=tuple(_missed(each, stubs_help=stop.stubs_help) for each in stop.calls),
        passing=stop.passing,
    )


def _missed(each: Unanswered, *, stubs_help: bool) -> Missed:
    can = stubs_help and each.call.raw is None and isinstance(each.call.arguments, dict)
    same = next((near for near in each.near if near.recorded.call.tool == each.call.tool), None)
    return Missed(
        call=each.call,
        phrase=_phrase(each.call),
        why=each.why,
        near=tuple(map(_near, each.near)),
        draft=draft(each.call, each.near) if can else None,
        drafted_from=_place(same) if can and same is not None else "",
    )


def _near(near: Near) -> NearCall:
    return NearCall(
        step=near.recorded.step,
        call=near.recorded.call,
        phrase=_phrase(near.recorded.call),
        differs=near.phrase,
        text=near.recorded.text or "",
        is_error=bool(near.recorded.is_error)
        or _says_error(near.recorded.call, near.recorded.text),
    )


def _place(near: Near) -> str:
    """Where an observation was recorded, and for what other arguments."""
    changed = near.difference.changes
    given = (
        f"{each.path} {shown(each.before)}" if each.change != "extra" else f"no {each.path}"
        for each in changed
    )
    other = ", ".join(given) if changed else "the same call, stale"
    return f"step {near.recorded.step}, for {other}"


def _phrase(call: Act) -> str:
    return Action(calls=(call,)).phrase
