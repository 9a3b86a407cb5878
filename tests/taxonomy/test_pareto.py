"""The Pareto: which run a bar counts, once; its parts, its owner and the runs behind it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from replay.store.handle import Store
from replay.store.write import Writer, remove
from replay.trace import Batch, Header, Outcome
from taxonomy.classes import Attribution
from taxonomy.failures import (
    BYS,
    Bar,
    By,
    Pareto,
    iso_week,
    page_behind,
    pareto,
    tally,
    untagged_runs,
)
from taxonomy.findings import Diagnosis, Finding
from taxonomy.judgements import diagnoses
from taxonomy.judgements.care import forget
from taxonomy.judgements.schema import FIRST_WORDS, open_ledger
from taxonomy.judgements.suggestions import approve_suggestions, keep_suggestion, withdraw
from taxonomy.judgements.suggestions import suggest as suggest_as_agent
from taxonomy.judgements.tags import TagRow
from taxonomy.metrics.change import dated
from taxonomy.owners import owners_from
from taxonomy.query.failures import first_words, run_heads, tag_rows
from tests.planned import ways
from tests.taxonomy.pareto_case import (
    BAD,
    GAVE_UP,
    LOOP,
    OTHER,
    SPANS,
    WRONG,
    empty,
    found,
    put,
    put_again,
    tag,
)
from tests.tries import often


def counts(counted: Pareto) -> dict[str, tuple[int, int]]:
    return {bar.label: (bar.tagged, bar.suggested) for bar in counted.all_bars}


def filled() -> Store:
    """Five failed runs, one nobody names, one of the harness; one passed, one unknown."""
    store = empty()
    tag(store, put(store, "a", found(LOOP, 1), found(BAD, 0), variant="v1"), LOOP, 1)
    put(store, "b", found(LOOP, 1), found(BAD, 2), variant="v1", day=7)
    put(store, "c", found(GAVE_UP, 2), variant="v2", day=None)
    put(store, "d", found(OTHER, 0, Attribution.ENVIRONMENT, "serving error"), day=8)
    put(store, "e")
    put(store, "f", found(LOOP, 1), status="passed")
    put(store, "g", found(LOOP, 1), status="unknown")
    return store


def test_a_failed_run_counts_once_by_its_most_trusted_source_and_earliest_step() -> None:
    counted = pareto(filled())
    assert counts(counted) == {
        "loop": (1, 1),
        "gave up": (0, 1),
        "other / serving error (environment)": (0, 1),
    }
    assert [bar.label for bar in counted.apart] == ["other / serving error (environment)"]
    assert (counted.failed, counted.untagged, counted.unknown) == (5, 1, 1)


def test_every_class_counts_a_run_once_even_where_person_and_rule_both_name_it() -> None:
    assert counts(pareto(filled(), every=True)) == {
        "bad args": (0, 2),
        "loop": (1, 1),
        "gave up": (0, 1),
        "other / serving error (environment)": (0, 1),
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
    named = owners_from({"other": "triage", "attribution:environment": "platform"})
    assert [bar.owner for bar in pareto(filled(), owners=named).apart] == ["platform"]
    others = owners_from({"other": "triage"})
    assert [bar.owner for bar in pareto(filled(), owners=others).apart] == [None]


def test_nothing_failed_is_an_empty_pareto() -> None:
    store = empty()
    put(store, "a", status="passed")
    assert pareto(store) == Pareto(bars=(), apart=(), untagged=0, failed=0, unknown=0)


def test_tasks_that_are_left_out_are_in_no_number() -> None:
    store, rest = filled(), frozenset({"a", "e", "g"})
    counted = pareto(store, without=rest)
    assert counts(counted)["loop"] == (0, 1)
    assert (counted.failed, counted.untagged, counted.unknown) == (3, 0, 0)
    assert untagged_runs(store, without=rest) == ()
    assert {run.task for run in run_heads(store, without=rest)} == {"b", "c", "d", "f"}


def test_a_run_without_a_task_is_never_left_out() -> None:
    store = empty()
    put(store, None, found(LOOP))
    assert pareto(store, without=frozenset({"a"})).failed == 1


# --- a run that was recorded twice


def test_a_tag_on_another_recording_counts_at_the_step_it_has_there() -> None:
    store = empty()
    short, whole = put_again(store, "a")
    tag(store, short, LOOP, 0)
    (bar,) = pareto(store, by="tool").bars
    (run,) = bar.runs
    assert (run.trace, run.preferred, run.step) == (short, whole, 0)
    assert bar.part == "refund_order"
    assert tally(store).bars[0].count == 1


def test_rules_are_heard_on_the_preferred_recording_alone() -> None:
    store = empty()
    short, whole = put_again(store, "a")
    suggest(store, short, found(BAD))
    assert pareto(store).untagged == tally(store).untagged == 1
    suggest(store, whole, found(BAD, 1))
    (run,) = pareto(store).bars[0].runs
    assert (run.trace, run.preferred, run.step) == (whole, whole, 1)


def suggest(store: Store, trace: str, *said: Finding) -> None:
    given = Diagnosis(trace=trace, shape=None, scores=(), findings=said, candidates=())
    diagnoses.keep(store, given, {})


# --- the same, counted


words = st.builds(
    found,
    st.sampled_from([LOOP, BAD, OTHER]),
    st.integers(0, 2),
    st.sampled_from([None, Attribution.AGENT, Attribution.ENVIRONMENT]),
    st.sampled_from([None, "cap hit"]),
)
hints = words.map(lambda word: structs.replace(word, confidence=0.3))
runs = st.tuples(
    st.lists(words | hints, max_size=3),
    st.sampled_from(["failed", "failed", "passed", "unknown"]),
    st.lists(st.tuples(st.sampled_from([LOOP, WRONG]), st.integers(0, 2)), max_size=2),
)


@settings(max_examples=often(40), deadline=None)
@given(st.lists(runs, max_size=5))
def test_a_tally_is_the_pareto_without_its_runs(given: list[Any]) -> None:
    with closing(empty()) as store:
        for task, (said, status, tags) in enumerate(given):
            key = put(store, f"{task}", *said, status=status)
            for failure, step in tags:
                tag(store, key, failure, step)
        assert [worded(row) for row in first_words(store)] == [
            worded(row) for row in tag_rows(store, "outcome = 'failed' AND place = 1")
        ]
        for without in (frozenset[str](), frozenset({"0", "3"})):
            held_together(store, without=without, every=True)
            full = held_together(store, without=without)
            assert len(untagged_runs(store, without=without)) == full.untagged
        owners = owners_from({"loop": "ann", "attribution:agent": "bob"})
        for by in (None, *BYS):
            for every in (False, True):
                held_together(store, by=by, every=every, owners=owners)


def held_together(store: Store, **asked: Any) -> Pareto:
    """The Pareto, once the tally has the same bars, and each bar read alone the same runs."""
    full, shown = pareto(store, **asked), tally(store, **asked)
    assert plain(shown.bars) == plain(full.bars)
    assert plain(shown.apart) == plain(full.apart)
    assert (shown.untagged, shown.failed) == (full.untagged, full.failed)
    assert shown.unknown == full.unknown
    for bar in full.all_bars:
        alone = pareto(store, of=bar, **asked)
        assert next(each.runs for each in alone.all_bars if each.label == bar.label) == bar.runs
        if not asked.get("by") and not asked.get("every"):
            of = {name: value for name, value in asked.items() if name not in ("by", "every")}
            of.pop("playbook", None)
            for limit in (1, 2, 200):
                assert page_behind(store, bar, limit, **of) == bar.runs[:limit]
    return full


def worded(row: TagRow) -> tuple[object, ...]:
    """A word as far as it decides: two that one source says of a step may stand for each other."""
    return row.trace, row.recording, row.step, row.failure, row.source, row.accepted


def plain(bars: Sequence[Bar]) -> list[tuple[object, ...]]:
    """What both say of a bar; of several faults that read alike any may stand for them."""
    return [
        (bar.label, bar.tagged, bar.suggested, bar.failure, bar.sub, bar.part, bar.owner,
         bar.owners)
        for bar in bars
    ]  # fmt: skip


def test_the_runs_of_a_tally_are_counted_by_index() -> None:
    """A list of thirty thousand runs is no place to read their rows."""
    store = empty()
    plans = ways(store, lambda: tally(store))
    assert any("SEARCH t USING COVERING INDEX trace_ending" in plan for plan in plans)
    (at,) = (at for at, plan in enumerate(plans) if plan.startswith("SEARCH f"))
    assert plans[at] == "SEARCH f USING COVERING INDEX first_word_class (failed=?)"
    assert plans[at + 1].startswith("LIST SUBQUERY")  # of the runs that are tagged
    assert not any("suggestion" in plan for plan in plans)
    groups = [plan for plan in plans if plan == "USE TEMP B-TREE FOR GROUP BY"]
    assert len(groups) == 1  # of the tags, which are few


def test_tagged_runs_are_looked_up_one_by_one() -> None:
    store = filled()
    plans = ways(store, lambda: tally(store))
    assert any("SEARCH t USING INDEX trace_recordings (run=?)" in plan for plan in plans)


# --- what is suggested first of each run is kept

KEPT = "SELECT run, trace, task, failed, class, sub, fault, step FROM first_word ORDER BY run"


def made_anew(store: Store) -> list[Any]:
    """The same, looked up for each run."""
    _, _, anew = FIRST_WORDS.partition(")")
    return store.db.execute(f"{anew} ORDER BY 1").fetchall()


def recorded(store: Store, task: str, kind: str, status: str, *, whole: bool) -> None:
    """A recording of a run; the same one again may bring an outcome that was not known."""
    spans = SPANS if whole else (SPANS[0], *SPANS[3:])
    head = Header(
        format=kind, source_id=task, title=task,
        task=None if status == "unknown" else task,
        outcome=Outcome(status=status),  # type: ignore[arg-type]
    )  # fmt: skip
    writer = Writer(store, replace=True)
    writer.finish(writer.write(Batch(header=head, spans=spans, last=True)))


acts = st.one_of(
    st.tuples(
        st.just("record"), st.sampled_from("ab"), st.sampled_from(["built", "again"]),
        st.sampled_from(["failed", "passed", "unknown"]), st.booleans(),
    ),
    st.tuples(
        st.sampled_from(["rule", "judge", "agent", "withdraw"]), st.integers(0, 3), words | hints
    ),
    st.tuples(st.sampled_from(["approve", "doubt"])),
    st.tuples(st.sampled_from(["remove", "forget", "mask"]), st.integers(0, 3)),
)  # fmt: skip


@settings(max_examples=often(80), deadline=None)
@given(st.lists(acts, max_size=14))
def test_what_is_suggested_first_is_kept_whatever_is_written(given: list[Any]) -> None:
    with closing(empty()) as store:
        for act in given:
            do(store, *act)
            assert store.db.execute(KEPT).fetchall() == made_anew(store), act


def do(store: Store, act: str, *how: Any) -> None:
    if act == "record":
        task, kind, status, whole = how
        return recorded(store, task, kind, status, whole=whole)
    if act in ("approve", "doubt"):
        return approve_suggestions(store, "judge", approved=act == "approve")
    traces = store.db.execute("SELECT id, key FROM trace ORDER BY id").fetchall()
    if not traces:
        return None
    row, key = traces[how[0] % len(traces)]
    match act:
        case "rule":
            suggest(store, key, how[1])
        case "judge":
            keep_suggestion(store, key, "judge", how[1], approved=False)
        case "agent":
            suggest_as_agent(store, key, how[1])
        case "withdraw":
            withdraw(store, key, how[1])
        case "remove":
            with store.writing() as db:
                remove(db, row)
        case "forget":
            forget(store, [key])
        case _:
            store.db.execute("UPDATE suggestion SET sub = '‹masked›' WHERE sub IS NOT NULL")
            store.db.execute("UPDATE trace SET task = '‹masked›' WHERE id = ?", (row,))
    return None


def test_an_older_database_gets_what_is_suggested_first_of_its_runs(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    with open_ledger(path) as store:
        for task in "abc":
            put(store, task, found(LOOP, 1), found(BAD, 0))
        put(store, "d", found(WRONG), status="passed")
        put_again(store, "e")
        kept = store.db.execute(KEPT).fetchall()
    assert len(kept) == 4
    with closing(sqlite3.connect(path)) as db, db:
        for (name,) in db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'first_word%'"
        ).fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute("DROP TABLE first_word")
        db.execute("DELETE FROM _sqlite_migrations WHERE name = '0009_first_words'")
    with open_ledger(path) as store:
        assert store.db.execute(KEPT).fetchall() == kept
        put(store, "f", found(GAVE_UP))
        assert len(store.db.execute(KEPT).fetchall()) == 5


@pytest.mark.parametrize(
    ("ns", "week"),
    [
        (None, "–"),
        (0, "–"),
        (946_684_799_999_999_999, "–"),
        (946_684_800_000_000_000, "1999-W52"),
        (1_767_571_199_999_999_999, "2026-W01"),
        (1_767_571_200_000_000_000, "2026-W02"),
    ],
)
def test_a_week_is_that_of_iso_8601_in_utc(ns: int | None, week: str) -> None:
    assert iso_week(ns) == week


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_time_a_database_can_hold_has_a_week_or_counts_from_its_own_beginning(ns: int) -> None:
    assert ("-W" in iso_week(ns)) == (dated(ns) is not None)
