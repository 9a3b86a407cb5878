"""Would the model, asked again at every recorded step, act as it did? And under an edit?

A locked replay asks each step with its own recorded context: the step before it is always the
recorded one, whatever the model just answered. So the steps do not depend on each other, and the
first step at which an arm departs is where a run under that prompt would have left the road. Later
rows rest on a history that run would not have had. Nothing here says how such a run would end.

Two arms go through the same model under the same conversion: control asks the request as recorded,
the other with the edit. The recording is one sample and no baseline; only control tells what the
edit did and what chance does. A step whose request the edit does not touch is asked once.
"""

from __future__ import annotations

from collections.abc import Collection, Generator

from msgspec import Struct, structs

from replay import action, compare
from replay.action import Action
from replay.compare import Difference
from replay.edit import Edit
from replay.errors import ModelRefused, OfflineMiss, RequestRefused
from replay.models.cached import Cached
from replay.plan import Arm, Plan, plans
from replay.result import Core, CoreAnswer, CoreRow
from replay.trace import Fidelity, Level, Trace


class Reply(Struct, frozen=True, eq=False, kw_only=True):
    """One answer of an arm. `against` compares it with the recording.

    `flaws` say what is wrong with it whatever was meant: a tool that is not offered, a required
    argument left out.
    """

    key: str
    action: Action
    against: Difference
    flaws: tuple[str, ...] = ()


class StepResult(Struct, frozen=True, eq=False, kw_only=True):
    """A step asked again: a reply a sample in each arm.

    `edited` is empty where there is no edit. `touched` tells whether the edit changes this
    request; where it does not, both arms hold the same replies. `between` compares the arms.
    `refused` says why there is no answer: nothing to ask, or the model declined.
    """

    step: int
    thread: str
    model: str
    recorded_model: str | None
    recorded: Action
    fidelity: Fidelity
    losses: tuple[str, ...] = ()
    touched: bool = False
    control: tuple[Reply, ...] = ()
    edited: tuple[Reply, ...] = ()
    between: Difference | None = None
    refused: str | None = None


def replay(
    trace: Trace,
    edit: Edit | None,
    model: Cached,
    *,
    samples: int = 1,
    steps: Collection[int] | None = None,
) -> Generator[StepResult]:
    """Ask the steps of a trace again (all, or those of `steps`), control beside the edit.

    The edit is tried on every step before the first is asked. A request that the model declines
    gives its step a sentence; a model that declines altogether ends the replay with one. Closing
    the iterator stops it; what was answered is kept, and asked for by nobody again.

    Raises BadEdit naming the step where the edit does not apply, OfflineMiss naming it where an
    answer is not stored and none may be asked for.
    """
    for plan in plans(trace, edit, model.name, steps):
        row = _row(plan, model.name)
        if plan.refusal is not None:
            yield row
            continue
        try:
            yield _asked(row, plan, edit, model, samples)
        except OfflineMiss as miss:
            raise OfflineMiss(f"step {plan.step.index}: {miss.message}", miss.hint) from miss
        except RequestRefused as refused:
            yield structs.replace(row, refused=str(refused))
        except ModelRefused as refused:
            yield structs.replace(row, refused=str(refused))
            return


def core(trace: Trace, edit: Edit | None, model: str, results: Collection[StepResult]) -> Core:
    """What the replay came to, in the order of its steps."""
    return Core(
        trace=trace.id,
        edit=edit.digest if edit is not None else None,
        model=model,
        rows=tuple(_core_row(row) for row in sorted(results, key=lambda row: row.step)),
    )


def _row(plan: Plan, model: str) -> StepResult:
    ask, sent = plan.step.ask, plan.control.sent
    fidelity = ask.fidelity
    if sent.partial and fidelity.level.rank < Level.NONE.rank:
        reasons = dict.fromkeys((*fidelity.reasons, *sent.partial))
        fidelity = Fidelity(level=Level.PARTIAL, reasons=tuple(reasons))
    return StepResult(
        step=plan.step.index,
        thread=plan.step.thread,
        model=model,
        recorded_model=ask.response.model or ask.request.model,
        recorded=action.action(ask.response, ask.error),
        fidelity=fidelity,
        losses=sent.losses,
        refused=plan.refusal,
    )


def _asked(
    row: StepResult, plan: Plan, edit: Edit | None, model: Cached, samples: int
) -> StepResult:
    control = tuple(_reply(row, plan, plan.control, model, at) for at in range(samples))
    if edit is None:
        return structs.replace(row, control=control)
    edited, touched = control, not plan.edited.sent.asks_as(plan.control.sent)
    if touched:
        edited = tuple(_reply(row, plan, plan.edited, model, at) for at in range(samples))
    between = compare.compare(
        control[0].action, edited[0].action, plan.step.ask.request.tools or ()
    )
    return structs.replace(row, control=control, edited=edited, touched=touched, between=between)


def _reply(row: StepResult, plan: Plan, arm: Arm, model: Cached, sample: int) -> Reply:
    answer = model.answer(arm.sent, sample)
    given = action.answered(answer.body, arm.sent.recorded_name)
    return Reply(
        key=answer.key,
        action=given,
        against=compare.compare(row.recorded, given, plan.step.ask.request.tools or ()),
        flaws=action.flaws(given, arm.request.tools or ()),
    )


def _core_row(row: StepResult) -> CoreRow:
    return CoreRow(
        step=row.step,
        thread=row.thread,
        fidelity=row.fidelity.level,
        recorded=row.recorded,
        control=tuple(map(_core_answer, row.control)),
        edited=tuple(map(_core_answer, row.edited)),
        losses=row.losses,
        refused=row.refused,
    )


def _core_answer(reply: Reply) -> CoreAnswer:
    return CoreAnswer(
        key=reply.key,
        action=reply.action,
        same=reply.against.same,
        kinds=reply.against.kinds,
        changes=reply.against.changes,
    )
