"""From a free run as the engine gives it to the view of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arc_tui import format
from arc_tui.views.free import words as free_words
from arc_tui.views.free.view import (
    NOTHING,
    FreeRow,
    FreeStop,
    FreeView,
    Got,
    Mark,
    Missed,
    NearCall,
    Spent,
)
from replay.action import Act, Action, action, shown
from replay.compare import Difference
from replay.effects import takes_program
from replay.free.nearest import Near, draft
from replay.free.result import FreeRun, FreeStep, Stop, Unanswered
from replay.free.stub import Stub
from replay.free.tape import Found
from replay.models.choose import label
from replay.tool_errors import says_error, unwrapped
from replay.trace import Step, Trace


def free_view(
    made: FreeRun,
    trace: Trace,
    *,
    edit: str | None = None,
    spent: Spent = NOTHING,
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
        road=sum(s.thread == made.thread and s.index >= made.start for s in trace.steps),
        sentence=free_words.sentence(made),
        rows=rows,
        stop=_stop(made.stop) if made.stop is not None else None,
        notices=(*said, *made.notices, *free_words.notices(made)),
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
    return "same" if against.same else "left" if against.departs else "unclear"


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
    other = ", ".join(given) if changed else "the same call at another moment"
    return f"step {near.recorded.step}, for {other}"


def _phrase(call: Act) -> str:
    return Action(calls=(call,)).phrase
