"""The figures of the runs that were asked for, and of groups of them as a row each.

All figures of one group are lines of `arc_tui.views.stats_lines`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from arc_tui import format
from arc_tui.views.runs import RunRow, run_rows
from arc_tui.views.stats_lines import interval, money, share
from replay.compare import PLAIN, Rules
from replay.statistics import Rate
from replay.store import Store
from taxonomy import cost
from taxonomy.cost import Money
from taxonomy.stats import report as stats
from taxonomy.stats.figures import Figures, figures

NOT_INDEPENDENT = (
    "intervals are Wilson's, 95 %, and take all that is counted for independent; runs of one task"
    " and calls of one run are not: there the truth is less certain"
)
COMPARE = "variants are compared at cost per resolved task, never at cost per run"


class Group(Struct, frozen=True, eq=False, kw_only=True):
    """The runs that share some columns, and their figures; `group` is empty for all runs."""

    group: dict[str, str | None]
    figures: Figures


class Ask(Struct, frozen=True, kw_only=True):
    """What `arc stats` was asked: which runs, in which groups, measured how.

    `held_out` and `production` are queries too, None where not given.
    """

    query: str = ""
    by: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    rules: Rules = PLAIN
    held_out: str | None = None
    production: str | None = None


def build_stats(store: Store, ask: Ask) -> tuple[Group, ...]:
    """A group for each value of the columns of `by` (one for none); () where no run matches."""
    kept = None if ask.held_out is None else _traces(run_rows(store, ask.held_out))
    production = () if ask.production is None else run_rows(store, ask.production)
    apart = _traces(production)
    rows = [row for row in run_rows(store, ask.query) if row.trace not in apart]
    runs = stats.runs_of(store, rows)
    compared = stats.runs_of(store, production)
    return tuple(
        Group(
            group=dict(zip(ask.by, key, strict=True)),
            figures=figures(
                [run for run in runs if run.trace in own],
                edges=ask.edges,
                rules=ask.rules,
                held_out=kept,
                production=compared,
            ),
        )
        for key, own in stats.grouped(rows, ask.by).items()
    )


def _traces(rows: Collection[RunRow]) -> frozenset[str]:
    return frozenset(row.trace for row in rows)


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
