"""Intervals and tests against known answers, and what they promise for any counts."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.locked.row import LEVELS, Sampling, is_open
from replay.statistics import ALPHA, effect_probability, fisher, holm, rate

counts = st.integers(1, 20).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(14, 18, 0.548, 0.910), (0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (5, 10, 0.237, 0.763)],
)
def test_wilson_interval_has_its_known_values(hits: int, n: int, low: float, high: float) -> None:
    found = rate(hits, n)
    assert (found.value, found.n) == (hits / n, n)
    assert [found.low, found.high] == pytest.approx([low, high], abs=1e-3)


def test_a_rate_of_nothing_is_unknown_and_its_interval_everything() -> None:
    found = rate(0, 0)
    assert (found.value, found.low, found.high) == (None, 0.0, 1.0)


@given(counts)
def test_an_interval_holds_its_rate(pair: tuple[int, int]) -> None:
    found = rate(*pair)
    assert found.value is not None
    assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize(
    ("table", "p"),
    [
        ((3, 3, 0, 3), 2 / 20),
        ((5, 5, 0, 5), 2 / 252),
        ((8, 8, 0, 8), 2 / 12870),
        ((1, 10, 11, 14), 0.002759),
        ((3, 3, 3, 3), 1.0),
        ((0, 0, 2, 5), 1.0),
    ],
)
def test_fisher_has_its_known_values(table: tuple[int, int, int, int], p: float) -> None:
    assert fisher(*table) == pytest.approx(p, rel=1e-3)


@given(counts, counts)
def test_fisher_is_a_probability_and_blind_to_which_arm_is_which(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    p = fisher(*one, *other)
    assert 0 < p <= 1
    assert p == fisher(*other, *one)


def test_holm_holds_what_stays_below_the_falling_bar() -> None:
    assert holm({1: 0.001, 2: 0.02, 3: 0.04, 4: 0.3}) == {1}
    assert holm({1: 0.001, 2: 0.016, 3: 0.02, 4: 0.04}) == {1, 2, 3, 4}
    assert holm({}) == set()


@given(st.dictionaries(st.integers(), st.floats(0, 1)))
def test_holm_never_holds_more_than_each_test_alone(p_values: dict[int, float]) -> None:
    held = holm(p_values)
    assert held <= {name for name, p in p_values.items() if p <= ALPHA}
    assert {name for name, p in p_values.items() if p <= ALPHA / max(1, len(p_values))} <= held


@given(counts, counts)
def test_how_sure_a_difference_is_does_not_depend_on_its_direction(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    likely = effect_probability(*one, *other)
    assert 0 <= likely <= 1
    assert likely == pytest.approx(effect_probability(*other, *one))


def test_a_flip_is_asked_again_and_three_equal_answers_are_not() -> None:
    assert not is_open(0, 3, 0, 3, tests=12)
    assert is_open(3, 3, 0, 3, tests=12), "three samples cannot tell a flip from chance"
    assert not is_open(8, 8, 0, 8, tests=12)
    assert is_open(1, 3, 0, 3, tests=12)


def test_samples_of_another_range_never_meet_those_of_the_first() -> None:
    first, second = Sampling(), Sampling(range=1)
    numbers = {first.number(place) for place in range(LEVELS[-1])}
    assert numbers.isdisjoint(second.number(place) for place in range(LEVELS[-1]))


def _found(rate_of_one: float, rate_of_other: float, tests: int) -> tuple[float, float]:
    """(chance that an effect is found, mean samples an arm), exactly, by every path of counts."""
    paths, before, found, samples = {(0, 0): 1.0}, 0, 0.0, 0.0
    for level in LEVELS:
        more, reached = level - before, dict[tuple[int, int], float]()
        for (one, other), weight in paths.items():
            for x in range(more + 1):
                for y in range(more + 1):
                    chance = _binomial(more, x, rate_of_one) * _binomial(more, y, rate_of_other)
                    at = (one + x, other + y)
                    reached[at] = reached.get(at, 0.0) + weight * chance
        paths = {}
        for (one, other), weight in reached.items():
            if level != LEVELS[-1] and is_open(one, level, other, level, tests):
                paths[one, other] = weight
                continue
            samples += weight * level
            found += weight * (fisher(one, level, other, level) <= ALPHA / tests)
        before = level
    return found, samples


def _binomial(n: int, k: int, share: float) -> float:
    return comb(n, k) * share**k * (1 - share) ** (n - k)


@pytest.mark.parametrize("tests", [1, 5, 20])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5])
def test_asking_again_where_it_is_open_raises_no_false_alarms(share: float, tests: int) -> None:
    """Looking again at 8 and at 20 could: Fisher's test is careful enough to carry it."""
    alarms, _ = _found(share, share, tests)
    assert alarms <= ALPHA / tests


def test_what_the_samples_find_and_what_they_cost() -> None:
    """The figures of docs/guide/replay.md: a flip, most of the answers, half, a fifth of them."""
    shares = ((0.0, 1.0), (0.05, 0.8), (0.1, 0.5), (0.1, 0.3))
    figures = [_found(one, other, 12) for one, other in shares]
    assert [round(found, 2) for found, _ in figures] == [1.0, 0.99, 0.34, 0.03]
    assert [round(samples) for _, samples in figures] == [8, 15, 16, 11]
