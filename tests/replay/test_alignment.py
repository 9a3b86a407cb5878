"""Two runs laid beside each other by what each step did, and where they part for good."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.action import Act, Action
from replay.alignment.pairs import BARE, SAME, ActionFingerprint, fingerprint, pairs, pieces, worth
from replay.alignment.rows import (
    LONG,
    Divergence,
    Doing,
    Row,
    Standing,
    agreed_tools,
    parting,
    rows,
)
from replay.compare.actions import compare
from replay.compare.rules import rules_from
from replay.redact.placeholders import masked_count
from replay.trace import Tool


def calls(*tools: str, **arguments: object) -> Action:
    return Action(calls=tuple(Act(tool=tool, arguments=arguments) for tool in tools))


def says(text: str) -> Action:
    return Action(text=text)


ACTIONS = st.sampled_from(
    [
        calls("read", path="a"),
        calls("read", path="b"),
        calls("write", path="a"),
        calls("read", "write", path="a"),
        calls("write", "read", path="a"),
        says("Done."),
        says("It is done now."),
        Action(cut="failed"),
    ]
)
RUNS = st.lists(ACTIONS, max_size=8)


def run(actions: Sequence[Action]) -> list[Doing]:
    return [Doing(step=step, action=action) for step, action in enumerate(actions)]


def beside(first: Sequence[Action], second: Sequence[Action]) -> list[Row]:
    return rows(run(first), run(second))


def steps(found: Sequence[Row]) -> list[tuple[int | None, int | None]]:
    return [
        (row.first.step if row.first else None, row.second.step if row.second else None)
        for row in found
    ]


def how(found: Sequence[Row]) -> Divergence:
    return parting(row.standing for row in found)


def distinct(number: int) -> list[Action]:
    return [calls("read", path=f"file {place}") for place in range(number)]


# --- which step answers to which


@given(RUNS)
def test_a_run_beside_itself_is_the_same_at_every_step(actions: list[Action]) -> None:
    found = beside(actions, actions)
    assert steps(found) == [(place, place) for place in range(len(actions))]
    assert how(found) == Divergence()


@given(RUNS, RUNS)
def test_every_step_stands_in_one_row_and_both_orders_are_kept(
    first: list[Action], second: list[Action]
) -> None:
    found = steps(beside(first, second))
    assert [a for a, _ in found if a is not None] == list(range(len(first)))
    assert [b for _, b in found if b is not None] == list(range(len(second)))
    assert (None, None) not in found


@given(RUNS, RUNS)
def test_it_is_the_same_whichever_run_is_named_first(
    first: list[Action], second: list[Action]
) -> None:
    one, other = beside(first, second), beside(second, first)
    assert {(b, a) for a, b in steps(one)} == set(steps(other))
    assert how(one) == how(other)


@given(st.lists(ACTIONS, min_size=2, max_size=12), st.data())
def test_one_step_done_again_shifts_nothing_else(
    actions: list[Action], data: st.DataObject
) -> None:
    whole = [each for each in actions if each.cut is None]
    whole.append(calls("submit"))
    at = data.draw(st.integers(0, len(whole) - 2)) if len(whole) > 1 else 0
    again = [*whole[: at + 1], *whole[at:]] if len(whole) > 1 else whole
    found = beside(whole, again)
    alone = [row for row in found if row.difference is None]
    assert len(alone) == len(again) - len(whole)
    assert all(row.standing == "together" for row in found if row not in alone)
    assert how(found).lasting is None


@given(RUNS, RUNS)
def test_the_pairs_are_worth_as_much_as_any(first: list[Action], second: list[Action]) -> None:
    mine, other = ([fingerprint(each, BARE) for each in run] for run in (first[:5], second[:5]))
    found = sum(worth(mine[row], other[column]) for row, column in pairs(mine, other))
    assert found == most(mine, other)


def most(mine: Sequence[ActionFingerprint], other: Sequence[ActionFingerprint]) -> int:
    """What the best pairs are worth, by trying all."""
    if not mine or not other:
        return 0
    return max(
        worth(mine[0], other[0]) + most(mine[1:], other[1:]),
        most(mine[1:], other),
        most(mine, other[1:]),
    )


@given(RUNS, RUNS, st.integers(1, 6))
def test_what_is_too_long_is_cut_into_pieces_that_cover_it_in_order(
    first: list[Action], second: list[Action], cells: int
) -> None:
    mine, other = ([fingerprint(each, BARE) for each in run] for run in (first, second))
    at = (0, 0)
    for piece in pieces(mine, other, cells):
        assert piece.first[0] >= at[0]
        assert piece.second[0] >= at[1]
        assert piece.equal or piece.cells <= cells
        if piece.equal:
            places = zip(range(*piece.first), range(*piece.second), strict=True)
            assert all(mine[row].key == other[column].key for row, column in places)
        at = piece.first[1], piece.second[1]
    assert at <= (len(mine), len(other))


@pytest.mark.slow
def test_a_long_run_is_cut_where_both_did_what_neither_did_twice() -> None:
    common = distinct(2000)
    mine = [each for action in common for each in (action, says("And on."))]
    other = [calls("list"), *(each for action in common for each in (action, calls("list")))]
    found = beside(mine, other)
    assert sum(row.standing == "together" for row in found) == len(common)


@pytest.mark.slow
def test_long_runs_that_never_did_the_same_are_laid_beside_each_other_all_the_same() -> None:
    found = beside(distinct(1500), [calls("write", path=str(place)) for place in range(1200)])
    assert len(found) >= 1500
    assert {row.standing for row in found} == {"apart"}


def test_other_arguments_of_the_same_tool_answer_to_each_other() -> None:
    first = [calls("search", q="blue kettle"), calls("read", path="a"), says("Done.")]
    second = [calls("read", path="b"), says("Done.")]
    assert steps(beside(first, second)) == [(0, None), (1, 0), (2, 1)]


def test_of_several_calls_of_a_tool_the_likest_answers() -> None:
    first = [calls("bash", command="ls src"), calls("bash", command="pytest -q tests/unit")]
    second = [calls("bash", command="pytest -q tests")]
    assert steps(beside(first, second)) == [(0, None), (1, 0)]


def test_parallel_calls_in_another_order_are_the_same_step() -> None:
    found = beside([calls("read", "list", path="a")], [calls("list", "read", path="a")])
    assert [row.standing for row in found] == ["together"]


def test_final_words_answer_to_each_other_however_they_are_put() -> None:
    found = beside(
        [calls("read", path="a"), says("It is 4.")],
        [calls("read", path="a"), calls("think"), says("The answer: four.")],
    )
    assert steps(found) == [(0, 0), (None, 1), (1, 2)]
    assert found[-1].standing == "open"


def test_sub_agents_stand_beside_sub_agents_however_their_steps_fell() -> None:
    main, sub = calls("ask"), calls("look", at="x")

    def mixed(*order: bool) -> list[Doing]:
        return [
            Doing(step=place, action=main if own else sub, main=own)
            for place, own in enumerate(order)
        ]

    found = rows(mixed(True, False, True, False), mixed(True, True, False, False))
    assert steps(found) == [(0, 0), (2, 1), (1, 2), (3, 3)]
    assert how(found) == Divergence()


@given(ACTIONS, ACTIONS)
def test_deeds_are_the_same_where_comparing_says_so(first: Action, second: Action) -> None:
    mine, other = fingerprint(first, BARE), fingerprint(second, BARE)
    same = compare(first, second).same
    assert (worth(mine, other) == SAME) is (same is True)
    assert worth(mine, other) == worth(other, mine)


def test_an_argument_left_out_is_its_default() -> None:
    tool = Tool(name="read", schema={"properties": {"lines": {"default": 10}}})
    first, second = [calls("read", lines=10)], [calls("read")]
    assert rows(run(first), run(second), [tool])[0].standing == "together"
    assert beside(first, second)[0].standing == "apart"


def test_rules_of_a_user_say_what_counts_in_both() -> None:
    first = [calls("bash", command="ls", why="I look."), says("Done.")]
    second = [calls("list"), calls("bash", command="ls", why="What is there?"), says("Done.")]
    ignored = rules_from(["bash.why=ignore"])
    assert how(rows(run(first), run(second))).first == 0
    found = rows(run(first), run(second), rules=ignored)
    assert [row.standing for row in found] == ["apart", "together", "together"]


def test_numbers_near_enough_are_together() -> None:
    first, second = [calls("pay", amount=10.0)], [calls("pay", amount=10.004)]
    found = rows(run(first), run(second), rules=rules_from(["pay.amount=tolerance:0.01"]))
    assert [row.standing for row in found] == ["together"]


def test_a_tool_declared_in_two_ways_gives_no_default() -> None:
    read, other = Tool(name="read"), Tool(name="read", description="Reads.")
    assert agreed_tools([read], [read]) == (read,)
    assert agreed_tools([read], [other]) == ()
    assert agreed_tools([read], [other], [read]) == ()


def test_a_masked_value_is_no_difference() -> None:
    masked = "[[SECRET:assigned:0123abcd]]"
    assert masked_count(masked)
    found = beside([calls("log_in", key=masked)], [calls("log_in", key="other")])
    assert [row.standing for row in found] == ["open"]


# --- where they part


SIGNS: dict[str, Standing] = {"=": "together", "x": "apart", "?": "open"}


def standings(signs: str) -> list[Standing]:
    return [SIGNS[each] for each in signs]


@pytest.mark.parametrize(
    ("signs", "found"),
    [
        ("", Divergence()),
        ("==", Divergence()),
        ("=x=", Divergence(first=1, again=1)),
        ("=x", Divergence(first=1, lasting=1)),
        ("=xx=", Divergence(first=1, lasting=1)),
        ("=xx==", Divergence(first=1, again=1)),
        ("x==xxx=", Divergence(first=0, lasting=3, again=1)),
        ("??", Divergence()),
        ("x?=", Divergence(first=0, again=1)),
        ("x" * 50 + "=" * (LONG - 1), Divergence(first=0, lasting=0)),
        ("x" * 50 + "=" * LONG, Divergence(first=0, again=1)),
        ("xx=xx", Divergence(first=0, lasting=0)),
    ],
)
def test_they_part_for_good_where_they_are_not_together_again_for_long(
    signs: str, found: Divergence
) -> None:
    assert parting(standings(signs)) == found


SIGNED = st.text(alphabet="=x?", max_size=30)


@given(SIGNED)
def test_a_lasting_divergence_is_a_row_apart_and_not_before_the_first(
    signs: str,
) -> None:
    found = parting(standings(signs))
    assert (found.first is None) is ("x" not in signs)
    if found.lasting is not None:
        assert found.first is not None
        assert signs[found.lasting] == "x"
        assert found.first <= found.lasting
        assert (found.again == 0) is (found.first == found.lasting)


@given(SIGNED, st.integers(0, 10))
def test_what_is_the_same_before_moves_the_divergence_by_as_many_rows(
    signs: str, before: int
) -> None:
    alone, later = parting(standings(signs)), parting(standings("=" * before + signs))
    assert later.lasting == (None if alone.lasting is None else alone.lasting + before)


@given(SIGNED)
def test_together_for_long_enough_at_the_end_is_together(signs: str) -> None:
    assert parting(standings(signs + "=" * LONG)).lasting is None


@given(SIGNED)
def test_where_nobody_can_tell_nothing_is_decided(signs: str) -> None:
    some, every = (parting(standings(each)) for each in (signs.replace("?", ""), signs))
    assert (some.lasting is None, some.again) == (every.lasting is None, every.again)


# --- the same calls in other steps


def test_calls_made_together_by_one_run_and_in_turn_by_the_other_are_the_same() -> None:
    both = [*calls("read", path="a").calls, *calls("list", path="b").calls]
    split = [calls("read", path="a"), calls("list", path="b"), says("Done.")]
    joined = [Action(calls=tuple(both)), says("Done.")]
    for found in (beside(split, joined), beside(joined, split)):
        assert [row.regrouped for row in found] == [True, True, False]
        assert how(found) == Divergence()


def test_calls_that_are_not_all_made_by_the_steps_beside_are_a_difference() -> None:
    both = [*calls("read", path="a").calls, *calls("list", path="b").calls]
    for other in (calls("list", path="c"), says("Now the other.")):
        found = beside([other, calls("read", path="a")], [Action(calls=tuple(both))])
        assert not any(row.regrouped for row in found)
        assert how(found).lasting is not None
