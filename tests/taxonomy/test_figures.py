"""All figures of any runs: they can be computed, encoded, and claim nothing of nothing."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.action import Act
from taxonomy.classes import Shape
from taxonomy.metrics.cost import Money
from taxonomy.metrics.gold import Gold
from taxonomy.stats.figures import figures
from taxonomy.stats.runs import Run

acts = st.lists(st.builds(Act, tool=st.sampled_from("ab"), arguments=st.none()), max_size=4)
golds = st.builds(
    Gold,
    calls=acts.map(tuple),
    after=st.none() | st.just(((0, 1),)),
)
runs = st.lists(
    st.builds(
        Run,
        trace=st.uuids().map(str),
        steps=st.integers(0, 9),
        money=st.builds(Money, cost_usd=st.none() | st.floats(0, 9), cost_complete=st.booleans()),
        passed=st.none() | st.booleans(),
        value=st.none() | st.floats(0, 1),
        task=st.none() | st.sampled_from("xyz"),
        series=st.none() | st.sampled_from("12"),
        gold=st.none() | golds,
        calls=acts.map(tuple),
        writes=st.frozensets(st.sampled_from("ab")),
        failed_steps=st.lists(st.none() | st.booleans(), max_size=4).map(tuple),
        shape=st.none() | st.sampled_from(Shape),
        clean=st.none() | st.booleans(),
        size=st.none() | st.floats(0, 99),
        injected=st.none() | st.integers(0, 3),
        corrected_after=st.none() | st.integers(1, 3),
        paraphrase_of=st.none() | st.sampled_from("xy"),
        cached=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    ),
    max_size=8,
)


@pytest.mark.data
@given(runs, st.lists(st.floats(0, 99), max_size=3), runs)
def test_any_runs_have_figures_that_can_be_written(
    some: list[Run], edges: list[float], others: list[Run]
) -> None:
    found = figures(some, edges=edges, production=others)
    decided = sum(run.passed is not None for run in some)
    assert found.outcome.rate.n + found.outcome.unknown == len(some)
    assert found.outcome.rate.n == decided
    assert all(0 <= (each.pass_hat.value or 0) <= 1 for each in found.repeated)
    msgspec.json.decode(msgspec.json.encode(found))


def test_of_no_runs_nothing_is_known() -> None:
    found = figures([])
    assert found.outcome.rate.value is None
    assert [*found.repeated, *found.calls, *found.wordings, *found.series, *found.shapes] == []
    assert (found.held_out, found.contaminated, found.production) == (None, None, None)
    assert found.cost.total.cost_usd is None


@given(runs)
def test_pass_hat_never_rises_with_k_and_pass_at_never_falls(some: list[Run]) -> None:
    """Over the tasks that have the trials for every k."""
    most = {run.task for run in some}
    per_task = [[r for r in some if r.task == task and r.passed is not None] for task in most]
    longest = max((len(each) for each in per_task), default=0)
    whole = [run for each in per_task if len(each) == longest for run in each if run.task]
    found = figures(whole).repeated
    for fewer, more in pairwise(found):
        assert (more.pass_hat.value or 0) <= (fewer.pass_hat.value or 0) + 1e-9
        assert (more.pass_at.value or 0) >= (fewer.pass_at.value or 0) - 1e-9
