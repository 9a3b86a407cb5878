"""Audits are kept with a version and a day, rated with an interval, and grow old."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replay.store.handle import Store
from taxonomy.audit.probes import BY_NAME, PROBES, audit_run, audit_version
from taxonomy.audit.rates import rate_probe
from taxonomy.classes import FailureClass
from taxonomy.findings import Audited, AuditFinding, AuditResult, Finding, ProbeName
from taxonomy.judgements.audits import (
    DAY_NS,
    STALE_DAYS,
    audit_age,
    date_audits,
    keep_audits,
    kept_audits,
)
from taxonomy.judgements.schema import open_ledger
from tests.build import call, step, trace
from tests.taxonomy.pareto_case import put

NOW = 1_800_000_000 * 10**9
VERSION = "arc audit 1 2"
CLEAN = (Audited(probe="claim", checked=1),)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_ledger(":memory:") as opened:
        yield opened


def said(probe: ProbeName, checked: int, *results: AuditResult, unread: int = 0) -> Audited:
    found = tuple(
        AuditFinding(
            result=each,
            finding=Finding(failure=FailureClass.OTHER, step=0, why="why", rule="a rule"),
        )
        for each in results
    )
    return Audited(probe=probe, checked=checked, findings=found, unread=unread)


def test_chances_and_runs_are_rated_and_what_was_not_read_is_in_no_rate() -> None:
    found = {
        "a": (said("faithfulness", 4, "unfaithful", "unfaithful"),),
        "b": (said("faithfulness", 6, unread=9),),
        "c": (said("faithfulness", 0, unread=1),),
    }
    rated = rate_probe(BY_NAME["faithfulness"], found)
    assert (rated.failed, rated.chances.n, rated.chances.value) == (2, 10, 0.2)
    assert (rated.runs_failed, rated.runs.n) == (1, 2), "a run with nothing to check is not in n"
    assert rated.unread == 10
    assert rated.chances.low < 0.2 < rated.chances.high


def test_many_chances_of_one_run_do_not_make_an_interval_narrow() -> None:
    of_one = rate_probe(BY_NAME["claim"], {"a": (said("claim", 100),)})
    of_many = rate_probe(BY_NAME["claim"], {str(at): (said("claim", 1),) for at in range(100)})
    assert of_one.chances.n == of_many.chances.n == 100
    assert of_one.chances.high > 0.5 > 0.1 > of_many.chances.high


def test_nothing_to_check_is_no_rate() -> None:
    rated = rate_probe(BY_NAME["claim"], {"a": (said("claim", 0),)})
    assert (rated.chances.value, rated.runs.value) == (None, None)


def test_what_was_stopped_is_told_apart() -> None:
    probe = BY_NAME["instruction"]
    rated = rate_probe(probe, {"a": (said("instruction", 3, "broken", "stopped"),)})
    assert (rated.failed, rated.chances.n, rated.apart) == (1, 3, {"stopped": 1})


def test_every_probe_says_how_much_it_checked() -> None:
    made = trace([step("I'll read a.py.", call("Read", "x", file_path="a.py")), "Done."])
    assert [each.probe for each in audit_run(made)] == [probe.name for probe in PROBES]
    assert len(BY_NAME) == len(PROBES)


def test_an_audit_holds_for_the_content_and_the_version_that_made_it(store: Store) -> None:
    key = put(store, "run")
    keep_audits(store, {key: CLEAN, "nobody": CLEAN}, VERSION, NOW)
    assert kept_audits(store, [key, "nobody"], VERSION) == {key: CLEAN}
    assert kept_audits(store, [key], "another") == {}
    assert kept_audits(store, [], VERSION) == {}
    with store.writing() as db:
        db.execute("UPDATE trace SET content = 'grown' WHERE key = ?", (key,))
    assert kept_audits(store, [key], VERSION) == {}
    assert audit_age(store, [key], VERSION, NOW).new == 1


def test_an_audit_grows_old_and_new_runs_are_counted(store: Store) -> None:
    old, new = put(store, "old"), put(store, "new")
    nothing = audit_age(store, [old, new], VERSION, NOW)
    assert (nothing.last_ns, nothing.days, nothing.new, nothing.is_stale) == (None, None, 2, False)
    keep_audits(store, {old: CLEAN}, VERSION, NOW)
    age = audit_age(store, [old, new], VERSION, NOW + STALE_DAYS * DAY_NS)
    assert (age.days, age.new, age.is_stale) == (STALE_DAYS, 1, False)
    age = audit_age(store, [old, new], VERSION, NOW + (STALE_DAYS + 1) * DAY_NS)
    assert age.is_stale
    date_audits(store, [old], NOW + (STALE_DAYS + 1) * DAY_NS)
    assert not audit_age(store, [old], VERSION, NOW + (STALE_DAYS + 1) * DAY_NS).is_stale


def test_the_version_is_of_the_probes_and_the_rules() -> None:
    from taxonomy.judgements.diagnoses import engine_version

    assert engine_version().split()[-1] in audit_version()
