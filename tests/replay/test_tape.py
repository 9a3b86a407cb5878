"""The tape: which recorded observation answers a call, and at which moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay import kept as kept_replays
from replay.action import Act, Action
from replay.compare.actions import compare
from replay.compare.rules import PathRule, Rules
from replay.effects import ToolEffect
from replay.errors import BadEdit
from replay.free.recorded import Identities, moments
from replay.free.recorded_results import (
    BARE,
    Found,
    RecordedResults,
    Stub,
    Terms,
    draft,
    nearest,
    stubs_from_file,
    stubs_from_toml,
    stubs_to_toml,
)
from replay.kept import remove, stubs_of_trace
from replay.store.handle import Store
from replay.trace import Tool
from tests.build import NOTHING, call, error, step, tool, trace
from tests.messages_api import tool_use
from tests.replay.locked_case import spans, stored

BANK = (tool("get_balance"), tool("withdraw", amount={}), tool("get_rates", day={}))
NAMES = {each.name for each in BANK}
READ_40 = call("get_balance", "40")
READ_30 = call("get_balance", "30")
WITHDRAWN = call("withdraw", "gone", amount=10)

balance = Act(tool="get_balance", arguments={})


READING = Terms(effects={"get_balance": "read", "get_rates": "read"})
"""Said by the user, so that nothing is guessed."""


def withdraw(amount: Any = 10) -> Act:
    return Act(tool="withdraw", arguments={"amount": amount})


def tape_of(
    *parts: Any, terms: Terms = BARE, tools: tuple[Tool, ...] = BANK, **more: Any
) -> RecordedResults:
    made = trace(parts, tools=tools)
    return RecordedResults(made, made.steps[0].thread, terms, **more)


def play(tape: RecordedResults, *turns: list[Act]) -> list[list[Found]]:
    """What the calls of turns one after another get, from the beginning."""
    head, found = tape.at(0), []
    for calls in turns:
        found.append(list(tape.find(head, calls, NAMES)))
        head = tape.after(head, calls)
    return found


def ranks(tape: RecordedResults, *turns: list[Act]) -> list[tuple[str, str | None]]:
    return [(each.rank, each.text) for turn in play(tape, *turns) for each in turn]


# --- the moment of a call


def test_a_balance_is_that_of_its_moment_and_never_that_of_another() -> None:
    tape = tape_of(step(READ_40), step(WITHDRAWN), step(READ_30), "Done.")
    assert ranks(tape, [balance], [withdraw()], [balance]) == [
        ("exact", "40"), ("exact", "gone"), ("exact", "30"),
    ]  # fmt: skip
    assert ranks(tape, [withdraw()], [balance]) == [("guessed", "gone"), ("guessed", "30")]
    [[_], [other], [after]] = play(tape, [balance], [withdraw(20)], [balance])
    assert (other.rank, other.why) == ("miss", "never recorded with these arguments")
    assert (after.rank, after.text) == ("stale", None)


def test_a_read_before_the_recorded_write_is_stale_after_it() -> None:
    tape = tape_of(step(WITHDRAWN), step(READ_30), "Done.")
    [[early]] = play(tape, [balance])
    assert (early.rank, early.text) == ("stale", None)
    assert early.why == ("stale, recorded only after different writes")


def test_a_stale_read_is_served_where_allowed_from_a_state_the_run_was_in() -> None:
    parts = (step(READ_40), step(WITHDRAWN), step(READ_30), step(WITHDRAWN), "Done.")
    tape = tape_of(*parts, terms=Terms(allow_stale=True))
    assert ranks(tape, [balance], [withdraw(99)], [balance])[-1] == ("stale", "40")
    assert ranks(tape, [withdraw()], [withdraw(99)], [balance])[-1] == ("stale", "30")


def test_a_write_is_never_served_from_another_moment_nor_twice() -> None:
    tape = tape_of(step(READ_40), step(WITHDRAWN), "Done.", terms=Terms(allow_stale=True))
    [_, [second]] = play(tape, [withdraw()], [withdraw()])
    assert (second.rank, second.why) == (
        "miss",
        "the call may write and was recorded only after different writes",
    )
    [[first, twin]] = play(tape, [withdraw(), withdraw()])
    assert [first.rank, twin.rank] == ["miss", "miss"]


def test_what_nobody_knows_counts_as_a_write() -> None:
    tape = tape_of(
        step(READ_40), step(call("frobnicate", "x")), step(READ_30), "Done.",
        tools=(*BANK, tool("frobnicate")),
    )  # fmt: skip
    assert ranks(tape, [balance])[-1] == ("exact", "40")
    assert ranks(tape, [balance], [balance]) == [("exact", "40"), ("reused", "40")]
    harmless = tape_of(
        step(READ_40), step(call("frobnicate", "x")), step(READ_30), "Done.",
        tools=(*BANK, tool("frobnicate")), terms=Terms(effects={"frobnicate": "read"}),
    )  # fmt: skip
    assert ranks(harmless, [balance], [balance]) == [("exact", "40"), ("exact", "30")]


WRITERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("query", {"sql": "UPDATE accounts SET balance = 30"}),
    ("execute_query", {"query": "call spend(10)"}),
    ("fetch", {"url": "http://bank.example/spend", "method": "POST"}),
    ("search_replace", {"search": "40", "replace": "30"}),
    ("list_add", {"item": 10}),
    ("check_in", {"guest": 7}),
    ("open_ticket", {"about": "balance"}),
    ("TodoWrite", {"todos": []}),
    ("user_delete", {"id": 7}),
    ("bash", {"command": "echo 30 > balance"}),
)


@pytest.mark.parametrize(("name", "arguments"), WRITERS, ids=[name for name, _ in WRITERS])
def test_what_could_write_is_never_taken_for_a_read(name: str, arguments: dict[str, Any]) -> None:
    """The run does not make the write: the balance after it is not what it would have seen."""
    tape = tape_of(
        step(READ_40), step(call(name, "ok", **arguments)), step(READ_30), "Done.",
        tools=(*BANK, tool(name)),
    )  # fmt: skip
    assert ranks(tape, [balance], [balance]) == [("exact", "40"), ("reused", "40")]
    [_, [again]] = play(tape, [balance], [balance])
    assert again.guesses == ("get_balance",)


READERS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("Read", {"file_path": "a"}, "exact"),
    ("Grep", {"pattern": "a"}, "exact"),
    ("bash", {"command": "ls | wc -l"}, "exact"),
    ("query", {"sql": "SELECT 1"}, "exact"),
    ("get_order", {"id": 7}, "guessed"),
    ("search_orders", {"query": "7"}, "guessed"),
    ("list_orders", {}, "guessed"),
)


@pytest.mark.parametrize(("name", "arguments", "rank"), READERS, ids=[each[0] for each in READERS])
def test_what_reads_is_served_at_once_and_what_follows_it_too(
    name: str, arguments: dict[str, Any], rank: str
) -> None:
    """Asked in another order than recorded: exact where all is known, guessed where it is not."""
    tape = tape_of(
        step(call(name, "looked", **arguments)), step(READ_40), step(WITHDRAWN), "Done.",
        tools=(*BANK, tool(name)), terms=READING,
    )  # fmt: skip
    look = Act(tool=name, arguments=arguments)
    head = tape.at(0)
    [first] = tape.find(head, [balance], NAMES | {name})
    [second] = tape.find(tape.after(head, [balance]), [look], NAMES | {name})
    assert (first.text, second.text) == ("40", "looked")
    assert (first.rank, second.rank) == (rank, "exact")
    assert first.guesses == (() if rank == "exact" else (name,))


# --- repeats


def test_the_second_of_two_equal_reads_gets_the_second_observation_and_a_third_the_last() -> None:
    tape = tape_of(step(call("get_balance", error("try again"))), step(READ_40), "Done.")
    [[first], [second], [third]] = play(tape, [balance], [balance], [balance])
    assert [(each.rank, each.text, each.is_error) for each in (first, second, third)] == [
        ("exact", "try again", True), ("exact", "40", False), ("reused", "40", False),
    ]  # fmt: skip


def test_equal_calls_of_one_turn_get_their_observations_in_order() -> None:
    tape = tape_of(step(READ_40, READ_30), "Done.", terms=READING)
    assert ranks(tape, [balance, balance, balance]) == [
        ("exact", "40"), ("exact", "30"), ("reused", "30"),
    ]  # fmt: skip


def test_from_a_later_start_what_came_before_counts_as_made() -> None:
    tape = tape_of(step(READ_40), step(READ_30), step(WITHDRAWN), step(call("get_balance", "20")))
    [found] = tape.find(tape.at(1), [balance], NAMES)
    assert found.text == "30"
    [found] = tape.find(tape.at(3), [balance], NAMES)
    assert (found.rank, found.text) == ("exact", "20")
    [found] = tape.find(tape.at(4), [balance], NAMES)
    assert (found.rank, found.text) == ("reused", "20")


# --- parallel calls


def test_a_read_beside_a_write_answers_only_the_same_turn() -> None:
    beside = tape_of(step(WITHDRAWN, READ_30), "Done.")
    assert ranks(beside, [withdraw(), balance]) == [("exact", "gone"), ("exact", "30")]
    for turns in ([[balance, withdraw()]], [[balance]], [[withdraw()], [balance]]):
        found = [each for turn in play(beside, *turns) for each in turn if each.call == balance]
        assert [each.rank for each in found] == ["stale"]


def test_reads_of_one_turn_answer_reads_of_several_and_the_other_way_round() -> None:
    rates = call("get_rates", "1.2", day=1)
    together = tape_of(step(READ_40, rates), "Done.", terms=READING)
    apart = tape_of(step(READ_40), step(rates), "Done.", terms=READING)
    ask = Act(tool="get_rates", arguments={"day": 1})
    assert ranks(together, [ask], [balance]) == [("exact", "1.2"), ("exact", "40")]
    assert ranks(apart, [ask, balance]) == [("exact", "1.2"), ("exact", "40")]


def test_the_same_writes_lead_to_the_same_moment_however_they_were_spread_over_turns() -> None:
    tape = tape_of(step(WITHDRAWN), step(call("withdraw", "ok", amount=5)), step(READ_30))
    stubbed = tape_of(
        step(WITHDRAWN), step(call("withdraw", "ok", amount=5)), step(READ_30),
        terms=Terms(stubs=tuple(
            Stub(tool="withdraw", arguments={"amount": each}, result="s") for each in (10, 5)
        )),
    )  # fmt: skip
    assert ranks(tape, [withdraw(10)], [withdraw(5)], [balance])[-1] == ("exact", "30")
    assert ranks(stubbed, [withdraw(10), withdraw(5)], [balance]) == [
        ("stub", "s"), ("stub", "s"), ("exact", "30"),
    ]  # fmt: skip
    assert ranks(stubbed, [withdraw(5), withdraw(10)], [balance])[-1] == ("stale", None)


@given(st.lists(st.sampled_from([None, "a", "b"]), max_size=5))
def test_only_writes_beside_a_call_give_it_a_moment_of_its_own(writes: list[str | None]) -> None:
    found = moments("epoch", writes)
    for at, moment in enumerate(found):
        others = [each for place, each in enumerate(writes) if place != at and each is not None]
        assert (moment == "epoch") is (not others)


Turn = list[tuple[str, int]]
TURNS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["get_balance", "withdraw", "get_rates"]), st.integers(0, 1)),
        min_size=1, max_size=3,
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@given(TURNS, TURNS)
def test_nothing_recorded_answers_a_call_unless_the_same_writes_came_before(
    was: list[Turn], now: list[Turn]
) -> None:
    """Every observation names the writes before it; one that is served names those of the run."""
    written: list[tuple[str, int]] = []
    parts = []
    for turn in was:
        seen = repr(written)
        parts.append(step(*(call(name, seen, x=x) for name, x in turn)))
        written += [each for each in turn if each[0] == "withdraw"]
    tape = tape_of(*parts, tools=tuple(tool(name, x={}) for name in sorted(NAMES)))
    head = tape.at(0)
    made: Turn = []
    for turn in now:
        calls = [Act(tool=name, arguments={"x": x}) for name, x in turn]
        for found in tape.find(head, calls, NAMES):
            assert found.text is None or found.rank in {"exact", "guessed", "reused"}
            assert found.text in (None, repr(made))
        head = tape.after(head, calls)
        made += [each for each in turn if each[0] == "withdraw"]


@given(TURNS, TURNS)
def test_what_is_exact_is_so_though_every_guess_be_wrong(was: list[Turn], now: list[Turn]) -> None:
    """In this world the reads that are only guessed write, `get_rates` does not, as it says. Every
    observation names the writes before it."""
    rates = Tool(name="get_rates", extra={"annotations": {"readOnlyHint": True}})
    written: list[tuple[str, int]] = []
    parts = []
    for turn in was:
        parts.append(step(*(call(name, repr(written), x=x) for name, x in turn)))
        written += [each for each in turn if each[0] != "get_rates"]
    tape = tape_of(*parts, tools=(*(each for each in BANK if each.name != "get_rates"), rates))
    head = tape.at(0)
    made: Turn = []
    for turn in now:
        calls = [Act(tool=name, arguments={"x": x}) for name, x in turn]
        for found in tape.find(head, calls, NAMES):
            if found.text is not None and not found.guesses:
                assert found.text == repr(made)
            assert (found.rank == "exact") is (found.text is not None and not found.guesses) or (
                found.rank == "reused"
            )
        head = tape.after(head, calls)
        made += [each for each in turn if each[0] != "get_rates"]


@given(TURNS)
def test_the_recorded_calls_in_their_turns_get_exactly_what_they_got(was: list[Turn]) -> None:
    count = 0
    parts = []
    for turn in was:
        made = []
        for name, x in turn:
            made.append(call(name, str(count), x=x))
            count += 1
        parts.append(step(*made))
    tape = tape_of(*parts, tools=tuple(tool(name, x={}) for name in sorted(NAMES)))
    again = [[Act(tool=name, arguments={"x": x}) for name, x in turn] for turn in was]
    assert ranks(tape, *again) == [("exact", str(at)) for at in range(count)]
    for at, calls in enumerate(again):
        assert all(found.rank == "exact" for found in tape.along(at, calls, NAMES))


# --- which calls are the same


def test_arguments_are_the_same_as_json_and_through_the_defaults_of_the_schema() -> None:
    schema = {"type": "object", "properties": {"n": {}, "order": {"default": "asc"}}}
    tools = (Tool(name="list_rows", schema=schema), *BANK)
    tape = tape_of(step(call("list_rows", "rows", n=1)), "Done.", tools=tools)
    same: list[Any] = [{"n": 1.0}, {"order": "asc", "n": 1}]
    other: list[Any] = [{"n": True}, {"order": "desc", "n": 1}, {"n": "1"}]
    for rank, listed in (("exact", same), ("miss", other)):
        for arguments in listed:
            asked = Act(tool="list_rows", arguments=arguments)
            assert [f.rank for f in tape.find(tape.at(0), [asked], {"list_rows"})] == [rank]


ARGUMENTS = st.dictionaries(
    st.sampled_from(["amount", "note", "order"]),
    st.sampled_from([1, 1.0, 1.5, 2, True, "a", "A", "asc", None, [1, 2], [2, 1]]),
)
RULES = st.sampled_from(
    [
        Rules(),
        Rules((PathRule(tool="withdraw", path="amount", how="tolerance", value="0.5"),)),
        Rules((PathRule(tool="*", path="note", how="ignore"),)),
        Rules((PathRule(tool="withdraw", path="note", how="casefold"),)),
    ]
)


@given(ARGUMENTS, ARGUMENTS, RULES)
def test_two_calls_are_one_here_when_a_comparison_holds_them_for_the_same(
    first: dict[str, Any], second: dict[str, Any], rules: Rules
) -> None:
    schema = {"type": "object", "properties": {"order": {"default": "asc"}}}
    tools = {"withdraw": Tool(name="withdraw", schema=schema)}
    ours, theirs = (Act(tool="withdraw", arguments=each) for each in (first, second))
    known = Identities(tools, rules)
    same = compare(Action(calls=(ours,)), Action(calls=(theirs,)), tools.values(), rules).same
    assert (known.learn(ours) == known.of(theirs)) is (same is True)


def test_what_the_user_says_does_not_count_does_not_count_here_either() -> None:
    rules = Rules((PathRule(tool="withdraw", path="note", how="ignore"),))
    said = call("withdraw", "gone", amount=10, note="rent")
    parts = (step(said), step(READ_30), "Done.")
    other = Act(tool="withdraw", arguments={"amount": 10, "note": "food"})
    assert ranks(tape_of(*parts), [other])[0][0] == "miss"
    loose = tape_of(*parts, rules=rules)
    assert ranks(loose, [other], [balance]) == [("exact", "gone"), ("exact", "30")]


def test_a_tool_that_is_not_offered_is_answered_only_as_in_the_recording() -> None:
    tape = tape_of(step(READ_40, call("magic", error("no such tool"))), "Done.")
    magic = Act(tool="magic", arguments={})
    [gone] = tape.find(tape.at(0), [balance], NAMES - {"get_balance"})
    assert (gone.rank, gone.why) == ("miss", "tool not offered")
    [first, as_recorded] = tape.find(tape.at(0), [balance, magic], NAMES)
    assert (as_recorded.rank, as_recorded.text) == ("exact", "no such tool")
    [on_road] = tape.along(0, [balance], NAMES - {"get_balance"})
    assert (on_road.rank, on_road.why) == ("miss", "tool not offered")
    assert (first.rank, first.text) == ("exact", "40")


def test_a_call_whose_result_was_not_recorded_says_so() -> None:
    tape = tape_of(step(call("get_balance", NOTHING)), "Done.")
    [[found]] = play(tape, [balance])
    assert (found.rank, found.why) == ("miss", "result not recorded")
    stub = Stub(tool="get_balance", arguments={}, result="41")
    stubbed = tape_of(step(call("get_balance", NOTHING)), "Done.", terms=Terms(stubs=(stub,)))
    assert ranks(stubbed, [balance]) == [("stub", "41")]


def test_an_observation_the_user_edited_is_served_as_edited() -> None:
    tape = tape_of(step(READ_40), "Done.", replaced={(0, 0): ("0", True)})
    [[found]] = play(tape, [balance])
    assert (found.rank, found.text, found.is_error) == ("edited", "0", True)
    kept = tape_of(step(call("get_balance", error("x"))), replaced={(0, 0): ("0", None)})
    assert play(kept, [balance])[0][0].is_error is True


# --- other threads


ORDER = Act(tool="get_order", arguments={"order_id": 7})


def with_helper(parent: str | None, act: str) -> RecordedResults:
    """An order is read, a helper asked, the order read again; the helper acts in between."""
    order = tool_use("get_order", order_id=7)
    said = (
        ("user", "Go."),
        ("assistant", [order]), ("result", "before"),
        ("assistant", [tool_use("get_advice")]), ("result", "advice"),
        ("assistant", [order]), ("result", "after"),
        ("assistant", "Done."),
    )  # fmt: skip
    helping = (
        ("user", "Help."), ("assistant", [tool_use(act, order_id=7)]), ("result", "x"),
        ("assistant", "Helped."),
    )  # fmt: skip
    main = spans(said)
    at = next(place for place, span in enumerate(main) if span.name == "get_advice")
    helper = spans(helping, root="helper", parent=parent or main[at].id)
    with Store.open(":memory:") as store:
        made = stored(store, [*main[: at + 1], *helper, *main[at + 1 :]])
    return RecordedResults(made, "root")


def read_again(tape: RecordedResults) -> str:
    """How the order is answered that is read after the helper was asked."""
    order, advice = (
        Act(tool="get_order", arguments={"order_id": 7}),
        Act(tool="get_advice", arguments={}),
    )
    head = tape.after(tape.after(tape.at(0), [order]), [advice])
    [found] = tape.find(head, [order], {"get_order"})
    return f"{found.rank} {found.text}"


def test_a_call_whose_sub_agent_writes_is_a_write() -> None:
    reading = with_helper(None, "get_order")
    assert reading.effects.of("get_advice") == ToolEffect("read", "guessed")
    assert read_again(reading) == "exact after"
    writing = with_helper(None, "refund_order")
    assert writing.effects.of("get_advice") == ToolEffect("write", "annotated")
    assert read_again(writing) == "exact after"
    [skipped] = writing.find(writing.after(writing.at(0), [ORDER]), [ORDER], {"get_order"})
    assert (skipped.rank, skipped.text) == ("reused", "before")


def test_what_another_thread_wrote_is_not_taken_for_granted() -> None:
    assert read_again(with_helper("root", "get_order")) == "guessed after"
    assert read_again(with_helper("root", "refund_order")) == "reused before"
    tape = with_helper("root", "refund_order")
    step_of_the_second = max(each.step for each in tape.recorded)
    [found] = tape.find(tape.at(step_of_the_second), [ORDER], {"get_order"})
    assert (found.rank, found.text) == ("exact", "after")


# --- the nearest calls, and stubs


def test_the_nearest_calls_are_of_the_same_tool_with_the_fewest_differences() -> None:
    tape = tape_of(
        step(call("get_rates", "1.0", day=1, place="a")),
        step(call("get_rates", "2.0", day=2, place="b")),
        step(call("get_rates", error("no such day"), day=3, place="b")),
        step(READ_40),
        "Done.",
    )
    asked = Act(tool="get_rates", arguments={"day": 9, "place": "b"})
    near = nearest(asked, tape.recorded, tape.tools)
    assert [each.recorded.text for each in near] == ["no such day", "2.0", "1.0"]
    assert near[0].phrase == "get_rates day: 3 → 9"
    assert draft(asked, near) == Stub(
        tool="get_rates", arguments={"day": 9, "place": "b"}, result="no such day", is_error=True
    )
    assert nearest(asked, tape.recorded, tape.tools, n=4)[-1].recorded.text == "40"


def test_a_call_of_a_tool_never_recorded_is_drafted_empty() -> None:
    tape = tape_of(step(READ_40), "Done.")
    asked = Act(tool="fetch_balance", arguments={"day": 9})
    near = nearest(asked, tape.recorded, tape.tools)
    assert [each.recorded.call for each in near] == [balance]
    assert draft(asked, near) == Stub(tool="fetch_balance", arguments={"day": 9}, result="")


def test_a_stub_answers_where_the_tape_has_nothing_exact_and_the_last_of_two_counts() -> None:
    stubs = tuple(Stub(tool="get_balance", arguments={}, result=said) for said in ("1", "2"))
    tape = tape_of(step(READ_40), "Done.", terms=Terms(stubs=stubs))
    assert ranks(tape, [balance], [withdraw(9)])[0] == ("exact", "40")
    [_, [found]] = play(tape, [withdraw(9)], [balance])
    assert (found.rank, found.text, found.stub) == ("stub", "2", stubs[1].digest)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
STUBS = st.builds(
    Stub,
    tool=st.text(min_size=1, max_size=8),
    arguments=st.dictionaries(st.text(max_size=4), JSON, max_size=3),
    result=st.text(max_size=20),
    is_error=st.booleans(),
)


@given(STUBS)
def test_a_stub_written_to_a_file_is_read_back(stub: Stub) -> None:
    assert stubs_from_toml(stubs_to_toml([stub]), "f.toml") == (stub,)


def test_stubs_of_a_file_may_hold_any_text_and_leave_arguments_out(tmp_path: Path) -> None:
    file = tmp_path / "stubs.toml"
    file.write_text(
        """
[[stub]]
tool = "get_balance"
result = \'{"balance": 41}\'

[[stub]]
tool = "withdraw"
arguments = { amount = 20 }
result = "not enough"
is_error = true
"""
    )
    assert stubs_from_file(file) == (
        Stub(tool="get_balance", arguments={}, result='{"balance": 41}'),
        Stub(tool="withdraw", arguments={"amount": 20}, result="not enough", is_error=True),
    )


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("x", "f.toml: is not TOML"),
        ("", "f.toml: no [[stub]] table"),
        ("stub = 3", "f.toml: no [[stub]] table"),
        ("stub = [3]", "f.toml: stub 1: is not a table"),
        ("[[stub]]\nresult = 'x'", "f.toml: stub 1: tool: is missing"),
        ("[[stub]]\ntool = 'x'", "f.toml: stub 1: result: is missing"),
        ("[[stub]]\ntool = 'x'\nresult = 3", "f.toml: stub 1: Expected `str`, got `int`"),
        ("[[stub]]\ntool = 'x'\nresult = ''\narguments = [1]", "f.toml: stub 1: Expected `object`"),
        ("[[stub]]\ntool = 'x'\nresult = ''\narguments = {a = nan}", "f.toml: stub 1: a number"),
        ("[[stub]]\ntool = 'x'\nresult = ''\narguments = '{'", "f.toml: stub 1: Input data"),
        ("[[stub]]\ntool = 'x'\nreslt = ''", "f.toml: stub 1: no key 'reslt'"),
        ("[[stubs]]\ntool = 'x'", "f.toml: no key 'stubs'"),
        (
            "[[stub]]\ntool = 'x'\nresult = '1'\narguments = {a = 1, b = 2}\n"
            "[[stub]]\ntool = 'x'\nresult = '2'\narguments = {b = 2.0, a = 1}\n",
            "f.toml: stub 2: same call as stub 1",
        ),
    ],
)
def test_a_stub_that_cannot_be_read_is_an_error_that_names_the_file_and_the_key(
    toml: str, said: str
) -> None:
    with pytest.raises(BadEdit) as error:
        stubs_from_toml(toml, "f.toml")
    assert error.value.message.startswith(said)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadEdit, match=r"nowhere\.toml: cannot be read"):
        stubs_from_file(tmp_path / "nowhere.toml")


def test_stubs_are_kept_by_trace_replaced_by_equal_calls_and_removed() -> None:
    one = Stub(tool="a", arguments={"x": 1, "y": None}, result="1")
    two = Stub(tool="a", arguments={"y": None, "x": 1.0}, result="2", is_error=True)
    with Store.open(":memory:") as store:
        kept_replays.put(store, "t", one, source="s.toml")
        kept_replays.put(store, "other", one, source="s.toml")
        kept_replays.put(store, "t", two, source="s.toml")
        assert stubs_of_trace(store, "t") == (two,)
        assert remove(store, "t", "a", {"y": None, "x": 1})
        assert not remove(store, "t", "a", {"y": None, "x": 1})
        assert stubs_of_trace(store, "t") == ()
        assert stubs_of_trace(store, "other") == (one,)


def test_a_stub_is_masked_before_it_is_written_and_found_by_its_masked_call() -> None:
    key = "sk-ant-" + "a1" * 20
    stub = Stub(tool="a", arguments={"note": key}, result=f"Use {key}.")
    with Store.open(":memory:") as store:
        kept = kept_replays.put(store, "t", stub, source="s.toml")
        assert key not in str(kept)
        assert stubs_of_trace(store, "t") == (kept,)
        assert remove(store, "t", "a", {"note": key})
