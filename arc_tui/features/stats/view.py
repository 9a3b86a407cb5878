"""The figures of the runs that were asked for, of groups of them, and how long their calls took."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from arc_tui.views.runs import run_rows
from replay.compare.rules import PLAIN, Rules
from replay.store.handle import Store
from replay.store.rows import Latency, latencies, spans_named
from taxonomy.goals import Goals, first_seen
from taxonomy.held_out import HeldOutSet, held, parted
from taxonomy.metrics.change import Change, dated, start_of
from taxonomy.paraphrase_test import result
from taxonomy.query.listing import RunRow
from taxonomy.stats import recovery, runs
from taxonomy.stats.figures import Figures, Held, figures
from taxonomy.stats.gold import GoalRun, goal_figures, goal_runs
from taxonomy.stats.recovery import Injection, Recovery
from taxonomy.stats.runs import Run
from taxonomy.stats.trend import moved


class Group(Struct, frozen=True, eq=False, kw_only=True):
    """The runs that share some columns, their figures, and how long their calls took; `group` is
    empty for all runs."""

    group: dict[str, str | None]
    figures: Figures
    latencies: tuple[CallTimes, ...]


class Hidden(Struct, frozen=True, kw_only=True):
    """The tasks held out, among the runs that were asked for, and how many runs they have.

    `since` is the day the first was held out. Where `shown`, they are counted all the same.
    """

    tasks: int
    runs: int
    since: str
    shown: bool


class Trend(Struct, frozen=True, kw_only=True):
    """Before and since a day (UTC). `undated` runs of unknown start are on neither side."""

    since: str
    before_runs: int
    since_runs: int
    undated: int
    changes: tuple[Change, ...]


class StatsView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything `arc stats` prints: a group for each value of the columns asked for.

    `hidden` None: no task of these runs is held out. `trend` None: no day was named.
    """

    groups: tuple[Group, ...]
    hidden: Hidden | None
    trend: Trend | None


class StatsRequest(Struct, frozen=True, kw_only=True):
    """What `arc stats` was asked: which runs, in which groups, measured how.

    `held_out` and `production` are queries too, None where not given; `every` counts the tasks
    held out like all others. `since` names the day of a change, `injections` errors put in on
    purpose, `goals` (from the file `goals_name`) what runs should achieve.
    """

    query: str = ""
    by: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    rules: Rules = PLAIN
    held_out: str | None = None
    production: str | None = None
    every: bool = False
    since: datetime.date | None = None
    injections: tuple[Injection, ...] = ()
    goals: Goals | None = None
    goals_name: str = ""


def build_stats(store: Store, request: StatsRequest) -> StatsView:
    """A group for each value of the columns of `by` (one for none); none where no run matches.

    Raises NotFound where an injection names a run that is needed and not there.
    """
    production = () if request.production is None else run_rows(store, request.production)
    compared = _traces(production)
    matching = tuple(row for row in run_rows(store, request.query) if row.trace not in compared)
    holding = held(store)
    visible, held_rows = parted(matching, holding.tasks)
    split = _split(store, request, held_rows)
    shown = matching if request.every else visible
    known = _RunFigures(
        store, request, shown, () if request.every else held_rows, production, split
    )
    by_group = runs.grouped(shown, request.by)
    return StatsView(
        groups=tuple(known.group(key, own) for key, own in by_group.items()),
        hidden=_hidden(held_rows, holding, shown=request.every),
        trend=None if request.since is None else known.trend(request.since),
    )


def _split(store: Store, request: StatsRequest, held_rows: Sequence[RunRow]) -> Held | None:
    """Whose the held-out tasks are: a query's, those that are kept, or nobody's."""
    if request.held_out is not None:
        return Held("yours", _traces(run_rows(store, request.held_out)))
    return Held("kept", _traces(held_rows)) if held_rows else None


def _hidden(held_rows: Sequence[RunRow], holding: HeldOutSet, *, shown: bool) -> Hidden | None:
    if not held_rows:
        return None
    tasks = len({row.task for row in held_rows})
    return Hidden(tasks=tasks, runs=len(held_rows), since=str(holding.since), shown=shown)


class _RunFigures:
    """The numbers of all runs asked for, read once for every group of them."""

    def __init__(
        self,
        store: Store,
        request: StatsRequest,
        rows: Sequence[RunRow],
        held_rows: Sequence[RunRow],
        production: Sequence[RunRow],
        split: Held | None,
    ) -> None:
        self._store = store
        self._request = request
        self._rows = rows
        self._split = split
        self._runs = runs.runs_of(store, rows)
        self._held = runs.runs_of(store, held_rows)
        self._held_by_group = runs.grouped(held_rows, request.by)
        self._production = runs.runs_of(store, production)
        self._recovery = runs.recovered(store, request.injections) if request.injections else None
        traces = _traces(rows)
        self._injected = [each for each in recovery.kept(store) if each.trace in traces]
        self._varied = [each for each in result.kept(store) if each.trace in traces]
        self._signs = runs.read_signs(store, rows)
        self._goal_runs: Sequence[GoalRun] = ()
        if request.goals is not None:
            seen = first_seen(store, request.goals, request.goals_name)
            self._goal_runs = goal_runs(store, rows, request.goals, seen)

    def group(self, key: tuple[str | None, ...], own: frozenset[str]) -> Group:
        request = self._request
        held_rows = self._held_by_group.get(key, frozenset())
        signs = [self._signs[trace] for trace in sorted(own) if trace in self._signs]
        version = request.goals.version if request.goals is not None else ""
        return Group(
            group=dict(zip(request.by, key, strict=True)),
            figures=figures(
                [run for run in self._runs if run.trace in own],
                edges=request.edges,
                rules=request.rules,
                held_out=self._split,
                apart=[run for run in self._held if run.trace in held_rows],
                production=self._production,
                recovery=self._recovery or self._recovered(own),
                varied=[each for each in self._varied if each.trace in own],
                proxies=runs.proxies(signs),
                goals=goal_figures([r for r in self._goal_runs if r.trace in own], version),
            ),
            latencies=call_times(self._store, own),
        )

    def _recovered(self, own: frozenset[str]) -> Recovery | None:
        """Of errors that were put in and kept; None where none were, for the labels to say."""
        found = [each for each in self._injected if each.trace in own and each.own]
        return recovery.recovery_of(found) if found else None

    def trend(self, since: datetime.date) -> Trend:
        """All runs of before and since a day, whatever group they are in."""
        border = start_of(since)
        starts = {row.trace: dated(row.start_ns) for row in self._rows}
        sides: dict[bool | None, list[Run]] = {True: [], False: [], None: []}
        for run in self._runs:
            start = starts[run.trace]
            sides[None if start is None else start >= border].append(run)
        return Trend(
            since=since.isoformat(),
            before_runs=len(sides[False]),
            since_runs=len(sides[True]),
            undated=len(sides[None]),
            changes=moved(sides[False], sides[True], self._signs),
        )


def _traces(rows: Collection[RunRow]) -> frozenset[str]:
    return frozenset(row.trace for row in rows)


KINDS = ("model", "tool")


class CallTimes(Struct, frozen=True, kw_only=True):
    """How long the `calls` of a model or a tool took, as far as the source says: `timed` of them.

    The percentiles are None where none is. `name` None: the model is not known.
    """

    kind: Literal["model", "tool"]
    name: str | None
    calls: int
    timed: int
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None


def call_times(store: Store, traces: Collection[str]) -> tuple[CallTimes, ...]:
    """Models, then tools, those called most first."""
    timed = {(each.kind, each.name): each for each in latencies(store, traces)}
    found = [
        _times("model" if kind == "model" else "tool", name, calls, timed.get((kind, name)))
        for (kind, name), calls in spans_named(store, traces).items()
        if kind in KINDS
    ]
    return tuple(sorted(found, key=lambda each: (each.kind, -each.calls, each.name or "")))


def _times(
    kind: Literal["model", "tool"], name: str | None, calls: int, known: Latency | None
) -> CallTimes:
    return CallTimes(
        kind=kind,
        name=name,
        calls=calls,
        timed=known.spans if known else 0,
        p50_ns=known.p50_ns if known else None,
        p90_ns=known.p90_ns if known else None,
        p99_ns=known.p99_ns if known else None,
    )
