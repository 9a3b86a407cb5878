"""Do failures become rarer? Classes week by week, and what moved before and after a day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct

from replay.statistics import Rate, rate
from replay.store.handle import Store
from taxonomy.classes import Shape
from taxonomy.failures import NO_VALUE, UNTAGGED, failure_label, iso_week
from taxonomy.metrics.change import Change, Sides, changes, dated, start_of, untested
from taxonomy.query.failures import NONE, first_words, run_heads
from taxonomy.query.filter import ALL, Filter

if TYPE_CHECKING:
    from taxonomy.stats.runs import Run

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


PASSED = "passed"

Signs: TypeAlias = Mapping[str, frozenset[str]]
"""What users did, by trace, of the runs whose source would say so."""

NO_SIGNS: Signs = MappingProxyType({})


def moved(
    before: Sequence[Run], since: Sequence[Run], signs: Signs = NO_SIGNS
) -> tuple[Change, ...]:
    """What share of runs passed, had each shape, and showed each sign of a user, on both sides."""
    names = _names([*before, *since], signs)
    return changes({name: _trend_sides(name, before, since, signs) for name in names})


def _names(runs: Sequence[Run], signs: Signs) -> list[str]:
    """What can be counted of these runs: passing, each shape any of them has, each sign."""
    shapes = sorted({run.shape for run in runs if run.shape is not None})
    shown = sorted({sign for run in runs for sign in signs.get(run.trace, ())})
    passed = [PASSED] if any(run.passed is not None for run in runs) else []
    return [*passed, *shapes, *shown]


def _trend_sides(name: str, before: Sequence[Run], since: Sequence[Run], signs: Signs) -> Sides:
    shown = [[_shows(name, run, signs) for run in runs] for runs in (before, since)]
    known = [[each for each in side if each is not None] for side in shown]
    return Sides(sum(known[0]), len(known[0]), sum(known[1]), len(known[1]))


def _shows(name: str, run: Run, signs: Signs) -> bool | None:
    """Does a run show it? None where nothing could tell."""
    if name == PASSED:
        return run.passed
    if name in set(Shape):
        return None if run.shape is None else run.shape == name
    return name in signs[run.trace] if run.trace in signs else None
