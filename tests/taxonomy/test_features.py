from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.calibration.localisation import ID_LENGTH
from taxonomy.localiser.features import (
    FEATURES,
    Model,
    first_leap,
    leaps,
    own_time_ns,
    spree,
)
from taxonomy.localiser.weights import FITTED, FOLDS, MODEL

moments = st.integers(0, 1000)
intervals = st.tuples(moments, moments).map(lambda ends: (min(ends), max(ends)))


class TestTable:
    @pytest.mark.parametrize("model", [MODEL, *FOLDS.values()])
    def test_every_row_has_a_weight_that_kept_the_sign_of_its_guess(self, model: Model) -> None:
        assert [feature.name for feature in FEATURES] == list(model.weights)
        assert all(model.weights[each.name] * each.guess >= 0 for each in FEATURES)

    @pytest.mark.parametrize("model", [MODEL, *FOLDS.values()])
    def test_bands_begin_at_nothing_and_are_of_runs(self, model: Model) -> None:
        edges, bands = zip(*model.bands, strict=True)
        assert edges[0] == 0
        assert list(edges) == sorted(edges)
        assert all(0 < band.low < 1 and band.runs for band in bands if band)

    def test_every_source_has_a_model_that_did_not_see_it(self) -> None:
        assert list(FOLDS) == list(FITTED)
        assert all(len(each) == ID_LENGTH for keys in FITTED.values() for each in keys.split())


class TestLeaps:
    def test_a_leap_is_above_the_value_before_and_the_median(self) -> None:
        assert [step for step, _ in leaps([1, 1, 2, 5, 1, 5, 5, 5], 1.5)] == [3, 5]

    def test_the_first_leap_need_not_be_above_the_median(self) -> None:
        assert first_leap([1, 1, 2, 5, 5, 5, 5], 1.5) == (2, 2.0)
        assert first_leap([3, 3, 3], 1.5) is None

    def test_an_unknown_value_is_no_leap(self) -> None:
        assert first_leap([1, None, 9], 1.5) is None
        assert list(leaps([None, None], 1.5)) == []

    @pytest.mark.parametrize(
        ("others", "left"),
        [([], 10), ([(0, 5)], 5), ([(2, 4), (3, 6)], 6), ([(-5, 20)], 0), ([(20, 30)], 10)],
    )
    def test_the_time_of_others_is_counted_once(
        self, others: list[tuple[int, int]], left: int
    ) -> None:
        assert own_time_ns(0, 10, others) == left

    @given(intervals, st.lists(intervals, max_size=6))
    def test_own_time_is_what_no_other_covers(
        self, span: tuple[int, int], others: list[tuple[int, int]]
    ) -> None:
        free = sum(not any(a <= at < b for a, b in others) for at in range(*span))
        assert own_time_ns(*span, others) == free


class TestNewFacts:
    def test_more_facts_are_stronger_up_to_a_bound(self) -> None:
        assert spree(0) == 0
        assert 0 < spree(1) < spree(5) < spree(20) == spree(500) == 1
