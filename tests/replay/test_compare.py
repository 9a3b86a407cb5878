"""Two actions compared: what differs, and what cannot be told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.action import Act, Action, action, answered, flaws
from replay.compare.actions import RULES, DifferenceKind, PathChange, compare
from replay.compare.rules import PLAIN, Rules, rules_from
from replay.trace import Json, Message, Response, Stop, Tool

NUMBER = {"type": "object", "properties": {"limit": {"default": 10}}, "required": ["order_id"]}


def act(tool: str, /, **arguments: Json) -> Act:
    return Act(tool=tool, arguments=arguments)


def acts(*calls: Act) -> Action:
    return Action(calls=calls)


def says(text: str) -> Action:
    return Action(text=text)


@pytest.mark.parametrize(
    ("first", "second", "kinds"),
    [
        (acts(act("a")), says("Done."), ("kind", "gave_up")),
        (says("Done."), acts(act("a")), ("kind", "extra")),
        (acts(act("a")), acts(act("b")), ("tool",)),
        (acts(act("a", x=1)), acts(act("a", x=2)), ("args",)),
        (acts(act("a")), acts(act("a"), act("a")), ("calls",)),
        (acts(act("a"), act("b")), acts(act("b")), ("calls",)),
        (acts(act("a", x=1), act("b")), acts(act("c"), act("a", x=2)), ("tool", "args")),
        (says("Done."), says(""), ("text",)),
    ],
)
def test_a_divergence_names_its_kinds(
    first: Action, second: Action, kinds: tuple[DifferenceKind, ...]
) -> None:
    found = compare(first, second)
    assert found.same is False
    assert found.diverges
    assert found.kinds == kinds


def test_arguments_are_compared_as_json() -> None:
    same = compare(acts(act("a", x=1, y=[True])), acts(act("a", y=[True], x=1.0)))
    assert same.same is True
    assert compare(acts(act("a", x=True)), acts(act("a", x=1))).same is False
    assert compare(acts(act("a", x=[1, 2])), acts(act("a", x=[2, 1]))).same is False


def test_every_place_that_differs_is_named() -> None:
    found = compare(
        acts(act("a", order={"id": 1, "items": [1, 2]}, note="x")),
        acts(act("a", order={"id": 2, "items": [1]}, fast=True)),
    )
    assert found.changes == (
        PathChange(tool="a", path="order.id", change="changed", before=1, after=2),
        PathChange(tool="a", path="order.items[1]", change="missing", before=2),
        PathChange(tool="a", path="note", change="missing", before="x"),
        PathChange(tool="a", path="fast", change="extra", after=True),
    )


def test_an_argument_left_out_equals_the_default_of_its_schema() -> None:
    tools = (Tool(name="a", schema=NUMBER),)
    assert compare(acts(act("a", limit=10)), acts(act("a")), tools).same is True
    assert compare(acts(act("a")), acts(act("a", limit=10.0)), tools).same is True
    assert compare(acts(act("a", limit=11)), acts(act("a")), tools).same is False
    assert compare(acts(act("a", limit=10)), acts(act("a"))).same is False


def test_the_order_of_parallel_calls_is_noted_and_is_no_divergence() -> None:
    found = compare(acts(act("a"), act("b")), acts(act("b"), act("a")))
    assert found.same is True
    assert found.kinds == ("order",)


def test_parallel_calls_are_paired_by_their_least_difference() -> None:
    found = compare(
        acts(act("a", x=1, y=1), act("a", x=5, y=5)), acts(act("a", x=5, y=6), act("a", x=1, y=2))
    )
    assert [(change.before, change.after) for change in found.changes] == [(1, 2), (5, 6)]


def test_texts_are_the_same_when_their_words_are() -> None:
    assert compare(says("I've **refunded** $42.50."), says("I've refunded  $42.50")).same is True
    assert compare(says("Done."), says("DONE")).same is True


@pytest.mark.parametrize(
    ("one", "other"), [("It is 5%", "It is 5"), ("-5", "5"), ("12 May", "15 May")]
)
def test_other_words_cannot_be_told_apart_by_comparing(one: str, other: str) -> None:
    found = compare(says(one), says(other))
    assert found.same is None
    assert found.reworded
    assert not found.diverges
    assert found.unclear == "reworded"


@pytest.mark.parametrize("cut", ["length", "filter", "error", "context", "pause"])
def test_an_answer_that_is_not_whole_says_nothing(cut: Stop) -> None:
    message = Message(dialect="anthropic", body={"role": "assistant", "content": "I wi"})
    recorded = action(Response(message=message, stop=cut))
    for found in (compare(recorded, says("x")), compare(acts(act("a")), recorded)):
        assert found.same is None
        assert found.kinds == ("stop",)
        assert not found.reworded
    assert compare(says("x"), says("x")).same is True
    assert action(Response(), "overloaded").cut == "failed"
    assert action(Response()).cut == "not recorded"


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "model_context_window_exceeded"])
def test_the_words_of_the_api_for_a_cut_answer_are_known(reason: str) -> None:
    body = {"role": "assistant", "content": [], "stop_reason": reason}
    assert answered(body, str).cut is not None


def test_a_call_that_hangs_on_a_masked_value_says_nothing() -> None:
    masked = "[[SECRET:assigned:0123abcd]]"
    assert compare(acts(act("a", key=masked)), acts(act("a", key=masked))).same is True
    found = compare(acts(act("a", key=masked)), acts(act("a", key="guess")))
    assert found.same is None
    assert found.unclear == "a call depends on a masked value"


def test_recorded_actions_of_every_dialect_are_one_thing() -> None:
    arguments = {"order_id": 1042}
    bodies: list[Message] = [
        Message(
            dialect="anthropic",
            body={
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "1", "name": "get_order", "input": arguments},
                ],
            },
        ),
        Message(
            dialect="openai",
            body={
                "role": "assistant",
                "content": "Looking.",
                "tool_calls": [
                    {"function": {"name": "get_order", "arguments": '{"order_id": 1042}'}}
                ],
            },
        ),
        Message(
            dialect="inspect",
            body={
                "role": "assistant",
                "content": "Looking.",
                "tool_calls": [{"function": "get_order", "arguments": arguments}],
            },
        ),
    ]
    found = [action(Response(message=message)) for message in bodies]
    assert found == [found[0]] * 3
    assert found[0].phrase == "get_order(order_id=1042)"


def test_arguments_that_never_parsed_are_compared_as_they_were_written() -> None:
    broken = Act(tool="a", arguments=None, raw="{x: 1")
    assert compare(acts(broken), acts(Act(tool="a", arguments=None, raw="{x:  1"))).same is True
    assert compare(acts(broken), acts(act("a", x=1))).same is False


@pytest.mark.parametrize(
    ("first", "second", "phrase", "brief"),
    [
        (
            acts(act("get_order", order_id=1042)),
            acts(act("refund_order", order_id=1042, amount=100)),
            "get_order(order_id=1042) → refund_order(order_id=1042, amount=100)",
            "get_order → refund_order",
        ),
        (
            acts(act("refund_order", amount=100)),
            acts(act("refund_order", amount="100")),
            'refund_order(amount=100) → refund_order(amount="100")',
            'refund_order amount: 100 → "100"',
        ),
        (says("Done."), acts(act("think")), "text → think()", "text → think"),
        (acts(act("a")), acts(act("a")), "a()", "a"),
    ],
)
def test_a_difference_is_one_line(first: Action, second: Action, phrase: str, brief: str) -> None:
    found = compare(first, second)
    assert (found.phrase, found.brief) == (phrase, brief)


def test_long_values_are_cut_visibly() -> None:
    assert acts(act("a", text="x" * 500)).phrase.endswith("…)")


def test_flaws_are_wrong_whatever_was_meant() -> None:
    tools = (Tool(name="get_order", schema=NUMBER),)
    assert flaws(acts(act("get_order", order_id=1)), tools) == ()
    assert flaws(acts(act("get_order")), tools) == ("calls get_order without order_id",)
    assert flaws(acts(act("magic")), tools) == ("calls magic, which is not offered",)


def test_the_rules_can_be_printed() -> None:
    assert "1 equals 1.0" in RULES


# --- rules per path


def test_a_rule_takes_a_difference_away_and_the_others_are_still_named() -> None:
    rules = rules_from(["refund.amount=tolerance:0.01", "*.note=ignore"])
    recorded = acts(act("refund", amount=42.5, order="A1", note="x"))
    assert compare(recorded, acts(act("refund", amount=42.51, order="A1")), (), rules).same is True
    found = compare(recorded, acts(act("refund", amount=42.49, order="a1", note="y")), (), rules)
    assert found.changes == (
        PathChange(tool="refund", path="order", change="changed", before="A1", after="a1"),
    )
    assert compare(recorded, acts(act("refund", amount=42.51, order="A1"))).same is False


def test_what_still_differs_is_shown_as_it_was_written() -> None:
    rules = rules_from(["a.path=path", "a.tags=set", "a.body=json"])
    found = compare(
        acts(act("a", path="./X", tags=["B", "A"], body='{"n": 1}')),
        acts(act("a", path="Y/", tags=["A", "C"], body='{"n": 2}')),
        (),
        rules,
    )
    assert [(change.path, change.before, change.after) for change in found.changes] == [
        ("path", "./X", "Y/"),
        ("tags", ["B", "A"], ["A", "C"]),
        ("body", '{"n": 1}', '{"n": 2}'),
    ]


def test_parallel_calls_are_matched_by_what_counts() -> None:
    rules = rules_from(["a.x=casefold", "a.note=ignore"])
    recorded = acts(act("a", x="one", note=1), act("a", x="two"))
    found = compare(recorded, acts(act("a", x="TWO"), act("a", x="ONE")), (), rules)
    assert (found.same, found.kinds) == (True, ("order",))
    assert compare(recorded, acts(act("a", x="ONE"), act("a", x="TWO")), (), rules).kinds == ()


def test_parallel_calls_with_near_numbers_exchange_partners_until_all_have_one() -> None:
    rules = rules_from(["a.x=tolerance:1"])
    found = compare(
        acts(act("a", x=2), act("a", x=1), act("a", x=3)),
        acts(act("a", x=1), act("a", x=2), act("a", x=0)),
        (),
        rules,
    )
    assert (found.same, found.kinds) == (True, ("order",))


def test_a_rule_meets_the_default_of_an_argument_left_out() -> None:
    tools = (Tool(name="a", schema=NUMBER),)
    rules = rules_from(["a.limit=tolerance:1"])
    assert compare(acts(act("a", limit=11)), acts(act("a")), tools, rules).same is True
    assert compare(acts(act("a", limit=12)), acts(act("a")), tools, rules).same is False


def test_arguments_that_never_parsed_are_ignored_with_the_arguments_as_a_whole() -> None:
    broken, other = acts(Act(tool="a", arguments=None, raw="{x: 1")), acts(act("a", x=2))
    assert compare(broken, other, (), rules_from(["*=ignore"])).same is True
    assert compare(broken, other, (), rules_from(["*.*=ignore"])).same is False


MASKED = "[[SECRET:assigned:0123abcd]]"


@pytest.mark.parametrize(
    "how", ["casefold", "trim", "path", "set", "tolerance:1", "regex:.*", "date", "json"]
)
@pytest.mark.parametrize("holder", ["{}", "./{}", '{{"key": "{}"}}', "2026-11-21 {}"])
def test_no_rule_makes_a_masked_value_comparable(how: str, holder: str) -> None:
    rules = rules_from([f"*.**={how}"])
    masked, other = holder.format(MASKED), holder.format("guess")
    for ours, theirs in ((masked, other), ([masked, 1], [1, other]), ([masked, 1], [1, masked])):
        found = compare(acts(act("a", key=ours)), acts(act("a", key=theirs)), (), rules)
        assert found.same is None
        assert found.unclear == "a call depends on a masked value"
    same = compare(acts(act("a", key=masked)), acts(act("a", key=masked)), (), rules)
    assert same.same is True


def test_a_call_does_not_hang_on_a_masked_value_that_does_not_count() -> None:
    rules = rules_from(["a.key=ignore"])
    recorded = acts(act("a", key=MASKED, x=1))
    assert compare(recorded, acts(act("a", x=1)), (), rules).same is True
    assert compare(recorded, acts(act("a", x=2)), (), rules).same is False
    assert compare(recorded, acts(act("a", x=2))).same is None
    broken, other = acts(Act(tool="a", arguments=None, raw=f"{{{MASKED}")), acts(act("b"))
    assert compare(broken, other, (), rules_from(["*=ignore"])).same is False
    assert compare(broken, other, (), rules).same is None


# --- properties


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)
_ACTION = st.builds(
    Action,
    calls=st.lists(
        st.builds(
            Act, tool=st.sampled_from("ab"), arguments=st.dictionaries(st.text(max_size=1), _VALUE)
        ),
        max_size=3,
    ).map(tuple),
    text=st.text(max_size=3),
)


_RULES = st.lists(
    st.builds(
        "{}={}".format,
        st.sampled_from(["*", "a", "a.*", "*[0]", "*.*[*]", "*.**", "b.**[*]", '*."0"']),
        st.sampled_from(
            "ignore casefold trim path set date json tolerance:1 tolerance:50% regex:(.?).*".split()
        ),
    ),
    max_size=3,
).map(rules_from)


@given(_ACTION, _ACTION, st.just(PLAIN) | _RULES)
def test_comparing_is_total_and_agrees_both_ways(
    first: Action, second: Action, rules: Rules
) -> None:
    there, back = compare(first, second, (), rules), compare(second, first, (), rules)
    assert there.same == back.same
    assert compare(first, first, (), rules).same is True
    assert bool(there.changes) == bool(back.changes)
    if there.same is True:
        assert there.changes == ()
    if there.kinds == ("args",):
        assert there.changes


@given(_ACTION, _ACTION, _RULES)
def test_rules_only_take_differences_away(first: Action, second: Action, rules: Rules) -> None:
    if compare(first, second).same is True:
        assert compare(first, second, (), rules).same is True


@given(_ACTION, _ACTION)
def test_where_no_argument_counts_tools_and_their_number_do(first: Action, second: Action) -> None:
    found = compare(first, second, (), rules_from(["*.**=ignore"]))
    if first.calls and second.calls:
        called = [sorted(call.tool for call in each.calls) for each in (first, second)]
        assert found.same is (called[0] == called[1])
    else:
        assert found.same == compare(first, second).same
