"""Errors put into observations that are plain text: which value, and how the text then reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.error_injection import derive, values
from replay.error_injection.run import NotPut, chosen
from replay.error_injection.values import Wrong
from replay.trace import Json, Trace
from tests.build import call, heard, step, tool, trace

TOOLS = (tool("search_help", query={}), tool("read_page", url={}))


def told(text: Json, *then: str) -> Trace:
    """A run that is answered with a text at step 2, and says something after it."""
    search = call("search_help", text, query="refunds of order 1042")
    return trace(
        ("Hello.", heard("Refund it."), "Let me see.", heard("Go on."), step(search), *then),
        system="Be brief.",
        tools=TOOLS,
        task="Refund order 1042.",
    )


def wrong(text: Json, *then: str) -> Wrong:
    found = chosen(told(text, *then), "observation", 2)
    assert isinstance(found, Wrong), found
    return found


@pytest.mark.parametrize(
    ("text", "says", "sort", "value"),
    [
        ("Delivered on 2026-03-05.", "on 5 March", "date", "2026-03-05"),
        ("Delivered on March 5, 2026.", "on 5 March", "date", "2026-03-05"),
        ("Delivered on 5 Mar 2026 by van.", "on March 5", "date", "2026-03-05"),
        ("It cost $1,042.50 in all.", "you paid 1042.50", "amount", "$1,042.50"),
        ("Ticket AB-1179 is taken.", "see AB-1179", "id", "AB-1179"),
        ("There are 1,250 in store.", "1250 are left", "number", 1250),
        ("The weight is 12.5 at most.", "12.50 at most", "number", 12.5),
        ("The parcel was delivered.", "it is delivered", "status", "delivered"),
        ("Customer: Sofia Kim, since spring.", "Dear Sofia Kim", "name", "Sofia Kim"),
    ],
)
def test_one_value_that_the_agent_goes_by_is_changed_and_nothing_else(
    text: str, says: str, sort: str, value: Json
) -> None:
    (fact,) = [each for each in derive.facts(text) if each.value == value]
    assert fact.sort == sort
    put = wrong(text, f"I see: {says}.")
    assert put.true == (value,)
    assert put.path == ""
    assert put.text != text
    assert not values.stands_in(value, put.text)
    assert values.stands_in(put.false[0], put.text)
    kept = derive.said_instead(put.text, put.false[0], value)
    assert kept.split() == text.split()
    assert put == wrong(text, f"I see: {says}.")


def test_what_is_used_later_is_taken_before_what_is_not() -> None:
    text = "Order AB-1179 of 2026-03-05 costs $42.50 and has 120 points."
    assert wrong(text, "You have 120 points.").true == (120,)
    assert wrong(text, "It costs 42.50.").true == ("$42.50",)
    assert wrong(text, "Fine.").true == ("$42.50",)


def test_the_value_is_changed_wherever_the_text_says_it_and_only_there() -> None:
    put = wrong("120 points. Of the 120, 1200 and A-120 are apart; 120.", "120 points.")
    false = put.false[0]
    assert put.text == f"{false} points. Of the {false}, 1200 and A-120 are apart; {false}."


def test_the_log_names_both_values() -> None:
    put = wrong("Refunds within 30 days.", "You have 30 days.")
    assert put.phrase == f"search_help → text 30 → {put.false[0]}"


def test_prose_within_json_says_the_wrong_value_too() -> None:
    page = {"id": "p-7", "body": "Refunds within 30 days. Ask after 30 days in person."}
    put = wrong(page, "You have 30 days.")
    false = put.false[0]
    assert (put.path, put.true) == ("body", (30,))
    assert f"within {false} days. Ask after {false} days" in put.text


@pytest.mark.parametrize(
    "text",
    [
        "Refunds are easy.",
        "Within 3 days, the 2nd time after 24h.",
        "See https://shop.example/a/1179 at 15:00, version 3.11.2.",
        "It was delivered to Sofia Kim.",  # common words, and nobody goes by them
        "Order 1042 has no return.",  # what was asked for: the agent would see it at once
        "",
    ],
)
def test_a_text_without_a_value_is_refused_with_a_sentence(text: str) -> None:
    found = chosen(told(text, "I see."), "observation", 2)
    assert isinstance(found, NotPut)
    assert found.why.startswith("step 2: no value to corrupt in its result")


@given(st.text(alphabet="0123456789-.,:$€ abMarch5/%#\n", max_size=60))
def test_every_fact_of_any_text_stands_in_it_and_can_be_said_otherwise(text: str) -> None:
    for fact in derive.facts(text):
        assert 0 <= fact.at < len(text)
        for false in values.wrong_values(fact.value, fact.sort, "a run"):
            said = derive.said_instead(text, fact.value, false)
            assert said != text
            assert fact.value not in [other.value for other in derive.facts(said)]
