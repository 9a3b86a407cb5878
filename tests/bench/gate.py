"""`python -m tests.bench.gate [REPEATS]`: how often `arc gate` blocks, wrongly and rightly.

Simulated agents: tasks differ in how hard they are, trials of one task in one group are correlated
(`ALIKE`), a drop takes the same share of every task's chance. Beside the gate stand a fixed
threshold and McNemar's test on majorities, as often used. The figures are kept in `gate.json`
beside this file; the docs print them.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from arc_tui.ui import format
from replay.statistics import rate
from taxonomy.gate import ALPHA, MIN_DROP, TaskPair, is_drop, smallest_drop, task_pair
from taxonomy.metrics.reliability import Trials
from tests.bench.measure import Row

FILE = Path(__file__).with_name("gate.json")

TASKS = (30, 100)
TRIALS = (1, 4, 8)
DROPS = (0.0, 0.05, 0.10, 0.20)
ALIKE = 0.05
"""The correlation of two trials of a task in one group, beyond the task's own difficulty."""

DIFFICULTY = (2.0, 1.0)
"""The Beta distribution of how often tasks pass: two in three on average, from hardly to always."""

REPEATS = 2_000
QUICK = 300

THRESHOLD = 0.05
"""Of the fixed rule: blocked where the pass rate falls by five points or more."""


class Setting(NamedTuple):
    """What is simulated: so many tasks and trials a group, and the true drop of the pass rate."""

    tasks: int
    trials: int
    drop: float
    alike: float = ALIKE

    def groups(self, chance: random.Random) -> list[TaskPair]:
        """Both groups, measured once."""
        a, b = DIFFICULTY
        left = 1 - self.drop / (a / (a + b))
        return [self._task(chance, str(at), chance.betavariate(a, b), left)
                for at in range(self.tasks)]  # fmt: skip

    def _task(self, chance: random.Random, name: str, p: float, left: float) -> TaskPair:
        return task_pair(name, self._trials(chance, p), self._trials(chance, p * left))

    def _trials(self, chance: random.Random, p: float) -> Trials:
        if self.alike and 0 < p < 1:
            weight = (1 - self.alike) / self.alike
            p = chance.betavariate(max(p * weight, 1e-9), max((1 - p) * weight, 1e-9))
        passed = sum(chance.random() < p for _ in range(self.trials))
        return Trials(n=self.trials, passed=passed)


def is_blocked_by_gate(pairs: Sequence[TaskPair]) -> bool:
    return is_drop([pair.exact for pair in pairs], ALPHA, MIN_DROP)


def is_blocked_by_threshold(pairs: Sequence[TaskPair]) -> bool:
    return sum(pair.change for pair in pairs) / len(pairs) <= -THRESHOLD


def is_blocked_by_mcnemar(pairs: Sequence[TaskPair]) -> bool:
    return _mcnemar(pairs) < ALPHA


def _mcnemar(pairs: Sequence[TaskPair]) -> float:
    """One-sided, exact, on whether most trials of a task passed."""
    changed = [_most(pair.candidate) - _most(pair.baseline) for pair in pairs]
    worse, better = changed.count(-1), changed.count(1)
    as_few = sum(math.comb(worse + better, k) for k in range(better + 1))
    return as_few / (1 << (worse + better))


def _most(trials: Trials) -> int:
    return int(2 * trials.passed > trials.n)


class Cell(Struct, frozen=True, kw_only=True):
    """How often each rule blocked, of so many repeats."""

    tasks: int
    trials: int
    drop: float
    alike: float
    repeats: int
    gate: int
    threshold: int
    mcnemar: int


def simulate(setting: Setting, repeats: int) -> Cell:
    """A cell of the table, by a seed of its own."""
    chance = random.Random(repr(setting))
    made = [setting.groups(chance) for _ in range(repeats)]
    return Cell(
        tasks=setting.tasks,
        trials=setting.trials,
        drop=setting.drop,
        alike=setting.alike,
        repeats=repeats,
        gate=sum(map(is_blocked_by_gate, made)),
        threshold=sum(map(is_blocked_by_threshold, made)),
        mcnemar=sum(map(is_blocked_by_mcnemar, made)),
    )


def settings() -> Iterator[Setting]:
    """The whole table, and one cell of it with trials unrelated, and more alike."""
    for tasks in TASKS:
        for trials in TRIALS:
            for drop in DROPS:
                yield Setting(tasks, trials, drop)
    for alike in (0.0, 0.2):
        for drop in (0.0, 0.10):
            yield Setting(100, 4, drop, alike)


class Printed(Struct, frozen=True, kw_only=True):
    """The smallest drop that the gate prints for such a set (the median of some, None: none), and
    how often a drop of that size is then blocked, of so many repeats."""

    tasks: int
    trials: int
    smallest: float | None
    blocked: int
    repeats: int


def printed(tasks: int, trials: int, repeats: int, sets: int = 25) -> Printed:
    """Of sets without a drop, as a gate that is green sees them."""
    chance = random.Random(f"printed {tasks} {trials}")
    found = [
        smallest_drop(Setting(tasks, trials, 0.0).groups(chance), ALPHA, MIN_DROP)
        for _ in range(sets)
    ]
    median = sorted(1.0 if each is None else each for each in found)[sets // 2]
    if median >= 1:
        return Printed(tasks=tasks, trials=trials, smallest=None, blocked=0, repeats=0)
    cell = simulate(Setting(tasks, trials, median), repeats)
    return Printed(
        tasks=tasks, trials=trials, smallest=median, blocked=cell.gate, repeats=cell.repeats
    )


class Results(Struct, frozen=True, kw_only=True):
    """What was measured, on which day."""

    cells: tuple[Cell, ...]
    printed: tuple[Printed, ...]


def measured(repeats: int) -> Results:
    """The whole, which takes minutes."""
    return Results(
        cells=tuple(simulate(each, repeats) for each in settings()),
        printed=tuple(printed(tasks, trials, repeats) for tasks in TASKS for trials in TRIALS),
    )


def shipped() -> Results:
    """As they were last kept."""
    return msgspec.json.decode(FILE.read_bytes(), type=Results)


def tables(found: Results) -> str:
    """The figures as Markdown."""
    head = (
        "| tasks × trials | true drop | gate blocks | fixed −5 points | McNemar on majorities |\n"
        "| --- | --- | --- | --- | --- |"
    )
    rows = [
        f"| {each.tasks} × {each.trials} | {_drop(each.drop)} | **{_share(each.gate, each)}** |"
        f" {_share(each.threshold, each)} | {_share(each.mcnemar, each)} |"
        for each in found.cells
        if each.alike == ALIKE
    ]
    other = [
        f"| {each.alike:.2f} | {_drop(each.drop)} | {_share(each.gate, each)} |"
        for each in found.cells
        if (each.tasks, each.trials) == (100, 4) and each.drop in (0.0, 0.1)
    ]
    seen = [
        f"| {each.tasks} × {each.trials} |"
        f" {'none' if each.smallest is None else _drop(each.smallest)} |"
        f" {'–' if each.smallest is None else _percent(each.blocked, each.repeats)} |"
        for each in found.printed
    ]
    repeats = found.cells[0].repeats
    return "\n".join(
        [
            f"Blocked, of {format.number(repeats)} simulated comparisons a row"
            f" (95 % interval); correlation of trials {ALIKE}:",
            "",
            head,
            *rows,
            "",
            "The same 100 × 4 with other correlations of the trials of a task:",
            "",
            "| correlation | true drop | gate blocks |",
            "| --- | --- | --- |",
            *other,
            "",
            "The smallest drop that is printed (median of 25 sets without a drop), and how often a"
            " drop of that size is blocked; 80 % is what is stated:",
            "",
            "| tasks × trials | printed | blocked |",
            "| --- | --- | --- |",
            *seen,
        ]
    )


def _drop(value: float) -> str:
    return f"{100 * value:.0f} points" if value else "none"


def _share(hits: int, cell: Cell) -> str:
    found = rate(hits, cell.repeats)
    return f"{100 * hits / cell.repeats:.1f} % ({100 * found.low:.1f}–{100 * found.high:.1f})"


def _percent(hits: int, n: int) -> str:
    return f"{100 * hits / n:.0f} %"


def rows(_: Path) -> Iterator[Row]:
    """A quick look: what the gate promises."""
    for trials in TRIALS:
        cell = simulate(Setting(30, trials, 0.0), QUICK)
        yield Row(
            f"gate: false blocks, 30 tasks × {trials}",
            _share(cell.gate, cell),
            f"at most {ALPHA + 0.02:.0%}",
        )
    cell = simulate(Setting(100, 4, 0.10), 3 * QUICK)
    yield Row("gate: power at ten points, 100 tasks × 4", _share(cell.gate, cell), "at least 90 %")


if __name__ == "__main__":
    results = measured(int(sys.argv[1]) if sys.argv[1:] else REPEATS)
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    print(tables(results))
