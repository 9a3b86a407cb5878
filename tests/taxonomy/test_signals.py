from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.shapes import published_break, published_reading, published_votes, ratio

values = st.lists(st.none() | st.floats(), max_size=40)


def names(votes: tuple[object, ...]) -> set[str]:
    return {getattr(vote, "name", "") for vote in votes}


def test_the_article_s_summarisation_pipeline_breaks_at_step_four_of_six() -> None:
    scores = [0.84, 0.83, 0.82, 0.58, 0.60, 0.61]
    seconds = [1.1, 1.2, 1.2, 3.8, 1.4, 1.3]
    tokens = [900, 950, 1000, 2000, 2100, 2050]
    votes = published_votes(scores, seconds, tokens)
    assert published_break(scores, seconds, tokens) == 3
    assert names(votes[3]) == {"score drop", "below base", "latency spike", "cost spike"}
    assert published_reading(votes[3]) == "high confidence"


def test_a_spike_without_a_drop_is_a_step_to_watch() -> None:
    votes = published_votes([0.9] * 6, [1.0, 1.0, 1.0, 3.0, 1.0, 1.0])
    assert published_reading(votes[3]) == "uncertain but recovered, watch it"


def test_the_earliest_step_wins_a_tie() -> None:
    assert published_break([0.9, 0.9, 0.9, 0.5, 0.9, 0.5]) == 3


def test_no_vote_names_no_step() -> None:
    assert published_break([0.9] * 12) is None
    assert published_break([]) is None
    assert published_break([0.1]) is None


def test_a_step_without_a_score_is_left_out_and_positions_are_kept() -> None:
    assert published_break([0.9, None, 0.9, None, 0.3, None]) == 4


def test_an_empty_first_third_casts_no_vote_on_the_base() -> None:
    votes = published_votes([0.9, 0.1])
    assert names(votes[1]) == {"score drop"}


@pytest.mark.parametrize("before", [None, 0.0])
def test_a_missing_or_zero_denominator_casts_no_vote(before: float | None) -> None:
    assert ratio([before, 5.0], 1) is None
    assert published_votes([0.9, 0.9], [before, 5.0], [before, 5.0]) == {}


@given(values, values, values)
def test_the_published_vote_is_total(
    scores: list[float | None], latencies: list[float | None], costs: list[float | None]
) -> None:
    votes = published_votes(scores, latencies, costs)
    found = published_break(scores, latencies, costs)
    assert (found is None) == (not votes)
    assert all(0 < step < len(scores) and scores[step] is not None for step in votes)
