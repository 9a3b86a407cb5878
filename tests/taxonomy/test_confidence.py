"""Does a stated confidence mean what it says?"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.metrics.agreement import reliability


class TestReliability:
    def test_claims_are_held_against_how_often_they_were_right(self) -> None:
        said = [(0.9, True)] * 9 + [(0.9, False)] + [(0.3, False)] * 8 + [(0.3, True)] * 2
        low, high = reliability(said).bins
        assert [low.stated, high.stated] == pytest.approx([0.3, 0.9])
        assert [(each.right.value, each.right.n) for each in (low, high)] == [(0.2, 10), (0.9, 10)]
        assert low.honest
        assert high.honest

    def test_a_boast_is_outside_its_interval(self) -> None:
        (boast,) = reliability([(0.95, False)] * 15 + [(0.95, True)] * 5).bins
        assert not boast.honest

    def test_a_claim_without_a_confidence_is_counted_and_not_judged(self) -> None:
        found = reliability([(None, True), (None, False), (math.nan, True), (1.7, True)])
        assert (found.bins, found.silent, found.error) == ((), 4, None)

    @given(st.lists(st.tuples(st.none() | st.floats(), st.booleans()), max_size=40))
    def test_every_claim_is_in_one_bin_or_silent(
        self, claims: list[tuple[float | None, bool]]
    ) -> None:
        found = reliability(claims)
        assert sum(each.right.n for each in found.bins) + found.silent == len(claims)
        assert all(each.low <= each.stated <= each.high for each in found.bins)
