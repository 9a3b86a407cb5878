"""Which step contradicts what had been shown, and which sources say so."""

from __future__ import annotations

import pytest

from arc_tui import importing
from arc_tui.places import fixtures
from replay.edit.changes import InjectConstraint
from replay.store import read
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.first_contradiction.contradictions import (
    Contradiction,
    ContradictionDetector,
    contradictions,
)
from taxonomy.first_contradiction.recoverable import fix_of, instruct_at
from taxonomy.judgements.schema import open_ledger
from tests.build import Part, call, error, heard, step, trace
from tests.shared import Imported, needs_shared
from tests.taxonomy.rule_case import assert_citable


def bundled(name: str) -> Trace:
    with open_ledger(":memory:") as store:
        list(importing.take_in(store, [fixtures() / "traces" / f"{name}.jsonl"]))
        return read.load(store, trace_row(store, name).trace)


def first(run: Trace) -> Contradiction:
    return contradictions(run)[0]


@pytest.mark.data
@needs_shared
def test_the_airline_run_contradicts_two_sources_at_message_8(real: Imported) -> None:
    with open_ledger(real.path) as store:
        run = read.load(store, trace_row(store, "26/1").trace)
    found = first(run)
    assert run.steps[found.step].ask.place.message == 8
    assert [(each.role, each.step, each.place) for each in found.against] == [
        ("observed", found.step - 1, "get_reservation_details"),
        ("stated", None, "system prompt"),
    ]
    observed, told = found.against
    assert observed.text == "created_at 2024-05-12T00:14:30"
    assert "2024-05-15 15:00:00" in told.text
    assert "it is within the 24-hour cancellation window" in found.says[0].text


@pytest.mark.parametrize(
    ("name", "at", "rule"),
    [
        ("shop-many-wishes-v5-0", 4, "hallucinated state"),
        ("shop-refund-v1-0", 0, "hallucinated state"),
        ("shop-where-is-it-v1-1", 1, "hallucinated state"),
        ("shop-prefix-v1-0", 2, "loop"),
        ("shop-warranty-v3-0", 2, "loop"),
        ("shop-long-v6-0", 16, "another's value"),
    ],
)
def test_what_was_planted_in_a_bundled_run_is_named_at_its_decisive_step(
    name: str, at: int, rule: str
) -> None:
    found = first(bundled(name))
    assert (found.step, found.finding.rule) == (at, rule)


def test_a_value_of_another_order_contradicts_both_records() -> None:
    found = first(bundled("shop-long-v6-0"))
    assert [(each.step, each.text) for each in found.against] == [
        (0, "order_id 1047: total_cents 8150"),
        (2, "order_id 1045: total_cents 8400"),
    ]


def test_a_value_from_nowhere_names_what_was_looked_through() -> None:
    (source,) = first(bundled("shop-many-wishes-v5-0")).against
    assert source.role == "not found in"
    assert source.text == "system prompt, tool definitions, user message, 4 tool results"


def test_a_repeated_call_contradicts_the_error_that_refused_it() -> None:
    (source,) = first(bundled("shop-prefix-v1-0")).against
    assert (source.role, source.step) == ("error", 1)
    assert "order numbers have four digits" in source.text


def test_a_claim_of_success_contradicts_the_failure() -> None:
    run = trace(
        [
            heard("Cancel order 1099."),
            step(call("cancel_order", error("order 1099 was already shipped"), order_id="1099")),
            "Order 1099 has been successfully cancelled.",
        ],
        outcome="failed",
    )
    found = first(run)
    assert found.step == 1
    assert (found.says[0].role, found.against[0].role) == ("says", "error")
    assert "already shipped" in found.against[0].text


RECORDS = {
    "1047": '{"order_id": "1047", "total_cents": 8150, "email": "a@example.com"}',
    "1045": '{"order_id": "1045", "total_cents": 8400, "email": "a@example.com"}',
}


def mixing(amount: int, *, told: str = "Refund order 1047.") -> Trace:
    reads = [step(call("get_order", record, order_id=order)) for order, record in RECORDS.items()]
    refund = step(call("refund_order", "{}", order_id="1047", amount=amount))
    return trace([heard(told), *reads, refund], outcome="failed")


def mixed_up(run: Trace) -> list[Contradiction]:
    return [each for each in contradictions(run) if each.finding.rule == "another's value"]


def test_only_the_value_of_another_thing_is_one_mixed_up() -> None:
    run = mixing(8400)
    (found,) = mixed_up(run)
    assert_citable(found.finding, run)
    assert (found.step, found.finding.why) == (
        2,
        "refund_order for order_id 1047 uses the total_cents of 1045",
    )
    assert [(each.role, each.text, each.step, each.place) for each in found.finding.evidence] == [
        ("called", 'refund_order {"amount":8400,"order_id":"1047"}', 2, ""),
        ("observed", "order_id 1047: total_cents 8150", 0, "get_order"),
        ("observed", "order_id 1045: total_cents 8400", 1, "get_order"),
    ]
    assert mixed_up(mixing(8150)) == []
    assert mixed_up(mixing(5000)) == []


def test_a_sum_that_the_user_named_is_nobodys_mistake() -> None:
    assert mixed_up(mixing(8400, told="Refund 8400 cents for order 1047.")) == []


def test_a_sum_that_the_user_names_just_before_the_call_is_nobodys_mistake_either() -> None:
    reads = [step(call("get_order", record, order_id=order)) for order, record in RECORDS.items()]
    refund = step(call("refund_order", "{}", order_id="1047", amount=8400))
    told = heard("Make it 8400 cents, please.")
    late = heard("You refunded 8400 cents!")
    parts: list[Part] = [heard("Refund order 1047."), *reads]
    assert mixed_up(trace([*parts, told, refund], outcome="failed")) == []
    assert mixed_up(trace([*parts, refund, late, "Sorry."], outcome="failed")) != []


def test_every_step_is_looked_at_and_none_is_asked() -> None:
    detector = ContradictionDetector(bundled("shop-many-wishes-v5-0"))
    assert (detector.calls, detector.steps) == (0, tuple(range(8)))
    assert [step for step in detector.steps if detector.at(step).bad] == [4]


def test_a_run_without_a_contradiction_has_none() -> None:
    assert contradictions(bundled("shop-many-wishes-v8-0")) == ()


# --- the fix


def words(run: Trace) -> str:
    found = first(run)
    (change,) = fix_of(run, found).changes
    assert isinstance(change, InjectConstraint)
    assert change.step == found.step
    return change.text


def test_the_fix_tells_what_was_observed_and_nothing_else() -> None:
    said = words(bundled("shop-long-v6-0"))
    assert "Observed (step 0, get_order): order_id 1047: total_cents 8150." in said
    assert "must agree" in said


def test_a_made_up_value_is_not_replaced_by_the_right_one() -> None:
    said = words(bundled("shop-many-wishes-v5-0"))
    assert said.startswith("Never make up a value: amount 7500 not found in context.")
    assert "12900" not in said


def test_after_a_refusal_the_fix_asks_for_another_call() -> None:
    assert "Do not repeat that call; make a different one." in words(bundled("shop-prefix-v1-0"))


def test_a_fix_in_a_sub_agent_is_of_its_thread() -> None:
    run = bundled("shop-compare-v6-0")
    inner = next(each for each in run.steps if each.thread != run.steps[0].thread)
    assert instruct_at(run, inner.index, "Look.").thread == inner.thread
    assert instruct_at(run, 0, "Look.").thread is None
