"""Steps on a line of columns: which steps share a column, and what a column shows of them. Pure.

A column never averages: it shows the worst value of its steps, so that nothing bad disappears when
a long run is squeezed into a narrow terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Protocol

from msgspec import Struct

from arc_tui.format import one_line, spark
from arc_tui.views.trace.view import Lane

WIDEST = 3
"""Cells one step takes where there is room to spare."""

NEAR = (60, 15, 5)
"""Steps shown on either side of the cursor at each level of zoom."""

RISE = {"latency": 1.5, "tokens": 1.4, "cost": 1.4}
DROP = 0.20
"""Steps that stand out: latency and cost against the step before, and a drop of the score, by the
thresholds of the published break-point rule (`formulas.md`); tokens are held to the cost's."""

NOTABLE = 0.15
"""Share of a lane's height below which a rise is no spike, whatever its ratio."""


class Bins(Struct, frozen=True, kw_only=True):
    """Steps `first` to `last` (not included) in columns of `per` steps, each `cells` wide."""

    first: int
    last: int
    per: int
    cells: int

    @property
    def count(self) -> int:
        return -(-(self.last - self.first) // self.per)

    @property
    def width(self) -> int:
        return self.count * self.cells

    def steps(self, column: int) -> range:
        start = self.first + column * self.per
        return range(start, min(start + self.per, self.last))

    def column(self, step: int) -> int | None:
        """The column of a step, None where it is not shown."""
        return (step - self.first) // self.per if self.first <= step < self.last else None

    def columns(self, steps: Iterable[int]) -> frozenset[int]:
        return frozenset(column for step in steps if (column := self.column(step)) is not None)

    def worst(self, lane: Lane, column: int) -> float | None:
        """The worst known value of a column's steps."""
        here = self.steps(column)
        return lane.worst_of(lane.values[here.start : here.stop])

    def step_at(self, cell: int) -> int | None:
        """The first step of the column under a cell."""
        column = cell // self.cells
        return self.steps(column)[0] if 0 <= column < self.count else None


def zooms(steps: int) -> tuple[int, ...]:
    """The levels of zoom that show less than all of a run, 0 first, which shows it all."""
    return (0, *(near for near in NEAR if 2 * near + 1 < steps))


def fit_steps(steps: int, width: int, *, around: int | None = None, near: int = NEAR[1]) -> Bins:
    """All steps in `width` cells, or only those within `near` of `around`."""
    first, last = 0, steps
    if around is not None:
        first, last = max(around - near, 0), min(around + near + 1, steps)
    shown = max(last - first, 1)
    per = -(-shown // max(width, 1))
    cells = max(min(WIDEST, width // -(-shown // per)), 1)
    return Bins(first=first, last=last, per=per, cells=cells)


def spikes(lane: Lane) -> frozenset[int]:
    """The steps of a lane that stand out against the step before, and on its scale."""
    pairs = enumerate(pairwise(lane.values), 1)
    if lane.worst == "low":
        return frozenset(
            step for step, (before, now) in pairs
            if before is not None and now is not None and before - now > DROP
        )  # fmt: skip
    least, rise = NOTABLE * scale(lane)[1], RISE.get(lane.name, RISE["cost"])
    return frozenset(
        step for step, (before, now) in pairs
        if before and now and now - before >= least and now / before > rise
    )  # fmt: skip


class Drawn(Struct, frozen=True, eq=False, kw_only=True):
    """What a lane shows in some bins: a block a column, and the columns that stand out."""

    blocks: tuple[str, ...]
    high: frozenset[int]


class Columns(Protocol):
    """What a lane is drawn in, whatever its axis is."""

    @property
    def count(self) -> int: ...
    def columns(self, steps: Iterable[int]) -> frozenset[int]: ...
    def worst(self, lane: Lane, column: int) -> float | None: ...


def draw(lane: Lane, high: frozenset[int], bins: Columns) -> Drawn:
    """A lane in bins; `high` are its spikes, by step."""
    low, top = scale(lane)
    return Drawn(
        blocks=tuple(
            spark((bins.worst(lane, column),), low=low, high=top) for column in range(bins.count)
        ),
        high=bins.columns(high),
    )


def scale(lane: Lane) -> tuple[float, float]:
    """The ends of a lane's scale: scores from 0 to 1, everything else from 0 to its largest."""
    if lane.worst == "low":
        return 0.0, 1.0
    return 0.0, max((value for value in lane.values if value is not None), default=0.0)


def notes(lanes: Sequence[Lane]) -> str:
    """One line: whose the score is, and the lanes without any data."""
    said = (f"{lane.name} {lane.note}" for lane in lanes if lane.note and _worth(lane))
    return one_line(" · ".join(said))


def _worth(lane: Lane) -> bool:
    """A note on a figure everyone knows the source of is worth a line only where it is missing."""
    return lane.empty or lane.name == "score"
