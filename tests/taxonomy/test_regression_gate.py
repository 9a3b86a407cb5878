"""Does the gate block what it should, and nothing else? On counts, and on simulated agents."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import pytest

from taxonomy.gate import (
    ALPHA,
    DRAWS,
    MIN_DROP,
    Limits,
    TaskPair,
    decide,
    fewest_tasks,
    is_drop,
    sign_flip,
    smallest_drop,
    task_pair,
)
from taxonomy.metrics.cost import Money
from taxonomy.metrics.reliability import Trials
from tests.bench.__main__ import main
from tests.bench.gate import Setting, printed, shipped, simulate, tables


def pair(
    name: str, before: tuple[int, int], after: tuple[int, int], usd: Sequence[float] | None = None
) -> TaskPair:
    """A task from (passed, n) of both groups, and what both cost."""
    first, second = usd if usd is not None else (None, None)
    return task_pair(name, _trials(before, first), _trials(after, second))


def _trials(counts: tuple[int, int], usd: float | None) -> Trials:
    passed, n = counts
    return Trials(n=n, passed=passed, cost=Money(cost_usd=usd, cost_complete=usd is not None))


def pairs(*changes: tuple[int, int], n: int = 4) -> list[TaskPair]:
    """Tasks from how many of n trials passed before and now."""
    return [pair(f"task {at}", (b, n), (c, n)) for at, (b, c) in enumerate(changes)]


class TestSignFlip:
    def test_it_counts_what_a_list_of_all_signs_counts(self) -> None:
        chance = random.Random(7)
        for _ in range(60):
            found = [
                Fraction(chance.randint(-6, 4), chance.choice((1, 2, 3, 4, 6)))
                for _ in range(chance.randint(1, 9))
            ]
            seen = sum(found)
            signs = list(product((1, -1), repeat=len(found)))
            as_low = sum(
                sum(s * change for s, change in zip(each, found, strict=True)) <= seen
                for each in signs
            )
            assert sign_flip(found).p == pytest.approx(as_low / len(signs))
            assert sign_flip(found).draws is None

    def test_five_tasks_all_worse_are_the_fewest_that_block(self) -> None:
        assert sign_flip([Fraction(-1)] * 5).p == 1 / 32
        assert sign_flip([Fraction(-1)] * 4).p == 1 / 16
        assert fewest_tasks(0.05) == 5
        assert [fewest_tasks(alpha) for alpha in (0.5, 0.26, 0.25, 0.01)] == [2, 2, 3, 7]

    def test_nothing_changed_is_no_evidence(self) -> None:
        assert sign_flip([Fraction(0)] * 30) == (1.0, None)

    def test_a_thousand_tasks_are_counted_exactly(self) -> None:
        p, draws = sign_flip([Fraction(-1, 4)] * 520 + [Fraction(1, 4)] * 480)
        assert draws is None
        assert p == pytest.approx(sum(math.comb(1000, k) for k in range(481)) / 2**1000)

    @pytest.mark.slow
    def test_sizes_without_a_common_unit_are_drawn_and_say_so(self) -> None:
        primes = [p for p in range(101, 700) if all(p % d for d in range(2, 27))]
        found = [Fraction(-1, p) if at % 4 else Fraction(1, p) for at, p in enumerate(primes)]
        p, draws = sign_flip(found)
        assert draws == DRAWS
        spread = math.sqrt(sum(float(each) ** 2 for each in found))
        normal = 0.5 * math.erfc(-float(sum(found)) / spread / math.sqrt(2))
        assert p == pytest.approx(normal, abs=0.005)
        assert sign_flip(found).p == p


class TestDecision:
    def test_a_drop_blocks_where_it_is_large_enough_and_beyond_chance(self) -> None:
        found = decide(pairs(*[(4, 3)] * 10, *[(4, 4)] * 10), Limits())
        assert (found.status, found.reasons) == ("regression", ("drop",))
        assert found.change == -0.125
        assert (found.tasks, found.worse, found.better) == (20, 10, 0)
        assert found.p == 2**-10

    @pytest.mark.slow
    def test_a_drop_beyond_chance_below_the_smallest_that_counts_does_not(self) -> None:
        found = decide(pairs(*[(4, 3)] * 10, *[(4, 4)] * 90), Limits())
        assert found.p < ALPHA
        assert found.change == -0.025
        assert found.status == "green"
        assert decide(pairs(*[(4, 3)] * 10, *[(4, 4)] * 90), Limits(min_drop=0.02)).reasons

    def test_the_smallest_drop_that_counts_is_taken_as_it_is_written(self) -> None:
        """Three points of 100 tasks are three points, whatever a float makes of .03."""
        changes = [Fraction(-1, 1)] * 6 + [Fraction(0)] * 194
        assert float(sum(changes)) / 200 == -0.03
        assert is_drop(changes, 0.05, 0.03)
        assert not is_drop(changes, 0.05, 0.0301)

    def test_the_limit_of_p_is_not_reached_but_passed(self) -> None:
        found = pairs(*[(4, 3)] * 5)
        assert decide(found, Limits(alpha=1 / 32)).status == "green"
        assert decide(found, Limits(alpha=1 / 31)).status == "regression"

    def test_an_improvement_is_green(self) -> None:
        found = decide(pairs(*[(1, 4)] * 20), Limits(strict=True))
        assert (found.status, found.change, found.p) == ("green", 0.75, 1.0)

    @pytest.mark.slow
    def test_strict_blocks_on_a_task_that_always_passed_and_never_does_now(self) -> None:
        found = pairs((4, 0), (4, 1), (3, 0), *[(4, 4)] * 20)
        assert decide(found, Limits()).lost == ("task 0",)
        assert decide(found, Limits()).status == "green"
        strict = decide(found, Limits(strict=True))
        assert (strict.status, strict.reasons) == ("regression", ("tasks lost",))

    @pytest.mark.slow
    def test_too_little_power_is_an_answer_of_its_own_where_power_is_required(self) -> None:
        found = pairs(*[(3, 3)] * 30)
        assert decide(found, Limits()).status == "green"
        assert decide(found, Limits(power=0.03)).status == "too little power"
        assert decide(found, Limits(power=0.5)).status == "green"
        blocked = decide(pairs(*[(4, 0)] * 30), Limits(power=0.03))
        assert blocked.status == "regression"

    def test_of_fewer_tasks_than_can_block_no_drop_is_named(self) -> None:
        found = decide(pairs(*[(4, 4)] * 4), Limits())
        assert found.smallest_drop is None
        assert decide(pairs(*[(4, 4)] * 4), Limits(power=0.9)).status == "too little power"

    def test_an_agent_that_hardly_passes_has_no_drop_to_be_seen(self) -> None:
        assert smallest_drop(pairs(*[(0, 0)] * 29, (1, 1)), ALPHA, MIN_DROP) is None

    def test_pass_hat_k_has_the_k_that_half_of_the_tasks_have(self) -> None:
        found = [pair(str(at), (n, n), (n - 1, n)) for at, n in enumerate((2, 4, 4, 8))]
        each = decide(found, Limits()).all_of_k
        assert each is not None
        assert each.k == 4
        assert (each.baseline.n, each.baseline.value) == (3, 1.0)
        assert each.candidate.value == pytest.approx((0 + 0 + 0.5) / 3)
        assert decide(pairs((1, 1), n=1), Limits()).all_of_k is None

    @pytest.mark.slow
    def test_an_interval_is_not_given_where_all_changed_alike(self) -> None:
        assert decide(pairs(*[(4, 3)] * 8), Limits()).change_bounds is None
        bounds = decide(pairs(*[(4, 3)] * 8, *[(4, 4)] * 8), Limits()).change_bounds
        assert bounds is not None
        assert bounds.low is not None
        assert bounds.high is not None
        assert bounds.low < -0.125 < bounds.high <= 0


class TestCost:
    @pytest.mark.slow
    def test_it_is_of_all_runs_per_one_that_passed(self) -> None:
        found = [pair(str(at), (2, 4), (4, 4), (4.0, 4.0)) for at in range(10)]
        spent = decide(found, Limits()).cost
        assert (spent.baseline.cost_usd, spent.candidate.cost_usd) == (2.0, 1.0)
        assert spent.rise == -0.5

    @pytest.mark.slow
    def test_a_rise_blocks_only_where_it_is_asked_for_and_its_interval_lies_above(self) -> None:
        clear = [pair(str(at), (4, 4), (4, 4), (1.0, 1.4 + at % 3 / 50)) for at in range(30)]
        assert decide(clear, Limits()).status == "green"
        assert decide(clear, Limits(max_cost_rise=0.2)).reasons == ("cost",)
        assert decide(clear, Limits(max_cost_rise=0.5)).status == "green"
        unclear = [pair(str(at), (4, 4), (4, 4), (1.0, 0.5 + at % 3)) for at in range(30)]
        found = decide(unclear, Limits(max_cost_rise=0.4))
        assert found.cost.rise == pytest.approx(0.5)
        assert found.status == "green"

    def test_an_unknown_cost_is_no_answer_where_cost_is_asked_for(self) -> None:
        found = [pair("a", (4, 4), (4, 4), (1.0, 1.0)), *pairs(*[(4, 4)] * 9)]
        assert decide(found, Limits()).status == "green"
        asked = decide(found, Limits(max_cost_rise=0.1))
        assert asked.status == "cost unknown"
        assert (asked.cost.rise, asked.cost.rise_bounds) == (None, None)

    def test_a_candidate_that_may_resolve_nothing_has_no_upper_bound(self) -> None:
        found = [pair("a", (4, 4), (1, 4), (1.0, 1.0)), pair("b", (4, 4), (0, 4), (1.0, 1.0))]
        spent = decide(found, Limits()).cost
        assert spent.candidate_bounds is not None
        assert spent.candidate_bounds.high is None


@pytest.mark.slow
class TestSimulation:
    """A small version of the bench; the docs have the large one."""

    @pytest.mark.parametrize("trials", [1, 4, 8])
    def test_false_blocks_stay_below_alpha_and_two_points(self, trials: int) -> None:
        cell = simulate(Setting(30, trials, 0.0), 300)
        assert cell.gate / cell.repeats <= ALPHA + 0.02

    def test_ten_points_are_seen_by_a_hundred_tasks_of_four_trials(self) -> None:
        cell = simulate(Setting(100, 4, 0.10, alike=0.0), 200)
        assert cell.gate / cell.repeats >= 0.90
        assert cell.mcnemar < cell.gate

    def test_the_smallest_drop_that_is_printed_is_blocked_about_as_often_as_stated(self) -> None:
        found = printed(30, 4, 200, sets=5)
        assert found.smallest is not None
        assert 0.65 <= found.blocked / found.repeats <= 0.92


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ((), r"Groups: commands, .*; with --full: .*fleet"),
        (("--full",), r"Groups: commands, .*fleet"),
        (("--counts",), "Groups: "),
    ],
)
def test_the_bench_starts_and_names_its_groups(
    words: tuple[str, ...], known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "no such row", *words])
    with pytest.raises(SystemExit, match=rf"no group has 'no such row' in its name\n{known}"):
        main()


def test_what_the_docs_print_keeps_what_the_gate_promises() -> None:
    found = shipped()
    by = {(each.tasks, each.trials, each.drop, each.alike): each for each in found.cells}
    for trials in (1, 4, 8):
        cell = by[30, trials, 0.0, 0.05]
        assert cell.gate / cell.repeats <= ALPHA + 0.02
    cell = by[100, 4, 0.10, 0.05]
    assert cell.gate / cell.repeats >= 0.90
    assert "| 100 × 4 | 10 points | **9" in tables(found)
