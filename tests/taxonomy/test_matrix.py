"""Tasks by variant and model: against plain counting, and each cell's query against its runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from arc_tui.views import runs
from replay.statistics import rate
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import Batch, Header, ModelCall, Outcome
from taxonomy.metrics.cost import Money
from taxonomy.metrics.reliability import Trials
from taxonomy.query.filter import of_traces
from taxonomy.query.listing import RunRow, run_rows
from taxonomy.stats.matrix import Column, Matrix, largest_k, matrix, sort_rows, split_models
from tests.build import step, trace
from tests.shared import Imported, needs_shared, runs_below
from tests.taxonomy.pareto_case import empty
from tests.tries import often

made_runs = st.fixed_dictionaries(
    {
        "task": st.sampled_from([None, "2", "10", 'a "quoted\\" task']),
        "variant": st.sampled_from([None, "v1", "v10"]),
        "models": st.lists(st.sampled_from(["large", "small", 'm"']), max_size=3, unique=True),
        "status": st.sampled_from(["failed", "passed", "unknown"]),
        "usd": st.sampled_from([None, 0.5]),
        "reported": st.sampled_from([None, 2.0]),
    }
)


def put(store: Store, number: int, row: dict[str, Any]) -> str:
    """A run with a step for each of its models, one of no known model where it has none."""
    models = row["models"] or [None]
    made = trace([step("Hello.", usd=row["usd"])] * len(models), task=None)
    named = iter(models)
    spans = tuple(
        structs.replace(span, response=structs.replace(span.response, model=next(named)))
        if isinstance(span, ModelCall) and span.response is not None
        else span
        for span in made.spans
    )
    head = Header(
        format="built", source_id=f"run {number}", task=row["task"], variant=row["variant"],
        outcome=Outcome(status=row["status"]), reported_cost_usd=row["reported"],
    )  # fmt: skip
    writer = Writer(store)
    return writer.finish(writer.write(Batch(header=head, spans=spans, last=True))).id


def in_cell(row: RunRow, column: Column, among: list[RunRow]) -> bool:
    """Is it a run of the column? Said once more, the plain way."""
    answered = split_models(row.models)
    own = {split_models(each.models) for each in among if each.variant == row.variant}
    least = [each for each in own if each and not any(other and other < each for other in own)]
    inside = [each for each in least if each <= answered]
    base = inside[0] if len(inside) == 1 else answered
    return row.variant == column.variant and base == split_models(column.models)


@settings(max_examples=often(60), deadline=None)
@given(st.lists(made_runs, max_size=12))
@pytest.mark.slow
def test_cells_are_the_runs_counted_one_by_one(made: list[dict[str, Any]]) -> None:
    with empty() as store:
        for number, each in enumerate(made):
            put(store, number, each)
        rows = list(run_rows(store))
        found = matrix(store)
        assert found.taskless == sum(row.task is None for row in rows)
        named = [row for row in rows if row.task is not None]
        assert {row.task for row in found.rows} == {row.task for row in named}
        seen = 0
        for row in found.rows:
            for at, (column, cell) in enumerate(zip(found.columns, row.cells, strict=True)):
                mine = [
                    each for each in named if each.task == row.task and in_cell(each, column, rows)
                ]
                seen += len(mine)
                assert (cell is None) == (not mine)
                if cell is not None:
                    outcomes = [each.outcome for each in mine]
                    counted = cell.passed, cell.n - cell.passed, cell.unknown
                    assert counted == tuple(
                        outcomes.count(word) for word in ("passed", "failed", "unknown")
                    )
                    meant = runs.run_rows(store, found.cell_query(at, row.task))
                    assert {each.trace for each in meant} == {each.trace for each in mine}
        assert seen == len(named)


def of(store: Store, *words: str) -> Matrix:
    """A run for each `task variant outcome usd` (or `task variant outcome`)."""
    for number, word in enumerate(words):
        task, variant, status, *usd = word.split()
        cost = float(usd[0]) if usd else None
        put(store, number, {"task": task, "variant": variant, "models": ["large"],
                            "status": status, "usd": cost, "reported": None})  # fmt: skip
    return matrix(store)


def test_an_unknown_outcome_is_no_failure_and_costs_no_resolved_task() -> None:
    with empty() as store:
        found = of(store, "a v1 passed 1", "a v1 unknown 5", "b v1 failed 2", "c v1 unknown 9")
    (column,) = found.columns
    assert (column.runs, column.unknown) == (4, 2)
    assert column.pass_one == rate(1, 2)
    assert column.per_resolved == Money(cost_usd=3.0, cost_complete=True)
    assert {row.task: row.share for row in found.rows} == {"a": 1.0, "b": 0.0, "c": None}


def test_a_cost_that_is_not_known_of_all_runs_is_a_lower_bound() -> None:
    with empty() as store:
        found = of(store, "a v1 passed 1", "a v1 passed")
    assert found.columns[0].per_resolved == Money(cost_usd=0.5, cost_complete=False)


def test_nothing_resolved_has_no_cost() -> None:
    with empty() as store:
        found = of(store, "a v1 failed 1")
    assert found.columns[0].per_resolved.cost_usd is None


def test_what_changed_most_comes_first_and_what_one_column_knows_last() -> None:
    with empty() as store:
        found = of(
            store,
            "same v1 passed", "same v2 passed",
            "lost v1 passed", "lost v1 passed", "lost v2 failed", "lost v2 failed",
            "half v1 passed", "half v2 passed", "half v2 failed",
            "once v1 failed",
            "blip v1 passed", "blip v2 failed",
        )  # fmt: skip
    assert [row.task for row in found.rows] == ["lost", "blip", "half", "same", "once"]
    by_share = [row.task for row in sort_rows(found.rows, "passed")]
    assert by_share == ["once", "lost", "blip", "half", "same"]
    back = [row.task for row in sort_rows(found.rows, "changed", reverse=True)]
    assert back == ["same", "half", "lost", "blip", "once"]
    assert next(row.task for row in sort_rows(found.rows, "task", reverse=True)) == "same"


def test_a_model_asked_for_chores_is_no_other_column() -> None:
    with empty() as store:
        for number, models in enumerate((["large"], ["large", "chores"], ["other", "large"])):
            put(store, number, {"task": "a", "variant": None, "models": models,
                                "status": "passed", "usd": None, "reported": None})  # fmt: skip
        found = matrix(store)
    (column,) = found.columns
    assert (column.models, column.also) == ("large", ("chores", "other"))


def test_two_models_that_also_ran_alone_are_a_column_of_their_own() -> None:
    with empty() as store:
        for number, models in enumerate((["large"], ["small"], ["large", "small"])):
            put(store, number, {"task": "a", "variant": None, "models": models,
                                "status": "passed", "usd": None, "reported": None})  # fmt: skip
        found = matrix(store)
    assert [column.models for column in found.columns] == ["large", "large,small", "small"]


@pytest.mark.parametrize(
    ("counts", "k"), [([], 1), ([4, 4, 1], 4), ([4, 1, 1], 1), ([8, 4], 8), ([3, 0], 3)]
)
def test_k_is_the_largest_that_half_of_the_cells_have(counts: list[int], k: int) -> None:
    money = Money(cost_usd=None, cost_complete=False)
    cells = [Trials(n=n, passed=0, cost=money) for n in counts]
    assert largest_k(cells) == k


@needs_shared
@pytest.mark.data
def test_tau_bench_has_the_figures_its_authors_print(real: Imported) -> None:
    with Store.open(real.path) as store:
        mine = of_traces(row.trace for row in runs_below(store, "tau_bench"))
        found = matrix(store, mine)
        hats = [matrix(store, mine, k=k).columns[0].pass_hat.value for k in (1, 2, 3, 4)]
    assert [round(hat or 0, 3) for hat in hats] == [0.42, 0.273, 0.22, 0.2]
    assert (found.k, len(found.rows), found.columns[0].runs) == (4, 50, 200)
