"""What was read of the rules' findings: every rule has been read, and little of it is false."""

from __future__ import annotations

from typing import Literal

import pytest

from replay.trace import Json
from taxonomy.rules import RULES
from tests.bench import precision_results
from tests.bench.precision import Case, drawn, hide
from tests.bench.precision_results import precision, shipped
from tests.build import call, step, trace
from tests.taxonomy.rule_case import findings

HINTS = {"better tool", "user off task", "verified nothing"}
"""Rules that only hint: nothing is counted of them."""

SILENT = {"arithmetic", "false claim", "instruction broken"}
"""Rules that find nothing in the shared runs."""

LEAST, FEWEST = 0.7, 10
MOST_ALARMS = 0.05


def test_every_rule_was_read_and_what_it_says_is_mostly_true() -> None:
    rows = shipped().rows
    read = {row.rule for row in rows if row.sample == "fresh"}
    assert read == {rule.name for rule in RULES} - HINTS - SILENT
    for rule in read:
        true, n = precision(rows, rule)
        assert true >= LEAST * n, rule


def test_a_row_has_a_reason_of_our_own_and_stands_once() -> None:
    rows = shipped().rows
    places = [(row.sample, row.rule, row.source, row.run, row.step) for row in rows]
    assert len(places) == len({*places})
    assert all(0 < len(row.reason) <= 100 for row in rows)


def test_few_runs_that_passed_are_given_a_class() -> None:
    agents = shipped().shares[-1]
    assert agents.passed > 100
    assert agents.alarms <= MOST_ALARMS * agents.passed
    assert agents.classed > (agents.classed_before or 0)


def test_every_finding_of_an_audit_was_read_and_few_runs_that_passed_have_one() -> None:
    """In-sample: the probes were mended by these runs."""
    kept = shipped()
    for share in kept.probes:
        true, n = precision(kept.audited, share.probe)
        assert n == share.failed, "a finding a row, of the probes as they are"
        assert true >= LEAST * n, share.probe
        assert share.alarms <= MOST_ALARMS * share.passed
    places = [(row.sample, row.rule, row.source, row.run, row.step) for row in kept.audited]
    assert len(places) == len({*places})
    assert all(0 < len(row.reason) <= 100 for row in kept.audited)


def test_the_page_has_every_row() -> None:
    text = precision_results.tables(shipped())
    assert sum(f"| {row.verdict} | {row.reason} |" in text for row in shipped().rows) == len(
        shipped().rows
    )


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_nothing_says_how_a_hidden_run_ended(outcome: Literal["passed", "failed"]) -> None:
    told: dict[str, Json] = {"check": {"tests": {"test_a": outcome}}, "instruction": "Cancel."}
    made = trace(["Done."], outcome=outcome, header={"reference": told})
    hidden = hide(made).header
    assert (hidden.outcome.status, hidden.outcome.value) == ("unknown", None)
    assert hidden.reference == {"instruction": "Cancel."}


def test_a_draw_takes_one_finding_a_run_from_source_after_source() -> None:
    loop = findings(trace([step(call("look", "open", id=7))] * 4, outcome="unknown"))
    every = [
        Case(key=f"{n}", source=source, name="a", failed=None, found=loop, hidden=loop)
        for n in range(9)
        for source in ("one", "two")
    ]
    taken = [case.source for case, _ in drawn(every, seed=1, count=6)]
    assert sorted(taken[:2]) == ["one", "two"]
    assert (taken.count("one"), taken.count("two")) == (3, 3)
    assert [case.key for case, _ in drawn(every, 1)] == [case.key for case, _ in drawn(every, 1)]
