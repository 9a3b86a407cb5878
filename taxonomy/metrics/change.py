"""Did a share of runs move with a day, and is that more than chance?

What is counted is somebody else's: classes of failures, passing, shapes, or what users did
(`taxonomy.stats.trend`). Runs are counted as independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from replay.statistics import ALPHA, Rate, fisher, holm, rate
from taxonomy.metrics.grounding import gap_between

Reading: TypeAlias = Literal["fewer", "more", "may be chance", "too few to tell"]


class Sides(NamedTuple):
    """Runs that show something among those that could, before a day and since."""

    before: int
    before_of: int
    since: int
    since_of: int

    @property
    def p(self) -> float | None:
        """By Fisher's exact test; None where a side is empty."""
        return fisher(*self) if self.before_of and self.since_of else None


class Change(Struct, frozen=True, kw_only=True):
    """A share of runs before a day and since, and the difference (since minus before) with its
    95 % interval (Newcombe).

    `p` is Fisher's, two-sided; it and the difference are None where a side is empty. `reading`
    holds for all that was asked together (Holm): at most one time in twenty is any of it a false
    alarm. A change that nobody tested has neither.
    """

    name: str
    before: Rate
    since: Rate
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    reading: Reading | None = None

    @property
    def beyond_chance(self) -> bool:
        return self.reading in ("fewer", "more")


def dated(start_ns: int | None) -> int | None:
    """When a run began, None where its clock counts from the run's own beginning and not from
    1970: before the year 2000 no agent ran."""
    return None if start_ns is None or start_ns < start_of(date(2000, 1, 1)) else start_ns


def start_of(day: date) -> int:
    """The beginning of a day, UTC, in ns since the epoch."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 10**9


def changes(counts: Mapping[str, Sides]) -> tuple[Change, ...]:
    """Everything that is asked together, by name."""
    p_values = {name: sides.p for name, sides in counts.items()}
    held = holm({name: p for name, p in p_values.items() if p is not None})
    return tuple(
        _change(name, sides, p_values[name], name in held) for name, sides in counts.items()
    )


def untested(name: str, sides: Sides) -> Change:
    """Both shares side by side, where a difference would mean nothing."""
    return Change(
        name=name,
        before=rate(sides.before, sides.before_of),
        since=rate(sides.since, sides.since_of),
    )


def _change(name: str, sides: Sides, p: float | None, held: bool) -> Change:
    before, since = rate(sides.before, sides.before_of), rate(sides.since, sides.since_of)
    gap, low, high = gap_between(since, before) or (None, None, None)
    return Change(
        name=name,
        before=before,
        since=since,
        difference=gap,
        low=low,
        high=high,
        p=p,
        reading=_reading(sides, gap or 0.0, held),
    )


def _reading(sides: Sides, gap: float, held: bool) -> Reading:
    if held:
        return "fewer" if gap < 0 else "more"
    could = least_p(sides.before + sides.since, sides.before_of, sides.since_of)
    return "may be chance" if could <= ALPHA else "too few to tell"


def least_p(hits: int, n: int, other_n: int) -> float:
    """The smallest p that so many hits among so many runs can have, however they are split.

    Where even that is above the limit, there is too little to tell anything by.
    """
    ends = {min(hits, n), max(hits - other_n, 0)}
    return min(fisher(first, n, hits - first, other_n) for first in ends)
