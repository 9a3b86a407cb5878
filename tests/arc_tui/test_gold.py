"""What is known of a run for certain stands first: where it differs from the gold of its task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arc_tui.features.compare.pair import known_pair
from arc_tui.features.compare.run import build_compare
from arc_tui.features.compare.view import known_facts, known_line
from arc_tui.features.trace.pages import why_page
from arc_tui.ui.document import Block, Fold, Item, StepLink
from arc_tui.views.brief import brief_text
from arc_tui.views.known import KnownLine
from arc_tui.views.step import build_step
from arc_tui.views.trace import build_diagnose, build_trace, hide_judgements
from replay.store.handle import Store
from replay.trace import Header, Json, Outcome
from taxonomy.diagnosis import diagnose
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.sample import put
from tests.build import Part, call, error, step, trace

READ = {"name": "get_order", "kwargs": {"id": "1"}}
REFUND = {"name": "refund_order", "kwargs": {"id": "1", "amount": 5}}
CANCEL = {"name": "cancel_order", "kwargs": {"id": "2"}}
LOOKED = step(call("get_order", id="1"))
WRONG = step(call("refund_order", id="1", amount=7))
RIGHT = step(call("refund_order", id="1", amount=5))
SOURCE = "gold of the source"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


def run(db: Path, gold: Json, *parts: Part, passed: bool = False, trial: str = "1") -> str:
    """A run with these steps, looked at by the rules; its id."""
    outcome = Outcome(status="passed" if passed else "failed", value=float(passed), by="checker")
    head: dict[str, Any] = {"reference": None if gold is None else {"actions": gold}}
    made = trace(parts, outcome=outcome.status, header=head)
    header = Header(format="built", source_id=trial, task="a", trial=trial, outcome=outcome, **head)
    return put(db, header, made.spans, diagnose(made))


def known(db: Path, gold: Json, *parts: Part, **more: Any) -> tuple[KnownLine, ...]:
    key = run(db, gold, *parts, **more)
    with open_ledger(db) as store:
        return build_trace(store, key).known


def texts(items: tuple[Item, ...]) -> list[str]:
    found: list[str] = []
    for item in items:
        if isinstance(item, Fold):
            found += [item.line, *texts(item.inside())]
        else:
            found.append("  ".join(filter(None, (item.label, item.text, item.aside))))
    return found


def why(store: Store, key: str, at: int) -> tuple[Item, ...]:
    view = build_trace(store, key)
    return why_page(view, build_step(store, key, at, rows=view.steps, said=view.diagnosis))


def test_a_wrong_argument_says_what_was_expected_what_was_given_and_the_step(db: Path) -> None:
    summary, found = known(db, [READ, REFUND], LOOKED, WRONG)
    assert summary.line == f"gold · 0 of 1 call made · {SOURCE}"
    assert found.line == "gold · step 1 · refund_order · amount: expected 5, was 7"
    assert found.details == (
        ("call", 'refund_order(id="1", amount=7)'), ("gold", 'refund_order(id="1", amount=5)'),
    )  # fmt: skip


def test_a_call_that_was_not_made_has_no_step_but_a_last_chance(db: Path) -> None:
    _, found = known(db, [REFUND, CANCEL], RIGHT, "Done.")
    assert found.line == 'gold · call not made: cancel_order(id="2")'
    assert found.details == (("last chance", "step 1"),)


def test_arguments_that_a_line_only_counts_stand_below_it(db: Path) -> None:
    gold = {"name": "book", "kwargs": dict.fromkeys("abcde", 1)}
    _, found = known(db, [gold], step(call("book", **dict.fromkeys("abcde", 2))))
    assert found.fact.endswith("c: expected 1, was 2; 2 more differ")
    named = [text for label, text in found.details if label == "argument"]
    assert named == ["d: expected 1, was 2", "e: expected 1, was 2"]


def test_of_a_long_gold_call_all_is_there(db: Path) -> None:
    long = {"name": "send_email", "kwargs": {"text": "word " * 100, "to": "ann"}}
    _, found = known(db, [long], "Done.")
    assert len(found.fact) <= 120
    assert found.details[1] == ("gold", f'send_email {{"text":"{"word " * 100}","to":"ann"}}')


def test_what_changes_nothing_is_no_difference_but_a_failed_attempt_is_told(db: Path) -> None:
    made = (
        step(call("get_order", id="3")),
        step(call("refund_order", error("no such order"), id="9", amount=1)),
        step(call("cancel_order", id="2")),
        RIGHT,
    )
    summary, failed = known(db, [READ, REFUND, CANCEL], *made)
    assert summary.fact == f"2 of 2 calls made · {SOURCE}"
    assert failed.line == (
        'gold · step 1 · failed call not in gold: refund_order(id="9", amount=1)'
    )


def test_of_a_run_that_passed_another_way_the_differences_are_only_counted(db: Path) -> None:
    (found,) = known(db, [REFUND], WRONG, passed=True)
    assert found.fact == (
        f"0 of 1 call made, 1 difference not listed, as the run passed · {SOURCE}"
    )


def test_without_gold_nothing_is_known(db: Path) -> None:
    assert known(db, None, WRONG) == ()


@pytest.mark.slow
def test_why_begins_with_it_at_every_step(db: Path) -> None:
    key = run(db, [REFUND, CANCEL], LOOKED, WRONG, "Done.")
    with open_ledger(db) as store:
        here = texts(why(store, key, 1))
        assert here[0] == "refund_order · amount: expected 5, was 7  gold"
        assert here[1:4] == [
            "the call and the gold call",
            'call  refund_order(id="1", amount=7)',
            'gold  refund_order(id="1", amount=5)',
        ]
        assert here[4] == f"gold  0 of 2 calls made · {SOURCE}"
        elsewhere = why(store, key, 0)
        assert texts(elsewhere)[:4] == [
            f"gold  0 of 2 calls made · {SOURCE}",
            'gold  call not made: cancel_order(id="2")',
            "last chance  step 2",
            "gold  step 1 · refund_order · amount: expected 5, was 7",
        ]
        link = elsewhere[3]
        assert isinstance(link, StepLink)
        assert link.step == 1


def test_many_facts_of_other_steps_are_behind_one_line_that_counts_them(db: Path) -> None:
    key = run(db, [], LOOKED, *[step(call("cancel_order", id=str(at))) for at in range(5)])
    with open_ledger(db) as store:
        page = why(store, key, 0)
    fold = next(item for item in page if isinstance(item, Fold))
    assert fold.line == "5 facts of other steps"
    assert len(fold.inside()) == 5


def test_who_judges_blind_does_not_see_gold(db: Path) -> None:
    key = run(db, [REFUND], WRONG)
    with open_ledger(db) as store:
        view = hide_judgements(build_trace(store, key))
        step_view = build_step(store, key, 0, rows=view.steps, said=view.diagnosis, blind=True)
        page = why_page(view, step_view)
    assert not any("expected 5" in each.text for each in page if isinstance(each, Block))


def test_diagnose_and_brief_begin_with_it(db: Path) -> None:
    key = run(db, [REFUND], LOOKED, WRONG)
    with open_ledger(db) as store:
        lines = build_diagnose(store, key).lines()
        brief = brief_text(store, key)
    fact = "gold · step 1 · refund_order · amount: expected 5, was 7"
    assert lines[1] == fact
    first = next(line for line in lines if line.startswith("1. "))
    assert first == "1. step 1 · gold · refund_order · amount: expected 5, was 7 · accuracy unknown"
    assert lines.index(fact) < lines.index(first)
    assert brief.index("## Known for certain") < brief.index("## Evidence")
    assert f"- {fact}" in brief


def test_compare_holds_both_against_the_one_gold(db: Path) -> None:
    a, b = run(db, [REFUND], WRONG, trial="1"), run(db, [REFUND], RIGHT, passed=True, trial="2")
    with open_ledger(db) as store:
        view = build_compare(store, a, b)
        replayed = build_compare(store, a, b)
    assert list(known_facts(view)) == [
        f"A · gold · 0 of 1 call made · {SOURCE}",
        "A · gold · step 0 · refund_order · amount: expected 5, was 7",
        f"B · gold · 1 of 1 call made · {SOURCE}",
    ]
    assert known_line(view) == (
        f"A gold · 0 of 1 call made · {SOURCE}; B gold · 1 of 1 call made · {SOURCE}"
    )
    (part,) = known_pair(replayed).parts
    assert part.a is not None
    assert "step 0" in part.a


def test_what_a_rule_ignores_is_no_difference_in_compare(db: Path) -> None:
    from replay.compare.rules import rules_from

    key = run(db, [REFUND], WRONG)
    with open_ledger(db) as store:
        view = build_compare(store, key, key, rules_from(["refund_order.amount=ignore"]))
    assert [fact.fact for fact in view.a.known] == [f"1 of 1 call made · {SOURCE}"]
