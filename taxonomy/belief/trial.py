"""Does the fix at that step take the failure away? A hypothesis held against fresh answers.

The step is asked `k` times as recorded and `k` times with the fix, and the oracle says of each
answer whether it shows the failure. Validated where it is gone from most answers with the fix, and
from more of them than chance explains; refuted where control mostly shows it and the fix surely
takes it from fewer than half; else inconclusive: where control does not show it, there was nothing
to take away. It says something of that step alone: how such a run would have ended is not known.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from replay.edit import Edit
from replay.statistics import ALPHA, effect_probability, fisher

Status: TypeAlias = Literal["validated", "refuted", "inconclusive"]


class Arm(Struct, frozen=True, kw_only=True):
    """The answers of one arm: `bad` of `n` show the failure, `lost` could not be judged."""

    bad: int
    n: int
    lost: int = 0

    @property
    def mostly(self) -> bool:
        return 2 * self.bad > self.n


class Trial(Struct, frozen=True, kw_only=True):
    """A hypothesis tested at a step: control beside the fix. `by` names the oracle."""

    step: int
    by: str
    fix: Edit
    control: Arm
    fixed: Arm

    @property
    def p(self) -> float:
        """Fisher's exact test, two-sided: one test, so nothing is corrected."""
        return fisher(*self._counts)

    @property
    def status(self) -> Status:
        if not self.control.n or not self.fixed.n or not self.control.mostly:
            return "inconclusive"
        if self.p <= ALPHA:
            return "inconclusive" if self.fixed.mostly else "validated"
        little = effect_probability(*self._counts) <= ALPHA
        return "refuted" if little else "inconclusive"

    @property
    def _counts(self) -> tuple[int, int, int, int]:
        return self.control.bad, self.control.n, self.fixed.bad, self.fixed.n


def arm(shown: list[bool | None]) -> Arm:
    """The answers of an arm, as an oracle judged them."""
    told = [each for each in shown if each is not None]
    return Arm(bad=sum(told), n=len(told), lost=len(shown) - len(told))
