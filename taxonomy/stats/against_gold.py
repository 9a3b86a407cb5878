"""The calls and plans of many runs against their gold, put together.

The comparison of one run is said in `metrics`; here a task weighs once, however many runs it has.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.compare import Rules
from replay.statistics import Rate, rate
from taxonomy import metrics, reliability
from taxonomy.metrics import Overlap
from taxonomy.pairing import Order
from taxonomy.stats.run import Run

What: TypeAlias = Literal["all calls", "writing calls", "tool names"]


class CallFigures(Struct, frozen=True, kw_only=True):
    """Calls against gold. `f1` is the mean over tasks, of the mean over a task's runs.

    `precision` counts calls made, `recall` gold calls, over all runs.
    """

    what: What
    order: Order
    f1: Rate
    precision: Rate
    recall: Rate
    runs: int


def call_figures(runs: Sequence[Run], rules: Rules) -> tuple[CallFigures, ...]:
    """The figures of the runs that have gold, () where none has.

    All calls in any order, in gold's, and, where gold gives them, under its dependencies; the
    calls that change something; the tools by name, which is the plan without its values.
    """
    golden = [run for run in runs if run.gold is not None]
    if not golden:
        return ()
    found = [
        _figures(golden, "all calls", "any", lambda run: _overlap(run, rules, "any")),
        _figures(golden, "all calls", "sequence", lambda run: _overlap(run, rules, "sequence")),
    ]
    ordered = [run for run in golden if run.gold is not None and run.gold.after is not None]
    if ordered:
        found.append(
            _figures(ordered, "all calls", "graph", lambda run: _overlap(run, rules, "graph"))
        )
    if any(run.writes for run in golden):
        found.append(_figures(golden, "writing calls", "any", lambda run: _writes(run, rules)))
    found.append(_figures(golden, "tool names", "sequence", _plan))
    return tuple(found)


def _overlap(run: Run, rules: Rules, order: Order) -> Overlap:
    assert run.gold is not None
    return metrics.tool_calls(run.calls, run.gold.calls, rules, order, run.gold.after or ())


def _writes(run: Run, rules: Rules) -> Overlap:
    assert run.gold is not None
    made = [act for act in run.calls if act.tool in run.writes]
    gold = [act for act in run.gold.calls if act.tool in run.writes]
    return metrics.tool_calls(made, gold, rules)


def _plan(run: Run) -> Overlap:
    """The tools called against the tools of gold, in their order: the plan without its values."""
    assert run.gold is not None
    return metrics.plan_steps([act.tool for act in run.calls], [act.tool for act in run.gold.calls])


def _figures(
    runs: Sequence[Run], what: What, order: Order, measure: Callable[[Run], Overlap]
) -> CallFigures:
    found = [measure(run) for run in runs]
    by_task: dict[str, list[float]] = {}
    for run, overlap in zip(runs, found, strict=True):
        by_task.setdefault(run.task or run.trace, []).append(overlap.f1)
    matched = sum(each.matched for each in found)
    return CallFigures(
        what=what,
        order=order,
        f1=reliability.mean_rate([statistics.fmean(each) for each in by_task.values()]),
        precision=rate(matched, sum(each.made for each in found)),
        recall=rate(matched, sum(each.gold for each in found)),
        runs=len(runs),
    )


def _executed(run: Run, rules: Rules) -> bool | None:
    """Was every gold call made, in whatever order? None without gold calls."""
    if run.gold is None or not run.gold.calls:
        return None
    return _overlap(run, rules, "any").recall == 1


def plan_verdict(run: Run, rules: Rules) -> metrics.PlanVerdict | None:
    """Was the plan right (gold's tools, in its order), and was it carried out?"""
    executed = _executed(run, rules)
    planned = None if executed is None else _plan(run).recall == 1
    return metrics.plan_verdict(planned=planned, executed=executed)


def look_at(run: Run, rules: Rules) -> str | None:
    """Where to look first for what went wrong, by the layer that gave way."""
    return metrics.look_at(
        tool_calls=_executed(run, rules), trajectory=run.clean, outcome=run.passed
    )
