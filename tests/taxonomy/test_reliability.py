"""pass@k, pass^k, the decay with length and errors that persist, against their known answers."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.judgements.schema import open_ledger
from taxonomy.metrics.reliability import (
    decay,
    degradation_reading,
    flattery,
    graceful_degradation,
    if_independent,
    mean_rate,
    meltdown_onset,
    over_tasks,
    pass_at,
    pass_hat,
    passing_sizes,
    persistence,
    quartiles,
    variance_amplification,
    variance_reading,
)
from taxonomy.stats.figures import figures
from taxonomy.stats.runs import Run, runs_of
from tests.shared import Imported, needs_shared, runs_below

counts = st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
outcomes = st.lists(st.tuples(st.none() | st.floats(), st.none() | st.booleans()), max_size=40)

# --- pass@k and pass^k


@pytest.mark.parametrize(("k", "value"), [(1, 0.25), (5, 0.8063), (8, 0.9489)])
def test_pass_at_k_has_the_article_s_values(k: int, value: float) -> None:
    assert pass_at(20, 5, k) == pytest.approx(value, abs=5e-5)


@given(counts, st.integers(1, 7))
def test_both_count_the_draws_of_k_trials(count: tuple[int, int], k: int) -> None:
    n, c = count
    draws = list(combinations([True] * c + [False] * (n - c), k))
    if not draws:
        assert pass_at(n, c, k) is pass_hat(n, c, k) is None
    else:
        assert pass_at(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))
        assert pass_hat(n, c, k) == pytest.approx(sum(map(all, draws)) / len(draws))


def test_fewer_failures_than_draws_always_hold_a_success() -> None:
    assert pass_at(4, 2, 3) == 1


@given(st.integers(-3, 9), st.integers(-3, 9), st.integers(-3, 9))
def test_any_three_numbers_give_a_chance_or_none(n: int, c: int, k: int) -> None:
    for found in (pass_at(n, c, k), pass_hat(n, c, k)):
        assert found is None or 0 <= found <= 1


@pytest.mark.parametrize(("p", "values"), [(0.95, (0.90, 0.81, 0.66)), (0.70, (0.49, 0.24, 0.06))])
def test_independent_trials_have_the_article_s_table(p: float, values: tuple[float, ...]) -> None:
    assert [if_independent(p, k) for k in (2, 4, 8)] == pytest.approx(values, abs=6e-3)


def test_tasks_with_fewer_than_k_trials_are_left_out_and_counted() -> None:
    found = over_tasks([(4, 4), (4, 0), (3, 3), (1, 1)], 4)
    assert (found.pass_hat.value, found.pass_hat.n) == (0.5, 2)
    assert (found.left_out, found.trials) == (2, (4, 4))
    assert found.pass_one.value == 0.5


def test_without_a_task_there_is_no_rate() -> None:
    found = over_tasks([(2, 1)], 3)
    assert found.pass_at.value is found.pass_hat.value is found.flattery is None
    assert (found.left_out, found.trials) == (1, None)


def test_flattery_is_how_much_better_k_tries_look() -> None:
    assert flattery(1 - 0.95**8, 0.05) == pytest.approx(6.7, abs=0.05)
    assert over_tasks([(20, 5)], 8).flattery == pytest.approx(0.9489 / 0.25, abs=1e-3)
    assert flattery(0.0, 0.0) is None
    assert flattery(None, 0.5) is None


@given(st.lists(st.floats(0, 1), min_size=1))
def test_the_interval_of_a_mean_holds_it(values: list[float]) -> None:
    found = mean_rate(values)
    assert found.value is not None
    assert found.n == len(values)
    assert found.low - 1e-9 <= found.value <= found.high + 1e-9


@pytest.fixture
def airline(real: Imported) -> list[Run]:
    with open_ledger(real.path) as store:
        return runs_of(store, runs_below(store, "tau_bench"))


@needs_shared
def test_the_airline_runs_give_the_published_pass_hat_k(airline: list[Run]) -> None:
    found = figures(airline)
    assert [each.k for each in found.repeated] == [1, 2, 3, 4]
    values = [each.pass_hat.value for each in found.repeated]
    assert values == pytest.approx([0.420, 0.273, 0.220, 0.200], abs=5e-4)
    assert {each.pass_hat.n for each in found.repeated} == {50}
    assert {each.left_out for each in found.repeated} == {0}


@needs_shared
def test_the_airline_s_gold_actions_are_read_and_lengthen_its_tasks(airline: list[Run]) -> None:
    found = figures(airline)
    assert found.decay_basis == "gold length"
    assert found.decay_warning is None
    assert sum(bucket.passed.n for bucket in found.decay.buckets) == 200
    by_kind = {(each.what, each.order): each for each in found.calls}
    assert by_kind["all calls", "any"].recall.n == 4 * 158
    assert by_kind["all calls", "any"].precision.n == 1164
    writes = by_kind["writing calls", "any"]
    assert writes.recall.n < 4 * 158
    for each in found.calls:
        assert each.f1.value is not None
        assert 0 < each.f1.value < 1


@needs_shared
def test_airline_runs_that_passed_made_more_of_the_gold_writes(airline: list[Run]) -> None:
    """Gold actions mean something: the verifier's word and the calls agree."""
    recalls = {}
    for passed in (True, False):
        found = figures([run for run in airline if run.passed is passed])
        writes = next(each for each in found.calls if each.what == "writing calls")
        recalls[passed] = writes.recall.value or 0.0
    assert recalls[True] > recalls[False] + 0.3


# --- decay

ARTICLE = [0.675, 0.38, 0.215, 0.035]


def test_the_article_s_four_buckets_have_its_vaf_gds_and_mop() -> None:
    assert variance_amplification(ARTICLE) == pytest.approx(0.833, abs=5e-4)
    assert graceful_degradation(ARTICLE) == pytest.approx(0.36)
    assert meltdown_onset(ARTICLE) == 1
    assert degradation_reading(0.36) == "brittle"
    assert variance_reading(0.833) == "unpredictable"


def test_the_same_come_out_of_runs() -> None:
    sizes, passed = [], []
    for size, share in zip((3, 8, 15, 25), ARTICLE, strict=True):
        sizes += [size] * 200
        passed += [at < round(200 * share) for at in range(200)]
    found = decay(sizes, passed, (5, 10, 20))
    assert [bucket.label for bucket in found.buckets] == ["≤ 5", "to 10", "to 20", "> 20"]
    assert [bucket.passed.value for bucket in found.buckets] == pytest.approx(ARTICLE)
    assert found.variance == pytest.approx(0.833, abs=5e-4)
    assert found.graceful == pytest.approx(0.36)
    assert found.onset == "to 10"


def test_fifteen_points_under_is_no_meltdown_and_more_is() -> None:
    assert meltdown_onset([0.675, 0.525]) is None
    assert meltdown_onset([0.675, 0.52]) == 1
    assert meltdown_onset([0.2, 0.9]) is None
    assert meltdown_onset([]) is None


def test_one_bucket_shows_neither_grace_nor_variance() -> None:
    assert graceful_degradation([0.5]) is None
    assert variance_amplification([0.5]) is None
    assert variance_amplification([0.0, 0.0]) is None
    assert degradation_reading(None) is variance_reading(None) is None


def test_buckets_without_a_run_are_left_out_and_runs_without_a_size_counted() -> None:
    found = decay([1, 30, None, 30], [True, False, True, None], (5, 10, 20))
    assert [bucket.label for bucket in found.buckets] == ["≤ 5", "> 20"]
    assert (found.unsized, found.undecided) == (1, 1)


def test_without_bounds_the_buckets_are_quartiles() -> None:
    found = decay(list(range(1, 101)), [True] * 100)
    assert [bucket.passed.n for bucket in found.buckets] == [25, 25, 25, 25]


@given(st.lists(st.floats(0, 100), max_size=30))
def test_quartiles_rise_and_stay_below_the_largest(sizes: list[float]) -> None:
    cuts = quartiles(sizes)
    assert cuts == sorted(set(cuts))
    assert all(cut < max(sizes) for cut in cuts)


@given(outcomes, st.lists(st.floats(0, 100), max_size=4))
def test_every_run_is_in_one_bucket_or_left_out_and_counted(
    runs: list[tuple[float | None, bool | None]], bounds: list[float]
) -> None:
    found = decay([size for size, _ in runs], [ok for _, ok in runs], bounds)
    counted = sum(bucket.passed.n for bucket in found.buckets)
    assert counted + found.unsized + found.undecided == len(runs)
    assert found.graceful is None or 0 <= found.graceful <= 1


def test_the_size_of_a_task_is_the_median_of_its_passing_runs() -> None:
    tasks = ["a", "a", "a", "b", None]
    found = passing_sizes(tasks, [4, 8, 1, 9, 2], [True, True, False, False, True])
    assert found == [6, 6, 6, None, None]


# --- errors that persist


def test_failures_that_follow_failures_are_told_from_the_others() -> None:
    found = persistence([[False, True, True, False, False], [True, True]])
    assert (found.after_failure.value, found.after_failure.n) == (2 / 3, 3)
    assert (found.after_success.value, found.after_success.n) == (0.5, 2)


def test_a_step_nobody_knows_breaks_the_row() -> None:
    found = persistence([[True, None, True], []])
    assert found.after_failure.n == found.after_success.n == 0
    assert found.after_failure.value is None
