"""The calls of a run against the gold calls of its task: which are wrong, missing or too many."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc_tui.views.evidence import GoldDifference
from arc_tui.views.trace import build_trace
from replay.trace import Header, Json, Outcome
from taxonomy.classes import Shape
from taxonomy.findings import Diagnosis
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.sample import put
from tests.build import Part, call, error, step, trace

READ = {"name": "get_order", "kwargs": {"id": "1"}}
REFUND = {"name": "refund_order", "kwargs": {"id": "1", "amount": 5}}
CANCEL = {"name": "cancel_order", "kwargs": {"id": "2"}}


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


def differences(db: Path, gold: list[Json] | None, *parts: Part) -> tuple[GoldDifference, ...]:
    """Of a failed run with these steps."""
    head = Header(
        format="built",
        source_id="a",
        task="a",
        trial="1",
        outcome=Outcome(status="failed", value=0.0, by="checker"),
        reference={} if gold is None else {"actions": gold},
    )
    said = Diagnosis(trace="", shape=Shape.HEALTHY, scores=(), findings=(), candidates=())
    key = put(db, head, trace(parts).spans, said)
    with open_ledger(db) as store:
        return build_trace(store, key).gold


def test_a_call_with_another_argument_names_the_argument_and_the_step(db: Path) -> None:
    wrong = step(call("refund_order", id="1", amount=7))
    (found,) = differences(db, [READ, REFUND], step(call("get_order", id="1")), wrong)
    assert (found.step, found.tool, found.arguments) == (1, "refund_order", ("amount",))
    assert found.line == "refund_order differs from gold: amount"
    assert found.made == 'refund_order(id="1", amount=7)'
    assert found.gold == 'refund_order(id="1", amount=5)'


def test_a_call_that_was_not_made_has_no_step(db: Path) -> None:
    made = step(call("refund_order", id="1", amount=5))
    (found,) = differences(db, [REFUND, CANCEL], made, step("Done."))
    assert (found.step, found.line) == (None, 'call not made: cancel_order(id="2")')


def test_a_call_that_gold_lacks_is_named_at_its_step(db: Path) -> None:
    twice = step(call("refund_order", id="1", amount=5))
    (found,) = differences(db, [REFUND], twice, twice)
    assert (found.step, found.line) == (1, 'call not in gold: refund_order(id="1", amount=5)')


def test_what_changes_nothing_is_no_difference(db: Path) -> None:
    """Reads are free, a call that failed did nothing, and the order of the calls is free."""
    made = (
        step(call("get_order", id="3")),
        step(call("refund_order", error("no such order"), id="9", amount=1)),
        step(call("cancel_order", id="2")),
        step(call("refund_order", id="1", amount=5)),
    )
    assert differences(db, [READ, REFUND, CANCEL], *made) == ()


def test_without_gold_calls_nothing_is_said(db: Path) -> None:
    assert differences(db, None, step(call("refund_order", id="1", amount=7))) == ()
