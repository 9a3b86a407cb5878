"""Week by week, and before and after something was changed: did anything move beyond chance?

Source: the ARC article, "Behavioral grounding": after an intervention against a shape, production
should show that shape declining. Runs of unknown start belong to no week and to neither side.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from replay.statistics import Rate, fisher, holm, rate
from taxonomy.classes import Shape
from taxonomy.stats.grounding import gap_between
from taxonomy.stats.run import Run


class Change(Struct, frozen=True, kw_only=True):
    """A share of runs before and since, the difference (since minus before) and its interval.

    `p` is Fisher's, two-sided; `beyond_chance` with Holm's correction over all changes shown
    together. The difference is None where one side counts nothing.
    """

    name: str
    before: Rate
    since: Rate
    difference: float | None
    low: float
    high: float
    p: float
    beyond_chance: bool


def week_of(start_ns: int | None) -> str | None:
    """The ISO week of a moment, UTC: `2026-W03`; None where it is unknown."""
    if start_ns is None:
        return None
    year, week, _ = datetime.datetime.fromtimestamp(start_ns / 1e9, datetime.UTC).isocalendar()
    return f"{year}-W{week:02d}"


def start_of(day: datetime.date) -> int:
    """The beginning of a day, UTC, in ns since the epoch."""
    midnight = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
    return int(midnight.timestamp()) * 1_000_000_000


def changes(
    before: Sequence[Run],
    since: Sequence[Run],
    signs: Mapping[str, frozenset[str]] = {},
) -> tuple[Change, ...]:
    """What share of runs passed, had each shape, and showed each sign of a user, on both sides.

    `signs` are what users did, by trace, of the runs whose source would say so.
    """
    counts = {
        name: _counts(name, before, since, signs) for name in _names([*before, *since], signs)
    }
    p = {name: fisher(*each) for name, each in counts.items()}
    told = holm(p)
    return tuple(_change(name, each, p[name], name in told) for name, each in counts.items())


PASSED = "passed"


def _names(runs: Sequence[Run], signs: Mapping[str, frozenset[str]]) -> list[str]:
    """What can be counted of these runs: passing, each shape any of them has, each sign."""
    shapes = sorted({run.shape for run in runs if run.shape is not None})
    shown = sorted({sign for run in runs for sign in signs.get(run.trace, ())})
    passed = [PASSED] if any(run.passed is not None for run in runs) else []
    return [*passed, *shapes, *shown]


Counts: TypeAlias = tuple[int, int, int, int]
"""Hits and runs that could show it, before and since."""


def _counts(
    name: str, before: Sequence[Run], since: Sequence[Run], signs: Mapping[str, frozenset[str]]
) -> Counts:
    sides = [[_shows(name, run, signs) for run in runs] for runs in (before, since)]
    known = [[each for each in side if each is not None] for side in sides]
    return sum(known[0]), len(known[0]), sum(known[1]), len(known[1])


def _shows(name: str, run: Run, signs: Mapping[str, frozenset[str]]) -> bool | None:
    """Does a run show it? None where nothing could tell."""
    if name == PASSED:
        return run.passed
    if name in set(Shape):
        return None if run.shape is None else run.shape == name
    return name in signs[run.trace] if run.trace in signs else None


def _change(name: str, counts: Counts, p: float, told: bool) -> Change:
    before, since = rate(counts[0], counts[1]), rate(counts[2], counts[3])
    gap = gap_between(since, before)
    value, low, high = gap if gap is not None else (None, -1.0, 1.0)
    return Change(
        name=name,
        before=before,
        since=since,
        difference=value,
        low=low,
        high=high,
        p=p,
        beyond_chance=told,
    )
