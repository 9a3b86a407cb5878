"""`arc fleet failures`: what SQL counts is what the rules find in the same runs, run by run."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc_tui import importing
from replay.fleet.dialects import find_dialect
from replay.fleet.stores import FleetStore
from replay.store.read import load
from taxonomy.classes import class_label
from taxonomy.fleet.failures import CLASSES, FleetFailures, count_failures
from taxonomy.judgements.schema import open_ledger
from taxonomy.rules import bad_args, cap_hit, findings, gave_up, loop, wrong_tool
from taxonomy.rules.rule import RuleContext
from tests.fleet import classes, exporter
from tests.fleet.conftest import Store
from tests.fleet.test_questions import ALL
from tests.replay.otlp_case import hexed

pytestmark = [pytest.mark.process, pytest.mark.slow]

RULES = {rule.NAME for rule in (loop, bad_args, wrong_tool, gave_up, cap_hit)}
FORMS = ("maps", "json", "signoz")
EXPECTED = {hexed(classes.trace_of(each), 32): each for each in classes.CASES}


def ask(fleet: Store, database: str, query: str = "") -> FleetFailures:
    connection = fleet.connect(database)
    dialect = find_dialect(connection, FleetStore(url=fleet.url(database)))
    found = count_failures(connection, dialect, query, ALL)
    connection.close()
    return found


def shown(found: FleetFailures) -> dict[str, set[str]]:
    by_trace: dict[str, set[str]] = {trace: set() for trace in found.unexplained}
    for row in found.rows:
        for trace in row.traces:
            by_trace.setdefault(trace, set()).add(row.label)
    return by_trace


def by_rules(file: Path) -> dict[str, set[str]]:
    """The classes that the rules of SQL's classes find in each run of a file."""
    found: dict[str, set[str]] = {}
    with open_ledger(":memory:") as store:
        for _ in importing.import_paths(store, [file]):
            pass
        for row in store.db.execute("SELECT key, source_id FROM trace").fetchall():
            said = findings(RuleContext(load(store, row[0])))
            found[row[1]] = {
                class_label(each.failure, each.sub) for each in said if each.rule in RULES
            }
    return found


@pytest.mark.parametrize("form", FORMS)
def test_sql_counts_what_the_rules_find(fleet: Store, cases: Path, form: str) -> None:
    counted = shown(ask(fleet, f"class_{form}"))
    rules = by_rules(cases)
    assert counted.keys() == rules.keys() == EXPECTED.keys()
    for trace, case in EXPECTED.items():
        assert counted[trace] == ({case.shows} if case.shows else set()), case.name
        more = {case.rule_only} if case.rule_only else set()
        assert rules[trace] == counted[trace] | more, case.name


def test_spans_that_were_sent_again_count_once(fleet: Store, cases: Path) -> None:
    fleet.fill("class_twice", cases)
    fleet.insert("class_twice.otel_traces", exporter.rows(cases))
    assert shown(ask(fleet, "class_twice")) == shown(ask(fleet, "class_maps"))


def test_each_class_occurs_and_is_nearly_met() -> None:
    assert {each.shows for each in classes.CASES} - {""} == {each.label for each in CLASSES}
    assert sum(not each.shows for each in classes.CASES) > 10


def test_a_question_narrows_what_is_counted(fleet: Store, cases: Path) -> None:
    found = ask(fleet, "class_maps", "tool:lookup or tool:refund_order")
    named = [each for each in classes.CASES if {"lookup", "refund_order"} & {
        call.tool for call in each.calls}]  # fmt: skip
    assert found.failed == len(named)
    assert {row.label for row in found.rows if row.traces} == {"bad args", "wrong tool"}


def test_without_outcomes_failed_means_errors_and_idle_runs_are_not_counted(fleet: Store) -> None:
    found = ask(fleet, "no_outcome")
    assert not found.by_outcome
    assert sum("failed status" in note for note in found.notes) == 1, "it is said once"
    assert any("outcome:failed is taken as errors>0" in note for note in found.notes)
