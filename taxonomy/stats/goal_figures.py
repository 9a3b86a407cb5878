"""What runs come to over the goals of their tasks, weighted by how much each goal matters.

Source: the ARC article, "Weight sub-goals by downstream impact". Weights first seen after a run
had begun are hindsight, and counted as such.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from msgspec import Struct

from replay.statistics import Rate
from replay.store import Store, read
from replay.store.handle import now_ns
from replay.store.rows import TraceRow
from replay.trace import Header
from taxonomy import trusted
from taxonomy.evidence.reading import Reading
from taxonomy.findings import Source, most_trusted
from taxonomy.goals import Goal, Goals, GoalScore, Seen, goal_scores, hindsight, weighted
from taxonomy.reliability import mean_rate


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
        scores = most_trusted(trusted.trusted_scores(store, row.trace, now))
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
