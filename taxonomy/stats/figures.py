"""All figures of a set of runs that the metrics can be computed of, as one value.

Puts the metrics together; each formula is said where it lives (`reliability`, `grounding`, `cost`
of `taxonomy.metrics`). Takes runs as a few numbers each, not traces. What cannot be computed is
None or counts nothing.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.compare.rules import PLAIN, Rules
from replay.error_injection.run import PLACES
from replay.statistics import Rate
from taxonomy.metrics import cost, grounding, reliability
from taxonomy.metrics.calls import Share, share
from taxonomy.metrics.cost import Money
from taxonomy.metrics.reliability import WARNINGS, Basis, Decay, Persistence, passing_sizes
from taxonomy.paraphrase_test.result import Varied
from taxonomy.stats import gold
from taxonomy.stats.gold import (
    CallFigures,
    GoalFigures,
    OwnGoldRuns,
    PlanFigures,
    call_figures,
    own_gold_runs,
    plan_figures,
    plan_verdict,
)
from taxonomy.stats.recovery import Recovery
from taxonomy.stats.runs import NOTHING_KEPT, Proxies, Run

BENCHMARK = 10
"""Fewer tasks are no benchmark: three passes of one task say nothing of contamination."""

Split: TypeAlias = Literal["kept", "yours", "arc's own"]
"""Who holds tasks out: remembered by `arc stats --hold-out`, named in a query, or nobody yet."""


class Held(Struct, frozen=True):
    """The traces of the tasks held out, and by whom."""

    split: Split
    traces: frozenset[str]


class HeldOut(Struct, frozen=True, kw_only=True):
    """pass@1 of the tasks held out beside the others. `split` says who held them out."""

    split: Split
    kept_out: Rate
    others: Rate
    gap: grounding.Gap | None


class Wording(Struct, frozen=True, kw_only=True):
    """The spread over the wordings of one task.

    `by` names who answered and who judged where `arc experiment paraphrase` asked; "" for runs
    that a harness made.
    `reading` is that of the spread, or that no wording fails.
    """

    task: str
    spread: grounding.Surface
    reading: str
    by: str = ""


class CostFigures(Struct, frozen=True, kw_only=True):
    """Costs of the runs. `priced` of them have a cost, some of them perhaps a partial one.

    `per_resolved` shares what all runs of known outcome cost among those that passed. `from_cache`
    is the share of input tokens read from a cache, over the calls that say.
    """

    total: Money
    per_run: Money
    per_step: Money
    per_resolved: Money
    runs: int
    priced: int
    steps: int
    resolved: int
    from_cache: float | None


class Figures(Struct, frozen=True, kw_only=True):
    """Every figure of a set of runs. Rates carry n and an interval.

    `verifiers` say who decided the outcomes. `taskless` runs name no task and are in no pass@k.
    `plan` are the plans that runs state against those of gold, `routing` is how often work was
    given to whom gold names, `own_gold` which runs are held against gold a user wrote.
    `plans` counts runs by what was right of plan and execution, `look_at` failed runs by the layer
    that gave way. `decay_basis` says where the sizes of the decay curve come from,
    `decay_warning` what must be said with it.
    """

    runs: int
    outcome: Share
    verifiers: tuple[str, ...]
    repeated: tuple[reliability.Repeated, ...]
    taskless: int
    temperatures: tuple[float, ...]
    agents: tuple[str, ...]
    calls: tuple[CallFigures, ...]
    plan: PlanFigures | None
    routing: Rate
    own_gold: OwnGoldRuns | None
    plans: dict[str, int]
    look_at: dict[str, int]
    decay: Decay
    decay_basis: Basis
    decay_warning: str | None
    persistence: Persistence
    recovery: Recovery
    held_out: HeldOut | None
    contaminated: bool | None
    series: tuple[Rate, ...]
    wordings: tuple[Wording, ...]
    shapes: dict[str, int]
    production: grounding.Distance | None
    proxies: Proxies
    goals: GoalFigures | None
    cost: CostFigures

    @property
    def headline(self) -> reliability.Repeated | None:
        """The largest k for which at least half of the tasks have the trials."""
        fit = [each for each in self.repeated if each.pass_hat.n >= each.left_out]
        return fit[-1] if fit else None


def figures(
    runs: Sequence[Run],
    *,
    edges: Sequence[float] = (),
    rules: Rules = PLAIN,
    held_out: Held | None = None,
    apart: Sequence[Run] = (),
    production: Sequence[Run] = (),
    recovery: Recovery | None = None,
    varied: Sequence[Varied] = (),
    proxies: Proxies = NOTHING_KEPT,
    goals: GoalFigures | None = None,
) -> Figures:
    """The figures of some runs.

    `edges` bound the buckets of the decay curve, `rules` say what counts in arguments, `held_out`
    names the traces of the tasks kept out of tuning (None: a split of our own); those of them that
    are in nothing but the gap are `apart`. `production` are runs to compare the shapes with,
    `recovery` that of errors told of elsewhere, `varied` tasks that were asked in other words.
    """
    basis, sizes = _sizes(runs)
    series = _series(runs)
    shapes = _shapes(runs)
    return Figures(
        runs=len(runs),
        outcome=share(run.passed for run in runs),
        verifiers=tuple(sorted({run.verifier for run in runs if run.verifier})),
        repeated=_repeated(runs),
        taskless=sum(run.task is None for run in runs),
        temperatures=tuple(sorted({each for run in runs for each in run.temperatures})),
        agents=tuple(sorted({run.agent for run in runs if run.agent})),
        calls=call_figures(runs, rules),
        plan=plan_figures(runs),
        routing=gold.routing(runs),
        own_gold=own_gold_runs(runs),
        plans=_counted(plan_verdict(run, rules) for run in runs),
        look_at=_counted(gold.look_at(run, rules) for run in runs if run.passed is False),
        decay=reliability.decay(sizes, [run.passed for run in runs], edges),
        decay_basis=basis,
        decay_warning=WARNINGS.get(basis),
        persistence=reliability.persistence(run.failed_steps for run in runs),
        recovery=recovery if recovery is not None else _recovery(runs),
        held_out=_held_out([*runs, *apart], held_out),
        contaminated=grounding.contaminated([each.value for each in series]),
        series=series,
        wordings=(*_asked_again(varied), *_wordings(runs)),
        shapes=shapes,
        production=grounding.distance(shapes, _shapes(production)),
        proxies=proxies,
        goals=goals,
        cost=_cost(runs),
    )


def _counted(words: Iterable[str | None]) -> dict[str, int]:
    return dict(Counter(word for word in words if word is not None).most_common())


# --- repeated trials


def _by_task(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Runs with a task and an outcome, by task."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run.task is not None and run.passed is not None:
            found.setdefault(run.task, []).append(run)
    return found


def _repeated(runs: Sequence[Run]) -> tuple[reliability.Repeated, ...]:
    """For k = 1 … the most trials of a task; from 8 on by doubling."""
    tasks = _by_task(runs).values()
    counts = [(len(trials), sum(run.passed is True for run in trials)) for trials in tasks]
    most = max((n for n, _ in counts), default=0)
    wanted = [k for k in (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128) if k <= most]
    return tuple(reliability.over_tasks(counts, k) for k in wanted)


def _pass_one(runs: Iterable[Run]) -> Rate:
    """pass@1: the mean over tasks of the share of a task's runs that passed."""
    tasks = _by_task(runs).values()
    shares = [sum(run.passed is True for run in trials) / len(trials) for trials in tasks]
    return reliability.mean_rate(shares)


def _recovery(runs: Iterable[Run]) -> Recovery:
    """Of the runs that say where an error was put in."""
    injected = [run for run in runs if run.injected is not None]
    return Recovery(
        rate=grounding.recovery_rate(run.corrected_after for run in injected),
        elsewhere=sum(run.injected not in PLACES for run in injected),
    )


def _held_out(runs: Sequence[Run], held: Held | None) -> HeldOut | None:
    strata = {run.task: run.stratum for run in runs if run.task is not None}
    if held is None:
        tasks: Collection[str] = grounding.held_out(strata)
    else:
        tasks = {run.task for run in runs if run.task is not None and run.trace in held.traces}
    kept = _pass_one(run for run in runs if run.task in tasks)
    others = _pass_one(run for run in runs if run.task not in tasks)
    if not kept.n or not others.n:
        return None
    return HeldOut(
        split="arc's own" if held is None else held.split,
        kept_out=kept,
        others=others,
        gap=grounding.held_out_gap(others, kept),
    )


def _series(runs: Sequence[Run]) -> tuple[Rate, ...]:
    """pass@1 of each time the benchmark was run, in the order given; too small ones left out."""
    names = dict.fromkeys(run.series for run in runs if run.series is not None)
    rates = (_pass_one(run for run in runs if run.series == name) for name in names)
    return tuple(each for each in rates if each.n >= BENCHMARK)


def _wordings(runs: Iterable[Run]) -> tuple[Wording, ...]:
    """The spread of each task that was asked in other words, over the mean score of a wording."""
    scores: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        if run.paraphrase_of is not None and run.value is not None:
            wordings = scores.setdefault(run.paraphrase_of, {})
            wordings.setdefault(run.task or run.trace, []).append(run.value)
    found = []
    for task, wordings in scores.items():
        spread = grounding.surface_variation([statistics.fmean(each) for each in wordings.values()])
        if spread is not None:
            found.append(Wording(task=task, spread=spread, reading=spread.reading))
    return tuple(found)


def _asked_again(varied: Iterable[Varied]) -> Iterator[Wording]:
    """What `arc experiment paraphrase` came to, where it came to anything."""
    for each in varied:
        spread, reading = each.surface, each.reading
        if spread is not None and reading is not None:
            samples = "one sample" if each.samples == 1 else f"{each.samples} samples"
            by = f"{each.model}, judged by {each.judge}, {samples} each"
            yield Wording(task=each.task or each.trace[:8], spread=spread, reading=reading, by=by)


def _shapes(runs: Iterable[Run]) -> dict[str, int]:
    return _counted(run.shape for run in runs)


# --- sizes and costs


def _sizes(runs: Sequence[Run]) -> tuple[Basis, list[float | None]]:
    """The size of each run's task, from the first source that serves all of the runs decided.

    The steps of passing runs serve where they give a size to most runs, some that failed among
    them: else the curve would be of passing runs alone.
    """
    labels = [run.size for run in runs]
    gold = [None if run.gold is None else float(len(run.gold.calls)) for run in runs]
    passing = passing_sizes(
        [run.task for run in runs], [run.steps for run in runs], [run.passed for run in runs]
    )
    decided = [at for at, run in enumerate(runs) if run.passed is not None]
    by_source: Mapping[Basis, list[float | None]] = {"label": labels, "gold length": gold}
    for basis, sizes in by_source.items():
        if decided and all(sizes[at] is not None for at in decided):
            return basis, sizes
    sized = [at for at in decided if passing[at] is not None]
    if 2 * len(sized) > len(decided) and any(runs[at].passed is False for at in sized):
        return "steps of passing runs", passing
    return "own steps", [float(run.steps) for run in runs]


def _cost(runs: Sequence[Run]) -> CostFigures:
    decided = [run for run in runs if run.passed is not None]
    resolved = sum(run.passed is True for run in decided)
    whole = cost.total(run.money for run in runs)
    steps = sum(run.steps for run in runs)
    cached = [run.cached for run in runs if run.cached is not None]
    given = sum(each for each, _ in cached)
    return CostFigures(
        total=whole,
        per_run=cost.per(whole, len(runs)),
        per_step=cost.per(whole, steps),
        per_resolved=cost.per(cost.total(run.money for run in decided), resolved),
        runs=len(runs),
        priced=sum(run.money.cost_usd is not None for run in runs),
        steps=steps,
        resolved=resolved,
        from_cache=sum(read for _, read in cached) / given if given else None,
    )
