"""Which place of a recorded conversation does a change mean that names a step?

A step is known by its recorded context. A later context belongs to the change where it goes on
from that one; where the harness put another in its place, there is nothing to change.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from replay.edit.changes import (
    Change,
    Edit,
    InjectConstraint,
    SetObservation,
    SummariseBefore,
)
from replay.edit.speech import open_calls
from replay.errors import BadEdit
from replay.messages import prose
from replay.trace import Context, Message, Observation, Step, Trace

StepChange: TypeAlias = InjectConstraint | SetObservation | SummariseBefore

_SYSTEM = {"system", "developer"}


class Aim(Struct, frozen=True, eq=False, kw_only=True):
    """A change found in a trace.

    `context` is that of its step, `first` the first step it may touch. `result` is the result
    that is meant, `equals` how many equal ones come before it. `lead` messages are kept before a
    summary, which takes the place of those up to `cut`.
    """

    change: StepChange
    context: Context | None
    first: int
    result: Observation | None = None
    equals: int = 0
    lead: int = 0
    cut: int = 0

    @property
    def depth(self) -> int:
        """The messages a conversation has at least in which there is something to change."""
        before = self.context.depth if self.context is not None else 0
        return before + (self.result is not None)


def aims(edit: Edit, trace: Trace | None) -> dict[int, Aim]:
    """The changes that name a step, by their index in the edit.

    Raises BadEdit where there is no such step, call or cut.
    """
    return {
        at: _aim(change, edit, trace)
        for at, change in enumerate(edit.changes)
        if names_step(change)
    }


def names_step(change: Change) -> bool:
    return isinstance(change, (SetObservation, SummariseBefore)) or (
        isinstance(change, InjectConstraint) and change.step is not None
    )


def _aim(change: Change, edit: Edit, trace: Trace | None) -> Aim:
    assert isinstance(change, (InjectConstraint, SetObservation, SummariseBefore))
    step = _step(change.step or 0, edit, trace)
    context = step.ask.request.context
    if isinstance(change, SetObservation):
        result, equals = _result(change, step)
        return Aim(
            change=change, context=context, first=step.index + 1, result=result, equals=equals
        )
    if context is None:
        raise BadEdit(f"step {step.index}: no message of its conversation was recorded")
    lead, cut = _cut(context, step.index) if isinstance(change, SummariseBefore) else (0, 0)
    return Aim(change=change, context=context, first=step.index, lead=lead, cut=cut)


def _step(index: int, edit: Edit, trace: Trace | None) -> Step:
    if trace is None:
        raise BadEdit(f"step {index} can only be found in a whole trace")
    if not 0 <= index < len(trace.steps):
        there = f"there are 0 to {len(trace.steps) - 1}" if trace.steps else "there is none"
        raise BadEdit(f"the trace has no step {index}", there)
    step = trace.steps[index]
    thread = edit.thread or trace.steps[0].thread
    if step.thread != thread:
        raise BadEdit(
            f"step {index} is one of thread {step.thread!r}, the edit is of thread {thread!r}",
            f'with `thread = "{step.thread}"` it is of that one',
        )
    return step


def _result(change: SetObservation, step: Step) -> tuple[Observation, int]:
    """The result that is meant, and how many equal ones of the step come before it."""
    where, acts = f"step {step.index}", step.acts
    known = ", ".join(f"{at} {act.name}" for at, act in enumerate(acts))
    if not acts:
        raise BadEdit(f"{where}: calls no tool, so nothing was returned to it")
    if change.call is None and len(acts) > 1:
        raise BadEdit(f"{where}: makes {len(acts)} calls", f"say which with `call`: {known}")
    call = change.call or 0
    if not 0 <= call < len(acts):
        raise BadEdit(f"{where}: has no call {call}", f"it makes: {known}")
    found = acts[call].observation
    if found is None:
        raise BadEdit(f"{where}: no result of call {call} ({acts[call].name}) was recorded")
    before = [act.observation for act in acts[:call] if act.observation is not None]
    equals = sum(each.block == found.block and each.message == found.message for each in before)
    return found, equals


def _cut(context: Context, step: int) -> tuple[int, int]:
    """(how many system messages lead the conversation, the first message that stays)."""
    said = context.messages()
    lead = next((at for at, each in enumerate(said) if each.role not in _SYSTEM), len(said))
    waiting = open_calls(said)
    clean = [at for at in range(lead + 1, len(said)) if not waiting[at - 1]]
    of_user = [at for at in clean if _is_words(said[at])]
    of_model = [at for at in clean if said[at].role == "assistant"]
    if not of_user and not of_model:
        raise BadEdit(
            f"step {step}: its conversation has nothing that a summary could stand for",
            "a summary takes the place of what was said before the last words of the user, or"
            " before the last answer of the model",
        )
    return lead, (of_user or of_model)[-1]


def _is_words(message: Message) -> bool:
    """Is something said to the model in it, beside results or alone?"""
    told = message.role not in _SYSTEM and message.role != "assistant"
    return told and bool(prose(message).strip())


def same(left: Context | None, right: Context | None) -> bool:
    """Do two chains hold the same messages?"""
    while left is not right:
        if left is None or right is None or left.message != right.message:
            return False
        left, right = left.parent, right.parent
    return True


def goes_on_from(context: Context | None, start: Context | None) -> bool:
    """Is everything in `start` the beginning of `context`?"""
    depth = start.depth if start is not None else 0
    while context is not None and context.depth > depth:
        context = context.parent
    return same(context, start)
