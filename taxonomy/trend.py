"""Do failures become rarer? Classes of failure week by week, and before and after a day.

A run falls into one class, as in the Pareto: the most trusted source, the earliest step. The
functions over runs take `Ending` values; two thin ones read them from a database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import NamedTuple

from msgspec import Struct

from replay.statistics import Rate, rate
from replay.store import Store
from taxonomy.change import Change, Sides, changes, dated, start_of, untested
from taxonomy.pareto import NO_VALUE, UNTAGGED, failure_label, iso_week
from taxonomy.query import NONE, first_words, run_heads
from taxonomy.query.filter import ALL, Filter

FAILED = "failed"


class Ending(NamedTuple):
    """How a run of known outcome ended: the class it fails by, None where it passed."""

    start_ns: int | None
    failure: str | None


class Share(Struct, frozen=True, kw_only=True):
    """One class: `rate` of the runs that are counted, `runs` of them."""

    label: str
    runs: int
    rate: Rate


class Week(Struct, frozen=True, kw_only=True):
    """The runs that began in a week. `failed` is of all of them, `classes` of the failed ones."""

    week: str
    runs: int
    failed: Rate
    classes: tuple[Share, ...]


class Trend(Struct, frozen=True, kw_only=True):
    """Weeks in order, the unknown one last; each with every class, the most frequent first."""

    classes: tuple[str, ...]
    weeks: tuple[Week, ...]


class BeforeAfter(Struct, frozen=True, kw_only=True):
    """Runs of known outcome that began before a day and since (UTC), and `undated` ones left out.

    Shares are of all runs: of the failed ones alone, mending one class would raise all others.
    Failures that nobody named are not tested: that is work not done, not a change.
    """

    since: str
    before: int
    after: int
    undated: int
    failed: Change
    classes: tuple[Change, ...]


def trend(store: Store, *, without: Collection[str] = NONE, chosen: Filter = ALL) -> Trend:
    """The weeks of the `chosen` runs of a database, those of the tasks `without` left out."""
    return by_week(endings(store, without=without, chosen=chosen))


def before_after(
    store: Store, since: date, *, without: Collection[str] = NONE, chosen: Filter = ALL
) -> BeforeAfter:
    """The same runs before a day and since."""
    return split(endings(store, without=without, chosen=chosen), since)


def endings(
    store: Store, *, without: Collection[str] = NONE, chosen: Filter = ALL
) -> tuple[Ending, ...]:
    """Every run of known outcome, once."""
    words = first_words(store, without=without, chosen=chosen)
    labels = {row.run: failure_label(row) for row in words}
    return tuple(
        Ending(
            dated(run.start_ns), labels.get(run.run, UNTAGGED) if run.outcome == "failed" else None
        )
        for run in run_heads(store, without=without, chosen=chosen)
        if run.outcome != "unknown"
    )


def by_week(runs: Iterable[Ending]) -> Trend:
    """The classes of each week that has a run."""
    weeks: dict[str, list[Ending]] = {}
    for run in runs:
        weeks.setdefault(iso_week(run.start_ns), []).append(run)
    classes = _classes(run for week in weeks.values() for run in week)
    in_order = sorted(weeks, key=lambda week: (week == NO_VALUE, week))
    return Trend(
        classes=classes, weeks=tuple(_week(name, weeks[name], classes) for name in in_order)
    )


def _week(name: str, runs: Sequence[Ending], classes: Sequence[str]) -> Week:
    failed = sum(run.failure is not None for run in runs)
    return Week(
        week=name,
        runs=len(runs),
        failed=rate(failed, len(runs)),
        classes=tuple(_share(label, runs, failed) for label in classes),
    )


def split(runs: Iterable[Ending], since: date) -> BeforeAfter:
    """Each class before a day and since, the most frequent first."""
    known = tuple(runs)
    timed = [(run.start_ns, run) for run in known if run.start_ns is not None]
    border = start_of(since)
    before = [run for start_ns, run in timed if start_ns < border]
    after = [run for start_ns, run in timed if start_ns >= border]
    (failed,) = changes({FAILED: _sides(before, after)})
    sides = {label: _sides(before, after, label) for label in _classes(run for _, run in timed)}
    unnamed = sides.pop(UNTAGGED, None)
    return BeforeAfter(
        since=since.isoformat(),
        before=len(before),
        after=len(after),
        undated=len(known) - len(timed),
        failed=failed,
        classes=changes(sides) + ((untested(UNTAGGED, unnamed),) if unnamed else ()),
    )


def _sides(before: Sequence[Ending], after: Sequence[Ending], label: str | None = None) -> Sides:
    """The runs that failed, or that failed by one class."""
    counts = [
        sum(run.failure is not None and label in (None, run.failure) for run in runs)
        for runs in (before, after)
    ]
    return Sides(counts[0], len(before), counts[1], len(after))


def _classes(runs: Iterable[Ending]) -> tuple[str, ...]:
    """The labels of failures, most frequent first, what nobody named last."""
    counts = Counter(run.failure for run in runs if run.failure is not None)
    return tuple(sorted(counts, key=lambda label: (label == UNTAGGED, -counts[label], label)))


def _share(label: str, runs: Sequence[Ending], of: int) -> Share:
    count = sum(run.failure == label for run in runs)
    return Share(label=label, runs=count, rate=rate(count, of))
