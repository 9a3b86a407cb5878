"""Do two people say the same? Hand-counted cases, and what holds for any words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.calibration.disagreement import (
    NO_CLASS,
    RaterLabel,
    agreement,
    opinions,
    pairs,
    rater_disagreements,
)
from taxonomy.classes import FailureClass
from taxonomy.judgements.tags import Word

LOOP, ARGS = FailureClass.LOOP, FailureClass.BAD_ARGS


def word(
    run: str,
    by: str,
    failure: FailureClass | None,
    step: int | None = None,
    *,
    blind: bool = False,
    at: int = 0,
    trace: str = "",
) -> Word:
    return Word(
        run=run, trace=trace or run, by=by, step=step, failure=failure, sub=None,
        blind=blind, said_ns=at,
    )  # fmt: skip


def opinion(*words: Word) -> RaterLabel:
    (found,) = opinions(words)
    return found


class TestOpinion:
    def test_the_earliest_tagged_step_is_the_first_class_and_all_are_named(self) -> None:
        said = opinion(word("r", "ada", ARGS, 2), word("r", "ada", LOOP, 5))
        assert (said.first, said.step) == ("bad args", 2)
        assert said.classes == {"bad args", "loop"}
        assert said.words == "bad args at step 2"

    def test_nothing_wrong_is_a_class_of_its_own_without_a_step(self) -> None:
        said = opinion(word("r", "ada", None))
        assert (said.first, said.step) == (NO_CLASS, None)
        assert said.classes == {NO_CLASS}

    def test_what_was_said_after_the_blind_word_is_no_second_opinion(self) -> None:
        said = opinion(word("r", "ada", ARGS, 1, at=9), word("r", "ada", LOOP, 5, blind=True))
        assert (said.first, said.step, said.blind) == ("loop", 5, True)


class TestPairs:
    def test_only_runs_that_both_have_a_word_on_are_compared(self) -> None:
        said = opinions([word("r", "ada", LOOP, 1), word("r", "mei", LOOP, 1),
                         word("s", "ada", LOOP, 1)])  # fmt: skip
        assert {names: len(found) for names, found in pairs(said).items()} == {("ada", "mei"): 1}

    def test_two_words_are_independent_where_the_later_one_was_blind(self) -> None:
        def independent(first_blind: bool, second_blind: bool) -> bool:
            said = opinions([
                word("r", "ada", LOOP, 1, blind=first_blind, at=1),
                word("r", "mei", LOOP, 1, blind=second_blind, at=2),
            ])  # fmt: skip
            return pairs(said)["ada", "mei"][0].independent

        assert independent(False, True)
        assert not independent(True, False)

    def test_steps_of_two_recordings_are_not_compared(self) -> None:
        said = opinions([word("r", "ada", LOOP, 1), word("r", "mei", LOOP, 4, trace="other")])
        (pair,) = pairs(said)["ada", "mei"]
        assert pair.same
        assert pair.apart is None


def hand_counted() -> list[Word]:
    """Ten runs: six the same class, two of them at another step; two cleared by both."""
    words = []
    for number, (ada, mei) in enumerate(
        [
            ((LOOP, 3), (LOOP, 3)),
            ((LOOP, 3), (LOOP, 4)),
            ((LOOP, 1), (LOOP, 9)),
            ((ARGS, 2), (ARGS, 2)),
            ((None, None), (None, None)),
            ((None, None), (None, None)),
            ((LOOP, 3), (ARGS, 3)),
            ((ARGS, 0), (LOOP, 2)),
            ((LOOP, 1), (None, None)),
            ((None, None), (ARGS, 1)),
        ]
    ):
        words += [word(f"r{number}", "ada", *ada), word(f"r{number}", "mei", *mei)]
    return words


class TestAgreement:
    found = agreement("ada", "mei", pairs(opinions(hand_counted()))["ada", "mei"])

    def test_the_share_and_kappa_of_the_first_class(self) -> None:
        assert (self.found.n, self.found.same.value) == (10, 0.6)
        # both say loop, bad args and nothing wrong 5, 2, 3 and 4, 3, 3 times: chance is .35
        kappa = (0.6 - 0.35) / (1 - 0.35)
        assert self.found.kappa.value == pytest.approx(kappa)
        assert self.found.kappa.low < kappa < self.found.kappa.high

    def test_steps_are_counted_where_both_name_one(self) -> None:
        rates = (self.found.exact, self.found.within_1, self.found.within_3)
        assert [each.n for each in rates] == [6, 6, 6]
        assert [each.value for each in rates] == pytest.approx([3 / 6, 4 / 6, 5 / 6])

    def test_each_class_has_its_own_table_and_kappa(self) -> None:
        loop = next(each for each in self.found.classes if each.name == "loop")
        assert (loop.both, loop.only_one, loop.only_other, loop.neither) == (3, 2, 1, 4)
        assert loop.kappa.value == pytest.approx((0.7 - 0.5) / 0.5)
        cleared = next(each for each in self.found.classes if each.name == NO_CLASS)
        assert (cleared.both, cleared.only_one, cleared.only_other) == (2, 1, 1)

    def test_another_class_is_worse_than_another_step_and_far_than_near(self) -> None:
        parted = rater_disagreements(pairs(opinions(hand_counted()))["ada", "mei"])
        assert [(pair.same, pair.apart) for pair in parted] == [
            (False, 2), (False, 0), (False, None), (False, None), (True, 8), (True, 1),
        ]  # fmt: skip


words = st.builds(
    word,
    st.sampled_from("rst"),
    st.sampled_from(["ada", "mei", "zoe"]),
    st.sampled_from(list(FailureClass)),
    st.integers(0, 20),
    blind=st.booleans(),
    at=st.integers(0, 99),
)


@given(st.lists(words, max_size=30))
def test_any_words_give_shares_within_their_intervals(said: list[Word]) -> None:
    ordered = sorted(said, key=lambda each: (each.run, each.by, each.step or 0))
    for names, found in pairs(opinions(ordered)).items():
        figures = agreement(*names, found)
        assert names[0] < names[1]
        assert figures.independent <= figures.n <= 3
        assert figures.same.low <= (figures.same.value or 0) <= figures.same.high
        assert (figures.exact.value or 0) <= (figures.within_3.value or 0)
        parted = rater_disagreements(found)
        exact = sum(pair.same and pair.apart in (0, None) for pair in found)
        assert len(parted) == len(found) - exact
