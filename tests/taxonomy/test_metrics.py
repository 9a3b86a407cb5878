"""Calls and plans against gold, goals and layers: known answers, edges, and what always holds."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.action import Act
from replay.compare.likeness import Counted
from replay.compare.rules import rules_from
from taxonomy.metrics import calls
from taxonomy.metrics.calls import (
    Overlap,
    look_at,
    plan_steps,
    plan_verdict,
    share,
    tool_calls,
    weighted,
)
from taxonomy.metrics.gold import Order
from tests.taxonomy.test_shapes import KNOWN

names = st.sampled_from("abc")
plans = st.lists(names, max_size=6)
edges = st.lists(st.tuples(st.integers(-1, 6), st.integers(-1, 6)), max_size=6)


def call(tool: str, **arguments: object) -> Act:
    return Act(tool=tool, arguments=arguments)


def counted(words: list[str]) -> list[Counted]:
    return [Counted(word) for word in words]


def chain(length: int) -> list[tuple[int, int]]:
    return [(at, at + 1) for at in range(length - 1)]


# --- tool-call F1


def test_five_copies_of_a_gold_call_are_one_right_and_four_wrong() -> None:
    """As a set, which is how the article's code counts, they would be perfect."""
    found = tool_calls([call("search", q="x")] * 5, [call("search", q="x")])
    assert (found.matched, found.made, found.gold) == (1, 5, 1)
    assert found.precision == pytest.approx(0.2)
    assert found.recall == 1
    assert found.f1 == pytest.approx(2 * 0.2 / 1.2)


def test_nothing_asked_and_nothing_made_is_perfect_and_one_empty_side_is_nothing() -> None:
    assert tool_calls([], []).f1 == 1
    assert tool_calls([call("a")], []).f1 == 0
    assert tool_calls([], [call("a")]).f1 == 0
    assert tool_calls([], []).precision is None
    assert tool_calls([], []).recall is None


def test_arguments_are_compared_as_replay_compares_them() -> None:
    gold = [call("pay", amount=1, to="alice")]
    assert tool_calls([Act(tool="pay", arguments={"to": "alice", "amount": 1.0})], gold).f1 == 1
    assert tool_calls([call("pay", amount=True, to="alice")], gold).f1 == 0
    assert tool_calls([call("pay", amount=1, to="Alice")], gold).f1 == 0
    assert tool_calls([call("refund", amount=1, to="alice")], gold).f1 == 0


def test_rules_give_arguments_a_tolerance() -> None:
    gold = [call("pay", amount=10.0, to="alice")]
    rules = rules_from(["pay.to=casefold", "pay.amount=tolerance:0.5"])
    assert tool_calls([call("pay", amount=10.4, to="Alice")], gold, rules).f1 == 1
    assert tool_calls([call("pay", amount=10.6, to="Alice")], gold, rules).f1 == 0


def test_a_tolerance_pairs_as_many_calls_as_can_be_paired() -> None:
    """1.0 is near both gold calls, 0.6 near one of them only."""
    gold = [call("pay", amount=0.7), call("pay", amount=1.3)]
    made = [call("pay", amount=1.0), call("pay", amount=0.6)]
    assert tool_calls(made, gold, rules_from(["pay.amount=tolerance:0.3"])).matched == 2


def test_a_call_without_arguments_is_one_with_none() -> None:
    assert tool_calls([Act(tool="now", arguments=None)], [call("now")]).f1 == 1
    broken = Act(tool="now", arguments=None, raw='{"a":')
    assert tool_calls([broken], [call("now")]).f1 == 0


@pytest.mark.parametrize(("order", "matched"), [("any", 3), ("sequence", 2), ("graph", 3)])
def test_the_order_decides_what_counts(order: Order, matched: int) -> None:
    """Both look-ups must come before the booking, in whichever order."""
    gold = [call("flight"), call("hotel"), call("book")]
    made = [call("hotel"), call("flight"), call("book")]
    found = tool_calls(made, gold, order=order, after=[(0, 2), (1, 2)])
    assert found.matched == matched


def test_a_call_before_what_it_depends_on_does_not_count_with_it() -> None:
    gold = [call("read"), call("write")]
    made = [call("write"), call("read")]
    assert tool_calls(made, gold, order="graph", after=[(0, 1)]).matched == 1
    assert tool_calls([*made, call("write")], gold, order="graph", after=[(0, 1)]).matched == 2


def test_of_calls_that_depend_on_each_other_in_a_circle_one_counts() -> None:
    calls = [call("a"), call("b")]
    assert tool_calls(calls, calls, order="graph", after=[(0, 1), (1, 0)]).matched == 1


# --- pairings


@given(plans, plans)
def test_a_graph_without_dependencies_is_any_order(made: list[str], gold: list[str]) -> None:
    free = calls.pairs(counted(made), counted(gold), "graph")
    assert len(free) == len(calls.pairs(counted(made), counted(gold), "any"))


@given(plans, plans)
def test_a_graph_that_is_a_chain_is_a_sequence(made: list[str], gold: list[str]) -> None:
    chained = calls.pairs(counted(made), counted(gold), "graph", chain(len(gold)))
    assert len(chained) == len(calls.pairs(counted(made), counted(gold), "sequence"))


@given(plans, plans)
def test_a_sequence_is_a_longest_common_subsequence(made: list[str], gold: list[str]) -> None:
    found = calls.pairs(counted(made), counted(gold), "sequence")
    assert [made[row] for row, _ in found] == [gold[column] for _, column in found]
    assert len(found) == max(
        size
        for size in range(len(made) + 1)
        for some in combinations(made, size)
        if some in set(combinations(gold, size))
    )


@given(st.lists(names, max_size=4), st.lists(names, max_size=4), edges)
def test_a_graph_finds_the_largest_pairing_that_keeps_the_dependencies(
    made: list[str], gold: list[str], after: list[tuple[int, int]]
) -> None:
    found = calls.pairs(counted(made), counted(gold), "graph", after)
    assert keeps(found, closed(after, len(gold)))
    assert len(found) == max(
        size
        for size in range(min(len(made), len(gold)) + 1)
        for rows in combinations(range(len(made)), size)
        for columns in permutations(range(len(gold)), size)
        if all(made[row] == gold[column] for row, column in zip(rows, columns, strict=True))
        and keeps(list(zip(rows, columns, strict=True)), closed(after, len(gold)))
    )


def closed(after: list[tuple[int, int]], size: int) -> set[tuple[int, int]]:
    """The dependencies with those that follow from them."""
    found = {(one, two) for one, two in after if 0 <= one < size and 0 <= two < size}
    for middle in range(size):
        found |= {(a, d) for a, b in found for c, d in found if b == c == middle}
    return found


def keeps(pairs: list[tuple[int, int]], dependencies: set[tuple[int, int]]) -> bool:
    at = {column: row for row, column in pairs}
    return all(
        at[one] < at[two] for one, two in dependencies if one != two and one in at and two in at
    )


@given(plans, plans, st.sampled_from(["any", "sequence", "graph"]), edges)
def test_no_entry_is_paired_twice(
    made: list[str], gold: list[str], order: Order, after: list[tuple[int, int]]
) -> None:
    found = calls.pairs(counted(made), counted(gold), order, after)
    assert len({row for row, _ in found}) == len({column for _, column in found}) == len(found)
    assert all(made[row] == gold[column] for row, column in found)


def test_twenty_free_calls_in_reverse_are_paired_at_once() -> None:
    words = [f"call {at}" for at in range(20)]
    found = calls.pairs(counted(words[::-1]), counted(words), "graph", [(0, 1)])
    assert len(found) == 19


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_f1_is_the_harmonic_mean_and_stays_between_its_parts(m: int, more: int, rest: int) -> None:
    found = Overlap(matched=m, made=m + more, gold=m + rest)
    if found.precision and found.recall:
        mean = 2 / (1 / found.precision + 1 / found.recall)
        assert found.f1 == pytest.approx(mean)
        low, high = sorted([found.precision, found.recall])
        assert low - 1e-9 <= found.f1 <= high + 1e-9
    assert 0 <= found.f1 <= 1


# --- plans, shares, goals, layers


def test_a_plan_is_judged_in_its_order_by_its_words() -> None:
    gold = ["Read the order", "check the policy", "refund"]
    assert plan_steps(["read  the order", "Check the policy", "Refund"], gold).f1 == 1
    swapped = plan_steps(["refund", "read the order", "check the policy"], gold)
    assert swapped.recall == pytest.approx(2 / 3)
    assert plan_steps(["refund", "read the order", "check the policy"], gold, "any").recall == 1


def test_plan_and_execution_are_told_apart() -> None:
    assert plan_verdict(planned=True, executed=False) == "right plan, wrong execution"
    assert plan_verdict(planned=False, executed=True) == "wrong plan, carried out"
    assert plan_verdict(planned=True, executed=True) == "right plan, carried out"
    assert plan_verdict(planned=False, executed=False) == "wrong plan, wrong execution"
    assert plan_verdict(planned=None, executed=True) is None


def test_a_share_counts_what_is_decided_and_says_what_is_not() -> None:
    found = share([True, False, None, True])
    assert (found.rate.value, found.rate.n, found.unknown) == (2 / 3, 3, 1)
    assert share([]).rate.value is None


WEIGHTS = [3, 2, 3, 2, 1, 1, 1]
GOALS = [0.30, 0.85, 0.80, 0.88, 0.82, 0.90, 0.91]


def test_the_article_s_weighted_example_is_722_by_its_own_formula_and_not_64() -> None:
    assert sum(GOALS) / len(GOALS) == pytest.approx(0.78, abs=5e-3)
    assert weighted(GOALS, WEIGHTS) == pytest.approx(0.722, abs=1e-3)
    assert weighted(GOALS, WEIGHTS) != pytest.approx(0.64, abs=0.05)


def test_the_article_s_four_rows_average_what_they_average_and_not_074() -> None:
    means = [weighted(scores, [1] * 10) for scores, _ in KNOWN.values()]
    assert means == pytest.approx([0.683, 0.700, 0.700, 0.760])


def test_a_goal_without_a_score_takes_its_weight_with_it() -> None:
    assert weighted([None, 0.5], [3, 1]) == 0.5
    assert weighted([0.2], []) is None
    assert weighted([], []) is None
    assert weighted([0.2], [0]) is None


@given(st.lists(st.none() | st.floats()), st.lists(st.floats()))
def test_any_goals_have_a_weighted_mean_or_none(
    scores: list[float | None], weights: list[float]
) -> None:
    bounded = [None if each is None else max(0.0, min(1.0, each)) for each in scores]
    found = weighted(bounded, [each for each in weights if abs(each) < 1e100])
    assert found is None or -1e-9 <= found <= 1 + 1e-9


def test_the_layer_that_gave_way_says_where_to_look() -> None:
    assert look_at(tool_calls=True, trajectory=True, outcome=False) == "environment or verifier"
    assert look_at(tool_calls=True, trajectory=False, outcome=False) == "plan drift or context"
    edited = look_at(tool_calls=False, trajectory=False, outcome=False, descriptions_edited=True)
    assert edited == "the edit of the tool descriptions"
    assert look_at(tool_calls=None, trajectory=None, outcome=False) is None
    assert look_at(tool_calls=True, trajectory=True, outcome=True) is None
