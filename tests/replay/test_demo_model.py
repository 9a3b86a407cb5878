"""The demo model: what it obeys, what it gets wrong without a rule, and that it repeats itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import ModelRefused
from replay.models.demo import Demo
from replay.models.demo.rules import RULES, habits, limit_cents
from tests.shop.tools import SHARPER, TOOLS, as_sent

SAMPLES = range(16)

Calls = list[tuple[str, dict[str, Any]]]


def talk(*said: str | tuple[str, dict[str, Any], Any]) -> list[dict[str, Any]]:
    """A conversation: a text is the user's or, starting with "> ", the agent's; a tuple is a call
    of the agent and its result, an error where the result is an Exception."""
    messages: list[dict[str, Any]] = []
    for number, each in enumerate(said):
        if isinstance(each, str):
            role = "assistant" if each.startswith("> ") else "user"
            messages.append({"role": role, "content": each.removeprefix("> ")})
            continue
        name, arguments, result = each
        call = {"type": "tool_use", "id": f"id{number}", "name": name, "input": arguments}
        failed = isinstance(result, Exception)
        content = str(result) if failed else msgspec.json.encode(result).decode()
        answer = {"type": "tool_result", "tool_use_id": f"id{number}", "content": content}
        messages.append({"role": "assistant", "content": [call]})
        messages.append(
            {"role": "user", "content": [{**answer, "is_error": True} if failed else answer]}
        )
    return messages


def body(system: str, messages: list[dict[str, Any]], tools: Any = None) -> dict[str, Any]:
    offered = as_sent(TOOLS) if tools is None else tools
    return {"model": "demo", "max_tokens": 1024, "system": system, "tools": offered,
            "messages": messages}  # fmt: skip


def calls(answer: dict[str, Any]) -> Calls:
    return [(each["name"], each["input"]) for each in answer["content"] if "input" in each]


def text(answer: dict[str, Any]) -> str:
    return " ".join(each["text"] for each in answer["content"] if "text" in each)


def order(id: str, **changed: Any) -> tuple[str, dict[str, Any], Any]:
    record = {"order_id": id, "status": "delivered", "email": "ana@example.com", "items": [],
              "total": "$39.00", "total_cents": 3900, "delivered": "2026-03-01"}  # fmt: skip
    return ("get_order", {"order_id": id}, {**record, **changed})


NOTHING_FOUND = (
    "search_help",
    {"query": "warranty Orbit Headphones"},
    Exception("search finds nothing for 'warranty Orbit Headphones'"),
)
WARRANTY = talk("What warranty do the Orbit Headphones have?", NOTHING_FOUND)
REFUNDED = (
    "refund_order",
    {"order_id": "1038", "amount": 3900, "reason": "Refund order 1038."},
    {"order_id": "1038", "refunded_cents": 3900, "receipt": "R-1"},
)
REFUND = talk("Refund order 1038.", order("1038"))
POLICY = ("search_help", {"query": "warranty"}, {"article": "Warranty", "text": "Two years."})
AFTERNOON = talk(
    "Where is order 1047?",
    order("1047", total_cents=8150),
    "> It was delivered.",
    *("What is your warranty?", POLICY, "> Two years.") * 8,
    *("Where is order 1050?", order("1050"), "> It is there."),
    "Refund order 1047.",
)  # fmt: skip


def first(name: str) -> Callable[[Calls, str], bool]:
    """Is the first call one of this tool?"""
    return lambda made, _: bool(made) and made[0][0] == name


class Case(NamedTuple):
    """A rule, a conversation in which it matters, and what the good habit looks like."""

    habit: str
    sentence: str
    messages: list[dict[str, Any]]
    good: Callable[[Calls, str], bool]
    base: str = ""


CASES = [
    Case("verify", "Look up the order before you cancel it.",
         talk("Please cancel order 1051."), first("get_order")),
    Case("ids", "Never guess an order number.",
         talk("Where is my parcel?"), lambda made, said: not made and said.endswith("?")),
    Case("amounts", "Never make up an amount.",
         talk("Please refund order 1038."), first("get_order")),
    Case("vary", "If a tool returns an error, try again with corrected arguments.",
         WARRANTY, lambda made, _: made == [("search_help", {"query": "warranty"})]),
    Case("no_repeat", "Never repeat a call that has just failed.",
         WARRANTY, lambda made, _: not made),
    Case("cents", "All amounts are in cents.",
         REFUND, lambda made, _: made[0][1]["amount"] == 3900),
    Case("iso", "All dates are ISO dates.",
         talk("A refund for the Aurora Lamp I bought after 1 March. ana@example.com"),
         lambda made, _: made[0][1]["since"] == "2026-03-01",
         "Today is 2026-03-14. Never guess an order number."),
    Case("limit", "Refunds above $30 are not yours to make.",
         REFUND, first("hand_over_to_human")),
    Case("escalate", "When you are stuck, hand over to a human.",
         WARRANTY, first("hand_over_to_human"), "Never repeat a failed call."),
    Case("delegate", "Leave comparing products to the researcher.",
         talk("Compare the Pico Speaker and the Orbit Headphones."),
         first("ask_researcher")),
    Case("parallel", "Make independent look-ups in one turn.",
         talk("Where is order 1042? And where is order 1043?"), lambda made, _: len(made) == 2),
    Case("confirm", "After you refunded an order, read it once more.",
         talk("Refund order 1038.", order("1038"), REFUNDED),
         lambda made, _: made == [("get_order", {"order_id": "1038"})]),
    Case("policy", "Read the refund policy before you refund.",
         REFUND, lambda made, _: made == [("search_help", {"query": "refund policy"})]),
    Case("own", "Make sure the order belongs to the customer.",
         talk("Cancel order 1038. ben@example.com", order("1038", status="processing")),
         first("hand_over_to_human")),
    Case("reread", "Read an order again before you change it.",
         AFTERNOON, lambda made, _: made == [("get_order", {"order_id": "1047"})]),
    Case("honest", "Tell customers only what a tool has confirmed.",
         talk("Refund order 1038.", order("1038"), REFUNDED), lambda _, said: "within" not in said),
]  # fmt: skip


def test_every_rule_of_the_table_has_a_case() -> None:
    assert {case.habit for case in CASES} == {rule.habit for rule in RULES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.habit)
def test_a_rule_in_the_prompt_makes_the_good_habit_and_its_absence_the_bad_one(case: Case) -> None:
    def good(system: str) -> list[bool]:
        answers = [Demo().complete(body(system, case.messages), each) for each in SAMPLES]
        return [bool(case.good(calls(each), text(each))) for each in answers]

    assert list(habits(case.sentence)).count(case.habit) == 1
    assert all(good(f"{case.base} {case.sentence}"))
    assert not all(good(case.base))


def test_a_hedged_rule_is_followed_in_some_answers_only() -> None:
    asked = body("Try not to guess order numbers.", talk("Where is my parcel?"))
    guessed = [bool(calls(Demo().complete(asked, each))) for each in SAMPLES]
    assert 0 < sum(guessed) < len(guessed)


@pytest.mark.parametrize(
    "sentence",
    [
        "There is no need to look up the order before you cancel it.",
        "You do not have to read the order first.",
    ],
)
def test_a_sentence_that_lifts_a_rule_is_no_rule(sentence: str) -> None:
    assert habits(sentence) == {}


def test_a_rule_that_runs_over_a_line_end_is_one_sentence() -> None:
    assert habits("- Look up the order\n  before you cancel it.\n- Be kind.") == {"verify": 1.0}
    assert limit_cents("Refunds above\n$1,200.50 go to a colleague.") == 120050


def test_a_rule_in_a_tool_description_counts_like_one_in_the_prompt() -> None:
    tools = as_sent(TOOLS, {"refund_order": "Refund money for an order. Amounts are in cents."})
    [(_, arguments)] = calls(Demo().complete(body("", REFUND, tools), 0))
    assert arguments["amount"] == 3900


def test_a_clear_prompt_gives_one_answer_and_a_vague_one_several() -> None:
    def answers(system: str) -> set[str]:
        asked = body(system, talk("Please refund order 1038."))
        return {str(calls(Demo().complete(asked, each))) for each in SAMPLES}

    assert len(answers("Look up the order before you refund it.")) == 1
    assert len(answers("")) > 1


def test_overlapping_descriptions_make_it_pick_the_wrong_tool_and_sharper_ones_do_not() -> None:
    def picked(tools: list[Any]) -> set[str]:
        asked = body("", talk("Is the Vela Keyboard in stock?"), tools)
        return {calls(Demo().complete(asked, each))[0][0] for each in SAMPLES}

    assert picked(as_sent(TOOLS)) == {"get_product", "check_stock"}
    assert picked(as_sent(TOOLS, SHARPER)) == {"check_stock"}


def test_what_the_prompt_says_of_a_tool_steers_the_choice() -> None:
    asked = body("Use check_stock for stock.", talk("Is the Vela Keyboard in stock?"))
    assert {calls(Demo().complete(asked, n))[0][0] for n in SAMPLES} == {"check_stock"}


def test_a_tool_that_only_the_prompt_names_is_called_until_an_error_says_it_is_not_there() -> None:
    system = "Never guess. To list the orders of a customer by e-mail, call `lookup_customer`."
    wish = "I want a refund for the Aurora Lamp. ana@example.com"
    [(first, given)] = calls(Demo().complete(body(system, talk(wish)), 0))
    assert (first, given) == ("lookup_customer", {"email": "ana@example.com"})
    after = talk(wish, (first, given, Exception("no such tool: lookup_customer")))
    assert calls(Demo().complete(body(system, after), 0))[0][0] == "find_orders"


def test_a_renamed_tool_is_found_by_its_description() -> None:
    renamed = {"get_order": "fetch_record", "cancel_order": "stop_it"}
    tools = [{**each, "name": renamed.get(each["name"], each["name"])} for each in as_sent(TOOLS)]
    system = "Look up the order before you cancel it."
    wish, (_, arguments, record) = "Cancel order 1038.", order("1038", status="processing")
    assert calls(Demo().complete(body(system, talk(wish), tools), 0)) == [
        ("fetch_record", {"order_id": "1038"})
    ]
    after = talk(wish, ("fetch_record", arguments, record))
    assert calls(Demo().complete(body(system, after, tools), 0))[0][0] == "stop_it"


def test_a_changed_observation_changes_what_it_does() -> None:
    system = "Look up the order before you cancel it."
    gone = talk("Cancel order 1038.", order("1038", status="shipped"))
    here = talk("Cancel order 1038.", order("1038", status="processing"))
    assert "no longer be cancelled" in text(Demo().complete(body(system, gone), 0))
    assert calls(Demo().complete(body(system, here), 0))[0][0] == "cancel_order"


def test_an_answer_has_the_shape_of_the_messages_api() -> None:
    answer = Demo().complete(body("", talk("Where is order 1042?")), 0)
    assert answer["type"] == "message"
    assert answer["stop_reason"] == "tool_use"
    assert answer["content"][1]["id"].startswith("toolu_")
    assert answer["usage"]["input_tokens"] > 500
    closing = Demo().complete(body("", talk("Where is order 1042?", order("1042"))), 0)
    assert closing["stop_reason"] == "end_turn"


def test_what_a_model_cannot_see_does_not_change_the_answer() -> None:
    plain = body("", WARRANTY)
    marked = msgspec.json.decode(msgspec.json.encode(plain).replace(b'"id1"', b'"toolu_arc_0"'))
    marked |= {"metadata": {"user_id": "x"}, "stream": True, "max_tokens": 99}
    marked["system"] = [{"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}]
    marked["tools"][-1]["cache_control"] = {"type": "ephemeral"}
    marked["messages"][1]["content"].insert(0, {"type": "thinking", "thinking": "hm"})
    for sample in SAMPLES:
        first, second = (Demo().complete(each, sample) for each in (plain, marked))
        assert (first["content"], first["id"]) == (second["content"], second["id"])


@pytest.mark.process
def test_answers_are_the_same_in_every_process_and_under_every_hash_seed() -> None:
    script = (
        "import hashlib, msgspec\n"
        "from tests.replay.test_demo_model import CASES, SAMPLES, Demo, body\n"
        "told = [Demo().complete(body(c.base, c.messages), n) for c in CASES for n in SAMPLES]\n"
        "print(hashlib.sha256(msgspec.json.encode(told)).hexdigest())\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, zone in (("0", "UTC"), ("4711", "Asia/Tokyo"))
    }
    assert len(told) == 1


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        ([], "offers no tools"),
        ([{"name": "bash", "description": "Run a command in a shell.", "input_schema": {
            "properties": {"command": {}}, "required": ["command"]}}], "`bash`"),
        ([{"name": "cancel_reservation", "description": "Cancel a reservation.", "input_schema": {
            "properties": {"reservation_id": {}}, "required": ["reservation_id"]}},
          {"name": "transfer_to_human_agents", "description": "Hand over to a human agent.",
           "input_schema": {"properties": {"summary": {}}, "required": ["summary"]}}],
         "`cancel_reservation`"),
    ],
)  # fmt: skip
def test_tools_of_another_trade_are_refused_by_name(tools: list[Any], named: str) -> None:
    with pytest.raises(ModelRefused, match=named) as caught:
        Demo().complete(body("", talk("Where is order 1042?"), tools), 0)
    assert "arc demo" in caught.value.hint


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
_BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "image"])},
    optional={"text": st.text(), "id": _JSON, "name": st.text(), "input": _JSON,
              "tool_use_id": _JSON, "content": _JSON},
)  # fmt: skip
_MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.text() | st.lists(_BLOCKS, max_size=3) | _JSON,
    }
)


@settings(deadline=None)
@given(system=st.text(), messages=st.lists(_MESSAGES, max_size=4))
def test_whatever_it_is_told_it_answers(system: str, messages: list[dict[str, Any]]) -> None:
    answer = Demo().complete(body(system, messages), 0)
    assert answer["content"]
    assert answer == Demo().complete(body(system, messages), 0)
