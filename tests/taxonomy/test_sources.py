"""The localiser held to sources: naive guesses, what is fitted on whom, the interval of a gain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec import structs

from taxonomy.calibration.labels import By
from taxonomy.calibration.localisation import ID_LENGTH, fitted_source
from taxonomy.calibration.sources import (
    BEST_CONSTANT,
    BEST_POSITION,
    MEANT,
    OURS,
    LabelFile,
    SourceRun,
    best_constants,
    best_positions,
    measure_files,
    paired_bootstrap,
    random_step,
    source_run,
)
from taxonomy.localiser import baselines
from taxonomy.localiser.candidates import RunSignals
from taxonomy.localiser.features import FIRST_ERROR, FIRST_WRITE, Model, StepSignal
from taxonomy.localiser.signals import strongest
from taxonomy.localiser.weights import FITTED, FOLDS, MODEL
from tests.bench.held_out import GUESSES, fitted, model_of
from tests.build import Part, call, error, step, trace


def run(decisive: int | None, *signs: StepSignal, steps: int = 6, task: str = "") -> SourceRun:
    choices = tuple(range(steps))
    return SourceRun(
        trace=f"{decisive}-{steps}-{task}",
        task=task or f"{decisive}-{steps}",
        steps=steps,
        signals=RunSignals(choices=choices, against=strongest(signs)),
        naive={baselines.LAST_STEP: choices[::-1][:3], baselines.FIRST_STEP: choices[:3]},
        decisive=frozenset() if decisive is None else frozenset({decisive}),
    )


def as_group(made: SourceRun) -> SourceRun:
    return structs.replace(made, signals=structs.replace(made.signals, is_group=True))


def failed(at: int) -> StepSignal:
    return StepSignal(at, FIRST_ERROR, "look failed")


def file(name: str, *runs: SourceRun, source: str = "", by: By = "people") -> LabelFile:
    return LabelFile(name=name, source=source or name, made_by=by, runs=runs)


def plain(_: str) -> Model:
    return MODEL


class TestNaive:
    PARTS: Sequence[Part] = (
        step(call("look", "ok", at=1)),
        step(call("look", error("no such thing"), at=2)),
        step(call("write_file", "ok", path="a.txt")),
        "It is done.",
    )

    def test_each_names_up_to_three_steps_best_first(self) -> None:
        named = source_run(trace(list(self.PARTS)), {1}, {1}).naive
        assert named[baselines.FIRST_ERROR] == (1,)
        assert named[baselines.FIRST_WRITE] == (2,)
        assert named[baselines.WRITE_OR_LAST] == (2, 3, 1)
        assert named[baselines.LAST_STEP] == (3, 2, 1)
        assert named[baselines.FIRST_STEP] == (0, 1, 2)
        assert named[baselines.LONGEST_PROMPT] == (3, 2, 1)

    def test_tokens_say_how_long_a_prompt_is_where_all_are_counted(self) -> None:
        parts: list[Part] = [step("Hm.", tokens=count) for count in (10, 90, 50)]
        named = source_run(trace(parts), {1}, {1}).naive
        assert named[baselines.LONGEST_PROMPT] == (1, 2, 0)

    def test_the_outcome_is_hidden_from_the_rules(self) -> None:
        """A passed run has a candidate only where much speaks against a step."""
        parts: list[Part] = ["I assume that it is Paris.", "Done."]
        hidden = source_run(trace(parts, outcome="passed"), {0}, {0})
        (found,) = measure_files([file("a", hidden)], plain)
        assert found.ours.over_all.exact.value == 1.0

    def test_a_random_step_has_what_is_to_be_expected(self) -> None:
        found = random_step([run(0, steps=4), run(1, steps=2)]).over_all
        assert found.exact.value == pytest.approx((1 / 4 + 1 / 2) / 2)
        assert found.top_3.value == pytest.approx((3 / 4 + 1) / 2)
        assert found.mean_distance == pytest.approx((6 / 4 + 1 / 2) / 2)


class TestFittedBaselines:
    def test_each_source_weighs_the_same_whatever_its_runs(self) -> None:
        many = [run(1, task=str(each)) for each in range(10)]
        few = [run(3)]
        assert best_constants({"many": [*many, run(3)], "few": few}) == [3, 1, 0]

    def test_a_position_is_one_of_the_run_s_length(self) -> None:
        last = [run(5, steps=6), run(10, steps=11)]
        assert best_positions({"a": last})[0] >= 0.95

    def test_they_never_see_the_source_they_are_held_to(self) -> None:
        one, two = file("one", run(1), run(1, task="b")), file("two", run(4), run(4, task="b"))
        found = {each.name: each for each in measure_files([one, two], plain)}
        for name in ("one", "two"):
            rates = {each.name: each.over_all.exact.value for each in found[name].localisation}
            assert rates[BEST_CONSTANT] == 0.0
            best = found[name].hindsight
            assert best is not None
            assert best.constant.exact.value == 1.0

    def test_files_of_one_source_and_labels_of_a_rule_fit_nothing(self) -> None:
        twins = [file("a", run(1), source="s"), file("b", run(1), source="s")]
        ruled = file("r", run(1), by="rule")
        for each in measure_files([*twins, ruled], plain):
            names = {guesser.name for guesser in each.localisation}
            assert (BEST_CONSTANT in names) is (BEST_POSITION in names) is (each.name == "r")


class TestFigures:
    def test_a_positional_guess_is_shown_but_no_candidate(self) -> None:
        guess = run(2, StepSignal(2, FIRST_WRITE, "the first write"))
        clean = run(None, StepSignal(2, FIRST_WRITE, "the first write"))
        alarm = run(None, failed(2), task="x")
        (found,) = measure_files([file("a", guess, clean, alarm)], plain)
        exact = {each.name: each.over_all.exact.value for each in found.localisation}
        assert (exact[OURS], exact[MEANT]) == (1.0, 0.0)
        assert (found.runs, found.clean, found.false_candidates.value) == (1, 2, 0.5)
        assert found.stated == ()

    def test_the_gain_is_over_the_best_naive_guess_and_the_worst_source_comes_first(self) -> None:
        good = file("good", *(run(2, failed(2), task=str(each)) for each in range(4)))
        bad = file("bad", *(run(5, failed(2), task=str(each)) for each in range(4)))
        first, second = measure_files([good, bad], plain)
        assert (first.name, second.name) == ("bad", "good")
        assert first.exact is not None
        assert (first.exact.baseline, first.exact.value) == (baselines.LAST_STEP, -1.0)
        assert second.exact is not None
        assert (second.exact.value, second.exact.low, second.exact.high) == (1.0, 1.0, 1.0)

    def test_runs_of_one_task_are_drawn_together(self) -> None:
        alone = [(str(each), each % 2) for each in range(40)]
        together = [(str(each % 2), each % 2) for each in range(40)]
        low, high = paired_bootstrap(alone)
        assert 0.3 < low < 0.5 < high < 0.7
        assert paired_bootstrap(together) == (0.0, 1.0)


class TestShipped:
    def test_a_run_that_was_fitted_on_is_known_by_its_id(self) -> None:
        for source, keys in FITTED.items():
            key = keys.split()[0]
            assert fitted_source(key + "0" * (16 - ID_LENGTH)) == source
        assert fitted_source("0" * 16) is None

    def test_every_fold_differs_from_the_model_that_saw_all_people(self) -> None:
        alike = [name for name, each in FOLDS.items() if each.weights == MODEL.weights]
        assert alike == ["tau_airline"], "nothing is fitted on a rule's labels"


class TestFit:
    def sources(self, right: Callable[[int], int]) -> dict[str, list[SourceRun]]:
        return {
            name: [run(right(each), failed(each % 6), task=str(each)) for each in range(30)]
            for name in ("a", "b", "c")
        }

    def test_a_sign_that_is_always_right_gains_and_one_that_misleads_never_turns(self) -> None:
        led = fitted(self.sources(lambda each: each % 6), 3.0, tuple(GUESSES))
        misled = fitted(self.sources(lambda each: (each + 1) % 6), 0.1, tuple(GUESSES))
        assert led[FIRST_ERROR] > GUESSES[FIRST_ERROR]
        assert misled[FIRST_ERROR] == 0.0

    @pytest.mark.slow
    def test_a_band_reaches_over_the_sources_and_leaves_group_chats_out(self) -> None:
        sources = self.sources(lambda each: each % 6)
        bands = [band for _, band in model_of(sources).bands if band]
        assert [band.runs for band in bands] == [90]
        assert 0.8 < bands[0].low < 1.0
        groups = {name: [as_group(each) for each in runs] for name, runs in sources.items()}
        assert not [band for _, band in model_of(groups).bands if band]
