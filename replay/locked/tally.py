"""What do the samples of a step say: how often each arm diverges, and what became of the
failure?
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.action import Action
from replay.compare.actions import Difference
from replay.providers import bare
from replay.statistics import ALPHA, Rate, effect_probability, fisher, rate
from replay.trace import Fidelity


class Reply(Struct, frozen=True, eq=False, kw_only=True):
    """One answer of an arm. `against` compares it with the recording.

    `beside` compares it with the first whole answer of control, where another model is asked than
    was recorded; None elsewhere, and for that answer itself. `shows` tells at the break whether
    the answer still shows the failure, as the detector sees it. `flaws` say what is wrong with it
    whatever was meant: a tool that is not offered, a required argument left out.
    """

    key: str
    action: Action
    against: Difference
    beside: Difference | None = None
    shows: bool | None = None
    flaws: tuple[str, ...] = ()


class StepResult(Struct, frozen=True, eq=False, kw_only=True):
    """A step asked again: the replies of each arm, in the order of their samples.

    `edited` is empty where there is no edit. `touched` tells whether the edit changes this
    request; where it does not, both arms hold the same replies. `between` compares the first
    replies of the arms. `refused` says why there is no answer at all: nothing to ask, or the model
    declined; `edited_refused` why only the edited arm has none; `lacks` why an arm lacks samples
    though it has some; `declined` that an arm could not be asked though the other could, or that
    the model declined it; `ended` that nothing more was asked, and why: another run goes on there.
    `detector` names who judged whether the replies show the failure, None where nobody did.
    """

    step: int
    thread: str
    model: str
    recorded_model: str | None
    recorded: Action
    fidelity: Fidelity
    detector: str | None = None
    losses: tuple[str, ...] = ()
    touched: bool = False
    control: tuple[Reply, ...] = ()
    edited: tuple[Reply, ...] = ()
    between: Difference | None = None
    refused: str | None = None
    edited_refused: str | None = None
    lacks: str | None = None
    declined: str | None = None
    ended: str | None = None

    @property
    def rebased(self) -> bool:
        """Was another model asked than the recorded one? An edit is then held against control:
        the recording says little of this model."""
        return self.recorded_model is not None and not same_model(self.model, self.recorded_model)


def same_model(name: str, other: str) -> bool:
    """Do two names mean one model, whichever provider it is asked of?"""
    return bare(name).rpartition("/")[2] == bare(other).rpartition("/")[2]


class Counts(Struct, frozen=True, kw_only=True):
    """Samples of an arm by what comparing says. `reworded` ones only speak, in other words:
    they do not diverge, and what the words mean is not known."""

    repeats: int = 0
    reworded: int = 0
    diverges: int = 0
    unclear: int = 0

    @property
    def decided(self) -> int:
        return self.repeats + self.reworded + self.diverges

    @property
    def total(self) -> int:
        return self.decided + self.unclear

    @property
    def diverges_mostly(self) -> bool:
        return 2 * self.diverges > self.decided

    @property
    def rewords_mostly(self) -> bool:
        return 2 * self.reworded > self.decided

    @property
    def divergence(self) -> Rate:
        """How often it diverges, of the samples that can be compared."""
        return rate(self.diverges, self.decided)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            repeats=self.repeats + other.repeats,
            reworded=self.reworded + other.reworded,
            diverges=self.diverges + other.diverges,
            unclear=self.unclear + other.unclear,
        )


class StepTest(Struct, frozen=True, kw_only=True):
    """Both arms of a step against its basis.

    `p` is Fisher's, two-sided, over the divergences; `likely` is the posterior probability that the
    divergence rates differ by half or more.
    """

    step: int
    control: Counts
    edited: Counts
    p: float
    likely: float


class BreakTest(Struct, frozen=True, kw_only=True):
    """Both arms at the break: how many answers still show the failure, of those that can be told.

    `detector` says by whose word; `p` is Fisher's, two-sided.
    """

    detector: str
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
"""The detector where no other is: what repeats the recording shows its failure."""


def break_test(row: StepResult) -> BreakTest | None:
    """The test of the break step, None without answers of both arms.

    Without a detector an answer shows the failure where it repeats the recorded action.
    """
    if not row.control or not row.edited:
        return None
    control, edited = _shown(row, row.control), _shown(row, row.edited)
    return BreakTest(
        detector=row.detector or RECORDED,
        control=sum(control),
        control_n=len(control),
        edited=sum(edited),
        edited_n=len(edited),
    )


def _shown(row: StepResult, replies: Iterable[Reply]) -> list[bool]:
    """By answer that can be told: does it show the failure?"""
    if row.detector is not None:
        return [each.shows for each in replies if each.shows is not None]
    return [each.against.same for each in replies if each.against.same is not None]


def counts(differences: Iterable[Difference]) -> Counts:
    """The samples sorted by what comparing says of each."""
    found = list(differences)
    return Counts(
        repeats=sum(each.same is True for each in found),
        reworded=sum(each.reworded for each in found),
        diverges=sum(each.diverges for each in found),
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
    pair = (control.diverges, control.decided, edited.diverges, edited.decided)
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


Mark: TypeAlias = Literal["fixed", "broke", "changed", "same", "unclear"]
"""What the edit did to a step, against control.

`fixed` the failure at the break is gone; `broke` an answer that is wrong whatever was meant
(a tool not offered, a required argument left out) where control's was not; `changed` it acts
otherwise; `same` it acts alike (of several samples: a change of half of them or more is excluded);
`unclear` comparing cannot tell, or the samples leave it open.
"""

AtBreak: TypeAlias = Literal["absent", "present", "reworded", "absent in control", "unknown"]
"""The failure at the break step in most samples of the edited arm, as the detector decides.

`absent in control`: the unedited request does not show it either, so its absence proves nothing.
"""


class Held(Struct, frozen=True, kw_only=True):
    """Which tests of an arm hold beside all others that were made with them (Holm): those of
    `steps`, and the one `at_break`, which is held against the breaks of the other arms alone.

    `tests` were made at the steps of all `arms`.
    """

    steps: set[int]
    at_break: bool
    tests: int
    arms: int = 1


class Judge(Struct, frozen=True):
    """What the tests of a replay let one say of a step."""

    tests: Mapping[int, StepTest]
    held: Held
    break_step: int | None
    broken: BreakTest | None
    diverges: int | None
    look: bool

    def mark(self, row: StepResult) -> Mark | None:
        """What the edit did to a step, None where both arms were not asked.

        Nothing past the divergence is fixed: the edited agent would not have been there.
        """
        if not row.control or not row.edited or row.between is None:
            return None
        test = self.tests.get(row.step)
        if test is None:
            return "same"
        if _mostly_flawed(row.edited) and not any(reply.flaws for reply in row.control):
            return "broke"
        past = self.diverges is not None and row.step > self.diverges
        if row.step == self.break_step and not past and self.fixes:
            return "fixed"
        return self._looked(row) if self.look else self._tested(test)

    def _looked(self, row: StepResult) -> Mark:
        """By the one answer of each arm."""
        assert row.between is not None
        if row.between.same:
            return "same"
        return "changed" if row.between.diverges else "unclear"

    def _tested(self, test: StepTest) -> Mark:
        """By the samples: what is beyond chance, and what they exclude."""
        if test.step in self.held.steps:
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
            return "reworded"
        if not test.edited_n or not test.control_n:
            return "unknown"
        if test.is_edited:
            return "present"
        return "absent" if test.is_controls else "absent in control"

    @property
    def fixes(self) -> bool:
        """Does control show the failure at the break, and the edit not, beyond chance or as far as
        a look tells?"""
        test = self.broken
        if test is None or not test.control_n or not test.edited_n:
            return False
        gone = test.is_controls and not test.is_edited
        return gone and (self.look or self.held.at_break)


def _mostly_flawed(replies: Sequence[Reply]) -> bool:
    return 2 * sum(bool(reply.flaws) for reply in replies) > len(replies)
