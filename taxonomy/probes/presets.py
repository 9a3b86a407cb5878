"""A probe as an edit: the one change, over the steps that are asked again.

Everything that is put in is shown, with where it comes from. Where a run does not hold what a probe
needs (no source says what would have been right, nothing came before that could be summarised), it
does not fit, and says why.
"""

from __future__ import annotations

from msgspec import Struct

from replay import messages
from replay.edit import Edit, InjectConstraint, RenameTool, SummariseBefore
from replay.errors import BadEdit
from replay.plan import plans
from replay.trace import Trace
from taxonomy.belief.contradictions import contradictions
from taxonomy.belief.fix import fix_of
from taxonomy.probes import summary
from taxonomy.probes.table import ProbeEntry

YOURS = "yours"

_ANY_MODEL = ""
"""Whether a step can be asked again is the same for every model."""


class Given(Struct, frozen=True, kw_only=True):
    """A text that the user or a model wrote for a probe, and who did."""

    text: str
    by: str = YOURS


class Preset(Struct, frozen=True, kw_only=True):
    """A probe made ready. `steps` are asked again, `step` is the one that decides.

    `text` is what is put in, `by` where that comes from; `notices` what a reader must know.
    """

    probe: ProbeEntry
    step: int
    edit: Edit
    steps: tuple[int, ...]
    text: str
    by: str
    notices: tuple[str, ...] = ()


class Unfit(Struct, frozen=True, kw_only=True):
    """A probe that cannot be made of this run, and why."""

    probe: ProbeEntry
    why: str


def preset(
    probe: ProbeEntry,
    trace: Trace,
    step: int,
    *,
    constraint: str | None = None,
    written: Given | None = None,
) -> Preset | Unfit:
    """The probe at the step that broke. `constraint` and `written` (a summary) are the user's own.

    Raises nothing: what does not apply is Unfit.
    """
    (recorded,) = plans(trace, None, _ANY_MODEL, {step})
    if recorded.refusal is not None:
        return Unfit(probe=probe, why=f"Cannot replay step {step}: {recorded.refusal}")
    match probe.name:
        case "constraint":
            made = _constraint(probe, trace, step, constraint)
        case "rename":
            made = _renamed(probe, trace, step)
        case "summary":
            made = _summarised(probe, trace, step, step, written)
        case _:
            made = _summarised(probe, trace, step, midpoint(trace, step), written)
    return made if isinstance(made, Unfit) else _askable(trace, made)


def cut_of(probe: ProbeEntry, trace: Trace, step: int) -> int | None:
    """The step whose history the probe replaces by a summary, None for a probe without one."""
    if probe.name == "summary":
        return step
    return midpoint(trace, step) if probe.name == "midpoint" else None


def midpoint(trace: Trace, step: int) -> int:
    """The middle step of the thread; the step itself where it broke before that."""
    own = [each.index for each in trace.steps if each.thread == trace.steps[step].thread]
    return min(own[len(own) // 2], step)


def _constraint(probe: ProbeEntry, trace: Trace, step: int, given: str | None) -> Preset | Unfit:
    text, by = given, YOURS
    if text is None:
        found = next((each for each in contradictions(trace) if each.step == step), None)
        change = fix_of(trace, found).changes[0] if found is not None else None
        text = change.text if isinstance(change, InjectConstraint) else None
        by = f"from what the rules found: {found.finding.why}" if found is not None else by
    if text is None:
        why = "nothing found at the step says what would have been right: --constraint TEXT does"
        return Unfit(probe=probe, why=why)
    edit = _edit(trace, step, probe, InjectConstraint(text, step))
    return Preset(probe=probe, step=step, edit=edit, steps=(step,), text=text, by=by)


def _renamed(probe: ProbeEntry, trace: Trace, step: int) -> Preset | Unfit:
    """Neutral names for every tool the step offers; what the tools say of themselves stays."""
    request = trace.steps[step].ask.request
    if not request.tools:
        return Unfit(probe=probe, why=f"step {step} offers no tools that were recorded")
    taken = {tool.name for tool in request.tools}
    fresh = (name for at in range(1, 10_000) if (name := f"tool_{at}") not in taken)
    names = dict(zip([tool.name for tool in request.tools], fresh, strict=False))
    changes = [RenameTool(name, new) for name, new in names.items()]
    told = messages.text(request.system) if request.system is not None else ""
    told += "".join(tool.description or "" for tool in request.tools)
    still = sorted(name for name in names if name in told)
    notices = [f"the prompt still says {', '.join(still)}, names that no tool has now"]
    return Preset(
        probe=probe,
        step=step,
        edit=_edit(trace, step, probe, *changes),
        steps=(step,),
        text="\n".join(f"{name} → {new}" for name, new in names.items()),
        by="neutral names in the order of the tools",
        notices=tuple(notices) if still else (),
    )


def _summarised(
    probe: ProbeEntry, trace: Trace, step: int, cut: int, written: Given | None
) -> Preset | Unfit:
    own = [each.index for each in trace.steps if each.thread == trace.steps[step].thread]
    text = written.text if written is not None else summary.extract(trace, cut)
    if not text.strip() or cut == own[0]:
        return Unfit(probe=probe, why=f"nothing came before step {cut} that could be summarised")
    return Preset(
        probe=probe,
        step=step,
        edit=_edit(trace, step, probe, SummariseBefore(cut, text)),
        steps=tuple(at for at in own if at >= cut),
        text=text,
        by=written.by if written is not None else summary.BY_RULE,
    )


def _edit(
    trace: Trace,
    step: int,
    probe: ProbeEntry,
    *changes: InjectConstraint | RenameTool | SummariseBefore,
) -> Edit:
    thread = trace.steps[step].thread
    return Edit(
        name=f"probe {probe.name} at {step}",
        changes=changes,
        thread=thread if thread != trace.steps[0].thread else None,
    )


def _askable(trace: Trace, made: Preset) -> Preset | Unfit:
    """The preset where the step that decides can be asked with the edit too."""
    at = made.step
    try:
        planned = plans(trace, made.edit, _ANY_MODEL, made.steps)
    except BadEdit as error:
        return Unfit(probe=made.probe, why=error.message)
    (decides,) = (each for each in planned if each.step.index == at)
    if decides.edited_refusal is not None:
        why = f"Cannot replay step {at} with the edit: {decides.edited_refusal}"
        return Unfit(probe=made.probe, why=why)
    if decides.edited.sent.asks_as(decides.control.sent):
        return Unfit(probe=made.probe, why=f"the edit changes nothing of what step {at} is sent")
    return made
