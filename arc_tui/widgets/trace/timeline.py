"""Steps on a line of time: which steps run in which column, so far as their times are known. Pure.

A step stands in every column in which its model call runs, so a long call is a long bar and a gap
is time in which no model worked: tools, the harness, a person. A step without a time is on no
column, and is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from arc_tui.format import count, duration
from arc_tui.views.trace.view import Lane
from replay.store.rows import StepRow


class Timed(Struct, frozen=True, gc=False):
    """A step with its time."""

    step: int
    start_ns: int
    end_ns: int


def timed(steps: Iterable[StepRow]) -> Iterator[Timed]:
    """The steps of which it is known when they began."""
    for row in steps:
        if row.start_ns is not None and row.time_quality != "none":
            yield Timed(row.step, row.start_ns, max(row.end_ns or 0, row.start_ns))


def has_times(steps: Sequence[StepRow]) -> bool:
    """Are there two moments to draw a line between?"""
    moments = (at for each in timed(steps) for at in (each.start_ns, each.end_ns))
    first = next(moments, None)
    return any(at != first for at in moments)


class TimeBins(Struct, frozen=True, eq=True, kw_only=True):
    """Columns of equal time from `first_ns` on, `inside` are the steps of each; `of` is the column
    in which each step begins."""

    first_ns: int
    last_ns: int
    inside: tuple[tuple[int, ...], ...]
    of: dict[int, int]
    cells: int = 1

    @property
    def count(self) -> int:
        return len(self.inside)

    @property
    def width(self) -> int:
        return len(self.inside)

    def column(self, step: int) -> int | None:
        """The column in which a step begins, None where it is not shown."""
        return self.of.get(step)

    def columns(self, steps: Iterable[int]) -> frozenset[int]:
        return frozenset(self.of[step] for step in steps if step in self.of)

    def worst(self, lane: Lane, column: int) -> float | None:
        """The worst known value of the steps in a column."""
        return lane.worst_of(lane.values[step] for step in self.inside[column])

    def step_at(self, cell: int) -> int | None:
        """The step that runs under a cell, else the one before it."""
        if not 0 <= cell < self.count:
            return None
        return next((steps[0] for steps in self.inside[cell::-1] if steps), None)


def fit_time(steps: Sequence[StepRow], width: int, *, around: int | None, near: int) -> TimeBins:
    """The time of all steps in `width` columns, or of those within `near` of `around`."""
    shown = steps if around is None else steps[max(around - near, 0) : around + near + 1]
    known = list(timed(shown))
    if not known:
        return TimeBins(first_ns=0, last_ns=0, inside=(), of={})
    first = min(each.start_ns for each in known)
    last = max(each.end_ns for each in known)
    width, span = max(width, 1), max(last - first, 1)
    inside: list[list[int]] = [[] for _ in range(width)]
    of: dict[int, int] = {}
    for each in known:
        begins, ends = (
            min((at - first) * width // span, width - 1) for at in (each.start_ns, each.end_ns)
        )
        of[each.step] = begins
        for column in range(begins, ends + 1):
            inside[column].append(each.step)
    return TimeBins(first_ns=first, last_ns=last, inside=tuple(map(tuple, inside)), of=of)


def time_words(steps: Sequence[StepRow], bins: TimeBins) -> str:
    """Which part of the run's time is drawn, and what of it is not known."""
    known = list(timed(steps))
    if not known:
        return ""
    start = min(each.start_ns for each in known)
    derived = any(row.time_quality == "derived" for row in steps)
    without = len(steps) - len(known)
    parts = [
        f"{duration(bins.first_ns - start)} to {duration(bins.last_ns - start)} of the run",
        "times derived" if derived else "",
        f"{count(without, 'step')} without a time" if without else "",
    ]
    return " · ".join(filter(None, parts))
