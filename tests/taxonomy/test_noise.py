"""Shapes under noise: what the binned rule keeps and the published one loses."""

from __future__ import annotations

import pytest

from taxonomy.calibration.noise import LENGTHS, cell, trajectories
from taxonomy.classes import Shape
from taxonomy.shapes import classify


class TestNoise:
    @pytest.mark.parametrize("steps", [n for n in LENGTHS if n >= 12])
    def test_without_noise_the_binned_rule_is_right_at_every_length(self, steps: int) -> None:
        found = cell("binned", 0.0, steps, runs=1)
        assert found.right.value == 1.0

    def test_the_published_rule_loses_late_drift_in_long_runs(self) -> None:
        (drift,) = trajectories(Shape.LATE_DRIFT, 0.0, 48, 1)
        assert classify(drift) is Shape.STEADY_DEGRADATION

    def test_in_noise_the_published_rule_is_wrong_where_the_binned_one_is_right_or_unclear(
        self,
    ) -> None:
        ours, theirs = cell("binned", 0.2, 48, runs=20), cell("published", 0.2, 48, runs=20)
        assert (ours.right.value or 0) > (theirs.right.value or 0) + 0.15
        assert theirs.unclear.value == 0.0
        assert (theirs.wrong.value or 0) > 2 * (ours.wrong.value or 0)

    def test_every_run_is_counted_once_and_the_table_is_the_same_again(self) -> None:
        found = cell("binned", 0.1, 24, runs=10)
        assert sum(map(sum, found.confusion.counts)) == found.right.n == 50
        right = sum(found.confusion.counts[place][place] for place in range(5))
        assert right == round((found.right.value or 0) * 50)
        assert found == cell("binned", 0.1, 24, runs=10)
