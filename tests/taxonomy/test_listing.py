"""A list of runs in every order, through every filter, without reading what is not shown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_tui.views import runs
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import Batch, Header, Outcome
from taxonomy.classes import Shape
from taxonomy.findings import Candidate, Diagnosis
from taxonomy.judgements import diagnoses
from taxonomy.query import filter as of_runs
from taxonomy.query.compile import runs_meant
from taxonomy.query.filter import ALL, Filter, of_traces, of_values, without_tasks
from taxonomy.query.listing import (
    ORDERS,
    PAGE,
    RunRow,
    run_order,
    run_rows,
    run_totals,
    runs_at,
)
from tests.build import step, trace
from tests.planned import planned
from tests.taxonomy.pareto_case import empty
from tests.tries import often

WORDS = ["refund", "Order 7", "50%", "a_b", "größe", "loop"]

rows = st.fixed_dictionaries(
    {
        "task": st.sampled_from([None, "", "2", "10", "refund"]),
        "trial": st.sampled_from([None, "1"]),
        "title": st.sampled_from([None, *WORDS]),
        "status": st.sampled_from(["failed", "passed", "unknown"]),
        "took": st.sampled_from([None, 0, 10, 10**12]),
        "usd": st.sampled_from([None, 0.0, 0.5, 2.0]),
        "steps": st.integers(1, 3),
        "warned": st.booleans(),
        "why": st.sampled_from([None, *WORDS]),
    }
)


def put(store: Store, number: int, row: dict[str, Any]) -> str:
    made = trace([step("Hello.", usd=row["usd"])] * row["steps"], task=None)
    head = Header(
        format="built", source_id=f"run {number}", task=row["task"], trial=row["trial"],
        title=row["title"], outcome=Outcome(status=row["status"]), start_ns=1,
        end_ns=None if row["took"] is None else 1 + row["took"],
    )  # fmt: skip
    writer = Writer(store)
    key = writer.finish(writer.write(Batch(header=head, spans=made.spans, last=True))).id
    if row["why"] is not None or row["warned"]:
        diagnoses.keep(store, _diagnosis(key, row), {})
    return key


def _diagnosis(key: str, row: dict[str, Any]) -> Diagnosis:
    first = Candidate(step=0, weight=1.0, why=row["why"] or "", signals=())
    return Diagnosis(
        trace=key, shape=Shape.HEALTHY, scores=(), findings=(),
        candidates=(first,) if row["why"] else (),
        warnings=("odd",) if row["warned"] else (),
    )  # fmt: skip


def filled(given: list[dict[str, Any]]) -> Store:
    store = empty()
    for number, row in enumerate(given):
        put(store, number, row)
    return store


_OUTCOMES = {"failed": 0, "passed": 1, "unknown": 2}


def _most(value: float | None) -> tuple[bool, float]:
    """Largest first, unknown last."""
    return value is None, -(value or 0)


SORTED: dict[str, Callable[[RunRow], Any]] = {
    "": lambda row: 0,
    "outcome": lambda row: (_OUTCOMES[row.outcome], not row.warnings),
    "task": lambda row: (row.task is None, row.task or row.title or "", row.trial or ""),
    "steps": lambda row: _most(row.steps),
    "cost": lambda row: _most(row.cost_usd),
    "time": lambda row: _most(row.duration_ns),
}
"""What each order means, in Python."""

filters = st.sampled_from(
    [
        ALL,
        Filter("outcome = ? OR steps > ?", ("failed", 2)),
        without_tasks({"2"}),
        Filter("title LIKE ? OR why LIKE ?", ("%refund%", "%refund%")),
        Filter("why LIKE ?", ("%7%",)),
        without_tasks({"refund"}) & Filter("outcome = ?", ("passed",), recorded=True),
    ]
)


@settings(max_examples=often(40), deadline=None)
@given(st.lists(rows, max_size=6), filters)
def test_the_names_of_a_list_and_its_rows_are_in_its_order(
    given: list[dict[str, Any]], chosen: Filter
) -> None:
    with closing(filled(given)) as store:
        imported = run_rows(store, chosen)
        for order in ORDERS:
            whole = run_rows(store, chosen, order=ORDERS[order])
            expected = sorted(imported, key=SORTED[order])
            assert [*whole] == expected
            traces = [row.trace for row in expected]
            assert run_order(store, chosen, order=ORDERS[order]) == traces
            for limit in (1, 2, 4):
                few = of_values("trace", set(traces[::2]))
                for each, names in ((chosen, traces), (chosen & few, traces[::2])):
                    assert run_order(store, each, order=ORDERS[order], limit=limit) == names[:limit]
                newest = run_order(store, chosen, order=ORDERS[order], limit=limit, newest=True)
                assert newest == traces[: -limit - 1 : -1]
            assert runs_at(store, [row.trace for row in expected]) == whole
        sums = run_totals(store, chosen)
        assert (sums.runs, sums.failed) == (
            len(imported),
            sum(row.outcome == "failed" for row in imported),
        )
        assert (sums.cost_usd, sums.cost_complete) == runs.total_cost(imported)


def test_rows_are_given_in_the_order_they_are_named_without_those_that_are_gone() -> None:
    with closing(empty()) as store:
        key = put(store, 1, dict.fromkeys(("task", "trial", "title", "took", "usd", "why"))
                  | {"status": "failed", "steps": 1, "warned": False})  # fmt: skip
        assert runs_at(store, ["gone", key]) == run_rows(store, of_traces([key]))


def walk(plan: list[str]) -> list[str]:
    """How a list is read, of the plan that makes one value of it."""
    assert plan[0].startswith("CO-ROUTINE (subquery-")
    assert plan[-1].startswith("SCAN (subquery-")
    return plan[1:-1]


@pytest.mark.parametrize("order", ORDERS)
def test_a_list_is_read_by_the_index_of_its_order(order: str) -> None:
    """Thirty thousand runs are neither read nor sorted for the two hundred that are shown."""
    with closing(empty()) as store:
        plans = planned(store, lambda: run_order(store, order=ORDERS[order]))
        assert any("ORDER BY" in sql for sql, _ in plans)
        for sql, plan in plans:
            if "ORDER BY" in sql and order != "outcome":
                assert f"INDEX trace_by_{order or 'import'}" in walk(plan)[0]
            elif "ORDER BY" in sql:
                assert "INDEX trace_by_outcome" in plan[0]
            said = [step for step in plan if "diagnosis" in step]
            assert all("INDEX diagnosis_warned" in step for step in said)
            assert not any("TEMP B-TREE" in step or step == "SCAN t" for step in plan)


WALKED = [
    ("", "", ""),
    ("outcome:failed", "", ""),
    ("tag:loop", "INDEX suggestion_class (class=?)", "INDEX suggestion_first (trace=?)"),
    ("tagged:loop", "INDEX tag_class (class=?)", "INDEX tag_class (class=?)"),
    ("class:loop", "COVERING INDEX first_word_class (failed=? AND class=?)",
     "first_word USING INDEX sqlite_autoindex_first_word_1 (run=?)"),
    ("tool:Bash", "COVERING INDEX span_tool (name=?)",
     "COVERING INDEX span_tool (name=? AND status=? AND trace=?"),
    ("tool.error:Bash", "COVERING INDEX span_tool (name=? AND status=?)",
     "COVERING INDEX span_tool (name=? AND status=? AND trace=?"),
    ("tool.error", "COVERING INDEX span_error (kind=?)", "COVERING INDEX span_error (kind=?)"),
    ("step.error", "COVERING INDEX span_error (kind=?)", "COVERING INDEX span_error (kind=?)"),
    ("refund", "INDEX trace_said", "INTEGER PRIMARY KEY (rowid=?)"),
    ("outcome:failed größe", "INDEX diagnosis_said", "(trace=?)"),
]  # fmt: skip
"""A question, what is read for it of all runs, and what of each run of a page."""


@pytest.mark.parametrize("order", ORDERS)
def test_a_list_is_walked_by_the_index_of_its_order_whatever_it_is_asked(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What many runs say is found once for all of the list, or asked of each run of a page; nothing
    that is found is sorted."""
    monkeypatch.setattr(of_runs, "FEW", -1)  # in a database that is empty they would be few
    with closing(empty()) as store:
        for query, index, of_each in WALKED:
            for page, limit in ((False, None), (True, PAGE)):
                chosen = runs_meant(store, query, page=page) & without_tasks({"held out"})
                plans = planned(
                    store,
                    lambda: run_order(store, chosen, order=ORDERS[order], limit=limit),  # noqa: B023
                )
                walks = [(sql, plan) for sql, plan in plans if "imported_ns, trace" in sql]
                assert walks
                for sql, whole in walks:
                    plan = walk(whole) if "json_group_array" in sql else whole
                    assert f"INDEX trace_by_{order or 'import'}" in plan[0], query
                    assert any((of_each if page else index) in step for step in plan), query
                    assert plan[-1] != "USE TEMP B-TREE FOR ORDER BY"


def test_runs_that_ended_alike_are_sorted_without_their_rows() -> None:
    failed = Filter("outcome = ?", ("failed",), recorded=True)
    with closing(empty()) as store:
        for order in ("", "steps", "cost", "time"):
            ((_, plan),) = planned(store, lambda: run_order(store, failed, order=ORDERS[order]))  # noqa: B023
            assert "COVERING INDEX trace_ending (outcome=?)" in walk(plan)[0]


def test_sums_of_all_runs_are_read_from_an_index_alone() -> None:
    with closing(empty()) as store:
        sums = planned(
            store, lambda: run_totals(store), lambda: run_totals(store, without_tasks({"a"}))
        )
        assert all("COVERING INDEX trace_ending" in plan[0] for _, plan in sums)
