"""The class that the gold of a task gives a failed run: the first call that it made otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from replay.trace import Json
from taxonomy.classes import FailureClass
from taxonomy.findings import Finding
from taxonomy.rules import gold
from tests.build import Part, call, error, step, trace
from tests.taxonomy.rule_case import findings

REFUND = {"name": "refund_order", "kwargs": {"id": "W1039", "amount": 5}}
CANCEL = {"name": "cancel_order", "kwargs": {"id": "W1039"}}
READ = {"name": "get_order", "kwargs": {"id": "W1039"}}


def found(actions: list[Json], *parts: Part, **known: Any) -> list[Finding]:
    made = trace(parts, task="It is W1039.", header={"reference": {"actions": actions}}, **known)
    return [each for each in findings(made) if each.rule == gold.NAME]


def test_another_argument_is_bad_args_where_the_call_was_made() -> None:
    refund = step(call("refund_order", id="W1039", amount=7))
    (finding,) = found([READ, REFUND], "I look.", refund, "Done.")
    assert (finding.failure, finding.sub, finding.step) == (FailureClass.BAD_ARGS, None, 1)
    assert finding.why == "refund_order not as in gold: amount"
    assert [(each.role, each.place) for each in finding.evidence] == [
        ("called", ""),
        ("stated", "gold"),
    ]


def test_another_tool_on_the_same_thing_is_a_wrong_tool() -> None:
    (finding,) = found([CANCEL], step(call("refund_order", id="W1039", amount=5)), "Done.")
    assert finding.failure is FailureClass.WRONG_TOOL
    assert finding.why == "refund_order; gold calls cancel_order"


def test_a_call_that_nobody_asked_for() -> None:
    first, second = (step(call("cancel_order", id=order)) for order in ("W1039", "W2000"))
    (finding,) = found([CANCEL], first, second, "Done.")
    assert (finding.failure, finding.sub) == (FailureClass.OTHER, gold.EXTRA)
    assert (finding.step, finding.why) == (1, "cancel_order not in gold")


def test_a_call_that_was_never_made_is_a_missing_step_at_its_last_chance() -> None:
    (finding,) = found([CANCEL], step(call("get_order", "open", id="W1039")), "It is open.")
    assert (finding.failure, finding.sub) == (FailureClass.OTHER, gold.MISSING)
    assert (finding.step, finding.why) == (1, 'call not made: cancel_order(id="W1039")')


@pytest.mark.parametrize("outcome", ["passed", "unknown"])
def test_of_a_run_that_may_have_passed_nothing_is_said(outcome: str) -> None:
    refund = step(call("refund_order", id="W1039", amount=7))
    assert not found([REFUND], refund, "Done.", outcome=outcome)


def test_a_failed_run_that_did_what_gold_does_failed_by_something_else() -> None:
    refused = step(call("refund_order", error("Error: try again later"), id="W1039", amount=7))
    assert not found([READ, REFUND], refused, step(call("refund_order", id="W1039", amount=5)))


def test_a_look_that_gold_has_not_is_none() -> None:
    refund = step(call("refund_order", id="W1039", amount=5))
    assert not found([REFUND], step(call("get_user", "ann", id="7")), refund, "Done.")


def test_a_failed_run_without_a_step_has_no_place_for_it() -> None:
    assert not found([CANCEL])
