"""Which layer of the eval pyramid got worse between two groups of runs, and where does that point?

Article on agent evals, "The eval pyramid": L0 asserts of one completion, L1 tool calls against
gold, L2 the steps against a rubric, L3 the outcome. Its three sentences are said only where
intervals carry them. A layer is *down* where the interval of its change lies below 0 and the change
is at least the margin; it *held* where the interval lies above minus the margin: a layer that
merely shows no significant change has not held. Trials of one task are alike, so a task counts and
not a run.

Of each interval one end is used, and false in at most ALPHA / layers of comparisons (Bonferroni):
whatever is said of all layers together is then false in at most ALPHA of them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.statistics import Rate, student_quantile
from taxonomy.metrics.reliability import mean_rate

Layer: TypeAlias = Literal["L0", "L1", "L2", "L3"]
State: TypeAlias = Literal["down", "held", "inconclusive", "not evaluated"]
Suspect: TypeAlias = Literal["environment or check", "plan", "tool definitions", "unclear"]
Why: TypeAlias = Literal[
    "none down", "asserts down", "tools same", "tools unknown", "not held", "not evaluated"
]
"""Why it is unclear: no layer is down; the lowest that is down is L0; or L1 with the same tool
definitions, or unknown ones; or a layer below the one that is down has not been shown to hold, or
was not evaluated."""

LAYERS: tuple[Layer, ...] = ("L0", "L1", "L2", "L3")
ALPHA = 0.05
MARGIN = 0.10
DROP = 0.20
"""The drop at one layer that the runs needed are reckoned for."""

POWER = 0.80
FEW = 5
"""Of fewer tasks the variance is not estimated: the largest of two single runs is taken."""

_LARGEST = 0.5
_ROUNDING = 1e-9
_MOST = 1_000_000

TaskValues: TypeAlias = Mapping[str, Sequence[float]]
"""By task the values of its runs, each 0..1."""


class LayerChange(Struct, frozen=True, kw_only=True):
    """One layer of both groups. Rates are means over tasks, of the mean over a task's runs, with
    Wilson's interval at so many tasks.

    `paired`: over the tasks that both groups have, and over no other; else over all of each. `low`
    and `high` bound the change (0..1, under 0 is worse), None where fewer than two tasks could be
    compared. `variance` is that of the change of one task (paired), or of the means of one task in
    both groups, summed. `runs` are the runs with a value in each group, `trials` their mean number
    a task in the group that has fewer.
    """

    layer: Layer
    before: Rate
    after: Rate
    runs: tuple[int, int]
    paired: bool
    trials: float
    change: float | None
    low: float | None
    high: float | None
    variance: float
    state: State


class LayerVerdict(Struct, frozen=True, kw_only=True):
    """Where the layers point. `down` is the lowest layer that is down, None where none is; `why` is
    set where the suspect is unclear, and `layers` are those that it is about."""

    suspect: Suspect
    down: Layer | None
    why: Why | None = None
    layers: tuple[Layer, ...] = ()


class Needed(Struct, frozen=True, kw_only=True):
    """Tasks, and runs a group, with which a drop of `drop` at one layer, the others equal, is
    routed in `power` of comparisons; at the variances and trials a task of these runs."""

    drop: float
    power: float
    tasks: int
    runs: int


def compare_layers(
    found: Mapping[Layer, tuple[TaskValues, TaskValues]], margin: float = MARGIN
) -> tuple[LayerChange, ...]:
    """Every layer, L0 first; one without values in both groups is not evaluated."""
    sides = {each: _comparable(*found.get(each, ({}, {}))) for each in LAYERS}
    evaluated = sum(_tasks(side) >= 2 for side in sides.values())
    return tuple(_change(each, sides[each], margin, max(evaluated, 1)) for each in LAYERS)


class _Sides(Struct, frozen=True):
    before: dict[str, float]
    after: dict[str, float]
    runs: tuple[int, int]
    paired: bool
    trials: float


def _comparable(before: TaskValues, after: TaskValues) -> _Sides:
    """The means of tasks: of the shared ones where they are at least half of the tasks of either
    group, else of all."""
    before = {task: values for task, values in before.items() if values}
    after = {task: values for task, values in after.items() if values}
    shared = [task for task in before if task in after]
    paired = len(shared) > 1 and 2 * len(shared) >= min(len(before), len(after))
    if paired:
        before = {task: before[task] for task in shared}
        after = {task: after[task] for task in shared}
    runs = sum(map(len, before.values())), sum(map(len, after.values()))
    per_task = [n / len(side) for n, side in zip(runs, (before, after), strict=True) if side]
    return _Sides(_means(before), _means(after), runs, paired, min(per_task, default=1.0))


def _means(values: TaskValues) -> dict[str, float]:
    return {task: statistics.fmean(each) for task, each in values.items()}


def _tasks(sides: _Sides) -> int:
    return min(len(sides.before), len(sides.after))


def _change(layer: Layer, sides: _Sides, margin: float, layers: int) -> LayerChange:
    change = low = high = None
    variance = _LARGEST
    if _tasks(sides) >= 2:
        before, after = list(sides.before.values()), list(sides.after.values())
        change = statistics.fmean(after) - statistics.fmean(before)
        if sides.paired:
            changes = [sides.after[task] - sides.before[task] for task in sides.before]
            low, high = paired_bounds(changes, ALPHA / layers)
            spread = statistics.variance(changes)
        else:
            low, high = unpaired_bounds(before, after, ALPHA / layers)
            spread = statistics.variance(before) + statistics.variance(after)
        variance = spread if _tasks(sides) >= FEW else _LARGEST
    return LayerChange(
        layer=layer,
        before=mean_rate(list(sides.before.values())),
        after=mean_rate(list(sides.after.values())),
        runs=sides.runs,
        paired=sides.paired,
        trials=sides.trials,
        change=change,
        low=low,
        high=high,
        variance=variance,
        state=_state(change, low, high, margin),
    )


def _state(change: float | None, low: float | None, high: float | None, margin: float) -> State:
    if change is None or low is None or high is None:
        return "not evaluated"
    if high < 0 and change <= -margin + _ROUNDING:
        return "down"
    return "held" if low > -margin else "inconclusive"


# --- intervals


def paired_bounds(changes: Sequence[float], alpha: float) -> tuple[float, float]:
    """Bounds of the mean of changes in -1..1, each false in about `alpha`.

    Bonett and Price's interval for paired proportions (2012): one change of +1 and one of -1 are
    added, so that tasks which all changed alike are no proof. Extended to means of tasks, and with
    Student's quantile in place of the normal one.
    """
    n = len(changes) + 2
    mean = math.fsum(changes) / n
    variance = (math.fsum(each * each for each in changes) + 2) / n - mean * mean
    return _around(mean, variance / n, len(changes) - 1, alpha)


def unpaired_bounds(
    before: Sequence[float], after: Sequence[float], alpha: float
) -> tuple[float, float]:
    """The same for the difference of two means of tasks, after Agresti and Caffo (2000): one value
    of 1 and one of 0 are added to each group."""
    mean = error = 0.0
    for sign, values in ((-1, before), (1, after)):
        n = len(values) + 2
        middle = (math.fsum(values) + 1) / n
        mean += sign * middle
        error += ((math.fsum(each * each for each in values) + 1) / n - middle * middle) / n
    return _around(mean, error, len(before) + len(after) - 2, alpha)


def _around(mean: float, error: float, freedom: int, alpha: float) -> tuple[float, float]:
    half = student_quantile(1 - alpha, freedom) * math.sqrt(error)
    return max(-1.0, mean - half), min(1.0, mean + half)


# --- the decision


def route(changes: Iterable[LayerChange], tools_changed: bool | None) -> LayerVerdict:
    """Where the layers point; `tools_changed`: do the groups differ in their tool definitions, None
    where those are not recorded.

    The lowest layer that is down is the one to explain. For L2 and L3 the layer right below must
    have held, and every other one below that was evaluated.
    """
    known = {each.layer: each.state for each in changes}
    down = next((layer for layer in LAYERS if known[layer] == "down"), None)
    if down is None:
        return LayerVerdict(suspect="unclear", down=None, why="none down")
    if down == "L0":
        return LayerVerdict(suspect="unclear", down=down, why="asserts down", layers=(down,))
    if down == "L1":
        if tools_changed:
            return LayerVerdict(suspect="tool definitions", down=down)
        why: Why = "tools unknown" if tools_changed is None else "tools same"
        return LayerVerdict(suspect="unclear", down=down, why=why, layers=(down,))
    at = LAYERS.index(down)
    if known[LAYERS[at - 1]] == "not evaluated":
        return LayerVerdict(
            suspect="unclear", down=down, why="not evaluated", layers=(LAYERS[at - 1],)
        )
    loose = tuple(layer for layer in LAYERS[:at] if known[layer] == "inconclusive")
    if loose:
        return LayerVerdict(suspect="unclear", down=down, why="not held", layers=loose)
    return LayerVerdict(suspect="plan" if down == "L2" else "environment or check", down=down)


# --- how many runs it takes


def runs_needed(
    changes: Sequence[LayerChange], margin: float = MARGIN, drop: float = DROP
) -> Needed | None:
    """What it takes to route a drop at any one layer that was evaluated; None where none was, or
    the drop is under the margin.

    By normal approximation, with the variances seen, and as if layers were independent.
    """
    known = [each for each in changes if each.state != "not evaluated"]
    if not known or drop < margin:
        return None

    def enough(tasks: int) -> bool:
        reached = [_chances(each, margin, drop, tasks, ALPHA / len(known)) for each in known]
        held = [chance for _, chance in reached]
        return all(
            down * math.prod(held[:at]) >= POWER for at, (down, _) in enumerate(reached)
        )  # fmt: skip

    low, high = 2, 4
    while not enough(high) and high < _MOST:
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    trials = min(each.trials for each in known)
    return Needed(drop=drop, power=POWER, tasks=high, runs=math.ceil(high * trials))


def _chances(
    each: LayerChange, margin: float, drop: float, tasks: int, alpha: float
) -> tuple[float, float]:
    """How often a layer with the drop is shown to be down, and one without a change to hold."""
    n = tasks + 2
    # What the added values bring: 2 / n of a change, 1 / 4 of each mean in 2 / n of two groups.
    error = math.sqrt((each.variance + (2 / n if each.paired else 1 / n)) / n)
    reach = error * student_quantile(1 - alpha, max(tasks - 1, 1))
    shown = drop * tasks / n  # the added values draw the change towards 0
    down = min(_below((shown - reach) / error), _below((drop - margin) / error))
    return down, _below((margin - reach) / error)


def _below(z: float) -> float:
    return statistics.NormalDist().cdf(z)
