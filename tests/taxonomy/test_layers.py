"""Does the eval pyramid say only what its intervals carry? On figures, and on simulated agents."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence

import pytest

from replay.statistics import student_quantile
from taxonomy.metrics.layers import (
    ALPHA,
    LAYERS,
    POWER,
    Layer,
    LayerChange,
    State,
    compare_layers,
    paired_bounds,
    route,
    runs_needed,
    unpaired_bounds,
)
from tests.bench.__main__ import main
from tests.bench.layers import (
    COVERED,
    UNCOVERED,
    Scenario,
    groups,
    printed_tasks,
    shipped,
    simulate,
    tables,
)


def each_task(names: Iterable[object], value: float) -> dict[str, list[float]]:
    """A run of that value of every task."""
    return {str(name): [value] for name in names}


SAME = each_task(range(60), 1.0)


def only(layer: Layer, before: Mapping[str, Sequence[float]],
         after: Mapping[str, Sequence[float]], margin: float = 0.1) -> LayerChange:  # fmt: skip
    """A layer that is evaluated alone."""
    return compare_layers({layer: (before, after)}, margin)[LAYERS.index(layer)]


def states(*given: State) -> list[LayerChange]:
    """Layers in these states, L0 first, their figures left out."""
    some = only("L3", SAME, SAME)
    return [
        LayerChange(**{name: getattr(some, name) for name in some.__struct_fields__
                       if name not in ("layer", "state")}, layer=layer, state=state)
        for layer, state in zip(LAYERS, given, strict=True)
    ]  # fmt: skip


class TestIntervals:
    @pytest.mark.parametrize(
        ("share", "freedom", "known"),
        [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 3, 3.182), (0.975, 5, 2.571),
         (0.975, 30, 2.042), (0.9875, 3, 4.177), (0.9875, 10, 2.634), (0.95, 4, 2.132)],
    )  # fmt: skip
    def test_students_quantiles_are_those_of_the_tables(
        self, share: float, freedom: int, known: float
    ) -> None:
        assert student_quantile(share, freedom) == pytest.approx(known, abs=0.02)

    def test_of_yes_and_no_it_is_bonett_and_prices_interval(self) -> None:
        """p12 = (6 + 1) / 42, p21 = (1 + 1) / 42 of 40 pairs."""
        better, worse = 2 / 42, 7 / 42
        error = math.sqrt((better + worse - (better - worse) ** 2) / 42)
        reach = student_quantile(0.975, 39) * error
        found = paired_bounds([1.0, *[-1.0] * 6, *[0.0] * 33], 0.025)
        assert found == pytest.approx((better - worse - reach, better - worse + reach))

    def test_of_yes_and_no_unpaired_it_is_agresti_and_caffos(self) -> None:
        first, second = 9 / 12, 5 / 22
        error = math.sqrt(first * (1 - first) / 12 + second * (1 - second) / 22)
        reach = student_quantile(0.975, 28) * error
        found = unpaired_bounds([1.0] * 8 + [0.0] * 2, [1.0] * 4 + [0.0] * 16, 0.025)
        assert found == pytest.approx((second - first - reach, second - first + reach))

    @pytest.mark.parametrize("n", [12, 40])
    def test_an_end_is_false_as_seldom_as_it_says(self, n: int) -> None:
        """Differences of two runs of one task at .7 and .5."""
        chance = random.Random(n)
        missed = [0, 0]
        repeats = 1500
        for _ in range(repeats):
            found = [float((chance.random() < 0.5) - (chance.random() < 0.7)) for _ in range(n)]
            low, high = paired_bounds(found, 0.025)
            missed[0] += low > -0.2
            missed[1] += high < -0.2
        assert max(missed) / repeats < 0.04


class TestStates:
    def test_what_never_changed_has_held_only_where_tasks_are_many(self) -> None:
        few = dict(itertools.islice(SAME.items(), 12))
        assert only("L3", SAME, SAME).state == "held"
        assert only("L3", few, few).state == "inconclusive"

    def test_no_significant_change_is_not_held(self) -> None:
        after = {task: [0.0] if int(task) % 6 == 0 else [1.0] for task in SAME}
        before = {task: [0.0] if int(task) % 6 == 1 else [1.0] for task in SAME}
        found = only("L3", before, after)
        assert found.change == 0
        assert found.state == "inconclusive"

    def test_a_drop_below_the_margin_is_never_down(self) -> None:
        many = each_task(range(2000), 1.0)
        after = {task: [0.0] if int(task) % 20 == 0 else [1.0] for task in many}
        found = only("L3", many, after)
        assert found.high is not None
        assert found.high < 0
        assert found.state == "held"
        assert only("L3", many, after, margin=0.04).state == "down"

    def test_a_drop_of_exactly_the_margin_is_down_where_it_is_beyond_chance(self) -> None:
        few = dict(itertools.islice(SAME.items(), 20))
        assert only("L1", few, each_task(few, 0.9)).state == "inconclusive"
        many = each_task(range(300), 1.0)
        assert only("L1", many, each_task(many, 0.9)).state == "down"

    def test_better_has_held(self) -> None:
        assert only("L3", each_task(SAME, 0.0), SAME).state == "held"

    def test_one_task_says_nothing(self) -> None:
        found = only("L3", {"a": [1.0] * 50}, {"a": [0.0] * 50})
        assert (found.state, found.change, found.low) == ("not evaluated", None, None)

    def test_runs_of_one_task_count_once(self) -> None:
        before = {"a": [1.0] * 90, "b": [0.0], "c": [0.0]}
        after = {"a": [0.0] * 90, "b": [1.0], "c": [1.0]}
        found = only("L3", before, after)
        assert found.before.value == pytest.approx(1 / 3)
        assert found.change == pytest.approx(1 / 3)
        assert (found.before.n, found.runs) == (3, (92, 92))

    def test_shared_tasks_are_paired_and_others_left_out(self) -> None:
        found = only("L3", {**SAME, "old": [0.0]}, {**SAME, "new": [0.0], "newer": [0.0]})
        assert found.paired
        assert (found.before.n, found.after.n, found.change) == (60, 60, 0)

    def test_too_few_shared_tasks_are_not_paired(self) -> None:
        other = {f"other {task}": [1.0] for task in SAME}
        found = only("L3", SAME, {**other, "1": [1.0], "2": [1.0]})
        assert not found.paired
        assert (found.before.n, found.after.n) == (60, 62)

    def test_more_layers_need_wider_intervals(self) -> None:
        alone = only("L3", SAME, SAME)
        together = compare_layers(dict.fromkeys(LAYERS, (SAME, SAME)))[3]
        assert alone.low is not None
        assert together.low is not None
        assert together.low < alone.low


class TestRouting:
    @pytest.mark.parametrize(
        ("given", "tools", "suspect", "why"),
        [
            (("not evaluated", "held", "held", "down"), False, "environment or check", None),
            (("not evaluated", "not evaluated", "held", "down"), None, "environment or check",
             None),
            (("held", "held", "down", "down"), True, "plan", None),
            (("not evaluated", "down", "down", "down"), True, "tool definitions", None),
            (("not evaluated", "down", "held", "held"), False, "unclear", "tools same"),
            (("not evaluated", "down", "held", "held"), None, "unclear", "tools unknown"),
            (("held", "held", "inconclusive", "down"), True, "unclear", "not held"),
            (("held", "inconclusive", "held", "down"), True, "unclear", "not held"),
            (("inconclusive", "held", "down", "down"), False, "unclear", "not held"),
            (("held", "not evaluated", "down", "down"), False, "unclear", "not evaluated"),
            (("held", "held", "not evaluated", "down"), False, "unclear", "not evaluated"),
            (("down", "down", "down", "down"), True, "unclear", "asserts down"),
            (("held", "held", "held", "inconclusive"), True, "unclear", "none down"),
        ],
    )  # fmt: skip
    def test_the_lowest_layer_down_decides(
        self, given: tuple[State, ...], tools: bool | None, suspect: str, why: str | None
    ) -> None:
        found = route(states(*given), tools)
        assert (found.suspect, found.why) == (suspect, why)


class TestSimulated:
    """The promise: at most 5 % false sentences, and the right one in 80 % at the n that is printed.

    Few repeats, so the bounds are those of three standard errors; `tests.bench.layers` measures it.
    """

    @pytest.mark.slow
    @pytest.mark.parametrize("scenario", UNCOVERED, ids=lambda each: each.name)
    def test_false_sentences_are_rare(self, scenario: Scenario) -> None:
        repeats = 120
        cell = simulate(scenario, 60, repeats)
        assert cell.false <= repeats * ALPHA + 3 * math.sqrt(repeats * ALPHA * (1 - ALPHA))

    @pytest.mark.slow
    @pytest.mark.parametrize("scenario", COVERED, ids=lambda each: each.name)
    def test_the_right_sentence_comes_with_the_tasks_that_are_printed(
        self, scenario: Scenario
    ) -> None:
        repeats = 100
        cell = simulate(scenario, printed_tasks(9), repeats)
        assert cell.right is not None
        assert cell.right >= repeats * POWER - 3 * math.sqrt(repeats * POWER * (1 - POWER))
        assert cell.false <= repeats * ALPHA + 3 * math.sqrt(repeats * ALPHA * (1 - ALPHA))

    @pytest.mark.slow
    def test_far_fewer_tasks_than_printed_do_not_do(self) -> None:
        """What is printed is a need, not a courtesy."""
        cell = simulate(COVERED[0], printed_tasks(9) // 3, 100)
        assert cell.right is not None
        assert cell.right < 70

    def test_the_shipped_figures_keep_the_promise(self) -> None:
        found = shipped()
        assert all(
            cell.false / cell.repeats <= ALPHA for cell in (*found.uncovered, *found.covered)
        )
        needed = [cell for cell in found.covered if cell.tasks == found.needed]
        assert len(needed) == len(COVERED)
        assert all((cell.right or 0) / cell.repeats >= POWER for cell in needed)
        assert f"{found.needed} tasks" in tables(found)

    def test_simulated_rates_are_those_named(self) -> None:
        found = groups(UNCOVERED[0], 2000, random.Random(1))
        values = [each.before.value for each in found]
        assert values == pytest.approx([0.9, 0.8, 0.85, 0.67], abs=0.03)

    @pytest.mark.slow
    def test_the_bench_prints_a_row_each(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("tests.bench.layers.QUICK", 4)
        monkeypatch.setattr("tests.bench.layers.printed_tasks", lambda: 12)
        monkeypatch.setattr(sys, "argv", ["bench", "layers"])
        main()
        assert capsys.readouterr().out.count("layers,") == len(UNCOVERED) + len(COVERED)


class TestNeeded:
    def test_more_variance_needs_more_runs(self) -> None:
        chance = random.Random(5)
        noisy = {task: [float(chance.random() < 0.5)] for task in SAME}
        other = {task: [float(chance.random() < 0.5)] for task in SAME}
        calm, loud = (
            runs_needed(compare_layers({"L2": pair, "L3": pair}))
            for pair in ((SAME, SAME), (noisy, other))
        )
        assert calm is not None
        assert loud is not None
        assert loud.tasks > 3 * calm.tasks

    def test_runs_are_tasks_times_their_trials(self) -> None:
        several = {task: [1.0] * 3 for task in SAME}
        found = runs_needed(compare_layers({"L3": (several, several)}))
        assert found is not None
        assert found.runs == 3 * found.tasks

    def test_a_drop_under_the_margin_is_never_routed(self) -> None:
        changes = compare_layers({"L3": (SAME, SAME)})
        assert runs_needed(changes, margin=0.2, drop=0.1) is None
        assert runs_needed(compare_layers({})) is None

    def test_of_few_tasks_the_largest_variance_is_taken(self) -> None:
        few = dict(itertools.islice(SAME.items(), 4))
        assert only("L3", few, few).variance == 0.5
        assert only("L3", SAME, SAME).variance == statistics.variance([0.0, 0.0])
