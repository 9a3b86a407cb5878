"""A hypothesis tested: confirmed, refuted, or inconclusive, with its counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.edit.changes import Edit, InjectConstraint
from taxonomy.first_contradiction.recoverable import Arm, Status, Trial, arm

FIX = Edit(name="fix", changes=(InjectConstraint("Look first."),))


def trial(control: tuple[int, int], fixed: tuple[int, int]) -> Trial:
    return Trial(
        step=3,
        by="a rule",
        fix=FIX,
        control=Arm(bad=control[0], n=control[1]),
        fixed=Arm(bad=fixed[0], n=fixed[1]),
    )


@pytest.mark.parametrize(
    ("control", "fixed", "status"),
    [
        ((8, 8), (0, 8), "confirmed"),
        ((8, 8), (3, 8), "confirmed"),
        ((7, 8), (0, 8), "confirmed"),
        ((8, 8), (8, 8), "refuted"),
        ((7, 8), (7, 8), "refuted"),
        ((8, 8), (5, 8), "inconclusive"),
        ((20, 20), (14, 20), "inconclusive"),
        ((3, 3), (0, 3), "inconclusive"),
        ((1, 8), (0, 8), "inconclusive"),
        ((0, 8), (8, 8), "inconclusive"),
        ((0, 0), (0, 8), "inconclusive"),
        ((8, 8), (0, 0), "inconclusive"),
    ],
)
def test_what_counts_say(control: tuple[int, int], fixed: tuple[int, int], status: Status) -> None:
    assert trial(control, fixed).status == status


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
def test_nothing_is_validated_that_chance_explains_or_that_still_mostly_shows(
    bad: int, good: int, still: int, gone: int
) -> None:
    given = trial((bad, bad + good), (still, still + gone))
    if given.status == "confirmed":
        assert given.p <= 0.05
        assert still <= gone
        assert bad > good
    if given.status == "refuted":
        assert bad > good


def test_answers_that_cannot_be_judged_are_counted_apart() -> None:
    assert arm([True, None, False, None]) == Arm(bad=1, n=2, lost=2)
