"""Rates over things in groups: the interval minds them, and the test holds every stratum apart."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.statistics import Table, clustered, fisher, rate, stratified


def things(*groups: tuple[int, int]) -> Iterator[tuple[str, bool]]:
    """(hits, size) of each group, one thing at a time."""
    for at, (hits, size) in enumerate(groups):
        yield from ((f"task {at}", place < hits) for place in range(size))


GROUPS = st.lists(
    st.integers(1, 6).flatmap(lambda size: st.tuples(st.integers(0, size), st.just(size))),
    min_size=1, max_size=8,
)  # fmt: skip


# --- the interval


def test_eighteen_runs_of_eighteen_tasks_have_wilsons_interval() -> None:
    found = clustered(things(*[(1, 1)] * 14, *[(0, 1)] * 4))
    assert found.rate == found.alone == rate(14, 18)
    assert (round(found.rate.low, 2), round(found.rate.high, 2)) == (0.55, 0.91)
    assert (found.hits, found.groups, found.effective_n) == (14, 18, 18)


def test_nothing_counted_says_nothing() -> None:
    found = clustered(())
    assert (found.rate.value, found.rate.low, found.rate.high) == (None, 0.0, 1.0)


def test_tasks_whose_runs_all_agree_count_once_each() -> None:
    """Known answer: rho is 1, so six tasks of three runs are Wilson's interval of 4 of 6."""
    found = clustered(things(*[(3, 3)] * 4, *[(0, 3)] * 2))
    assert found.likeness == 1.0
    assert found.effective_n == pytest.approx(6)
    assert found.rate.low == pytest.approx(rate(4, 6).low)
    assert found.rate.high == pytest.approx(rate(4, 6).high)
    assert found.rate.n == 18


def test_the_likeness_is_fleiss_and_cuzicks_at_wilsons_centre() -> None:
    """Known answer, by hand: groups 2/2 1/2 0/2, n = 6, centre of Wilson's interval ½, mixed
    within Σ hits·misses/size = ½, so rho = 1 - ½ / (3·¼) = ⅓ and deff = 1 + (2 - 1)·⅓."""
    found = clustered(things((2, 2), (1, 2), (0, 2)))
    assert found.likeness == pytest.approx(1 / 3)
    assert found.effective_n == pytest.approx(6 / (4 / 3))


def test_one_exception_changes_little() -> None:
    """All of forty in eight tasks, and all but one: no leap, as where rho is taken for 0 or 1."""
    whole = clustered(things(*[(5, 5)] * 8)).rate.low
    almost = clustered(things(*[(5, 5)] * 7, (4, 5))).rate.low
    assert whole - almost == pytest.approx(0, abs=0.06)


def test_runs_of_one_task_alone_say_little_of_others() -> None:
    found = clustered(things((2, 3)))
    assert found.effective_n == pytest.approx(1)
    assert found.rate.low < 0.2 < 0.9 < found.rate.high


@given(GROUPS)
def test_minding_the_groups_never_claims_more(groups: list[tuple[int, int]]) -> None:
    found = clustered(things(*groups))
    assert 0 <= found.rate.low <= found.alone.low + 1e-9
    assert found.alone.high - 1e-9 <= found.rate.high <= 1
    assert len(groups) - 1e-9 <= found.effective_n * max(size for _, size in groups)
    assert found.rate.value == found.alone.value


@given(GROUPS, st.randoms(use_true_random=False))
def test_the_order_of_things_is_of_no_matter(
    groups: list[tuple[int, int]], order: random.Random
) -> None:
    every = list(things(*groups))
    shuffled = order.sample(every, len(every))
    assert clustered(shuffled) == clustered(every)


@pytest.mark.slow
def test_the_interval_holds_the_truth_where_runs_of_a_task_are_alike() -> None:
    """Seeded simulation: over likenesses from none to whole it covers about .95, where Wilson's
    interval of runs taken for independent covers half."""
    chance = random.Random(17)
    covered: list[float] = []
    alone: list[float] = []
    for tasks, truth, alike in itertools.product((6, 12), (0.5, 0.8), (0.0, 0.5, 1.0)):
        drawn = [clustered(things(*_tasks(chance, tasks, truth, alike))) for _ in range(400)]
        covered.append(sum(each.rate.low <= truth <= each.rate.high for each in drawn) / 400)
        alone.append(sum(each.alone.low <= truth <= each.alone.high for each in drawn) / 400)
    assert sum(covered) / len(covered) >= 0.94
    assert min(covered) >= 0.89
    assert min(alone) < 0.75


def _tasks(
    chance: random.Random, tasks: int, truth: float, alike: float
) -> Iterator[tuple[int, int]]:
    """Five runs a task; how likely each of them hits differs from task to task."""
    for _ in range(tasks):
        share = truth
        if alike == 1:
            share = float(chance.random() < truth)
        elif alike:
            spread = 1 / alike - 1
            share = chance.betavariate(truth * spread, (1 - truth) * spread)
        yield sum(chance.random() < share for _ in range(5)), 5


# --- the test


def test_one_table_is_fishers_test() -> None:
    assert stratified([Table(0, 5, 5, 5)]) == pytest.approx(fisher(0, 5, 5, 5))
    assert stratified([Table(1, 5, 4, 5)]) == pytest.approx(fisher(1, 5, 4, 5))


def test_pairs_of_one_sample_are_the_sign_test() -> None:
    """Known answer: five pairs that all go one way, two-sided, are 2 / 2⁵."""
    assert stratified([Table(0, 1, 1, 1)] * 5) == pytest.approx(2 / 32)
    assert stratified([Table(0, 1, 1, 1)] * 4 + [Table(1, 1, 0, 1)]) == pytest.approx(12 / 32)


def test_where_nothing_can_tell_chance_is_certain() -> None:
    assert stratified([]) == 1.0
    assert stratified([Table(5, 5, 5, 5), Table(0, 3, 0, 3)]) == 1.0


def test_a_run_in_which_both_arms_agree_adds_nothing() -> None:
    one = stratified([Table(1, 5, 4, 5)])
    assert stratified([Table(1, 5, 4, 5), Table(5, 5, 5, 5)]) == pytest.approx(one)


TABLE = st.tuples(st.integers(0, 3), st.integers(0, 3)).flatmap(
    lambda n: st.builds(
        Table, st.integers(0, n[0]), st.just(n[0]), st.integers(0, n[1]), st.just(n[1])
    )
)


@given(st.lists(TABLE, max_size=3))
def test_it_is_the_share_of_relabellings_no_likelier_than_what_was_seen(
    tables: list[Table],
) -> None:
    """The same by brute force: every way to hand each stratum's hits to its answers."""
    counts = _by_hand(tables)
    seen = counts[sum(table.hits for table in tables)]
    wanted = sum(ways for ways in counts.values() if ways <= seen) / sum(counts.values())
    assert stratified(tables) == pytest.approx(wanted)


def _by_hand(tables: Sequence[Table]) -> dict[int, int]:
    counts: dict[int, int] = {}
    deals = [
        list(itertools.combinations(range(t.n + t.other_n), t.hits + t.other_hits)) for t in tables
    ]
    for deal in itertools.product(*deals):
        hits = sum(
            sum(place < table.n for place in dealt)
            for table, dealt in zip(tables, deal, strict=True)
        )
        counts[hits] = counts.get(hits, 0) + 1
    assert sum(counts.values()) == math.prod(map(len, deals))
    return counts
