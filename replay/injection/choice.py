"""Where is the error put, and which one? Deterministic: a run always gets the same one.

The article puts errors at the third or the fourth step. Counted from 0 these are 2 and 3; which of
them it is, a digest of the run decides, and where that step can take no error, the other one. A run
in which neither can gets it at the nearest step that can, and its place says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from replay import canon
from replay.edit import Edit, SetObservation
from replay.errors import BadEdit, no_step
from replay.free.recorded import effects_of
from replay.injection.derive import replaced, tool_error, wrong_observation, wrong_step
from replay.injection.put import asked_after, put
from replay.injection.wrong import Kind, Wrong
from replay.trace import Step, Trace

PLACES = (2, 3)
"""The third and the fourth step, counted from 0."""


class NotPut(Struct, frozen=True):
    """Why a run gets no error."""

    why: str


def chosen(trace: Trace, kind: Kind, at: int | None = None) -> Wrong | NotPut:
    """The error of that kind for a run, at step `at` or where the rule puts it.

    Raises NotFound where the run has no step `at`.
    """
    if at is not None:
        if not 0 <= at < len(trace.steps):
            raise no_step(at, len(trace.steps))
        return _at(trace, trace.steps[at], kind)
    tried: Wrong | NotPut = NotPut("it has no step that an error could be put in at")
    for step in order(trace):
        tried = _at(trace, step, kind)
        if isinstance(tried, Wrong):
            return tried
    return tried


def order(trace: Trace) -> Sequence[Step]:
    """The steps of the first thread in the order in which they are tried."""
    if not trace.steps:
        return ()
    first = int(canon.digest("injected at", trace.id)[-1], 16) % len(PLACES)
    wanted = (*PLACES[first:], *PLACES[:first])
    own = [step for step in trace.steps if step.thread == trace.steps[0].thread]

    def distance(step: Step) -> tuple[int, int]:
        if step.index in wanted:
            return 0, wanted.index(step.index)
        return min(abs(step.index - place) for place in PLACES), -step.index

    return sorted(own, key=distance)


def yours(trace: Trace, edit: Edit) -> Wrong:
    """The error that an edit with one `set_observation` describes.

    Raises BadEdit where it has another change, or none, or does not apply to the run.
    """
    changes = [each for each in edit.changes if isinstance(each, SetObservation)]
    if len(changes) != 1 or len(edit.changes) != 1:
        raise BadEdit(
            f"{edit.name}: an error is one change of kind set_observation",
            "`arc replay --free --edit` goes on from any other edit",
        )
    (change,) = changes
    if not 0 <= change.step < len(trace.steps):
        raise no_step(change.step, len(trace.steps))
    step = trace.steps[change.step]
    if not step.acts:
        raise BadEdit(f"step {step.index}: calls no tool, so nothing was returned to it")
    if change.call is None and len(step.acts) > 1:
        raise BadEdit(f"step {step.index}: makes {len(step.acts)} calls", "say which with `call`")
    place = change.call or 0
    if place >= len(step.acts):
        raise BadEdit(f"step {step.index}: has no call {place}")
    wrong = replaced(step, place, change.text, change.is_error)
    put(trace, wrong)
    if asked_after(trace, wrong) is None:
        raise BadEdit(f"step {step.index}: the run ends there, and nobody would be asked after it")
    return wrong


def _at(trace: Trace, step: Step, kind: Kind) -> Wrong | NotPut:
    """The error at a step, else why it can take none."""
    where = f"step {step.index}"
    if not step.acts:
        return NotPut(f"{where} calls no tool")
    wrong = next(_made(trace, step, kind), None)
    if wrong is None:
        return NotPut(f"{where}: {_NONE[kind]}")
    if asked_after(trace, wrong) is None:
        return NotPut(f"{where} is the last of its thread: nobody would be asked after it")
    try:
        put(trace, wrong)
    except BadEdit as error:
        return NotPut(error.message)
    return wrong


_NONE: dict[Kind, str] = {
    "observation": "no value of what it was answered can be made wrong: it says no date, amount,"
    " status, id, number or name, or only what was asked by",
    "tool-error": "no answer that worked was recorded",
    "step": "no argument of its call can be made wrong",
    "yours": "no result",
}


def _made(trace: Trace, step: Step, kind: Kind) -> Iterator[Wrong]:
    if kind == "step":
        effects = effects_of(trace, {})
        found = wrong_step(trace, step, lambda call: effects.of(call.name, call.arguments).reads)
    else:
        found = wrong_observation(trace, step) if kind == "observation" else tool_error(step)
    if found is not None:
        yield found
