"""Held-out gap, contamination, wording, recovery, production: known answers and edges."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.statistics import rate
from taxonomy.metrics.grounding import (
    HELD_OUT,
    contaminated,
    corrected_after,
    distance,
    held_out,
    held_out_gap,
    recovery_rate,
    surface_variation,
)

suites = st.dictionaries(st.text(max_size=4), st.sampled_from(["easy", "hard", "odd"]), max_size=40)
scores = st.lists(st.none() | st.floats(0, 1), max_size=12)

# --- held out


def test_a_fifth_of_each_stratum_is_held_out() -> None:
    suite = {f"task {at}": "easy" if at < 30 else "hard" for at in range(50)}
    chosen = held_out(suite)
    assert Counter(suite[task] for task in chosen) == {"easy": 6, "hard": 4}


def test_small_strata_together_give_their_fifth() -> None:
    suite = {f"task {at}": f"kind {at // 2}" for at in range(20)}
    chosen = held_out(suite)
    assert len(chosen) == 4
    assert len({suite[task] for task in chosen}) == 4


@given(suites)
def test_the_split_is_a_fifth_and_blind_to_the_order_of_the_tasks(suite: dict[str, str]) -> None:
    chosen = held_out(suite)
    assert chosen <= suite.keys()
    assert len(chosen) == round(len(suite) * HELD_OUT)
    assert chosen == held_out(dict(reversed(suite.items())))
    for name, size in Counter(suite.values()).items():
        got = sum(suite[task] == name for task in chosen)
        assert abs(got - size * HELD_OUT) < 1


@given(suites, suites)
def test_what_was_held_out_stays_held_out_when_tasks_are_added(
    suite: dict[str, str], more: dict[str, str]
) -> None:
    before = held_out(suite)
    assert before <= held_out({**more, **suite}, already=before)


def test_another_share_can_be_asked_for() -> None:
    assert len(held_out(dict.fromkeys(map(str, range(10)), ""), Fraction(1, 2))) == 5


@pytest.mark.parametrize(
    ("others", "reading"),
    [(60, "healthy"), (64, "healthy"), (65, "watch"), (70, "watch"), (71, "surface inflation")],
)
def test_the_gap_is_read_by_the_article_s_thresholds(others: int, reading: str) -> None:
    found = held_out_gap(rate(others, 100), rate(60, 100))
    assert found is not None
    assert found.value == pytest.approx((others - 60) / 100)
    assert found.reading == reading
    assert found.low < found.value < found.high


def test_the_interval_of_a_gap_is_newcombe_s() -> None:
    """His example (1998): 56/70 against 48/80 differ by .2, from .0524 to .3339."""
    found = held_out_gap(rate(56, 70), rate(48, 80))
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_one_side_alone_has_no_gap() -> None:
    assert held_out_gap(rate(3, 4), rate(0, 0)) is None


# --- contamination


def test_three_runs_in_a_row_above_92_are_a_risk() -> None:
    assert contaminated([0.5, 0.93, 0.95, 0.94]) is True
    assert contaminated([0.93, 0.95, 0.92, 0.94, 0.99]) is False
    assert contaminated([0.93, None, 0.95, 0.94]) is None
    assert contaminated([0.99, 0.99]) is None


# --- wording


def test_the_article_s_paraphrases_have_a_range_of_56_and_a_variance_it_does_not_print() -> None:
    found = surface_variation([0.31, 0.87, 0.82])
    assert found is not None
    assert found.range == pytest.approx(0.56)
    assert found.variance == pytest.approx(0.096, abs=5e-4)
    assert found.population_variance == pytest.approx(0.064, abs=5e-4)
    assert found.reading == "surface sensitivity"


@pytest.mark.parametrize(
    ("high", "reading"),
    [(0.37, "consistent capability gap"), (0.38, "undecided"), (0.45, "undecided"),
     (0.46, "surface sensitivity")],
)  # fmt: skip
def test_the_thresholds_apply_to_the_range(high: float, reading: str) -> None:
    found = surface_variation([0.30, high, None])
    assert found is not None
    assert (found.reading, found.n) == (reading, 2)


@given(scores)
def test_any_scores_have_a_spread_or_are_too_few(values: list[float | None]) -> None:
    found = surface_variation(values)
    assert (found is None) == (sum(value is not None for value in values) < 2)
    if found is not None:
        assert found.variance + 1e-12 >= found.population_variance


# --- recovery


def test_an_error_corrected_within_two_steps_is_recovered_from() -> None:
    assert corrected_after([0.9, 0.9, 0.1, 0.2, 0.8, 0.9], 2) == 2
    assert corrected_after([0.9, 0.9, 0.1, 0.2, 0.3, 0.9], 2) == 3
    assert corrected_after([0.9, 0.9, 0.1, None], 2) is None
    found = recovery_rate([1, 2, 3, None])
    assert (found.value, found.n) == (0.5, 4)
    assert recovery_rate([]).value is None


# --- production

EVAL = {"early collapse": 35, "late drift": 28, "recovery": 22, "steady degradation": 15}
LIVE = {"early collapse": 12, "late drift": 31, "recovery": 19, "steady degradation": 38}


def test_the_article_s_distributions_are_23_points_apart_on_two_shapes() -> None:
    """It names steady degradation; early collapse is as far off, the other way."""
    found = distance(EVAL, LIVE)
    assert found is not None
    assert found.points["steady degradation"] == pytest.approx(23)
    assert found.points["early collapse"] == pytest.approx(-23)
    assert found.widest == "steady degradation"
    assert found.reading == "apart"
    assert found.total == pytest.approx(26)


@pytest.mark.parametrize(("more", "reading"), [(15, "alike"), (16, "watch"), (20, "watch"),
                                               (21, "apart")])  # fmt: skip
def test_fifteen_to_twenty_points_are_the_border(more: int, reading: str) -> None:
    found = distance({"healthy": 50, "recovery": 50}, {"healthy": 50 + more, "recovery": 50 - more})
    assert found is not None
    assert found.reading == reading


def test_a_shape_only_one_side_shows_counts_in_full() -> None:
    found = distance({"healthy": 3}, {"late drift": 5})
    assert found is not None
    assert found.points == {"healthy": -100, "late drift": 100}
    assert found.total == 100
    assert distance({}, LIVE) is None


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)),
)
def test_distances_are_opposite_seen_from_the_other_side(
    one: dict[str, int], other: dict[str, int]
) -> None:
    found, back = distance(one, other), distance(other, one)
    if found is None or back is None:
        assert found is back is None
    else:
        assert found.total == pytest.approx(back.total)
        assert 0 <= found.total <= 100 + 1e-9
        assert found.points == pytest.approx({name: -gap for name, gap in back.points.items()})
