"""An attempt of SWE-agent told as spans: a model call a step, and the command it ran.

No file has a clock; how long a command ran stands with its call. Where the model wrote its command
as text, the call is what the harness read in it: the command's first word is its name. What the
harness says when it ends a run itself is no answer of the model's, and told apart from one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.formats.fields import known, word
from replay.formats.normal import derived_id, number
from replay.formats.swe_agent.document import Attempt, Step
from replay.formats.swe_agent.shown import Shown, message, reasoning
from replay.messages import Call, calls
from replay.trace import (
    AnySpan,
    Json,
    Message,
    ModelCall,
    Observation,
    OtherSpan,
    Place,
    Response,
    ToolCall,
)

_NAME = re.compile(r"\s*([A-Za-z_][\w.+-]*)(?=\s|$)")
SHELL = "bash"
"""What a command is named that begins with no plain word."""


def spans(attempt: Attempt, agent: str) -> Iterator[AnySpan]:
    """The spans below the agent span of that id, in the order of the steps."""
    shown = Shown(attempt)
    for step in attempt.steps:
        if step.ended_by_harness:
            yield _ending(step, attempt, agent)
            continue
        request, fidelity = shown.request(step)
        answer = _answer(attempt, step)
        asked = derived_id(agent, step.index)
        yield ModelCall(
            id=asked,
            name="chat",
            parent=agent,
            time_quality="none",
            status="ok",
            place=Place(message=step.index),
            extra=known(
                state=step.raw.get("state"),
                extra_info=step.raw.get("extra_info"),
                unused=(step.said is None and step is not attempt.steps[-1]) or None,
            ),
            request=request,
            response=Response(message=answer),
            fidelity=fidelity,
        )
        yield from _commands(attempt, step, agent, asked, answer)


def _answer(attempt: Attempt, step: Step) -> Message:
    """The answer as the history keeps it, with its calls; else its words alone."""
    entry = {"role": "assistant", "content": step.response}
    if step.said is not None:
        entry = attempt.history[step.said]
    thoughts = known(reasoning_content=reasoning(step.raw) or reasoning(entry))
    return message({**entry, **thoughts})


def _commands(
    attempt: Attempt, step: Step, agent: str, asked: str, answer: Message
) -> Iterator[ToolCall]:
    found = calls(answer) or _written(step.action)
    observation = _observed(attempt, step, found[0].id if found else None)
    seconds = step.raw.get("execution_time")
    for call in found:
        first = call.position == 0
        yield ToolCall(
            id=derived_id(asked, call.position, call.name),
            name=call.name,
            parent=agent,
            time_quality="none",
            status="ok" if first and observation is not None else "unset",
            place=Place(message=step.index),
            call_id=call.id,
            asked_by=asked,
            arguments=call.arguments,
            arguments_raw=call.raw,
            observation=observation if first else None,
            extra=known(execution_s=_positive(seconds)) if first else {},
        )


def _written(action: str) -> tuple[Call, ...]:
    """The call that a command written as text comes to."""
    command = action.strip()
    if not command:
        return ()
    word = _NAME.match(command)
    return (Call(id=None, name=word[1] if word else SHELL, arguments={"command": command}),)


def _observed(attempt: Attempt, step: Step, call_id: str | None) -> Observation | None:
    """What came back, as the model read it; else as the environment gave it."""
    if step.said is not None and step.said + 1 < len(attempt.history):
        entry = attempt.history[step.said + 1]
        if entry.get("role") in ("tool", "user"):
            return Observation(message=message(entry))
    given = step.raw.get("observation")
    if not isinstance(given, str) or (not given and step.said is None):
        return None
    role = {"role": "tool", "tool_call_id": call_id} if call_id is not None else {"role": "user"}
    return Observation(message=Message(dialect="openai", body={**role, "content": given}))


def _positive(seconds: Json) -> float | None:
    found = None if isinstance(seconds, bool) else number(seconds)
    return found if found is not None and found > 0 else None


def _ending(step: Step, attempt: Attempt, agent: str) -> OtherSpan:
    """The harness's own last step: why it ended the run, and whether it handed a patch in."""
    return OtherSpan(
        id=derived_id(agent, step.index),
        name="ended by the harness",
        parent=agent,
        time_quality="none",
        status="error",
        error=step.response or None,
        place=Place(message=step.index),
        operation="exit",
        extra=known(
            exit_status=word(attempt.info.get("exit_status")),
            observation=step.raw.get("observation"),
        ),
    )
