"""When samples of one version say yes, when no, and when nobody can tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.bisection.change_point import is_majority, over


@pytest.mark.parametrize(
    ("met", "n", "expected"),
    [
        (0, 0, None), (1, 1, True), (0, 1, False), (2, 2, True), (1, 2, None), (3, 3, True),
        (2, 3, None), (0, 3, False), (7, 8, True), (6, 8, None), (14, 20, True), (13, 20, None),
        (6, 20, False),
    ],
)  # fmt: skip
def test_a_share_is_clear_or_it_is_not(met: int, n: int, expected: bool | None) -> None:
    assert is_majority(met, n) is expected


def test_known_values_of_the_incomplete_beta_function() -> None:
    assert over(1, 1) == pytest.approx(0.5 + 1 / 3.141592653589793, abs=1e-5)
    assert over(3, 3) == pytest.approx(0.96689, abs=1e-4)


@pytest.mark.parametrize(
    ("met", "n", "expected"), [(3, 3, None), (20, 20, True), (12, 20, False), (16, 20, None)]
)
def test_a_bound_may_be_another_than_a_half(met: int, n: int, expected: bool | None) -> None:
    assert is_majority(met, n, 0.8) is expected


def test_the_uniform_angle_of_no_sample() -> None:
    assert over(0, 0, 0.25) == pytest.approx(2 / 3)


@given(st.integers(0, 60), st.integers(0, 60))
def test_both_sides_are_one(met: int, other: int) -> None:
    n = met + other
    assert over(met, n) + over(other, n) == pytest.approx(1.0)
