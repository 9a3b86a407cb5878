"""Which place of a recorded conversation does a change mean, and can it mean anything at all?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from replay.edit.changes import (
    ROLES,
    Change,
    Edit,
    InjectConstraint,
    InsertMessage,
    PatchSystem,
    RenameTool,
    ReplaceText,
    SetEffort,
    SetMessage,
    SetModel,
    SetObservation,
    SetParameter,
    SetTool,
    SummariseBefore,
    meant,
)
from replay.edit.texts import (
    edited_answer,
    edited_text,
    observed,
    open_calls,
    renamed_calls,
    replaced,
)
from replay.errors import BadEdit
from replay.messages import prose
from replay.providers import EFFORTS
from replay.trace import Context, Message, Observation, Step, Trace

StepChange: TypeAlias = InjectConstraint | SetObservation | SummariseBefore

_SYSTEM = {"system", "developer"}


class ResolvedChange(Struct, frozen=True, eq=False, kw_only=True):
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


def aims(edit: Edit, trace: Trace | None) -> dict[int, ResolvedChange]:
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


def _aim(change: Change, edit: Edit, trace: Trace | None) -> ResolvedChange:
    assert isinstance(change, (InjectConstraint, SetObservation, SummariseBefore))
    step = _step(change.step or 0, edit, trace)
    context = step.ask.request.context
    if isinstance(change, SetObservation):
        result, equals = _result(change, step)
        return ResolvedChange(
            change=change, context=context, first=step.index + 1, result=result, equals=equals
        )
    if context is None:
        raise BadEdit(f"step {step.index}: no messages recorded")
    lead, cut = _cut(context, step.index) if isinstance(change, SummariseBefore) else (0, 0)
    return ResolvedChange(change=change, context=context, first=step.index, lead=lead, cut=cut)


def _step(index: int, edit: Edit, trace: Trace | None) -> Step:
    if trace is None:
        raise BadEdit(f"step {index} cannot be found without the whole trace")
    if not 0 <= index < len(trace.steps):
        there = f"Steps: 0 to {len(trace.steps) - 1}" if trace.steps else "The trace has no steps"
        raise BadEdit(f"no step {index} in the trace", there)
    step = trace.steps[index]
    thread = edit.thread or trace.steps[0].thread
    if step.thread != thread:
        raise BadEdit(
            f"step {index} is in thread {step.thread!r}, the edit in thread {thread!r}",
            f'Try: thread = "{step.thread}" in the edit',
        )
    return step


def _result(change: SetObservation, step: Step) -> tuple[Observation, int]:
    """The result that is meant, and how many equal ones of the step come before it."""
    where, acts = f"step {step.index}", step.acts
    known = ", ".join(f"{at} {act.name}" for at, act in enumerate(acts))
    if not acts:
        raise BadEdit(f"{where}: no tool call, so no result to change")
    if change.call is None and len(acts) > 1:
        raise BadEdit(f"{where}: makes {len(acts)} calls", f"Try: choose one with `call`: {known}")
    call = change.call or 0
    if not 0 <= call < len(acts):
        raise BadEdit(f"{where}: no call {call}", f"Calls: {known}")
    found = acts[call].observation
    if found is None:
        raise BadEdit(f"{where}: result of call {call} ({acts[call].name}) not recorded")
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
            f"step {step}: nothing to summarise before it",
            "a summary replaces the messages before the last user message, or before the last"
            " response of the model",
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


class Place(Struct, frozen=True, eq=False, kw_only=True):
    """What became of one recorded node.

    `ahead`, `own` and `behind` are the messages in its place. `held` ones, the assistant's, by the
    changes `pending`, come after them once the conversation goes on: `whole` is the edited chain
    with them, `ending` that of a request which ends here. `summary` is the change that cut the
    chain here. `equals` counts for a change of a result the equal ones that came by since its
    step; `wedged` tells that a message stands between a call and its result.
    """

    node: Context
    own: Message
    whole: Context | None
    ending: Context | None
    ahead: tuple[Message, ...] = ()
    behind: tuple[Message, ...] = ()
    held: tuple[Message, ...] = ()
    pending: tuple[int, ...] = ()
    summary: ResolvedChange | None = None
    equals: Mapping[int, int] = {}
    wedged: bool = False

    @property
    def messages(self) -> tuple[Message, ...]:
        return (*self.ahead, self.own, *self.behind, *self.held)


class Made(Struct, kw_only=True):
    """A place in the making; `behind` messages come with the changes that put them there."""

    own: Message
    ahead: list[Message] = []
    behind: list[tuple[int, Message]] = []
    summary: ResolvedChange | None = None


def make(made: Made, at: int, change: Change, aim: ResolvedChange | None, where: str) -> None:
    """One change made to a place that it means."""
    match change:
        case RenameTool():
            made.own = renamed_calls(made.own, change.name, change.new)
        case SetMessage():
            made.own = edited_answer(made.own, change, where)
        case ReplaceText():
            made.own = replaced(made.own, change, where)
        case InsertMessage(index=index) if index < 0:
            made.ahead.append(edited_text(change.role, change.text))
        case InsertMessage():
            made.behind.append((at, edited_text(change.role, change.text)))
        case SetObservation():
            assert aim is not None
            assert aim.result is not None
            made.own = observed(made.own, aim.result.block, change)
        case InjectConstraint():
            made.behind.append((at, edited_text("system", change.text)))
        case SummariseBefore():
            made.summary = aim
        case _:
            pass


Behind: TypeAlias = Sequence[tuple[int, Message]]


def parted(behind: Behind) -> tuple[Behind, Behind]:
    """The messages a request may end with, and those of assistants at the end of them."""
    kept = len(behind)
    while kept and behind[kept - 1][1].role == "assistant":
        kept -= 1
    return behind[:kept], behind[kept:]


def wedged(before: Place | None, node: Context, behind: Behind, where: str) -> bool:
    """Does a new message stand between a call and its result?

    One of the user may: results go before it. Raises BadEdit where a call would lose its result.
    """
    speaks = node.message.role == "assistant"
    if speaks and before is not None and before.wedged and _waits(before.node):
        raise BadEdit(
            f"{where}: a message before message {node.depth - 1} would separate parallel calls",
            "Try: insert it after their results",
        )
    if behind and _waits(node):
        if any(message.role == "assistant" for _, message in behind):
            raise BadEdit(
                f"{where}: an assistant message after message {node.depth - 1} would separate"
                " a call from its result",
                "Try: insert it after the result, or insert a user message",
            )
        return True
    return before is not None and before.wedged and not speaks


def _waits(node: Context) -> bool:
    """Does a call wait for its result after this node?"""
    return open_calls(node.messages())[-1] > 0


_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


class EditProblem(NamedTuple):
    """What is wrong, beginning with the key of it where it is in one, and what to do."""

    sentence: str
    hint: str = ""


def edit_problem(change: Change) -> EditProblem | None:
    """Why a change can never be made, None where it may."""
    match change:
        case ReplaceText(anchor=""):
            return EditProblem("anchor: is empty")
        case ReplaceText(target=target) if (
            target != "system" and change.tool is None and change.message is None
        ):
            return EditProblem(
                f"target: unknown target {target!r}", 'Try: "system", "tool NAME" or "message N"'
            )
        case PatchSystem(text=text) | InjectConstraint(text=text) | SummariseBefore(text=text) if (
            not text.strip()
        ):
            return EditProblem("text: is empty")
        case SetTool(description=None, schema=None):
            return EditProblem("changes nothing", "Try: add a description or a schema")
        case RenameTool(new=new) if not _TOOL_NAME.fullmatch(new):
            return EditProblem(
                f"text: {new[:140]!r} is not a valid tool name",
                "1 to 128 letters, digits, `_` and `-`",
            )
        case InsertMessage():
            return _insertion_flaw(change)
        case SetMessage(index=number) | SummariseBefore(step=number) if number < 0:
            return EditProblem("target: must be 0 or more")
        case InjectConstraint(step=int(number)) | SetObservation(step=number) if number < 0:
            return EditProblem("target: must be 0 or more")
        case SetObservation(call=int(call)) if call < 0:
            return EditProblem("call: must be 0 or more")
        case SetModel(model=model) if not model.strip():
            return EditProblem("text: is empty")
        case SetEffort(effort=effort) if effort not in EFFORTS:
            return EditProblem(f"text: no effort {effort!r}", meant(effort, EFFORTS))
        case SetParameter(name=name) if name in _SET_OTHERWISE:
            return EditProblem(f"target: {name} is no setting", f"Try: {_SET_OTHERWISE[name]}")
        case SetParameter(name=name) if not re.fullmatch("[a-z][a-z0-9_]*", name):
            return EditProblem(f"target: {name!r} is no name of a setting", "Try: temperature")
        case _:
            return None


_SET_OTHERWISE = {
    "model": 'kind = "set_model"',
    "system": 'kind = "set_system"',
    "instructions": 'kind = "set_system"',
    "tools": 'kind = "set_tool"',
    "messages": 'kind = "set_message"',
    "input": 'kind = "set_message"',
    "reasoning_effort": 'kind = "set_effort"',
    "stream": "leave it out, arc decides it",
    "store": "leave it out, arc decides it",
    "n": "-k, for more samples",
}
"""What a request holds beside its settings, and how that is changed."""


def _insertion_flaw(change: InsertMessage) -> EditProblem | None:
    if change.index < -1:
        return EditProblem("target: must be 0 or more", "-1 inserts before all messages")
    if change.role not in ROLES:
        return EditProblem(f"role: unknown role {change.role!r}", meant(change.role, ROLES))
    if not change.text.strip():
        return EditProblem("text: is empty")
    if change.index < 0 and change.role == "assistant":
        return EditProblem("role: a conversation cannot start with an assistant message")
    return None
