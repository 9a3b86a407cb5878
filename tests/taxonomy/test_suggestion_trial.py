"""Which suggested edit is called a fix: halves by task, Holm on one, one look at the other."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.statistics import ALPHA, fisher
from taxonomy.suggestions.trial import Score, Tried, halves, holding, score
from tests.bench.suggest import WITH, WITHOUT, Agent, is_called_fix

GONE, STAYS, RARE = (5, 5, 0, 5), (5, 5, 5, 5), (0, 5, 0, 5)


def scored(*tried: tuple[str, tuple[int, int, int, int]]) -> Score:
    return score(Tried(task, arms) for task, arms in tried)


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.integers(1, 9), min_size=2, max_size=30))
def test_a_task_is_in_one_half_and_both_have_about_as_many_runs(runs: dict[str, int]) -> None:
    made = halves(runs)
    assert made.compared | made.held_back == set(runs)
    assert not made.compared & made.held_back
    assert made.compared
    assert made.held_back
    sizes = [sum(runs[task] for task in half) for half in made]
    assert abs(sizes[0] - sizes[1]) <= max(runs.values())
    assert made == halves(dict(reversed(runs.items())))
    assert all(made.is_held_back(task) == (task in made.held_back) for task in runs)


def test_of_one_task_nothing_is_held_back_nor_any_healthy_run() -> None:
    made = halves({"refund": 7})
    assert made.compared == {"refund"}
    assert not made.held_back
    assert not any(made.is_held_back(f"task {number}") for number in range(50))


def test_tasks_without_failures_are_dealt_to_both_halves() -> None:
    made = halves({"one": 1, "two": 1})
    dealt = [made.is_held_back(f"task {number}") for number in range(100)]
    assert 30 < sum(dealt) < 70


def test_two_tasks_fixed_are_a_fix_and_one_is_not() -> None:
    assert scored(("a", GONE), ("b", GONE)).is_fix
    one = scored(("a", GONE), ("a", GONE))
    assert (one.tasks, one.is_fix) == (1, False)
    assert one.p <= ALPHA


def test_most_tasks_must_be_fixed_however_small_the_p() -> None:
    """One task that the wording moved is no fix."""
    half = scored(("a", GONE), ("b", STAYS))
    assert (half.rarer, half.p <= ALPHA) == (True, True)
    assert (half.halved, half.tasks, half.is_fix) == (1, 2, False)
    assert scored(("a", GONE), ("b", GONE), ("c", STAYS)).is_fix


def test_a_failure_is_halved_in_a_task_by_all_of_its_runs() -> None:
    assert scored(("a", GONE), ("a", STAYS)).halved == 0
    assert scored(("a", GONE), ("a", (5, 5, 4, 5))).halved == 1
    part = scored(("a", (5, 5, 2, 5)), ("b", (5, 5, 2, 5)), ("c", (5, 5, 2, 5)))
    assert (part.fixed.hits, part.halved, part.is_fix) == (0, 3, True)


def test_more_failures_are_no_fix() -> None:
    worse = scored(("a", (3, 5, 5, 5)), ("b", (3, 5, 5, 5)))
    assert not worse.rarer
    assert not worse.is_fix


def test_breaks_that_control_does_not_show_say_nothing() -> None:
    silent = scored(("a", RARE), ("b", RARE))
    assert (silent.fixed.rate.n, silent.tasks, silent.by_chance, silent.is_fix) == (0, 0, 0, False)
    assert not scored(("a", STAYS), ("b", RARE)).is_fix
    assert scored().p == 1.0


def test_a_count_has_beside_it_what_chance_alone_gives() -> None:
    found = scored(("a", GONE), ("b", GONE))
    assert found.fixed.hits == 2
    assert 0 < found.by_chance < 0.1
    assert found.p < fisher(*GONE)


def test_edits_compared_together_pay_for_their_number() -> None:
    """A difference that holds alone does not beside nine that show none."""
    alone = scored(("a", (5, 5, 1, 5)), ("b", (5, 5, 4, 5)))
    assert 0.005 < alone.p <= ALPHA
    none = scored(("a", STAYS), ("b", STAYS))
    assert holding([alone]) == [0]
    assert holding([alone, *[none] * 9]) == []


def test_the_edit_that_leaves_fewer_failures_goes_first_then_the_earlier() -> None:
    most = scored(("a", GONE), ("b", GONE))
    half = scored(("a", GONE), ("b", STAYS))
    assert holding([half, most, most]) == [1, 2, 0]
    assert holding([]) == []


# --- simulated agents


def share_called_fix(agent: Agent, tries: int) -> float:
    chance = random.Random(agent.name)
    return sum(is_called_fix(agent, chance) for _ in range(tries)) / tries


@pytest.mark.slow
@pytest.mark.parametrize("agent", WITHOUT, ids=lambda agent: agent.name)
def test_where_no_edit_helps_one_is_rarely_called_a_fix(agent: Agent) -> None:
    assert share_called_fix(agent, 200) <= ALPHA


@pytest.mark.slow
def test_an_edit_that_takes_the_failure_away_is_found_and_half_of_one_less_often() -> None:
    power = {
        (agent.tasks, agent.fixes, agent.left): share_called_fix(agent, 100)
        for agent in WITH
        if agent.tasks == 12
    }
    assert power[12, 1.0, 0.0] > 0.95
    assert power[12, 1.0, 0.3] > 0.85
    assert power[12, 0.5, 0.3] < power[12, 0.75, 0.3] < power[12, 1.0, 0.3]
