"""Where is an error put, which one, and how does the agent go on? Two answers, from the recording.

Deterministic: a run always gets the same error. It is put into the agent's requests, never into
the recorded results.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from msgspec import Struct, structs

from replay import digests, messages
from replay.compare.rules import PLAIN, Rules
from replay.edit.changes import Edit, SetObservation
from replay.edit.editor import Editor
from replay.edit.places import goes_on_from
from replay.error_injection.corrected import WINDOW, Corrected, is_corrected
from replay.error_injection.derive import replaced, tool_error, wrong_observation, wrong_step
from replay.error_injection.values import Kind, Wrong
from replay.errors import BadEdit, no_step
from replay.free import run as free
from replay.free.recorded import effects_of
from replay.free.recorded_results import BARE, Terms
from replay.free.result import FreeRun
from replay.free.stub import Stub
from replay.models.cached import Cached
from replay.trace import Context, Json, Message, Request, Step, Trace, extend


class Trial(Struct, frozen=True, eq=False, kw_only=True):
    """An error put in once: the run after it so far; `mended` None until that is over."""

    sample: int
    run: FreeRun
    mended: Corrected | None = None


def inject(
    trace: Trace,
    wrong: Wrong,
    model: Cached,
    terms: Terms = BARE,
    *,
    sample: int = 0,
    rules: Rules = PLAIN,
) -> Generator[Trial]:
    """The run after every answer; the last one says what became of the error.

    Raises OfflineMiss where an answer is not stored and none may be asked for, and Stopped.
    """
    first = asked_after(trace, wrong)
    assert first is not None
    going = free.run(
        put(trace, wrong),
        None,
        model,
        _with_retry(trace, wrong, terms),
        start=first.index,
        sample=sample,
        max_steps=WINDOW,
        rules=rules,
    )
    effects = effects_of(trace, terms.effects)
    for made in going:
        over = made.stop is not None
        yield Trial(
            sample=sample,
            run=made,
            mended=is_corrected(wrong, made, trace, effects) if over else None,
        )


def _with_retry(trace: Trace, wrong: Wrong, terms: Terms) -> Terms:
    """The terms with an answer for the call that an error took the place of."""
    call = trace.steps[wrong.step].acts[wrong.call]
    if wrong.kind != "tool-error" or call.observation is None:
        return terms
    result = messages.observed(call.observation)
    again = Stub(tool=wrong.tool, arguments=wrong.arguments, result=result.text)
    return structs.replace(terms, stubs=(again, *terms.stubs))


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
    first = int(digests.digest("injected at", trace.id)[-1], 16) % len(PLACES)
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


_ID = "toolu_wrong_step"


def edit_of(trace: Trace, wrong: Wrong) -> Edit:
    """The error of an observation as an edit of the run, for whoever wants to replay it."""
    change = SetObservation(
        step=wrong.step, text=wrong.text, call=wrong.call, is_error=wrong.is_error
    )
    thread = trace.steps[wrong.step].thread
    return Edit(name=f"wrong at {wrong.step}", changes=(change,), thread=thread)


def asked_after(trace: Trace, wrong: Wrong) -> Step | None:
    """The recorded step whose request is the first to hold the error, None where there is none."""
    at = trace.steps[wrong.step]
    later = (
        step
        for step in trace.steps
        if step.thread == at.thread
        and (step.index > at.index or (wrong.kind == "step" and step is at))
        and step.ask.response.message is not None
    )
    return next(later, None)


def put(trace: Trace, wrong: Wrong) -> Trace:
    """The recording with the error in every request that would hold it.

    Raises BadEdit where the recording carries the observation on to no later request.
    """
    if wrong.kind == "step":
        return structs.replace(trace, steps=tuple(_with_wrong_step(trace, wrong)))
    editor = Editor(edit_of(trace, wrong), trace)
    thread = trace.steps[wrong.step].thread
    steps = tuple(
        _asking(step, editor.request(step.ask.request, f"step {step.index}", step.index))
        if step.thread == thread and step.index > wrong.step
        else step
        for step in trace.steps
    )
    if editor.unmet:
        raise BadEdit(
            f"step {wrong.step}: no later request of the recording carries on what it was answered"
        )
    return structs.replace(trace, steps=steps)


def _with_wrong_step(trace: Trace, wrong: Wrong) -> Iterator[Step]:
    at = trace.steps[wrong.step]
    before = at.ask.request.context
    grown = extend(before, _exchange(wrong))
    for step in trace.steps:
        if step.thread != at.thread or step.index < at.index:
            yield step
        else:
            yield _asking(step, _regrown(step.ask.request, before, grown))


def _exchange(wrong: Wrong) -> tuple[Message, Message]:
    """The call it is shown to have made, and what that got."""
    use = {"type": "tool_use", "id": _ID, "name": wrong.tool, "input": wrong.wrong_arguments}
    result: dict[str, Json] = {"type": "tool_result", "tool_use_id": _ID, "content": wrong.text}
    if wrong.is_error:
        result["is_error"] = True
    return _message("assistant", use), _message("user", result)


def _message(role: str, block: dict[str, Json]) -> Message:
    return Message(dialect="anthropic", body={"role": role, "content": [block]})


def _regrown(request: Request, before: Context | None, grown: Context | None) -> Request:
    """The request with the exchange after all that the conversation held at the step."""
    context = request.context
    if not goes_on_from(context, before):
        return request
    depth = before.depth if before is not None else 0
    said = context.messages()[depth:] if context is not None else []
    return structs.replace(request, context=extend(grown, said))


def _asking(step: Step, request: Request) -> Step:
    return structs.replace(step, ask=structs.replace(step.ask, request=request))
