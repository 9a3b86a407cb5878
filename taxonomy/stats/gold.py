"""The calls, plans and goals of many runs against their gold, put together."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.compare.rules import PLAIN, Rules
from replay.statistics import Rate, rate
from replay.store import read
from replay.store.handle import Store, now_ns
from replay.store.rows import TraceRow
from replay.trace import Header
from taxonomy.calibration import approval
from taxonomy.evidence.reading import Reading
from taxonomy.findings import Source, most_trusted
from taxonomy.goals import Goal, Goals, GoalScore, Seen, goal_scores, hindsight, weighted
from taxonomy.metrics import calls, plans, reliability
from taxonomy.metrics.calls import Overlap
from taxonomy.metrics.gold import Order
from taxonomy.metrics.reliability import mean_rate
from taxonomy.stats.runs import Run

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
    calls that change something; the tools by name, without their values.
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
    return calls.tool_calls(run.calls, run.gold.calls, rules, order, run.gold.after or ())


def call_f1(run: Run) -> float | None:
    """The tool-call F1 of one run in any order, None where its task has no gold calls."""
    return None if run.gold is None else _overlap(run, PLAIN, "any").f1


def _writes(run: Run, rules: Rules) -> Overlap:
    assert run.gold is not None
    made = [act for act in run.calls if act.tool in run.writes]
    gold = [act for act in run.gold.calls if act.tool in run.writes]
    return calls.tool_calls(made, gold, rules)


def _plan(run: Run) -> Overlap:
    """The tools called against the tools of gold, in their order, without their values."""
    assert run.gold is not None
    return calls.plan_steps([act.tool for act in run.calls], [act.tool for act in run.gold.calls])


def _figures(
    runs: Sequence[Run], what: What, order: Order, measure: Callable[[Run], Overlap]
) -> CallFigures:
    found = [measure(run) for run in runs]
    matched = sum(each.matched for each in found)
    return CallFigures(
        what=what,
        order=order,
        f1=_over_tasks(zip(runs, found, strict=True)),
        precision=rate(matched, sum(each.made for each in found)),
        recall=rate(matched, sum(each.gold for each in found)),
        runs=len(runs),
    )


class PlanFigures(Struct, frozen=True, kw_only=True):
    """Stated plans against the plans of gold. `f1` is the mean over tasks, of the mean over a
    task's runs; `precision` counts stated steps, `recall` steps of gold, over all runs that state a
    plan. `unstated` runs have a plan in gold and state none: they count nowhere else."""

    f1: Rate
    precision: Rate
    recall: Rate
    runs: int
    unstated: int


def plan_figures(runs: Sequence[Run]) -> PlanFigures | None:
    """The figures of the runs whose gold has a plan, None where none has."""
    golden = [run for run in runs if run.gold_plan is not None]
    if not golden:
        return None
    found = [
        (run, plans.plan_overlap(stated, run.gold_plan or ()))
        for run in golden
        if (stated := plans.stated_plan(run.calls)) is not None
    ]
    return PlanFigures(
        f1=_over_tasks(found),
        precision=rate(sum(each.matched for _, each in found), sum(each.made for _, each in found)),
        recall=rate(sum(each.matched for _, each in found), sum(each.gold for _, each in found)),
        runs=len(found),
        unstated=len(golden) - len(found),
    )


def routing(runs: Sequence[Run]) -> Rate:
    """Of the runs with gold calls in which work is given to an agent or a person, or should be, how
    many give it to those gold names, in its order."""
    golden = (plans.routes(run.calls, run.gold.calls) for run in runs if run.gold is not None)
    decided = [right for each in golden if (right := each.right) is not None]
    return rate(sum(decided), len(decided))


class OwnGoldRuns(Struct, frozen=True, kw_only=True):
    """Runs that are held against gold a user wrote: `hindsight` of them began before it was first
    seen, of `undated` ones nobody knows."""

    runs: int
    hindsight: int
    undated: int


def own_gold_runs(runs: Sequence[Run]) -> OwnGoldRuns | None:
    """Those of some runs, None where there is no such gold."""
    found = [run.own for run in runs if run.own is not None]
    if not found:
        return None
    return OwnGoldRuns(
        runs=len(found),
        hindsight=sum(own.hindsight is True for own in found),
        undated=sum(own.hindsight is None for own in found),
    )


def _over_tasks(found: Iterable[tuple[Run, Overlap]]) -> Rate:
    """The mean F1 over tasks, of the mean over a task's runs."""
    by_task: dict[str, list[float]] = {}
    for run, overlap in found:
        by_task.setdefault(run.task or run.trace, []).append(overlap.f1)
    return reliability.mean_rate([statistics.fmean(each) for each in by_task.values()])


def _executed(run: Run, rules: Rules) -> bool | None:
    """Was every gold call made, in whatever order? None without gold calls."""
    if run.gold is None or not run.gold.calls:
        return None
    return _overlap(run, rules, "any").recall == 1


def plan_verdict(run: Run, rules: Rules) -> calls.PlanVerdict | None:
    """Was the plan right (gold's tools, in its order), and was it carried out?"""
    executed = _executed(run, rules)
    planned = None if executed is None else _plan(run).recall == 1
    return calls.plan_verdict(planned=planned, executed=executed)


def look_at(run: Run, rules: Rules) -> str | None:
    """Where to look first for what went wrong, by the layer that gave way."""
    return calls.look_at(tool_calls=_executed(run, rules), trajectory=run.clean, outcome=run.passed)


class GoalRun(Struct, frozen=True, kw_only=True):
    """The goals of one run. `hindsight` None: the run has no times."""

    trace: str
    scores: tuple[GoalScore, ...]
    sources: frozenset[Source]
    hindsight: bool | None


class GoalLine(Struct, frozen=True, kw_only=True):
    """One goal over the runs that reached it with a score."""

    text: str
    weight: int
    owner: str | None
    score: Rate


class GoalFigures(Struct, frozen=True, kw_only=True):
    """Means over runs: `weighted` of the weighted means, `plain` of the means without weights.

    `sources` say whose scores they are. Of the runs, `hindsight` ran before their goals were first
    seen, and of `undated` ones nobody knows.
    """

    version: str
    weighted: Rate
    plain: Rate
    goals: tuple[GoalLine, ...]
    sources: tuple[Source, ...]
    hindsight: int
    undated: int


def goal_runs(store: Store, rows: Iterable[TraceRow], goals: Goals, seen: Seen) -> list[GoalRun]:
    """The runs that goals are written for, each with their scores."""
    found: list[GoalRun] = []
    now = now_ns()
    for row in rows:
        own = goals.of(Header(format=row.format, source_id=row.source_id, task=row.task))
        if not own:
            continue
        trace = read.load(store, row.trace)
        scores = most_trusted(approval.trusted_scores(store, row.trace, now))
        values = {step: score.value for step, score in scores.items()}
        found.append(
            GoalRun(
                trace=row.trace,
                scores=goal_scores(own, Reading(trace).turns, values),
                sources=frozenset(score.source for score in scores.values()),
                hindsight=hindsight(seen, trace),
            )
        )
    return found


def goal_figures(runs: Sequence[GoalRun], version: str) -> GoalFigures | None:
    """The figures of those runs, None for none."""
    if not runs:
        return None
    heavy, plain = [], []
    by_goal: dict[Goal, list[float]] = {}
    for run in runs:
        known = [(each.value, each.goal.weight) for each in run.scores if each.value is not None]
        mean = weighted(known).value
        if mean is not None:
            heavy.append(mean)
            plain.append(statistics.fmean(value for value, _ in known))
        for each in run.scores:
            values = by_goal.setdefault(each.goal, [])
            values += [] if each.value is None else [each.value]
    return GoalFigures(
        version=version,
        weighted=mean_rate(heavy),
        plain=mean_rate(plain),
        goals=tuple(
            GoalLine(text=goal.text, weight=goal.weight, owner=goal.owner, score=mean_rate(values))
            for goal, values in by_goal.items()
        ),
        sources=tuple(sorted({source for run in runs for source in run.sources})),
        hindsight=sum(run.hindsight is True for run in runs),
        undated=sum(run.hindsight is None for run in runs),
    )
