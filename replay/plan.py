"""Which requests will a replay ask, and what would they cost?

Everything that can be said before the first call: the request of each step in both arms, as it is
sent; the steps that cannot be asked, and why; an edit that does not apply; the estimate.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from replay import canon, messages
from replay.budget import Estimate
from replay.convert import Converter, Sent
from replay.edit import ATTACH, Edit, Editor, meant
from replay.errors import BadEdit
from replay.models.cached import Cached
from replay.prices import price
from replay.trace import NO_SYSTEM, NO_TOOLS, Level, Request, Step, Trace, Usage


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


def plans(trace: Trace, edit: Edit | None, model: str, steps: Collection[int] | None) -> list[Plan]:
    """The steps to be asked (all, or those of `steps`), by the model of that name.

    Raises BadEdit naming the step where the edit does not apply.
    """
    converter = Converter(model)
    editor = Editor(edit) if edit is not None else None
    wanted = [step for step in trace.steps if steps is None or step.index in steps]
    thread = _thread(trace, edit)
    made = []
    for step in wanted:
        request = step.ask.request
        control = edited = Arm(request, converter.sent(request))
        refusal = control.sent.refusal or _refusal(step)
        if editor is not None and step.thread == thread and refusal is None:
            changed = _edited(editor, step)
            if changed is not request:
                edited = Arm(changed, converter.sent(changed))
        made.append(Plan(step, control, edited, refusal))
    if editor is not None and editor.missed:
        raise BadEdit(f"no step that can be asked has message {editor.missed[0]}")
    return made


def estimate(
    trace: Trace,
    edit: Edit | None,
    model: Cached,
    *,
    samples: int = 1,
    steps: Collection[int] | None = None,
) -> Estimate:
    """What `replay` with the same arguments would ask for, from the recorded tokens. Asks nothing.

    Raises BadEdit as `replay`.
    """
    seen: set[str] = set()
    stored = by_size = 0
    usages: list[Usage] = []
    for plan in plans(trace, edit, model.name, steps):
        if plan.refusal is not None:
            continue
        for arm in (plan.control, plan.edited):
            for sample in range(samples):
                key = arm.sent.key(sample)
                if key in seen:
                    continue
                seen.add(key)
                if model.stored(arm.sent, sample):
                    stored += 1
                    continue
                usages.append(_usage(plan.step, arm.sent))
                by_size += not _counted(plan.step)
    costs = [price(usage, model.name) for usage in usages]
    known = [cost.usd for cost in costs if cost is not None]
    return Estimate(
        calls=len(usages),
        stored=stored,
        input_tokens=sum(usage.input_tokens or 0 for usage in usages),
        output_tokens=sum(usage.output_tokens or 0 for usage in usages),
        by_size=by_size,
        usd=sum(known) if len(known) == len(usages) else None,
    )


def _thread(trace: Trace, edit: Edit | None) -> str | None:
    """The thread that is edited: the one the edit names, else that of the first step."""
    threads = [step.thread for step in trace.steps]
    if edit is not None and edit.thread is not None and edit.thread not in threads:
        raise BadEdit(f"the trace has no thread {edit.thread!r}", meant(edit.thread, set(threads)))
    if edit is not None and edit.thread is not None:
        return edit.thread
    return threads[0] if threads else None


def _edited(editor: Editor, step: Step) -> Request:
    where = f"step {step.index}"
    if editor.edit.touches_system and NO_SYSTEM in step.ask.fidelity.reasons:
        raise BadEdit(f"{where}: {NO_SYSTEM}, so an edit of it has nothing to start from", ATTACH)
    return editor.request(step.ask.request, where)


def _refusal(step: Step) -> str | None:
    """Why a step cannot be asked again though its request can be sent, None where it can."""
    ask = step.ask
    if ask.fidelity.level is Level.NONE:
        return "; ".join(ask.fidelity.reasons) or "its request was not recorded"
    called = ask.response.message is not None and messages.calls(ask.response.message)
    if called and not ask.request.tools:
        return f"it called a tool, but {NO_TOOLS} (`arc attach` adds them)"
    return None


def _counted(step: Step) -> bool:
    usage = step.ask.usage
    return usage is not None and usage.input_tokens is not None and usage.output_tokens is not None


def _usage(step: Step, sent: Sent) -> Usage:
    """The recorded tokens of a step; where there are none, a quarter of its characters."""
    usage = step.ask.usage
    if usage is not None and _counted(step):
        return Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    said = step.ask.response.message
    return Usage(
        input_tokens=len(canon.encode(sent.body())) // 4 + 1,
        output_tokens=len(canon.encode(said.body if said is not None else "")) // 4 + 1,
    )
