"""The recording in which the agent has met the error: its requests, never its tape.

What a tool returned is replaced wherever a later request carries it on. A wrong step and its result
stand in the conversation before the recorded step, which is then what the agent should do next. The
calls of the recording and what they were answered stay as they were, so that an agent that looks
again is shown what is so.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from replay.edit import Edit, Editor, SetObservation
from replay.edit.aims import goes_on_from
from replay.errors import BadEdit
from replay.injection.wrong import Wrong
from replay.trace import Context, Json, Message, Request, Step, Trace, extend

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
