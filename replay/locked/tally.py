"""What the samples of a step say: how often each arm departs, and from what.

An arm is held against the recorded action where the recorded model is asked. Another model has
habits of its own, so there the edit is held against control: against its first whole answer, which
then counts in neither arm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from replay.compare import Difference
from replay.statistics import Rate, effect_probability, fisher, rate

if TYPE_CHECKING:
    from replay.locked.step_result import Reply, StepResult


class Counts(Struct, frozen=True, kw_only=True):
    """Samples of an arm by what comparing says. `reworded` ones only speak, in other words:
    they do not depart, and what the words mean is not known."""

    repeats: int = 0
    reworded: int = 0
    departs: int = 0
    unclear: int = 0

    @property
    def decided(self) -> int:
        return self.repeats + self.reworded + self.departs

    @property
    def asked(self) -> int:
        return self.decided + self.unclear

    @property
    def departs_mostly(self) -> bool:
        return 2 * self.departs > self.decided

    @property
    def rewords_mostly(self) -> bool:
        return 2 * self.reworded > self.decided

    @property
    def departure(self) -> Rate:
        """How often it departs, of the samples that can be compared."""
        return rate(self.departs, self.decided)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            repeats=self.repeats + other.repeats,
            reworded=self.reworded + other.reworded,
            departs=self.departs + other.departs,
            unclear=self.unclear + other.unclear,
        )


class StepTest(Struct, frozen=True, kw_only=True):
    """Both arms of a step against its basis.

    `p` is Fisher's, two-sided, over the departures; `likely` is the posterior probability that the
    departure rates differ by half or more.
    """

    step: int
    control: Counts
    edited: Counts
    p: float
    likely: float


class BreakTest(Struct, frozen=True, kw_only=True):
    """Both arms at the break: how many answers still show the failure, of those that can be told.

    `oracle` says by whose word; `p` is Fisher's, two-sided.
    """

    oracle: str
    control: int
    control_n: int
    edited: int
    edited_n: int

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.control, self.control_n, self.edited, self.edited_n

    @property
    def p(self) -> float:
        return fisher(*self.counts)

    @property
    def is_controls(self) -> bool:
        """Does control mostly show it?"""
        return 2 * self.control > self.control_n

    @property
    def is_edited(self) -> bool:
        """Does the edited arm mostly show it?"""
        return 2 * self.edited > self.edited_n


RECORDED = "the recorded action"
"""The oracle where no other is: what repeats the recording shows its failure."""


def break_test(row: StepResult) -> BreakTest | None:
    """The test of the break step, None without answers of both arms.

    Without an oracle an answer shows the failure where it repeats the recorded action.
    """
    if not row.control or not row.edited:
        return None
    control, edited = _shown(row, row.control), _shown(row, row.edited)
    return BreakTest(
        oracle=row.oracle or RECORDED,
        control=sum(control),
        control_n=len(control),
        edited=sum(edited),
        edited_n=len(edited),
    )


def _shown(row: StepResult, replies: Iterable[Reply]) -> list[bool]:
    """By answer that can be told: does it show the failure?"""
    if row.oracle is not None:
        return [each.shows for each in replies if each.shows is not None]
    return [each.against.same for each in replies if each.against.same is not None]


def counts(differences: Iterable[Difference]) -> Counts:
    """The samples sorted by what comparing says of each."""
    found = list(differences)
    return Counts(
        repeats=sum(each.same is True for each in found),
        reworded=sum(each.reworded for each in found),
        departs=sum(each.departs for each in found),
        unclear=sum(each.same is None and not each.reworded for each in found),
    )


def against_recording(replies: Iterable[Reply]) -> Counts:
    """An arm against the recorded action."""
    return counts(reply.against for reply in replies)


def step_test(row: StepResult) -> StepTest | None:
    """The test of a step, None where the edit does not touch it or an arm has no answer."""
    if not row.touched or not row.control or not row.edited:
        return None
    control, edited = _arm(row, row.control), _arm(row, row.edited)
    pair = (control.departs, control.decided, edited.departs, edited.decided)
    return StepTest(
        step=row.step,
        control=control,
        edited=edited,
        p=fisher(*pair),
        likely=effect_probability(*pair),
    )


def _arm(row: StepResult, replies: Iterable[Reply]) -> Counts:
    if not row.rebased:
        return against_recording(replies)
    return counts(each.beside for each in replies if each.beside is not None)
