"""How a lane is drawn: its scale, the steps that stand out on it, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import median, quantiles
from typing import Protocol

from msgspec import Struct, structs

from arc_tui.ui import format
from arc_tui.ui.format import one_line, spark
from arc_tui.views.trace import Lane

RISE = {"latency": 1.5, "context": 1.4, "cost": 1.4}
DROP = 0.20
"""Steps that stand out: latency and cost against the step before, and a drop of the score, by the
thresholds of the published break-point rule; the context is held to the cost's."""

NOTABLE = 0.15
"""Share of a lane's largest value below which a rise is no spike, whatever its ratio."""

FENCE = 3.0
"""Spreads between the quartiles beyond the upper one: Tukey's outer fence."""

USUAL = 0.95
"""Share of the steps that are never outliers, however far they spread."""

LEAST_GROWTH = 1.05
"""A context that grows by less than this factor is drawn flat."""

OUTLIER = "▲"


class Scale(Struct, frozen=True, kw_only=True):
    """The values of the lowest and of the highest block; what is above `top` is an outlier."""

    low: float
    top: float


def scale(lane: Lane) -> Scale:
    """Where the blocks of a lane begin and end, so that a long run is no wall of full blocks and
    one slow step does not flatten all others.

    Scores: from 0 to 1. The context: from the smallest request to the largest, as its growth is
    what matters. Latency and cost: from 0 to twice the median, which puts a usual step at half
    height, or further to the largest value that is no outlier. An outlier is beyond Tukey's outer
    fence (the upper quartile and three times the spread of the quartiles) and among the largest
    twentieth of the steps; it is drawn as `▲`.
    """
    known = sorted(value for value in lane.values if value is not None)
    if lane.worst == "low" or not known:
        return Scale(low=0.0, top=1.0)
    if lane.name == "context":
        return Scale(low=known[0], top=max(known[-1], known[0] * LEAST_GROWTH))
    if len(known) == 1:
        return Scale(low=0.0, top=2 * known[0])
    lower, _, upper = quantiles(known, method="inclusive")
    fence = max(upper + FENCE * (upper - lower), known[int(USUAL * (len(known) - 1))])
    return Scale(low=0.0, top=max(2 * median(known), min(known[-1], fence)))


def outliers(lane: Lane) -> frozenset[int]:
    """The steps beyond the top of the scale."""
    top = scale(lane).top
    return frozenset(
        step for step, value in enumerate(lane.values) if value is not None and value > top
    )


def spikes(lane: Lane) -> frozenset[int]:
    """The steps of a lane that stand out against the step before, and beside its largest value."""
    pairs = enumerate(pairwise(lane.values), 1)
    if lane.worst == "low":
        return frozenset(
            step for step, (before, now) in pairs
            if before is not None and now is not None and before - now > DROP
        )  # fmt: skip
    least, rise = NOTABLE * largest(lane), RISE.get(lane.name, RISE["cost"])
    return frozenset(
        step for step, (before, now) in pairs
        if before and now and now - before >= least and now / before > rise
    )  # fmt: skip


def largest(lane: Lane) -> float:
    """The largest known value, 0 where none is."""
    return max((value for value in lane.values if value is not None), default=0.0)


class Drawn(Struct, frozen=True, eq=False, kw_only=True):
    """What a lane shows in some bins: a block a column, the columns that stand out, its scale."""

    blocks: tuple[str, ...]
    high: frozenset[int]
    scale: str


class Columns(Protocol):
    """What a lane is drawn in, whatever its axis is."""

    @property
    def count(self) -> int: ...
    def columns(self, steps: Iterable[int]) -> frozenset[int]: ...
    def values(self, lane: Lane, column: int) -> Sequence[float | None]: ...


CROWDED = 3
"""Steps a column from which on the worst value of a column says little of it."""


class Summary(Struct, frozen=True, eq=False, kw_only=True):
    """A lane in columns: the value that each shows (None where none of its steps has one), the
    columns that stand out, and those of them that are drawn as outliers."""

    shown: tuple[float | None, ...]
    high: frozenset[int]
    off_scale: frozenset[int]


def summarise(
    lane: Lane,
    columns: Sequence[Sequence[float | None]],
    columns_of: Callable[[Iterable[int]], frozenset[int]],
) -> Summary:
    """A lane by its values in each column; `columns_of` says in which columns steps stand.

    Columns show their worst value, and stand out where a step does. With many steps in a column
    nearly each would be as bad as the next: then it shows their median, and a column stands out
    where its worst value is an outlier or a spike among the worst of all columns.
    """
    top = scale(lane).top
    worst = tuple(map(lane.worst_of, columns))
    off = frozenset(at for at, value in enumerate(worst) if value is not None and value > top)
    if sum(map(len, columns)) < CROWDED * len(columns):
        return Summary(shown=worst, high=columns_of(outliers(lane) | spikes(lane)), off_scale=off)
    of_worst = structs.replace(lane, values=worst)
    high = outliers(of_worst) | spikes(of_worst)
    return Summary(shown=tuple(map(_median, columns)), high=high, off_scale=off & high)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def draw(lane: Lane, bins: Columns) -> Drawn:
    """A lane in bins."""
    on = scale(lane)
    columns = [bins.values(lane, column) for column in range(bins.count)]
    summary = summarise(lane, columns, bins.columns)
    return Drawn(
        blocks=tuple(
            OUTLIER if at in summary.off_scale else spark((value,), low=on.low, high=on.top)
            for at, value in enumerate(summary.shown)
        ),
        high=summary.high,
        scale=write_scale(lane),
    )


def write_value(lane: Lane, value: float | None) -> str:
    """A value of a lane in its unit."""
    if value is None:
        return format.UNKNOWN
    match lane.name:
        case "score":
            return format.score(value)
        case "latency":
            return format.duration(round(value * 1e9))
        case "cost":
            return format.usd(value)
        case _:
            return format.tokens(round(value))


def write_scale(lane: Lane) -> str:
    """The scale of a lane in a few cells, nothing for scores: `1.2k–24.0k`, `max 4.1 s`, or above
    what a step is an outlier."""
    known = [value for value in lane.values if value is not None]
    if lane.worst == "low" or not known:
        return ""
    if lane.name == "context":
        least, most = write_value(lane, min(known)), write_value(lane, max(known))
        return least if least == most else f"{least}–{most}"
    if outliers(lane):
        return f"{OUTLIER} > {write_value(lane, scale(lane).top)}"
    return f"max {write_value(lane, max(known))}"


def notes(lanes: Sequence[Lane]) -> str:
    """One line: whose the score is, and the lanes without any data."""
    said = (f"{lane.name} {lane.note}" for lane in lanes if lane.note and _worth(lane))
    return one_line(" · ".join(said))


def _worth(lane: Lane) -> bool:
    """A note on a figure everyone knows the source of is worth a line only where it is missing."""
    return lane.empty or lane.name == "score"
