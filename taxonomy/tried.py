"""What did an edit do to the failure of a run, and what to a step that went well?

Of a step asked again in both arms: each arm by what most of its answers do, the edited one always
beside control. A run or a step of which that cannot be told counts in no rate.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from replay.locked.step_result import StepResult
from replay.locked.tally import BreakTest, Counts, break_test, step_test

Ruling: TypeAlias = Literal["fixed", "not fixed", "unknown"]
"""`fixed`: control shows the failure in more than half of its judged answers, the edited arm in
fewer than half; `not fixed`: control does, and so does the edited arm in half or more; `unknown`:
control does not, or most answers of an arm cannot be judged."""

Effect: TypeAlias = Literal["broke", "held", "unknown"]
"""`broke`: control departs in at most half of its answers that can be compared, the edited arm in
more than half; `held`: neither does; `unknown`: control departs, or nothing can be compared."""


class Judged(NamedTuple):
    """What became of a break, the counts behind it, and why nothing can be said where that is."""

    ruling: Ruling
    test: BreakTest | None
    why: str = ""


def judged(row: StepResult) -> Judged:
    """What an edit did to the failure at a break."""
    test = break_test(row)
    if test is None:
        return Judged("unknown", None, row.refused or row.edited_refused or "not asked")
    for whose, n, replies in (
        ("control's", test.control_n, row.control),
        ("the edit's", test.edited_n, row.edited),
    ):
        if 2 * n <= len(replies):
            few = f"only {n}" if n else "none"
            why = f"{few} of {whose} {len(replies)} answers can be judged"
            return Judged("unknown", test, why)
    if not test.is_controls:
        return Judged("unknown", test, "control mostly does not show the failure either")
    return Judged("fixed" if 2 * test.edited < test.edited_n else "not fixed", test)


class Held(NamedTuple):
    """What became of a healthy step: how often each arm departs there. `flawed` answers of the
    edited arm are wrong whatever was meant."""

    effect: Effect
    control: Counts
    edited: Counts
    flawed: int = 0
    why: str = ""


def held(row: StepResult) -> Held:
    """What an edit did to a step that went well."""
    test = step_test(row)
    if test is None:
        why = row.refused or row.edited_refused or "not asked"
        return Held("unknown", Counts(), Counts(), why=why)
    control, edited = test.control, test.edited
    flawed = sum(bool(reply.flaws) for reply in row.edited)
    if not control.decided or not edited.decided:
        whose = "control" if not control.decided else "the edited arm"
        return Held("unknown", control, edited, flawed, f"no answer of {whose} can be compared")
    if control.departs_mostly:
        return Held("unknown", control, edited, flawed, "control itself mostly departs here")
    return Held("broke" if edited.departs_mostly else "held", control, edited, flawed)
