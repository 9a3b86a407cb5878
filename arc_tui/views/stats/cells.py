"""Groups of runs, weeks and changes of `arc stats` as the rows of their tables."""

from __future__ import annotations

from collections.abc import Sequence

from arc_tui import format
from arc_tui.views.stats.line import interval, money, share
from arc_tui.views.stats.view import Group
from replay.statistics import Rate
from taxonomy import cost
from taxonomy.change import Change
from taxonomy.cost import Money

NOT_INDEPENDENT = (
    "intervals are Wilson's, 95 %, and take all that is counted for independent; runs of one task"
    " and calls of one run are not: there the truth is less certain"
)
COMPARE = "variants are compared at cost per resolved task, never at cost per run"


HEAD = ("runs", "passed", "95 %", "pass@1", "pass^k", "flattery", "call F1", "GDS", "MOP",
        "a run", "a resolved task", "× cheapest")  # fmt: skip


def cells(group: Group, cheapest: Money) -> list[str]:
    """A group under `HEAD`, its figures in the same words as the lines."""
    found = group.figures
    last = found.headline
    calls = found.calls[0].f1 if found.calls else None
    times = cost.times_cheaper(found.cost.per_resolved, cheapest)
    return [
        str(found.runs),
        share(found.outcome.rate.value),
        interval(found.outcome.rate),
        _in_brief(found.repeated[0].pass_one, "") if last else format.UNKNOWN,
        _in_brief(last.pass_hat, f", k = {last.k}") if last else format.UNKNOWN,
        f"{last.flattery:.2f}" if last and last.k > 1 and last.flattery else format.UNKNOWN,
        _in_brief(calls, "") if calls else format.UNKNOWN,
        share(found.decay.graceful),
        found.decay.onset or format.UNKNOWN,
        money(found.cost.per_run),
        money(found.cost.per_resolved),
        f"{times:.2f}" if times is not None else format.UNKNOWN,
    ]


def _in_brief(rate: Rate, more: str) -> str:
    """A rate with its interval and n in one cell."""
    if rate.value is None:
        return format.UNKNOWN
    return f"{rate.value:.3f} ({interval(rate)}, n = {rate.n}{more})"


def cheapest(groups: Sequence[Group]) -> Money:
    """The lowest cost per resolved task that is known in full."""
    known = [group.figures.cost.per_resolved for group in groups]
    whole = [each for each in known if each.cost_complete and each.cost_usd is not None]
    return min(whole, key=lambda each: each.cost_usd or 0.0, default=cost.NOTHING_KNOWN)


def shape_table(groups: Sequence[Group]) -> list[list[str]]:
    """A head and a row a group: the share of its runs of each shape, and how many have one."""
    shapes = sorted({shape for group in groups for shape in group.figures.shapes})
    table = [[*(groups[0].group if groups else ()), *shapes, "n"]]
    for group in groups:
        counts = group.figures.shapes
        n = sum(counts.values())
        shares = (share(counts.get(shape, 0) / n) if n else format.UNKNOWN for shape in shapes)
        values = (value or format.UNKNOWN for value in group.group.values())
        table.append([*values, *shares, format.count(n, "run")])
    return table if shapes else table[:1]


def trend_cells(change: Change) -> list[str]:
    """What moved, as a row of its table."""
    known = change.difference is not None and change.low is not None and change.high is not None
    return [
        change.name,
        share(change.before.value),
        interval(change.before),
        str(change.before.n),
        share(change.since.value),
        interval(change.since),
        str(change.since.n),
        f"{change.difference:+.3f}" if known else format.UNKNOWN,
        f"{change.low:+.3f} to {change.high:+.3f}" if known else "",
        format.UNKNOWN if change.p is None else f"{change.p:.3f}",
        change.reading or "",
    ]
