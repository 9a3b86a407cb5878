"""`python -m tests.bench.layers [REPEATS]`: how often the eval pyramid routes, wrongly and rightly.

Simulated agents: tasks differ in how hard they are, alike at all layers; runs of one task in one
group are correlated (`ALIKE`), and a task has one to five of them. A drop takes the same share of
every task's rate. Where no sentence covers the change, each sentence is false. The figures are kept
in `layers.json` beside this file; the docs print them.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from arc_tui.ui import format
from replay.statistics import rate
from taxonomy.metrics.layers import (
    ALPHA,
    DROP,
    POWER,
    Layer,
    LayerChange,
    Suspect,
    compare_layers,
    route,
    runs_needed,
)
from tests.bench.measure import Row

FILE = Path(__file__).with_name("layers.json")

ALIKE = 0.05
"""The correlation of two runs of a task in one group, beyond the task's own difficulty."""

MEANS: Mapping[Layer, float] = {"L0": 0.9, "L1": 0.8, "L2": 0.85, "L3": 0.67}
UNITS: Mapping[Layer, int] = {"L0": 3, "L1": 4, "L2": 8, "L3": 1}
"""What a run's value is a share of: asserts, gold calls, items of steps, the outcome."""

RUNS = (1, 5)
"""The fewest and the most runs of a task in a group, each as often."""

REPEATS = 1_000
QUICK = 300
TASKS = (20, 60, 200)


class Scenario(NamedTuple):
    """A change: what each layer really loses, whether tool definitions differ, and the right
    sentence; "unclear" where no sentence covers it."""

    name: str
    drops: Mapping[Layer, float]
    tools_changed: bool = False
    right: Suspect = "unclear"
    layers: tuple[Layer, ...] = ("L0", "L1", "L2", "L3")
    shared: bool = True
    """Do both groups run the same tasks?"""


UNCOVERED = (
    Scenario("no change", {}),
    Scenario("no change, no asserts", {}, layers=("L1", "L2", "L3")),
    Scenario("no change, tools changed", {}, tools_changed=True),
    Scenario("all layers 10 points better", {"L0": -0.05, "L1": -0.1, "L2": -0.1, "L3": -0.1}),
    Scenario("L1, L2, L3 20 points down", {"L1": 0.2, "L2": 0.2, "L3": 0.2}),
    Scenario("L1 20 points down", {"L1": 0.2}),
    Scenario("L1 and L3 20 points down", {"L1": 0.2, "L3": 0.2}),
    Scenario("L1 10 down, L2 20 down", {"L1": 0.1, "L2": 0.2}),
    Scenario("L1 and L2 10 down, L3 20 down", {"L1": 0.1, "L2": 0.1, "L3": 0.2}),
    Scenario("L0 20 points down", {"L0": 0.2}),
    Scenario("L0 10 down, L3 20 down", {"L0": 0.1, "L3": 0.2}),
    Scenario("no change, other tasks", {}, shared=False),
    Scenario(
        "L1 and L2 10 down, L3 20 down, other tasks",
        {"L1": 0.1, "L2": 0.1, "L3": 0.2},
        shared=False,
    ),
)
COVERED = (
    Scenario("L3 20 points down", {"L3": DROP}, right="environment or check"),
    Scenario("L2 20 points down", {"L2": DROP}, right="plan"),
    Scenario("L2 and L3 20 points down", {"L2": DROP, "L3": DROP}, right="plan"),
    Scenario("L1 20 down, tools changed", {"L1": DROP}, True, "tool definitions"),
)


def groups(scenario: Scenario, tasks: int, chance: random.Random) -> tuple[LayerChange, ...]:
    """Both groups, measured once."""
    found: dict[Layer, tuple[dict[str, list[float]], dict[str, list[float]]]] = {
        layer: ({}, {}) for layer in scenario.layers
    }
    for at in range(tasks):
        ease = chance.random()
        for side in range(2):
            runs = chance.randint(*RUNS)
            task = str(at) if scenario.shared else f"{side} {at}"
            if side and not scenario.shared:
                ease = chance.random()
            for layer in scenario.layers:
                left = 1 - scenario.drops.get(layer, 0.0) / MEANS[layer] if side else 1.0
                p = min(_rate(MEANS[layer], ease) * left, 1.0)
                found[layer][side][task] = _values(p, UNITS[layer], runs, chance)
    return compare_layers(found)


def _rate(mean: float, ease: float) -> float:
    """A task's rate, of that mean over all tasks: easy tasks are easy at every layer. The mean of
    ease^k is 1 / (k + 1)."""
    return float(ease ** (1 / mean - 1))


def _values(p: float, units: int, runs: int, chance: random.Random) -> list[float]:
    if 0 < p < 1:
        weight = (1 - ALIKE) / ALIKE
        p = chance.betavariate(max(p * weight, 1e-9), max((1 - p) * weight, 1e-9))
    return [sum(chance.random() < p for _ in range(units)) / units for _ in range(runs)]


class Cell(Struct, frozen=True, kw_only=True):
    """What was said of a change, of so many repeats: a false sentence, and the right one."""

    name: str
    tasks: int
    repeats: int
    false: int
    right: int | None


def simulate(scenario: Scenario, tasks: int, repeats: int) -> Cell:
    """A cell of the table, by a seed of its own."""
    chance = random.Random(f"{scenario.name} {tasks}")
    said = [
        route(groups(scenario, tasks, chance), scenario.tools_changed).suspect
        for _ in range(repeats)
    ]
    covered = scenario.right != "unclear"
    return Cell(
        name=scenario.name,
        tasks=tasks,
        repeats=repeats,
        false=sum(each not in ("unclear", scenario.right) for each in said),
        right=said.count(scenario.right) if covered else None,
    )


def printed_tasks(sets: int = 25, tasks: int = 40) -> int:
    """The tasks that are printed as needed: the median of some sets without a change."""
    chance = random.Random("printed")
    found = (runs_needed(groups(UNCOVERED[0], tasks, chance)) for _ in range(sets))
    return round(statistics.median(each.tasks for each in found if each is not None))


class Results(Struct, frozen=True, kw_only=True):
    """What was measured; `needed` tasks are those printed for a drop of 20 points."""

    needed: int
    uncovered: tuple[Cell, ...]
    covered: tuple[Cell, ...]


def measured(repeats: int) -> Results:
    """The whole, which takes minutes."""
    needed = printed_tasks()
    return Results(
        needed=needed,
        uncovered=tuple(
            simulate(each, tasks, repeats) for each in UNCOVERED for tasks in (*TASKS, needed)
        ),
        covered=tuple(
            simulate(each, tasks, repeats) for each in COVERED for tasks in (*TASKS, needed)
        ),
    )


def shipped() -> Results:
    """As they were last kept."""
    return msgspec.json.decode(FILE.read_bytes(), type=Results)


def tables(found: Results) -> str:
    """The figures as Markdown."""
    sizes = sorted((*TASKS, found.needed))
    repeats = found.uncovered[0].repeats
    head = " | ".join(f"{size} tasks" for size in sizes)
    rule = " | ".join("---" for _ in sizes)
    return "\n".join(
        [
            f"False sentences, of {format.number(repeats)} simulated comparisons a cell (95 %"
            f" interval); at most {ALPHA:.0%} is what is stated:".replace("5%", "5 %"),
            "",
            f"| what changed; no sentence covers it | {head} |",
            f"| --- | {rule} |",
            *_rows(found.uncovered, "false"),
            "",
            f"The right sentence; {found.needed} tasks are those printed as needed (median of 25"
            f" sets of 40 tasks without a change), for {POWER:.0%}:".replace("80%", "80 %"),
            "",
            f"| what changed | {head} |",
            f"| --- | {rule} |",
            *_rows(found.covered, "right"),
        ]
    )


def _rows(cells: tuple[Cell, ...], which: str) -> Iterator[str]:
    for name in dict.fromkeys(cell.name for cell in cells):
        own = sorted((cell for cell in cells if cell.name == name), key=lambda cell: cell.tasks)
        shares = [share(getattr(cell, which), cell.repeats) for cell in own]
        yield f"| {name} | {' | '.join(shares)} |"


def share(hits: int, n: int) -> str:
    found = rate(hits, n)
    return f"{100 * hits / n:.1f} % ({100 * found.low:.1f}–{100 * found.high:.1f})"


def rows(_: Path) -> Iterator[Row]:
    """A quick look: what the command promises."""
    for scenario in UNCOVERED:
        cell = simulate(scenario, TASKS[1], QUICK)
        yield Row(f"layers, false: {cell.name}", share(cell.false, QUICK), f"at most {ALPHA:.0%}")
    needed = printed_tasks()
    for scenario in COVERED:
        cell = simulate(scenario, needed, QUICK)
        what = f"layers, right at {needed} tasks: {cell.name}"
        yield Row(what, share(cell.right or 0, QUICK), f"at least {POWER:.0%}")


if __name__ == "__main__":
    results = measured(int(sys.argv[1]) if sys.argv[1:] else REPEATS)
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    print(tables(results))
