"""Do failures become rarer? Classes of failure week by week, and before and after a day.

A run falls into one class, as in the Pareto: the most trusted source, the earliest step. The
functions over runs take `Ending` values; two thin ones read them from a database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from replay.statistics import ALPHA, Rate, fisher, holm, rate
from replay.store import Store
from taxonomy.pareto import NO_VALUE, UNTAGGED, failure_label, iso_week
from taxonomy.query import run_heads, tag_rows

FAILED = "failed"

Reading: TypeAlias = Literal["fewer", "more", "may be chance", "too few to tell"]


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


class Change(Struct, frozen=True, kw_only=True):
    """One class as a share of all runs before and after; `p` by Fisher's exact test.

    `p` is None where a side is empty. `reading` holds for all classes asked together (Holm): at
    most one time in twenty is any of them a false alarm. Failures that nobody named have neither:
    that is work not done, not a change.
    """

    label: str
    before: Share
    after: Share
    p: float | None
    reading: Reading | None


class BeforeAfter(Struct, frozen=True, kw_only=True):
    """Runs of known outcome that began before a day and since (UTC), and `undated` ones left out.

    Shares are of all runs: of the failed ones alone, mending one class would raise all others.
    """

    since: str
    before: int
    after: int
    undated: int
    failed: Change
    classes: tuple[Change, ...]


def trend(store: Store) -> Trend:
    """The weeks of the runs of a database."""
    return by_week(endings(store))


def before_after(store: Store, since: date) -> BeforeAfter:
    """The runs of a database before a day and since."""
    return split(endings(store), since)


def endings(store: Store) -> tuple[Ending, ...]:
    """Every run of known outcome, once."""
    said = tag_rows(store, "outcome = 'failed' AND place = 1")
    labels = {row.run: failure_label(row) for row in said}
    return tuple(
        Ending(run.start_ns, labels.get(run.run, UNTAGGED) if run.outcome == "failed" else None)
        for run in run_heads(store)
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
    dated = [run for run in known if run.start_ns is not None]
    begins_ns = int(datetime(since.year, since.month, since.day, tzinfo=UTC).timestamp()) * 10**9
    before = [run for run in dated if (run.start_ns or 0) < begins_ns]
    after = [run for run in dated if (run.start_ns or 0) >= begins_ns]
    sides = {label: _sides(label, before, after) for label in _classes(dated)}
    tested = {label: _p(*both) for label, both in sides.items() if label != UNTAGGED}
    held = holm({label: p for label, p in tested.items() if p is not None})
    return BeforeAfter(
        since=since.isoformat(),
        before=len(before),
        after=len(after),
        undated=len(known) - len(dated),
        failed=_failed(before, after),
        classes=tuple(
            _change(label, *both, tested.get(label), label in held) for label, both in sides.items()
        ),
    )


def _failed(before: Sequence[Ending], after: Sequence[Ending]) -> Change:
    one, other = _all_failed(before), _all_failed(after)
    p = _p(one, other)
    return _change(FAILED, one, other, p, p is not None and p <= ALPHA)


def _all_failed(runs: Sequence[Ending]) -> Share:
    count = sum(run.failure is not None for run in runs)
    return Share(label=FAILED, runs=count, rate=rate(count, len(runs)))


def _classes(runs: Iterable[Ending]) -> tuple[str, ...]:
    """The labels of failures, most frequent first, what nobody named last."""
    counts = Counter(run.failure for run in runs if run.failure is not None)
    return tuple(sorted(counts, key=lambda label: (label == UNTAGGED, -counts[label], label)))


def _sides(label: str, before: Sequence[Ending], after: Sequence[Ending]) -> tuple[Share, Share]:
    return _share(label, before, len(before)), _share(label, after, len(after))


def _share(label: str, runs: Sequence[Ending], of: int) -> Share:
    count = sum(run.failure == label for run in runs)
    return Share(label=label, runs=count, rate=rate(count, of))


def _p(before: Share, after: Share) -> float | None:
    """None where there is nothing on a side."""
    if not before.rate.n or not after.rate.n:
        return None
    return fisher(before.runs, before.rate.n, after.runs, after.rate.n)


def _change(label: str, before: Share, after: Share, p: float | None, held: bool) -> Change:
    return Change(
        label=label,
        before=before,
        after=after,
        p=p,
        reading=None if label == UNTAGGED else _reading(before, after, held),
    )


def _reading(before: Share, after: Share, held: bool) -> Reading:
    if held:
        return "fewer" if (after.rate.value or 0.0) < (before.rate.value or 0.0) else "more"
    could = least_p(before.runs + after.runs, before.rate.n, after.rate.n)
    return "may be chance" if could <= ALPHA else "too few to tell"


def least_p(hits: int, n: int, other_n: int) -> float:
    """The smallest p that so many hits among so many runs can have, however they are split.

    Where even that is above the limit, there is too little to tell anything by.
    """
    ends = {min(hits, n), max(hits - other_n, 0)}
    return min(fisher(first, n, hits - first, other_n) for first in ends)
