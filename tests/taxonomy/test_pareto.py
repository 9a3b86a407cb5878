"""The Pareto: which run a bar counts, once; its parts, its owner and the runs behind it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.store import Store
from taxonomy.classes import Fault
from taxonomy.owners import owners_from
from taxonomy.pareto import By, Pareto, iso_week, pareto, untagged_runs
from tests.taxonomy.pareto_case import BAD, GAVE_UP, LOOP, OTHER, empty, found, put, tag


def counts(counted: Pareto) -> dict[str, tuple[int, int]]:
    return {bar.label: (bar.tagged, bar.suggested) for bar in counted.all_bars}


def filled() -> Store:
    """Five failed runs, one nobody names, one of the harness; one passed, one unknown."""
    store = empty()
    tag(store, put(store, "a", found(LOOP, 1), found(BAD, 0), variant="v1"), LOOP, 1)
    put(store, "b", found(LOOP, 1), found(BAD, 2), variant="v1", day=7)
    put(store, "c", found(GAVE_UP, 2), variant="v2", day=None)
    put(store, "d", found(OTHER, 0, Fault.HARNESS, "serving error"), day=8)
    put(store, "e")
    put(store, "f", found(LOOP, 1), status="passed")
    put(store, "g", found(LOOP, 1), status="unknown")
    return store


def test_a_failed_run_counts_once_by_its_most_trusted_source_and_earliest_step() -> None:
    counted = pareto(filled())
    assert counts(counted) == {
        "loop": (1, 1),
        "gave up": (0, 1),
        "other / serving error (harness)": (0, 1),
    }
    assert [bar.label for bar in counted.apart] == ["other / serving error (harness)"]
    assert (counted.failed, counted.untagged, counted.unknown) == (5, 1, 1)


def test_every_class_counts_a_run_once_even_where_person_and_rule_both_name_it() -> None:
    assert counts(pareto(filled(), every=True)) == {
        "bad args": (0, 2),
        "loop": (1, 1),
        "gave up": (0, 1),
        "other / serving error (harness)": (0, 1),
    }


@pytest.mark.parametrize(
    ("by", "labels"),
    [
        ("tool", ["loop · refund_order", "gave up · no call"]),
        ("variant", ["loop · v1", "gave up · v2"]),
        ("task", ["gave up · c", "loop · a", "loop · b"]),
        ("week", ["loop · 2026-W02", "loop · 2026-W03", "gave up · –"]),
        ("owner", ["loop · runtime", "gave up · –"]),
    ],
)
def test_a_class_is_split_by_what_was_asked(by: By, labels: list[str]) -> None:
    counted = pareto(filled(), by=by, owners=owners_from({"loop": "runtime"}))
    assert [bar.label for bar in counted.bars] == labels
    assert [bar.part for bar in counted.bars] == [label.split(" · ")[1] for label in labels]


def test_the_runs_behind_a_bar_begin_with_the_tagged_ones_and_name_their_step() -> None:
    store = filled()
    (bar,) = [bar for bar in pareto(store).bars if bar.label == "loop"]
    assert [(run.task, run.step, run.accepted, run.by) for run in bar.runs] == [
        ("a", 1, True, "ann"),
        ("b", 1, False, "a rule"),
    ]
    assert len(bar.runs) == bar.count
    assert [run.task for run in untagged_runs(store)] == ["e"]
    assert pareto(store) == pareto(store)


def test_a_bar_has_the_owner_of_its_runs_and_none_where_nobody_is_asked() -> None:
    store = empty()
    for task in ("a", "b", "c"):
        put(store, task, found(LOOP), found(BAD, 1))
    assert [bar.owner for bar in pareto(store).bars] == [None]
    owned = pareto(store, owners=owners_from({"loop": "runtime"}))
    assert [(bar.owner, bar.owners) for bar in owned.bars] == [("runtime", 1)]


def test_what_the_harness_did_is_the_harnesses_owners() -> None:
    named = owners_from({"other": "triage", "fault:harness": "platform"})
    assert [bar.owner for bar in pareto(filled(), owners=named).apart] == ["platform"]
    others = owners_from({"other": "triage"})
    assert [bar.owner for bar in pareto(filled(), owners=others).apart] == [None]


def test_nothing_failed_is_an_empty_pareto() -> None:
    store = empty()
    put(store, "a", status="passed")
    assert pareto(store) == Pareto(bars=(), apart=(), untagged=0, failed=0, unknown=0)


@pytest.mark.parametrize(
    ("ns", "week"),
    [
        (None, "–"),
        (0, "1970-W01"),
        (-1, "1970-W01"),
        (1_767_571_199_999_999_999, "2026-W01"),
        (1_767_571_200_000_000_000, "2026-W02"),
    ],
)
def test_a_week_is_that_of_iso_8601_in_utc(ns: int | None, week: str) -> None:
    assert iso_week(ns) == week


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_time_a_database_can_hold_has_a_week(ns: int) -> None:
    assert "-W" in iso_week(ns)
