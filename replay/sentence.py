"""A verdict in words. Every clause follows from a fact of it, and none says how a run would end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from replay.locked import StepResult

if TYPE_CHECKING:
    from replay.verdict import Verdict


def sentence(facts: Verdict, rows: Sequence[StepResult]) -> str:
    """The verdict for a person: what was seen at which step, and how little one sample says."""
    if not facts.control.of:
        return "No step was asked."
    by_step = {row.step: row for row in rows}
    said = [_of_control(facts, by_step)]
    if facts.edited is not None:
        said.append("; ".join([_of_edit(facts, by_step), *_of_break(facts)]))
    one = "One sample" if facts.samples == 1 else f"The first of {facts.samples} samples"
    said.append(f"{one}: a look")
    said.extend(_of_model(facts, rows))
    return " ".join(f"{each}." for each in said)


def _of_control(facts: Verdict, rows: dict[int, StepResult]) -> str:
    match = facts.control
    said = f"Control repeats the recording at {match.repeated} of {match.of} steps"
    if match.reworded:
        said += f", at {match.reworded} more in other words"
    if match.unclear:
        said += f", and {match.unclear} cannot be compared"
    if facts.edited is None and facts.control_departs is not None:
        departed = rows[facts.control_departs].control[0].against
        said += f"; it first departs at step {facts.control_departs}: {departed.brief}"
    return said


def _of_edit(facts: Verdict, rows: dict[int, StepResult]) -> str:
    if not any(row.touched for row in rows.values()):
        return "Your edit changes no request that was asked"
    step = facts.edited_departs
    if step is None:
        reworded = facts.edited.reworded if facts.edited is not None else 0
        words = f", but speaks in other words at {reworded}" if reworded else ""
        return f"Your edit departs at no step{words}"
    row = rows[step]
    said = f"Your edit first departs at step {step}: {row.edited[0].against.brief}"
    if row.between is not None and row.between.same:
        return f"{said}, as control does"
    if facts.control_departs is not None and facts.control_departs <= step:
        return f"{said}; control departs at step {facts.control_departs} already"
    return said


def _of_break(facts: Verdict) -> list[str]:
    at, departs = facts.break_step, facts.edited_departs
    here = "the break" if at == departs else f"the break (step {at})"
    match facts.at_break:
        case None:
            return []
        case "gone":
            said = f"the recorded action at {here} is gone"
        case "still there":
            said = f"the recorded action at {here} is still there"
        case "in other words":
            said = f"at {here} it speaks in other words, which may mean the same"
        case "not control's":
            return [f"at {here} control does not repeat the recorded action either"]
        case "unknown":
            return [f"what it does at {here} is not known"]
    if at is not None and departs is not None and departs < at:
        said += ", on a history the edited agent would not have had"
    return [said]


def _of_model(facts: Verdict, rows: Sequence[StepResult]) -> list[str]:
    """Whose answers these are, where they are not those of the model that was recorded."""
    recorded = [row.recorded_model for row in rows if row.control and row.recorded_model]
    ours = _bare(rows[0].model)
    others = list(dict.fromkeys(name for name in recorded if _bare(name) != ours))
    if not recorded:
        return [f"Asked of {facts.model}; which model was recorded is not known"]
    if not others:
        return []
    return [
        f"Asked of {facts.model}, not of {others[0]}: this is what {facts.model} would do,"
        " not why the recorded model did what it did"
    ]


def _bare(name: str) -> str:
    """A model's name without its provider."""
    return name.rpartition("/")[2]
