"""Where gold is known, it shows the first candidate."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from replay.trace import Json
from taxonomy.calibration.labels import place, read_labels
from taxonomy.diagnosis import diagnose
from taxonomy.findings import Candidate
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.schema import open_ledger
from taxonomy.localiser.known import GOLD
from tests.build import Part, call, error, heard, step, trace
from tests.shared import DATA, imported, needs_shared
from tests.taxonomy.test_gold_differences import CANCEL, REFUND, REFUNDED

WRONG = step(call("refund_order", id="1", amount=777))


def candidates(
    gold: list[Json], *parts: Part, outcome: Literal["passed", "failed", "unknown"] = "failed"
) -> tuple[Candidate, ...]:
    made = trace(parts, outcome=outcome, header={"reference": {"actions": gold}})
    return diagnose(made).candidates


def of_gold(*args: Any, **more: Any) -> list[tuple[int, str]]:
    return [
        (each.step, each.why) for each in candidates(*args, **more)
        if each.signals and each.signals[0].name == GOLD
    ]  # fmt: skip


def test_the_first_write_that_gold_has_not_comes_first() -> None:
    made = ("Hello.", step(call("get_order", id="1")), WRONG, WRONG, "Done.")
    (first, *_) = candidates([REFUND], *made)
    assert (first.step, first.band) == (2, None)
    assert first.why == "refund_order · amount: expected 5, was 777"
    assert first.signals[0].name == GOLD


def test_an_attempt_that_failed_comes_before_the_write_that_went_through() -> None:
    tried = step(call("refund_order", error("too much"), id="1", amount=900))
    found = of_gold([REFUND], tried, WRONG)
    assert found[0] == (0, "refund_order, failed · amount: expected 5, was 900")
    assert found[1][0] == 1


def test_the_proposal_that_told_the_wrong_value_is_next() -> None:
    asked = heard("Refund what I paid, please.")
    made = ("Hello.", asked, "I would refund 777 dollars. Do you agree?", heard("Yes."), WRONG)
    assert of_gold([REFUND], *made)[:2] == [
        (2, "refund_order · amount: expected 5, was 777"),
        (1, "proposes 777, not in gold, before refund_order"),
    ]


def test_what_a_rule_finds_wrong_just_before_the_call_is_the_decision() -> None:
    booking = {"id": "1", "created_at": "2024-05-12T09:00:00"}
    made = (
        step(call("get_order", booking, id="1")),
        "It was booked on May 12, 2024, and is within the 24-hour window. Shall I refund it?",
        heard("Yes."),
        WRONG,
        "Done.",
    )
    reference = {"actions": [REFUND]}
    said = diagnose(trace(made, header={"reference": reference}, system="Now: 2024-05-15 15:00"))
    claim = next(each for each in said.findings if each.step == 1)
    (first, second, *_) = said.candidates
    assert (first.step, second.step) == (1, 2)
    assert first.why == f"{claim.why}, then refund_order · amount: expected 5, was 777"


def test_a_value_that_the_user_gave_was_no_proposal_of_the_agent() -> None:
    asked = heard("Refund 777 dollars, please.")
    made = ("Hello.", asked, "I refund 777 dollars. Do you agree?", heard("Yes."), WRONG)
    assert [at for at, _ in of_gold([REFUND], *made)] == [2]


def test_a_hand_over_that_leaves_gold_undone_comes_first() -> None:
    handed = step(call("transfer_to_human_agents", summary="Cannot."))
    found = of_gold([CANCEL], "Hello.", handed, "Bye.")
    assert found[0][0] == 1
    assert found[0][1].startswith("call not in gold: transfer_to_human_agents")
    done = step(call("cancel_order", id="2"))
    assert of_gold([CANCEL], done, handed) == [], "gold was carried out before"


def test_a_missing_call_points_to_the_step_that_refused_it() -> None:
    made = (
        "Unfortunately, I cannot help before I know your name.",
        heard("Ann."),
        REFUNDED,
        "I am unable to cancel that order.",
        heard("What a pity."),
        "Unfortunately so. Bye.",
    )
    assert of_gold([REFUND, CANCEL], *made) == [
        (2, "refused: “I am unable to cancel that order.”; call not made: cancel_order(id=\"2\")"),
    ]  # fmt: skip


def test_a_missing_call_that_nothing_refused_could_come_until_the_end() -> None:
    found = of_gold([REFUND, CANCEL], REFUNDED, "Done.", heard("Thanks."), "Bye.")
    assert found == [(2, 'last chance for a call not made: cancel_order(id="2")')]


def test_a_run_that_passed_has_none_of_gold_and_one_without_outcome_has() -> None:
    assert of_gold([REFUND], WRONG, outcome="passed") == []
    assert [at for at, _ in of_gold([REFUND], WRONG, outcome="unknown")] == [0]


def test_what_is_said_in_the_end_is_no_candidate() -> None:
    made = trace(["It is Rome."], header={"reference": {"target": "Paris"}})
    said = diagnose(made)
    assert said.gold is not None
    assert said.gold.differences
    assert not any(signal.name == GOLD for each in said.candidates for signal in each.signals)


def test_an_attempt_that_failed_counts_for_nothing_where_gold_was_done_in_the_end() -> None:
    tried = step(call("refund_order", error("too much"), id="1", amount=900))
    assert of_gold([REFUND], tried, REFUNDED) == []


def test_other_candidates_follow_and_a_step_has_the_signs_of_both() -> None:
    tried = step(call("refund_order", error("no such order"), id="9", amount=1))
    first, *others = candidates([REFUND], "Hello.", tried, "Done.")
    assert first.step == 1
    assert first.signals[0].name == GOLD
    assert len(first.signals) > 1, "the error is a sign as well"
    assert all(each.step != 1 for each in others)


@needs_shared
@pytest.mark.data
def test_airline_runs_begin_with_the_first_write_no_gold_action_asks_for(tmp_path: Path) -> None:
    labels, _ = read_labels(DATA / "labels" / "tau_airline.jsonl")
    with open_ledger(tmp_path / "arc.db") as store:
        imported(store, DATA / "tau_bench")
        decisive = [each for each in place(store, labels)[0] if each.label.decisive]
        first = [
            (each.step, said.candidates[0].step if said and said.candidates else None)
            for each in decisive
            for said in [diagnosis(store, each.trace, scores=False)]
        ]
    assert len(first) == 85
    # of five runs it is the false claim one step before, which a label made by a rule cannot name
    assert sum(labelled == found for labelled, found in first) >= 0.9 * len(first)
