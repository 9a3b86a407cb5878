"""Which requests will a replay ask?

Everything that can be said before the first call: the request of each step in both arms, as it is
sent; the steps that cannot be asked, and why; an edit that does not apply.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from msgspec import Struct

from replay import messages
from replay.convert import Converter, Sent
from replay.edit.changes import ATTACH_SYSTEM, Edit, SetEffort, meant
from replay.edit.editor import Editor
from replay.errors import BadEdit
from replay.providers import bare, efforts
from replay.trace import NO_SYSTEM, NO_TOOLS, Level, Request, Step, Trace


class Arm(Struct, frozen=True, eq=False):
    """A request of one arm, and as it is sent."""

    request: Request
    sent: Sent


class Plan(Struct, frozen=True, eq=False):
    """A step ready to be asked. `edited` is `control` itself where the edit changes nothing.

    `refusal` says why it cannot be asked, None where it can.
    """

    step: Step
    control: Arm
    edited: Arm
    refusal: str | None

    @property
    def edited_refusal(self) -> str | None:
        """Why it cannot be asked with the edit though it can without, None where it can."""
        return self.edited.sent.refusal if self.refusal is None else None


@contextmanager
def naming_arm(edit: Edit | None, arms: int) -> Iterator[None]:
    """An edit that does not apply says which it is, where there are several arms."""
    try:
        yield
    except BadEdit as error:
        if edit is None or arms < 2:
            raise
        raise BadEdit(f"arm {edit.name}: {error.message}", error.hint) from error


def plans(
    trace: Trace,
    edit: Edit | None,
    model: str,
    steps: Collection[int] | None,
    *,
    edited_model: str | None = None,
) -> list[Plan]:
    """The steps to be asked (all, or those of `steps`), by the model of that name.

    `edited_model` is asked in the edited arm where it is another one. Raises BadEdit naming the
    step where the edit does not apply.
    """
    converter = Converter(model)
    other = converter if edited_model in (None, model) else Converter(edited_model)
    if edit is not None:
        _refuse_effort(edit, model if edited_model is None else edited_model)
    editor = Editor(edit, trace) if edit is not None else None
    wanted = [step for step in trace.steps if steps is None or step.index in steps]
    thread = _thread(trace, edit)
    made = []
    for step in wanted:
        request = step.ask.request
        control = edited = Arm(request, converter.sent(request))
        refusal = control.sent.refusal or _refusal(step)
        if editor is not None and step.thread == thread and refusal is None:
            changed = _edited(editor, step)
            if changed is not request or other is not converter:
                edited = Arm(changed, other.sent(changed))
        made.append(Plan(step, control, edited, refusal))
    if editor is not None and editor.unmet:
        raise _out_of_reach(editor.unmet[0], [plan for plan in made if plan.step.thread == thread])
    return made


def _refuse_effort(edit: Edit, model: str) -> None:
    """Raises BadEdit where the edit sets an effort that the model is known not to take."""
    taken = efforts(model)
    for change in edit.changes:
        if isinstance(change, SetEffort) and change.effort not in taken:
            hint = f"Try: {', '.join(taken)}" if taken else "Try: a model that reasons"
            raise BadEdit(f"effort '{change.effort}' is not taken by {bare(model)}", hint)


def _out_of_reach(unmet: str, planned: Collection[Plan]) -> BadEdit:
    """Why a change has no request to be made in: what the source did not record, or the change."""
    reasons = [reason for plan in planned for reason in plan.step.ask.fidelity.reasons]
    if all(plan.refusal is not None for plan in planned):
        cannot = cannot_replay(reasons)
        if cannot is not None:
            return cannot
    return BadEdit(f"Cannot replay: no replayable step {unmet}")


class NotRecorded(BadEdit):
    """Nothing can be asked: the source did not record what `lacks` says."""

    def __init__(self, lacks: Collection[str], hint: str) -> None:
        super().__init__(f"Cannot replay: {', '.join(lacks)}", hint)
        self.lacks = tuple(lacks)


def cannot_replay(
    reasons: Collection[str],
    *,
    attach: str | None = None,
    record: str | None = "arc record -- COMMAND",
) -> NotRecorded | None:
    """What to raise where nothing can be asked, by the reasons of the fidelity of the steps: what
    the source did not record and the two ways to get it, as far as they are known: a command that
    attaches it, one that records the next run whole. None where it recorded both."""
    options = {NO_SYSTEM: " --system FILE", NO_TOOLS: " --tools FILE"}
    lacks = [reason for reason in options if reason in reasons]
    if not lacks:
        return None
    attach = attach or f"arc attach TRACE{''.join(options[each] for each in lacks)}"
    for_next = f"; {record}, for the next one" if record is not None else ""
    return NotRecorded(lacks, f"Try: {attach}, for this run{for_next}")


def _thread(trace: Trace, edit: Edit | None) -> str | None:
    """The thread that is edited: the one the edit names, else that of the first step."""
    threads = [step.thread for step in trace.steps]
    if edit is not None and edit.thread is not None and edit.thread not in threads:
        raise BadEdit(f"no thread {edit.thread!r} in the trace", meant(edit.thread, set(threads)))
    if edit is not None and edit.thread is not None:
        return edit.thread
    return threads[0] if threads else None


def _edited(editor: Editor, step: Step) -> Request:
    where = f"step {step.index}"
    if editor.edit.touches_system and NO_SYSTEM in step.ask.fidelity.reasons:
        raise BadEdit(f"{where}: cannot edit the system prompt: {NO_SYSTEM}", ATTACH_SYSTEM)
    return editor.request(step.ask.request, where, step.index)


def _refusal(step: Step) -> str | None:
    """Why a step cannot be asked again though its request can be sent, None where it can."""
    ask = step.ask
    if ask.fidelity.level is Level.NONE:
        return "; ".join(ask.fidelity.reasons) or "request not recorded"
    called = ask.response.message is not None and messages.calls(ask.response.message)
    if called and not ask.request.tools:
        return f"the step calls a tool, but {NO_TOOLS} (`arc attach` adds them)"
    return None
