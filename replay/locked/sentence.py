"""A verdict in words. Every clause follows from a fact of it, and none says how a run would end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replay.locked.step_result import StepResult, same_model
from replay.locked.tally import RECORDED
from replay.statistics import ALPHA, Rate

if TYPE_CHECKING:
    from replay.compare import Difference
    from replay.locked.verdict import Verdict


def sentence(facts: Verdict, rows: Sequence[StepResult]) -> str:
    """The verdict for a person: what was seen at which step, and how little few samples say."""
    if not facts.control.of:
        return "No step was asked."
    by_step = {row.step: row for row in rows}
    said = [_of_control(facts, by_step)]
    if facts.edited is not None:
        said.append("; ".join([_of_edit(facts, by_step), *_of_break(facts)]))
    if facts.look:
        said.append("One sample: a look")
    said.extend(_of_model(facts, rows))
    return " ".join(f"{each}." for each in said)


def basis(facts: Verdict, rows: Sequence[StepResult]) -> tuple[str, ...]:
    """What the verdict rests on: samples, tests, and how noisy control is itself."""
    if facts.look:
        return ()
    numbers = sorted({len(row.control) for row in rows if row.control})
    most = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
    whose = "its own first answer" if facts.rebased else "the recording"
    noise = f"control itself departs from {whose} in {percent(facts.noise)}"
    if not facts.tests:
        return (f"{most} samples a step", noise)
    method = f"{most} samples an arm, Fisher's test, Holm over {len(facts.tests)} steps"
    return (f"{_beyond(facts)} ({method})", noise)


def _beyond(facts: Verdict) -> str:
    """Where the arms differ beyond chance: at the break, where the edit was, and past that."""
    test = facts.at_break_test
    reached = [str(step) for step in facts.effects if step not in facts.dimmed]
    past = [str(step) for step in facts.effects if step in facts.dimmed]
    said = "no step departs beyond chance"
    if reached:
        said = f"beyond chance at step {', '.join(reached)}"
    elif past:
        said += " up to the first departure"
    if past:
        said += f", after it step {', '.join(past)}"
    return said if test is None else f"at the break p = {test.p:.2g}; {said}"


def _of_control(facts: Verdict, rows: dict[int, StepResult]) -> str:
    match = facts.control
    said = f"Control repeats the recording at {match.repeated} of {match.of} steps"
    if match.reworded:
        said += f", at {match.reworded} more in other words"
    if match.unclear:
        said += f", and {match.unclear} cannot be compared"
    if facts.edited is None and facts.control_departs is not None:
        how = _departure(rows[facts.control_departs], "control")
        said += f"; it first departs at step {facts.control_departs}: {how}"
    return said


def _of_edit(facts: Verdict, rows: dict[int, StepResult]) -> str:
    if not any(row.touched for row in rows.values()):
        return "Your edit changes no request that was asked"
    step = facts.edited_departs
    road = " from control's first answer" if facts.rebased else ""
    if step is None:
        reworded = facts.edited.reworded if facts.edited is not None else 0
        words = f", but speaks in other words at {reworded}" if reworded else ""
        return f"Your edit departs{road} at no step{words}"
    row = rows[step]
    said = f"Your edit first departs{road} at step {step}: {_change(facts, row)}"
    if step == facts.break_step and facts.at_break_test is not None and not facts.look:
        return said  # the clause on the break says by its own count how the arms differ here
    said += _against_control(facts, step)
    if facts.rebased or facts.control_departs is None or facts.control_departs > step:
        return said
    if facts.control_departs < step:
        return f"{said}; control departs at step {facts.control_departs} already"
    alike = row.between is not None and row.between.same
    return f"{said}, as control does" if alike else f"{said}; control departs there too"


def _change(facts: Verdict, row: StepResult) -> str:
    """From what to what the edit departs, by its first answer that does."""
    if not facts.rebased:
        return _departure(row, "edited")
    found = (each.beside for each in row.edited if each.beside is not None)
    return next((each.brief for each in found if each.departs), "otherwise")


def _departure(row: StepResult, side: str) -> str:
    """What an arm does instead, by its first answer that departs."""
    replies = row.control if side == "control" else row.edited
    departing = (each.against for each in replies if each.against.departs)
    found: Difference | None = next(departing, None)
    return found.brief if found is not None else "otherwise"


def _against_control(facts: Verdict, step: int) -> str:
    """How often, where there is more than a look: `, 5/5 against 0/5`."""
    test = facts.tests.get(step)
    if facts.look or test is None:
        return ""
    ours, theirs = test.edited, test.control
    seen = f", {ours.departs}/{ours.decided} against {theirs.departs}/{theirs.decided}"
    return seen if step in facts.effects else f"{seen}, which may be chance"


def _of_break(facts: Verdict) -> list[str]:
    """What became of the failure at the break, and who says so."""
    at, departs, test = facts.break_step, facts.edited_departs, facts.at_break_test
    here = "the break" if at == departs else f"the break (step {at})"
    what = f"the recorded action at {here}"
    if test is not None and test.oracle != RECORDED:
        what = f"{here} ({test.oracle})" if at == departs else f"{here[:-1]}, {test.oracle})"
    match facts.at_break:
        case None:
            return []
        case "gone":
            said = f"{what} is gone{_times(facts, shown=False)}"
        case "still there":
            said = f"{what} is still there{_times(facts, shown=True)}"
        case "in other words":
            said = f"at {here} it speaks in other words, which may mean the same"
        case "not control's":
            if test is not None and test.oracle != RECORDED:
                return [f"{what} is not there in control either"]
            return [f"at {here} control does not repeat the recorded action either"]
        case "unknown":
            return [f"what it does at {here} is not known"]
    if at is not None and departs is not None and departs < at:
        said += ", on a history the edited agent would not have had"
    return [said]


def _times(facts: Verdict, *, shown: bool) -> str:
    """Of more than a look: ` in 8/8 against 0/8`, edited against control."""
    test = facts.at_break_test
    if facts.look or test is None:
        return ""
    ours, theirs = test.edited, test.control
    if not shown:
        ours, theirs = test.edited_n - ours, test.control_n - theirs
    chance = "" if test.p <= ALPHA or shown else ", which may be chance"
    return f" in {ours}/{test.edited_n}, against {theirs}/{test.control_n} in control{chance}"


def percent(share: Rate) -> str:
    """A rate with its interval and count: `3 % (1–8 %, n = 96)`."""
    if share.value is None:
        return "– (n = 0)"
    return (
        f"{100 * share.value:.0f} % ({100 * share.low:.0f}–{100 * share.high:.0f} %, n = {share.n})"
    )


def _of_model(facts: Verdict, rows: Sequence[StepResult]) -> Iterator[str]:
    """Whose answers these are, where they are not those of the model that was recorded."""
    if facts.edited_model is not None:
        yield f"Control is asked of {facts.model}, the edit of {facts.edited_model}"
    recorded = [row.recorded_model for row in rows if row.control and row.recorded_model]
    others = list(dict.fromkeys(name for name in recorded if not same_model(name, rows[0].model)))
    if not recorded:
        yield f"Asked of {facts.model}; which model was recorded is not known"
    elif others:
        yield (
            f"Asked of {facts.model}, not of {others[0]}: this is what {facts.model} would do,"
            " not why the recorded model did what it did"
        )
