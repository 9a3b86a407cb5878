"""Guesses at the decisive step, and the blind guesses they are held against."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.calibration.localisation import (
    POSITIONS,
    Run,
    baselines,
    distance,
    hits,
    localisation,
)


def run(decisive: int | tuple[int, ...], *guesses: int, steps: int = 12) -> Run:
    found = (decisive,) if isinstance(decisive, int) else decisive
    return Run(decisive=found, guesses=guesses, steps=steps)


@st.composite
def labelled(draw: st.DrawFn) -> Run:
    steps = draw(st.integers(1, 9))
    places = st.integers(0, steps - 1)
    return Run(
        decisive=tuple(sorted(draw(st.sets(places, min_size=1, max_size=2)))),
        guesses=tuple(draw(st.lists(places, max_size=4, unique=True))),
        steps=steps,
    )


class TestHits:
    def test_only_the_first_guess_counts_but_for_the_top_three(self) -> None:
        found = hits([run(4, 6, 4), run(4, 4), run(4, 9, 8, 7, 4)])
        assert (found.exact.value, found.exact.n) == (1 / 3, 3)
        assert found.within_1.value == 1 / 3
        assert found.within_3.value == 2 / 3
        assert found.within_5.value == 1.0
        assert found.top_3.value == 2 / 3
        assert found.mean_distance == pytest.approx((2 + 0 + 5) / 3)

    def test_several_decisive_steps_are_alternatives(self) -> None:
        assert distance(run((2, 9), 8)) == 1
        assert hits([run((2, 9), 9)]).exact.value == 1.0

    def test_an_abstention_is_a_miss_over_all_and_left_out_of_the_answered(self) -> None:
        found = localisation("ours", [run(3, 3), run(3), run(3)])
        assert (found.abstained.value, found.abstained.n) == (2 / 3, 3)
        assert (found.over_all.exact.value, found.over_all.exact.n) == (1 / 3, 3)
        assert (found.over_answered.exact.value, found.over_answered.exact.n) == (1.0, 1)
        assert found.over_all.mean_distance == 0.0

    def test_no_runs_are_no_figures(self) -> None:
        found = localisation("ours", [])
        assert found.over_all.exact.value is None
        assert found.over_all.mean_distance is None
        assert baselines([]) is None

    @given(st.lists(labelled(), max_size=12))
    def test_a_wider_reach_never_hits_less(self, runs: list[Run]) -> None:
        found = hits(runs)
        reaches = (found.exact, found.within_1, found.within_3, found.within_5)
        values = [each.value or 0.0 for each in reaches]
        assert values == sorted(values)
        assert (found.top_3.value or 0.0) >= (found.exact.value or 0.0)


class TestBaselines:
    def test_runs_that_break_at_one_step_are_won_by_a_constant(self) -> None:
        found = baselines([run(3, steps=n) for n in (5, 9, 30)])
        assert found is not None
        assert (found.step, found.constant.exact.value, found.constant.mean_distance) == (3, 1.0, 0)
        assert (found.relative.exact.value or 0) < 1

    def test_runs_that_break_in_the_middle_are_won_by_a_position(self) -> None:
        found = baselines([run(n // 2, steps=n) for n in (9, 21, 41)])
        assert found is not None
        assert found.relative.exact.value == 1.0
        assert found.position == pytest.approx(0.5, abs=0.06)
        assert (found.constant.exact.value or 0) < 1

    @given(st.lists(labelled(), min_size=1, max_size=12))
    def test_no_constant_does_better_in_any_figure(self, runs: list[Run]) -> None:
        found = baselines(runs)
        assert found is not None
        assert not any(beats(constant(runs, at), found.constant) for at in range(12))
        for place in range(POSITIONS):
            guesses = [int(place / (POSITIONS - 1) * (each.steps - 1) + 0.5) for each in runs]
            assert not beats(always(runs, guesses), found.relative)

    @given(st.lists(labelled(), min_size=1, max_size=10))
    def test_three_constants_cover_what_the_best_three_of_all_cover(self, runs: list[Run]) -> None:
        found = baselines(runs)
        assert found is not None
        best = max(
            sum(not set(three).isdisjoint(each.decisive) for each in runs)
            for three in combinations(range(9), 3)
        )
        assert found.constant.top_3.value == pytest.approx(best / len(runs))


def constant(runs: list[Run], at: int) -> list[Run]:
    return always(runs, [at] * len(runs))


def always(runs: list[Run], guesses: list[int]) -> list[Run]:
    return [
        Run(decisive=each.decisive, guesses=(at,), steps=each.steps)
        for each, at in zip(runs, guesses, strict=True)
    ]


def beats(runs: list[Run], best: object) -> bool:
    found = hits(runs)
    nearer = (found.mean_distance or 0.0) < (getattr(best, "mean_distance", 0.0) or 0.0) - 1e-9
    return nearer or any(
        (getattr(found, name).value or 0.0) > getattr(best, name).value + 1e-9
        for name in ("exact", "within_1", "within_3", "within_5", "top_3")
    )
