"""What did the edit do to each step, and to the failure at the break?

Of one sample, what that one shows; of several, only what stands out from chance is a change, and
only what they exclude is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.locked.step_result import Reply, StepResult
from replay.locked.tally import BreakTest, StepTest, against_recording
from replay.statistics import ALPHA

Mark: TypeAlias = Literal["fixed", "broke", "changed", "same", "unclear"]
"""What the edit did to a step, against control.

`fixed` the failure at the break is gone; `broke` an answer that is wrong whatever was meant
(a tool not offered, a required argument left out) where control's was not; `changed` it acts
otherwise; `same` it acts alike (of several samples: a change of half of them or more is excluded);
`unclear` comparing cannot tell, or the samples leave it open.
"""

AtBreak: TypeAlias = Literal["gone", "still there", "in other words", "not control's", "unknown"]
"""What became of the failure at the break step under the edit, mostly, as the oracle sees it.

`not control's`: the unedited request does not show it either, so its absence says nothing.
"""


class Judge(Struct, frozen=True):
    """What the tests of a replay let one say of a step."""

    tests: Mapping[int, StepTest]
    effects: set[int]
    break_step: int | None
    broken: BreakTest | None
    departs: int | None
    look: bool

    def mark(self, row: StepResult) -> Mark | None:
        """What the edit did to a step, None where both arms were not asked.

        Nothing past the departure is fixed: the edited agent would not have been there.
        """
        if not row.control or not row.edited or row.between is None:
            return None
        test = self.tests.get(row.step)
        if test is None:
            return "same"
        if _mostly_flawed(row.edited) and not any(reply.flaws for reply in row.control):
            return "broke"
        past = self.departs is not None and row.step > self.departs
        if row.step == self.break_step and not past and self.fixes:
            return "fixed"
        return self._looked(row) if self.look else self._tested(test)

    def _looked(self, row: StepResult) -> Mark:
        """By the one answer of each arm."""
        assert row.between is not None
        if row.between.same:
            return "same"
        return "changed" if row.between.departs else "unclear"

    def _tested(self, test: StepTest) -> Mark:
        """By the samples: what is beyond chance, and what they exclude."""
        if test.step in self.effects:
            return "changed"
        words = test.edited.rewords_mostly and not test.control.rewords_mostly
        return "same" if test.likely <= ALPHA and not words else "unclear"

    def at_break(self, rows: Sequence[StepResult]) -> AtBreak | None:
        if self.break_step is None:
            return None
        row = next((row for row in rows if row.step == self.break_step), None)
        test = self.broken
        if row is None or test is None:
            return "unknown"
        if not test.edited_n and against_recording(row.edited).rewords_mostly:
            return "in other words"
        if not test.edited_n or not test.control_n:
            return "unknown"
        if test.is_edited:
            return "still there"
        return "gone" if test.is_controls else "not control's"

    @property
    def fixes(self) -> bool:
        """Does control show the failure at the break, and the edit not, beyond chance or as far as
        a look tells?"""
        test = self.broken
        if test is None or not test.control_n or not test.edited_n:
            return False
        gone = test.is_controls and not test.is_edited
        return gone and (self.look or test.p <= ALPHA)


def _mostly_flawed(replies: Sequence[Reply]) -> bool:
    return 2 * sum(bool(reply.flaws) for reply in replies) > len(replies)
