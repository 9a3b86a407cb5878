"""Weeks, and before and after a day: what is counted, and when nothing can be told."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.statistics import ALPHA, fisher
from taxonomy.failures import iso_week
from taxonomy.metrics.change import least_p, start_of
from taxonomy.stats.trend import BeforeAfter, Ending, by_week, endings, split, trend
from tests.taxonomy.pareto_case import (
    DAY_NS,
    GAVE_UP,
    LOOP,
    MONDAY_NS,
    empty,
    found,
    put,
)

SINCE = date(2026, 1, 12)


def runs(day: int, **counts: int) -> list[Ending]:
    """Runs of a day by how they ended; `ok` passed."""
    return [
        Ending(MONDAY_NS + day * DAY_NS, None if name == "ok" else name.replace("_", " "))
        for name, count in counts.items()
        for _ in range(count)
    ]


def readings(found: BeforeAfter) -> dict[str, str | None]:
    return {each.name: each.reading for each in (found.failed, *found.classes)}


def test_runs_of_known_outcome_count_once_by_their_first_class() -> None:
    store = empty()
    put(store, "a", found(LOOP, 0), found(GAVE_UP, 1))
    put(store, "b", day=7)
    put(store, "c", status="passed", day=7)
    put(store, "d", found(LOOP), status="unknown")
    ended = {(run.start_ns, run.failure) for run in endings(store)}
    week = MONDAY_NS + 7 * DAY_NS
    assert ended == {(MONDAY_NS, "loop"), (week, "not yet tagged"), (week, None)}
    assert [week.week for week in trend(store).weeks] == ["2026-W02", "2026-W03"]


def test_weeks_go_in_order_and_a_run_without_a_time_goes_last() -> None:
    found = by_week([Ending(None, "loop"), *runs(7, loop=1, gave_up=2, ok=5), *runs(0, loop=2)])
    assert [week.week for week in found.weeks] == ["2026-W02", "2026-W03", "–"]
    assert found.classes == ("loop", "gave up")
    week = found.weeks[1]
    assert (week.runs, week.failed.value, week.failed.n) == (8, 3 / 8, 8)
    assert [(each.runs, each.rate.value, each.rate.n) for each in week.classes] == [
        (1, 1 / 3, 3),
        (2, 2 / 3, 3),
    ]


def test_mending_one_class_leaves_the_others_as_they_were() -> None:
    before, after = runs(0, gave_up=20, loop=10, ok=10), runs(8, gave_up=1, loop=10, ok=29)
    found = split([*before, *after], SINCE)
    assert readings(found) == {"failed": "fewer", "gave up": "fewer", "loop": "may be chance"}
    loop = found.classes[1]
    assert (loop.before, loop.difference, loop.p) == (loop.since, 0.0, 1.0)


def test_more_failures_are_said_too_and_the_first_day_is_after() -> None:
    found = split([*runs(0, ok=20), *runs(7, loop=15, ok=5)], SINCE)
    assert (found.before, found.after) == (20, 20)
    assert readings(found) == {"failed": "more", "loop": "more"}


def test_too_few_runs_are_said_to_be_too_few() -> None:
    found = split([*runs(0, loop=3), *runs(8, ok=3)], SINCE)
    assert readings(found) == {"failed": "too few to tell", "loop": "too few to tell"}
    rare = split([*runs(0, loop=2, ok=38), *runs(8, ok=40)], SINCE)
    assert readings(rare)["loop"] == "too few to tell"


def test_a_side_without_runs_has_no_p_and_undated_runs_are_counted() -> None:
    found = split([*runs(8, loop=3, ok=1), Ending(None, None)], SINCE)
    assert (found.before, found.after, found.undated) == (0, 4, 1)
    assert (found.failed.p, found.failed.reading) == (None, "too few to tell")
    assert found.failed.before.value is None


def test_what_nobody_named_stands_last_and_is_no_change() -> None:
    found = split([*runs(0, not_yet_tagged=30), *runs(8, loop=30)], SINCE)
    assert [(each.name, each.p, each.reading) for each in found.classes][1:] == [
        ("not yet tagged", None, None)
    ]


def test_several_classes_are_tested_together() -> None:
    """One class alone would pass at p = .024; among eight it is no longer beyond chance."""
    classes = {f"class_{n}": 5 for n in range(7)}
    found = split([*runs(0, loop=7, ok=13, **classes), *runs(8, loop=0, ok=20, **classes)], SINCE)
    loop = next(each for each in found.classes if each.name == "loop")
    assert loop.p is not None
    assert 0.005 < loop.p < ALPHA
    assert loop.reading == "may be chance"


@given(st.integers(0, 12), st.integers(0, 12), st.data())
def test_no_split_of_the_hits_is_less_likely_than_the_least(
    n: int, other: int, data: st.DataObject
) -> None:
    hits = data.draw(st.integers(0, n + other))
    first = data.draw(st.integers(max(0, hits - other), min(hits, n)))
    assert fisher(first, n, hits - first, other) >= least_p(hits, n, other) - 1e-12


@pytest.mark.parametrize("found", [split([], SINCE), split([], date.min)])
def test_nothing_at_all_is_said_as_nothing(found: BeforeAfter) -> None:
    assert (found.before, found.after, found.classes) == (0, 0, ())
    assert found.failed.reading == "too few to tell"


def test_a_day_begins_at_midnight_utc_and_a_moment_before_it_is_of_the_week_before() -> None:
    assert iso_week(start_of(date(2027, 1, 4))) == "2027-W01"
    assert iso_week(start_of(date(2027, 1, 4)) - 1) == "2026-W53"
