from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.trace import Json, Trace
from taxonomy.evidence.context_index import Index, Origin, number
from taxonomy.evidence.reading import Reading
from taxonomy.evidence.value_origins import Value, values
from tests.build import NOTHING, call, error, step, tool, trace

ORDER = {"order_id": "ORD-77", "email": "ana@shop.test", "total": 1234.5, "placed": "2026-03-10"}


def find_origin(trace: Trace, step: int, value: Json) -> Origin | None:
    """The first span, prompt or message that held `value` before `step`, None where none did."""
    return Index(Reading(trace)).origin(step, value)


def ungrounded(trace: Trace, step: int) -> tuple[Value, ...]:
    """The values in the calls of `step` that have no origin, in the order of the arguments."""
    reading = Reading(trace)
    found = values(Index(reading), reading.turns[step])
    return tuple(value for value in found if value.origin is None)


def looked_up(**arguments: Json) -> Trace:
    """A run that is told of ORDER at step 0 and uses `arguments` at step 1."""
    return trace(
        [
            step("I look.", call("get_order", ORDER, number="77")),
            step("I act.", call("refund_order", {"done": True}, **arguments)),
        ],
        task="Please refund the order of /home/ana/report.csv from May 20th, within 2 weeks.",
        system="You help. Refunds go to account AC-5512.",
        tools=[tool("refund_order", mode={"enum": ["fast-2000"]})],
    )


@pytest.mark.parametrize(
    ("value", "how", "place"),
    [
        ("ORD-77", "exact", "get_order"),
        ("ord-77", "exact", "get_order"),
        ("ANA@shop.test", "exact", "get_order"),
        (1234.5, "exact", "get_order"),
        ("$1,234.50", "number", "get_order"),
        ("AC-5512", "exact", "system prompt"),
        ("fast-2000", "exact", "tool definitions"),
        ("refund the order", "within", "user message"),
        ("/srv/data/report.csv", "path", "user message"),
        ("2026-05-20", "date", "user message"),
        ("ord 77", "exact", "get_order"),
        ("ORD77", "exact", "get_order"),
        (2469, "derived", "get_order"),  # twice 1234.5
        ("2026-06-03", "derived", "user message"),  # two weeks after May 20th
        ("10 March 2026", "date", "get_order"),
    ],
)
def test_a_value_is_traced_to_the_first_place_that_showed_it(
    value: Json, how: str, place: str
) -> None:
    origin = find_origin(looked_up(), 1, value)
    assert origin is not None
    assert (origin.how, origin.place) == (how, place)


@pytest.mark.parametrize("value", ["ORD-78", "1099", "bob@shop.test", "Lisbon", 4321, ""])
def test_a_value_that_nothing_showed_has_no_origin(value: Json) -> None:
    assert find_origin(looked_up(), 1, value) is None


def test_an_observation_is_no_origin_for_the_step_that_asked_for_it() -> None:
    assert find_origin(looked_up(), 0, "ORD-77") is None


def test_the_origin_names_span_and_step() -> None:
    made = looked_up()
    origin = find_origin(made, 1, "ORD-77")
    assert origin is not None
    assert (origin.step, origin.span) == (0, made.steps[0].acts[0].id)
    assert "ORD-77" in origin.text


def test_words_of_the_model_are_no_origin() -> None:
    made = trace(["I believe it is order 1099.", step(call("get_order", "{}", order_id="1099"))])
    assert find_origin(made, 1, "1099") is None


def test_what_a_call_wrote_is_an_origin_once_it_worked() -> None:
    made = trace(
        [
            step(call("write_file", "ok", path="/app/new_tool.py", content="x")),
            step(call("read_file", "x", path="/app/new_tool.py")),
        ]
    )
    origin = find_origin(made, 1, "/app/new_tool.py")
    assert origin is not None
    assert origin.place == "its own call of write_file"


def test_a_word_inside_a_longer_word_is_not_the_value() -> None:
    made = trace([step(call("get_order", '{"id": "XX1099YY"}', q="x")), "Done."])
    assert find_origin(made, 1, "1099") is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"order_id": "ORD-99"},
        {"email": "bob@shop.test"},
        {"order_id": 4711},
        {"amount": 999},
        {"payment_id": "gift_card_9910"},
    ],
)
def test_an_identifier_from_nowhere_is_ungrounded(arguments: dict[str, Json]) -> None:
    (found,) = ungrounded(looked_up(**arguments), 1)
    assert (found.path, found.value) == next(iter(arguments.items()))


@pytest.mark.parametrize(
    "arguments",
    [
        {"order_id": "ORD-77"},
        {"amount": 1234.5},
        {"amount": 1311.5},  # 1234.5 + 77
        {"amount": 123450},  # the same in cents
        {"note": "call 555-1234567 now"},
        {"query": "ORD-99"},
        {"count": 3},
        {"flag": True},
        {"limit": 5000},
        {"mode": "fast-2000"},
        {"country": "Portugal"},
        {"algorithm": "SHA256"},
        {"path": "/srv/new/output.txt"},
        {"secret": "[[SECRET:key:0badcafe]]"},
    ],
)
def test_what_the_model_may_choose_or_was_shown_is_not_ungrounded(
    arguments: dict[str, Json],
) -> None:
    assert ungrounded(looked_up(**arguments), 1) == ()


def test_a_path_counts_only_where_reading_it_failed() -> None:
    def reading(reply: Any) -> Trace:
        return trace([step(call("read_file", reply, path="/etc/shop/settings.toml"))])

    assert ungrounded(reading("[shop]"), 0) == ()
    (found,) = ungrounded(reading(error("No such file or directory")), 0)
    assert found.value == "/etc/shop/settings.toml"


def test_an_identifier_put_together_from_shown_parts_is_a_guess_if_it_is_not_found() -> None:
    def paying(reply: Any) -> Trace:
        return trace(
            [step(call("pay", reply, payment_id="credit_card_7334"))],
            task="Use my card ending in 7334.",
            system="Payment ids look like credit_card_4959530.",
        )

    assert ungrounded(paying("paid"), 0) == ()
    (found,) = ungrounded(paying(error("payment method not found")), 0)
    assert found.value == "credit_card_7334"


def test_an_observation_that_was_not_recorded_may_have_held_the_value() -> None:
    made = trace(
        [
            step(call("find_orders", NOTHING, email="a")),
            step(call("get_order", "{}", order_id="1099")),
        ]
    )
    assert ungrounded(made, 1) == ()


def test_a_value_that_the_source_cut_is_not_looked_for() -> None:
    assert ungrounded(looked_up(order_id="ORD-99…"), 1) == ()


def test_a_sum_over_a_column_is_worked_out_and_says_how() -> None:
    seats = [{"price": 48}, {"price": 61}, {"price": 53}]
    made = trace([step(call("find_seats", {"seats": seats}, row=1)), step(call("pay", amount=162))])
    origin = find_origin(made, 1, 162)
    assert origin is not None
    assert (origin.how, origin.text) == ("derived", "price: 48 + 61 + 53")


def test_a_source_that_lacks_the_task_cannot_tell_what_was_made_up() -> None:
    made = trace([step(call("get_order", "{}", order_id="1099"))], task=None)
    assert ungrounded(made, 0) == ()


def test_a_cut_observation_may_have_held_the_value() -> None:
    cut = '{"orders": [{"order_id": "1041"}, {"order_id": "10'
    made = trace(
        [
            step(call("find_orders", cut, email="a")),
            step(call("get_order", "{}", order_id="1099")),
        ]
    )
    assert ungrounded(made, 1) == ()


@given(st.text(max_size=60) | st.integers() | st.floats(allow_nan=False) | st.booleans())
def test_any_value_can_be_asked_for(value: Json) -> None:
    find_origin(looked_up(), 1, value)


@given(st.floats(0, 1e9, allow_nan=False))
def test_a_number_has_one_spelling(value: float) -> None:
    text = f"{value:.2f}"
    assert number(f"${float(text):,.2f}") == number(text)
