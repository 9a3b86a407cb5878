from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.classes import Shape
from taxonomy.shapes import binned, classify, classify_binned, slopes

KNOWN = {
    "A": ([0.90, 0.91, 0.88, 0.60, 0.55, 0.58, 0.61, 0.62, 0.60, 0.58], Shape.EARLY_COLLAPSE),
    "B": ([0.60, 0.58, 0.62, 0.78, 0.82, 0.85, 0.88, 0.87, 0.55, 0.45], Shape.LATE_DRIFT),
    "C": ([0.85, 0.82, 0.78, 0.74, 0.71, 0.68, 0.65, 0.62, 0.58, 0.57], Shape.STEADY_DEGRADATION),
    "D": ([0.88, 0.90, 0.85, 0.40, 0.38, 0.72, 0.85, 0.87, 0.86, 0.89], Shape.RECOVERY),
}
MEANS = {"A": 0.683, "B": 0.700, "C": 0.700, "D": 0.760}

anything = st.lists(st.none() | st.floats(), max_size=80)


@pytest.mark.parametrize("model", KNOWN)
def test_the_article_s_four_models_have_the_article_s_shapes(model: str) -> None:
    scores, shape = KNOWN[model]
    assert classify(scores) is shape
    assert classify_binned(scores) is shape


@pytest.mark.parametrize("model", KNOWN)
def test_their_means_are_not_the_074_the_article_prints(model: str) -> None:
    scores, _ = KNOWN[model]
    assert sum(scores) / len(scores) == pytest.approx(MEANS[model], abs=5e-4)


@pytest.mark.parametrize("model", KNOWN)
def test_a_long_noisy_run_keeps_its_shape_in_bins(model: str) -> None:
    scores, shape = KNOWN[model]
    noise = random.Random(7)
    long = [score + noise.gauss(0, 0.04) for score in scores for _ in range(10)]
    assert classify_binned(long) is shape


def test_the_published_rule_cannot_see_a_late_drift_in_a_long_run() -> None:
    late = [0.9] * 40 + [0.9 - 0.02 * fall for fall in range(20)]
    assert classify(late) is Shape.STEADY_DEGRADATION
    assert classify_binned(late) is Shape.LATE_DRIFT


def test_noise_alone_is_unclear_or_healthy_where_the_published_rule_sees_recoveries() -> None:
    noise = random.Random(11)
    runs = [[min(1.0, max(0.0, noise.gauss(0.8, 0.3))) for _ in range(36)] for _ in range(60)]
    published = [classify(run) for run in runs]
    binned_verdicts = [classify_binned(run) for run in runs]
    calm = {Shape.HEALTHY, Shape.UNCLEAR}
    assert sum(shape in calm for shape in published) < 12
    assert sum(shape in calm for shape in binned_verdicts) > 50


@pytest.mark.parametrize("scores", [[], [0.5], [0.5, None, 0.9], [None] * 9])
def test_fewer_than_three_scores_have_no_shape(scores: list[float | None]) -> None:
    assert classify(scores) is None
    assert classify_binned(scores) is None


def test_a_step_without_a_score_is_left_out() -> None:
    scores, shape = KNOWN["D"]
    with_gaps = [each for score in scores for each in (score, None)]
    assert classify(with_gaps) is shape


def test_a_run_of_equal_scores_is_healthy() -> None:
    assert classify_binned([1.0] * 40) is Shape.HEALTHY


def test_bins_are_equal_stretches_of_positions() -> None:
    groups = binned([float(position) for position in range(27)])
    assert [len(group) for group in groups] == [3] * 9
    assert groups[0] == [0.0, 1.0, 2.0]


def test_the_late_slope_is_the_article_s() -> None:
    assert slopes(KNOWN["B"][0])[2] == pytest.approx((0.45 - 0.88) / 3)


@given(anything)
def test_any_sequence_has_a_shape_or_none(scores: list[float | None]) -> None:
    assert classify(scores) in {*Shape, None}
    assert classify_binned(scores) in {*Shape, None}
    slopes(scores)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=60))
def test_the_published_rule_never_says_unclear(scores: list[float]) -> None:
    assert classify(scores) is not Shape.UNCLEAR
