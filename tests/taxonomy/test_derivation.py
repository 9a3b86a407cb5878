from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.evidence.claims import columns, find_computation, totals


@pytest.mark.parametrize(
    ("target", "formula"),
    [
        (206.0, "129 + 77"),
        (52.0, "129 − 77"),
        (258.0, "2 × 129"),
        (231.0, "77 × 3"),
        (1099.0, None),
    ],
)
def test_one_step_from_shown_numbers(target: float, formula: str | None) -> None:
    working = find_computation(target, [(129.0, 0), (77.0, 4), (3.0, 1)])
    assert (working.formula if working else None) == formula


def test_the_place_is_the_later_of_the_two() -> None:
    working = find_computation(206.0, [(129.0, 0), (77.0, 4)])
    assert working is not None
    assert working.at == 4


def test_small_numbers_have_no_multiples() -> None:
    assert find_computation(40.0, [(10.0, 0)]) is None


def test_only_columns_that_repeat_are_summed() -> None:
    value = {"rows": [{"fee": 1, "id": 7}, {"fee": 2}, {"fee": 4}], "total": 90}
    assert dict(columns(value)) == {"fee": [1.0, 2.0, 4.0]}
    assert totals(7.0, columns(value)) == "fee: 1 + 2 + 4"
    assert totals(5.0, columns(value)) is None


@given(st.floats(0, 1e6), st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 9)), max_size=12))
def test_any_numbers_can_be_asked_about(target: float, shown: list[tuple[float, int]]) -> None:
    working = find_computation(target, shown)
    assert working is None or working.at in {at for _, at in shown}
