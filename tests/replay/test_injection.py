"""Errors put in on purpose: what is put in, where, and what counts as mending it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from replay import messages
from replay.edit.changes import Edit, SetObservation, SetSystem
from replay.error_injection import values
from replay.error_injection.derive import TOOL_ERROR
from replay.error_injection.run import (
    PLACES,
    Corrected,
    NotPut,
    asked_after,
    chosen,
    inject,
    put,
    yours,
)
from replay.error_injection.values import Kind, Wrong
from replay.errors import BadEdit, NotFound, OfflineMiss
from replay.free.recorded_results import RecordedResults
from replay.models.cached import Cached
from replay.models.demo import Demo
from replay.store.handle import Store
from replay.trace import Trace
from tests.build import NOTHING, Called, call, error, heard, step, tool, trace
from tests.messages_api import Body, message, text
from tests.replay.free_case import FIXTURES, Script, recorded, says, uses

TOOLS = (
    tool("get_order", order_id={}),
    tool("find_orders", email={}),
    tool("refund_order", order_id={}, amount={}),
    tool("cancel_order", order_id={}),
    tool("search_help", query={}),
)
ORDER = {
    "order_id": "1042", "status": "delivered", "total": "$42.50", "total_cents": 4250,
    "delivered": "2026-03-05", "insured": True, "note": None,
}  # fmt: skip
READ = call("get_order", ORDER, order_id="1042")
HELP = call("search_help", "Refunds within 30 days.", query="refunds")
REFUND = call("refund_order", {"refunded_cents": 4250}, order_id="1042", amount=4250)
OPENING = ("Hello.", heard("Refund it."))
DONE = "I have refunded $42.50 for order 1042."

GET: tuple[str, dict[str, Any]] = ("get_order", {"order_id": "1042"})
SEARCH: tuple[str, dict[str, Any]] = ("search_help", {"query": "refunds"})


def refund(amount: int) -> tuple[str, dict[str, Any]]:
    return ("refund_order", {"order_id": "1042", "amount": amount})


def shop(*parts: Any, **more: Any) -> Trace:
    return trace(parts, system="Be brief.", tools=TOOLS, **{"task": "Refund order 1042.", **more})


RUN = shop(*OPENING, step(HELP), step(READ), step(REFUND), DONE)
"""Steps 0 greets, 1 reads the rules, 2 reads the order, 3 refunds it, 4 says so."""


def wrong_at(case: Trace, kind: Kind = "observation", at: int | None = 2) -> Wrong:
    found = chosen(case, kind, at)
    assert isinstance(found, Wrong), found
    return found


def after(case: Trace, wrong: Wrong, *answers: Body, **more: Any) -> Corrected:
    """What becomes of the error where the model gives these answers to what it is asked."""
    first = asked_after(case, wrong)
    assert first is not None
    context = put(case, wrong).steps[first.index].ask.request.context
    spoken = [m.role for m in context.messages()].count("assistant") if context else 0
    model = Script(*[says("never asked")] * spoken, *answers)
    with Store.open(":memory:") as store:
        last = list(inject(case, wrong, Cached(store, "script", model), **more))[-1]
    assert last.mended is not None
    return last.mended


def outcome(case: Trace, wrong: Wrong, *answers: Body) -> tuple[str, int | None]:
    found = after(case, wrong, *answers)
    return found.outcome, found.after


# --- wrong values


@given(st.integers(10, 10**12), st.text(max_size=5))
def test_a_wrong_number_has_as_many_digits_and_is_another(number: int, word: str) -> None:
    for wrong in values.wrong_values(number, "amount", word):
        assert isinstance(wrong, int)
        assert wrong != number
        assert len(str(wrong)) == len(str(number))


@given(st.dates(), st.text(max_size=5))
def test_a_wrong_day_is_a_day_within_forty_of_it(day: Any, word: str) -> None:
    for wrong in values.wrong_values(f"{day.isoformat()}T09:14:00", "date", word):
        text = str(wrong)
        assert text.endswith("T09:14:00")
        away = abs((type(day).fromisoformat(text[:10]) - day).days)
        assert 3 <= away <= 40


@given(st.text(max_size=4))
def test_a_wrong_status_is_one_that_the_same_thing_can_have(word: str) -> None:
    wrong = set(values.wrong_values("Shipped", "status", word))
    assert wrong <= {each.capitalize() for each in values.STATUSES[0]} - {"Shipped"}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=6),
                    lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.text(max_size=4), inner, max_size=3)))  # fmt: skip
def test_every_leaf_is_found_and_can_be_set(value: Any) -> None:
    for path, _ in values.leaves(value):
        made = values.with_leaf(value, path, "new")
        assert dict(values.leaves(made))[path] == "new"
        assert len(list(values.leaves(made))) == len(list(values.leaves(value)))


@pytest.mark.parametrize(
    ("value", "text", "stands"),
    [
        (4250, "I refund $42.50 now.", True),
        (4250, "amount=4250", True),
        (4250, "order 14250", False),
        (4250, "$42.509", False),
        ("$1,200.00", "that is 1200 dollars", True),
        ("2026-03-05T10:00", "delivered on March 5", True),
        ("2026-03-05", "delivered on March 15", False),
        ("shipped", "It was Shipped.", True),
        ("shipped", "reshipped", False),
    ],
)
def test_a_value_is_known_in_the_forms_it_is_written_in(
    value: Any, text: str, stands: bool
) -> None:
    assert values.stands_in(value, text) is stands


def test_a_wrong_value_is_the_same_in_every_process_and_another_at_another_step() -> None:
    assert list(values.wrong_values(4250, "amount", "a 2")) == list(
        values.wrong_values(4250, "amount", "a 2")
    )
    assert list(values.wrong_values("R-1041", "id", "a")) != list(
        values.wrong_values("R-1041", "id", "b")
    )


# --- what is put in


def test_one_fact_is_changed_wherever_the_observation_says_it() -> None:
    wrong = wrong_at(RUN)
    shown = json.loads(wrong.text)
    assert wrong.path == "total"
    assert shown["total_cents"] != 4250
    assert shown["total"] == f"${shown['total_cents'] / 100:.2f}"
    rest = {name: leaf for name, leaf in shown.items() if not name.startswith("total")}
    assert rest == {name: leaf for name, leaf in ORDER.items() if not name.startswith("total")}


def test_a_fact_that_the_recorded_agent_goes_on_to_use_is_taken_first() -> None:
    tells = shop(*OPENING, step(HELP), step(READ), "It was delivered on 5 March.")
    assert wrong_at(tells).path == "delivered"
    assert wrong_at(shop(*OPENING, step(HELP), step(READ), "It is delivered.")).path == "status"


def test_the_wrong_value_stands_nowhere_else_in_the_run() -> None:
    (false,) = wrong_at(RUN).false
    crowded = shop(*OPENING, heard(f"Was it {false}?"), step(HELP), step(READ), step(REFUND), DONE)
    (other,) = wrong_at(structs.replace(crowded, id=RUN.id)).false
    assert other != false


def test_an_error_is_put_at_the_third_or_the_fourth_step_and_always_at_the_same() -> None:
    found = [
        chosen(structs.replace(RUN, id=f"{number:016x}"), "observation") for number in range(8)
    ]
    places = [wrong.step for wrong in found if isinstance(wrong, Wrong)]
    assert set(places) == set(PLACES)
    assert chosen(RUN, "observation") == chosen(RUN, "observation")


def test_where_neither_can_take_one_the_nearest_step_does() -> None:
    case = shop(step(READ), "It costs $42.50.", heard("Thanks."), "You are welcome.")
    assert wrong_at(case, at=None).step == 0


@pytest.mark.parametrize(
    ("case", "kind", "why"),
    [
        (shop("Hello.", "Bye."), "observation", "calls no tool"),
        (shop(step(READ)), "observation", "the last of its thread"),
        (
            shop(step(call("search_help", "We do.", query="refunds")), DONE),
            "observation",
            "no value",
        ),
        (
            shop(step(call("get_order", NOTHING, order_id="1042")), "Hm."),
            "tool-error",
            "no successful result",
        ),
        (shop(step(call("search_help", "?", query="my order")), "Hm."), "step", "no argument"),
        (shop(), "step", "no step"),
    ],
)
def test_a_run_that_can_take_no_error_says_why(case: Trace, kind: Kind, why: str) -> None:
    found = chosen(case, kind)
    assert isinstance(found, NotPut)
    assert why in found.why


def test_a_step_that_is_not_there_is_the_user_s_mistake() -> None:
    with pytest.raises(NotFound, match="Steps: 0 to 4"):
        chosen(RUN, "observation", 5)


def test_only_later_requests_hold_the_error_and_the_tape_does_not() -> None:
    wrong = wrong_at(RUN)
    made = put(RUN, wrong)
    for before, now in zip(RUN.steps, made.steps, strict=True):
        told = "".join(map(messages.text, messages.conversation(now.ask.request)))
        assert (wrong.text in told) == (now.index > 2)
        assert now.acts == before.acts
    recorded_calls = RecordedResults(made, "root").recorded
    assert [each.text for each in recorded_calls] == [
        e.text for e in RecordedResults(RUN, "root").recorded
    ]


def test_a_wrong_step_stands_before_the_recorded_one_with_what_it_got() -> None:
    wrong = wrong_at(RUN, "step")
    assert wrong.arguments == {"order_id": "1042"}
    assert wrong.wrong_arguments["order_id"] != "1042"
    assert "was not found" in wrong.text
    made = put(RUN, wrong)
    context = made.steps[2].ask.request.context
    assert context is not None
    said = context.messages()[-2:]
    assert [each.arguments for each in messages.calls(said[0])] == [wrong.wrong_arguments]
    assert messages.results(said[1])[0].is_error
    later = made.steps[4].ask.request.context
    assert later is not None
    assert later.depth == (RUN.steps[4].ask.request.context or context).depth + 2
    assert made.steps[1] is RUN.steps[1]


def test_a_wrong_read_that_the_tape_knows_gets_what_the_tape_holds() -> None:
    other = call("get_order", {"order_id": "1050", "total_cents": 100}, order_id="1050")
    case = shop(*OPENING, step(other), step(READ), step(REFUND), DONE)
    wrong = wrong_at(case, "step")
    assert wrong.wrong_arguments == {"order_id": "1050"}
    assert json.loads(wrong.text)["order_id"] == "1050"
    assert not wrong.is_error


def test_your_own_observation_is_an_error_too() -> None:
    text = json.dumps({**ORDER, "status": "processing"})
    wrong = yours(RUN, Edit(name="mine", changes=(SetObservation(step=2, text=text),)))
    assert (wrong.kind, wrong.path) == ("yours", "status")
    assert (wrong.true, wrong.false) == (("delivered",), ("processing",))
    free = yours(RUN, Edit(name="mine", changes=(SetObservation(step=1, text="Only 14 days."),)))
    assert (free.true, free.false) == (("30",), ("14",))


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Edit(name="e", changes=(SetSystem("Be loud."),)), "one change of kind set_observation"),
        (Edit(name="e", changes=(SetObservation(step=0, text="x"),)), "no tool call"),
        (Edit(name="e", changes=(SetObservation(step=2, text="x", call=3),)), "no call 3"),
    ],
)
def test_an_edit_that_is_no_error_is_refused(edit: Edit, why: str) -> None:
    with pytest.raises(BadEdit, match=why):
        yours(RUN, edit)


# --- mended or not: a wrong observation


def test_reading_it_again_corrects_it_and_is_answered_with_what_is_so() -> None:
    wrong = wrong_at(RUN)
    model = Script(*[says("…")] * 3, uses(GET), uses(refund(4250)))
    with Store.open(":memory:") as store:
        *_, last = inject(RUN, wrong, Cached(store, "script", model))
    assert last.mended == Corrected(outcome="corrected", because="makes the call again", after=1)
    (found,) = last.run.steps[0].found
    assert json.loads(found.text or "") == ORDER


def test_acting_on_the_false_value_does_not_even_after_a_look() -> None:
    wrong = wrong_at(RUN)
    (false,) = wrong.false
    cents = round(float(str(false).strip("$")) * 100)
    assert outcome(RUN, wrong, uses(refund(cents))) == ("acted", None)
    assert outcome(RUN, wrong, uses(GET), uses(refund(cents))) == ("acted", None)
    assert outcome(RUN, wrong, says(f"It costs {false}.")) == ("acted", None)


@pytest.mark.slow
def test_going_by_the_hidden_value_or_saying_it_corrects_it() -> None:
    wrong = wrong_at(RUN)
    assert outcome(RUN, wrong, uses(refund(4250)), says(DONE)) == ("corrected", 1)
    assert outcome(RUN, wrong, says("You paid $42.50, not more.")) == ("corrected", 1)
    both = says(f"It says {wrong.false[0]}, but you paid $42.50.")
    assert outcome(RUN, wrong, both) == ("corrected", 1)


def test_another_read_of_the_same_thing_corrects_it_only_where_it_shows_the_value() -> None:
    shows = {"orders": [{"order_id": "1042", "total": "$42.50"}]}
    listed = call("find_orders", shows, email="1042")
    silent = call("search_help", "Nothing on that.", query="1042")
    case = shop(*OPENING, step(HELP), step(READ), step(listed), step(silent), DONE)
    wrong = wrong_at(case)
    find = ("find_orders", {"email": "1042"})
    search = ("search_help", {"query": "1042"})
    assert outcome(case, wrong, uses(find), uses(search)) == ("corrected", 1)
    silent_first = shop(*OPENING, step(HELP), step(READ), step(silent), step(listed), DONE)
    assert outcome(silent_first, wrong_at(silent_first), uses(search), uses(find)) == (
        "corrected",
        2,
    )


def test_two_answers_without_using_it_or_looking_again_are_no_correction() -> None:
    wrong = wrong_at(RUN)
    search = uses(SEARCH)
    assert outcome(RUN, wrong, search, search) == ("carried", None)
    found = after(RUN, wrong, says("I have handed this over."))
    assert found == Corrected(
        outcome="carried", because="ends its turn without using the value or reading it again"
    )


def test_a_change_the_recording_never_makes_on_it_follows_from_the_error() -> None:
    text = json.dumps({**ORDER, "status": "processing"})
    wrong = yours(RUN, Edit(name="mine", changes=(SetObservation(step=2, text=text),)))
    found = after(RUN, wrong, uses(("cancel_order", {"order_id": "1042"})))
    assert found.outcome == "acted"
    assert found.because == "cancel_order, not in the recording (response 1)"


def test_a_run_that_stops_before_either_cannot_be_told() -> None:
    wrong = wrong_at(RUN)
    found = after(RUN, wrong, uses(("search_help", {"query": "something else"})))
    assert found.outcome == "unknown"
    assert "never recorded with these arguments" in found.because
    asked = shop(*OPENING, step(HELP), step(READ), "Shall I?", heard("Yes."), step(REFUND), DONE)
    assert after(asked, wrong_at(asked), says("One moment.")).outcome == "unknown"


def test_a_look_that_the_tape_does_not_answer_cannot_be_told() -> None:
    wrong = wrong_at(RUN)
    found = after(RUN, wrong, uses(("find_orders", {"email": "1042"})))
    assert (found.outcome, found.after) == ("unknown", None)
    assert "no recorded result" in found.because


def test_a_third_answer_is_not_asked_for() -> None:
    model = Script(*[says("…")] * 3, uses(SEARCH), uses(SEARCH), uses(GET))
    with Store.open(":memory:") as store:
        trials = list(inject(RUN, wrong_at(RUN), Cached(store, "script", model)))
    assert (model.asked, len(trials)) == (2, 2)
    assert [each.mended is None for each in trials] == [True, False]


# --- an error in place of a result


def test_the_call_made_again_corrects_an_error_and_gets_the_recorded_result() -> None:
    wrong = wrong_at(RUN, "tool-error")
    assert (wrong.text, wrong.is_error) == (TOOL_ERROR, True)
    assert outcome(RUN, wrong, uses(GET), uses(refund(4250))) == ("corrected", 1)


def test_a_change_can_be_made_again_because_it_was_not_made() -> None:
    wrong = wrong_at(RUN, "tool-error", at=3)
    assert outcome(RUN, wrong, uses(refund(4250)), says(DONE)) == ("corrected", 1)


def test_ending_the_turn_or_another_change_takes_the_error_for_final() -> None:
    wrong = wrong_at(RUN, "tool-error")
    assert outcome(RUN, wrong, says("I cannot look it up.")) == ("acted", None)
    assert outcome(RUN, wrong, uses(refund(999))) == ("acted", None)


# --- a wrong step


def test_the_recorded_call_corrects_a_wrong_step() -> None:
    wrong = wrong_at(RUN, "step")
    assert outcome(RUN, wrong, uses(GET), uses(refund(4250))) == ("corrected", 1)
    assert outcome(RUN, wrong, uses(SEARCH), uses(GET)) == ("corrected", 2)


def test_the_right_argument_is_enough_whatever_else_the_call_says() -> None:
    noted = call("refund_order", "ok", order_id="1042", amount=4250, reason="it broke")
    case = shop(*OPENING, step(HELP), step(noted), DONE)
    wrong = wrong_at(case, "step")
    assert wrong.path == "order_id"
    right = ("refund_order", {"order_id": "1042", "amount": 4250, "reason": "as asked"})
    assert outcome(case, wrong, uses(right)) == ("corrected", 1)


def test_a_wrong_step_that_is_gone_on_with_is_not_corrected() -> None:
    wrong = wrong_at(RUN, "step")
    false = wrong.false[0]
    assert outcome(RUN, wrong, uses(("refund_order", {"order_id": false, "amount": 1}))) == (
        "acted",
        None,
    )
    assert outcome(RUN, wrong, says("I cannot find it.")) == ("carried", None)


# --- the demo agent, and what is kept


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def demo(store: Store, name: str, kind: Kind) -> Corrected:
    case = recorded(store, FIXTURES / "traces" / f"{name}.jsonl")
    wrong = wrong_at(case, kind, None)
    *_, last = inject(case, wrong, Cached(store, "demo", Demo()))
    assert last.mended is not None
    return last.mended


def test_a_careful_demo_agent_makes_a_failed_call_again_and_a_careless_one_does_not(
    store: Store,
) -> None:
    careful = demo(store, "shop-refund-v8-0", "tool-error")
    assert careful == Corrected(outcome="corrected", because="makes the call again", after=1)
    assert demo(store, "shop-refund-v5-0", "tool-error").outcome == "acted"


def test_the_demo_agent_believes_a_wrong_date_and_puts_a_wrong_call_right(store: Store) -> None:
    assert demo(store, "shop-where-is-it-v8-0", "observation").outcome == "acted"
    assert demo(store, "shop-where-is-it-v8-0", "step").outcome == "corrected"


def test_what_was_answered_is_kept_and_nothing_is_asked_twice(store: Store) -> None:
    case = recorded(store, FIXTURES / "traces" / "shop-refund-v8-0.jsonl")
    wrong = wrong_at(case, at=None)
    asking = Cached(store, "demo", Demo())
    first = list(inject(case, wrong, asking))[-1]
    offline = Cached(store, "demo")
    assert list(inject(case, wrong, offline))[-1].mended == first.mended
    assert (asking.asks, offline.hits) == (2, 2)
    with pytest.raises(OfflineMiss, match="step 4"):
        list(inject(case, wrong, offline, sample=1))


def test_nothing_recorded_is_changed_by_putting_an_error_in() -> None:
    before = [messages.conversation(each.ask.request) for each in RUN.steps]
    for kind in ("observation", "tool-error", "step"):
        put(RUN, wrong_at(RUN, kind))
    assert [messages.conversation(each.ask.request) for each in RUN.steps] == before


def test_a_call_among_others_keeps_its_place() -> None:
    both: tuple[Called, ...] = (HELP, READ)
    case = shop(*OPENING, step(*both), step(REFUND), DONE)
    wrong = wrong_at(case, at=1)
    assert (wrong.call, wrong.tool) == (1, "get_order")
    blocks = message(text("…"), *uses(refund(4250))["content"])
    assert outcome(case, wrong, blocks, says(DONE)) == ("corrected", 1)


def test_a_failed_result_is_not_replaced_by_another_error() -> None:
    failed = call("get_order", error("Error: try again"), order_id="1042")
    found = chosen(shop(*OPENING, step(failed), "Hm."), "tool-error", 1)
    assert isinstance(found, NotPut)
