"""`arc stats` as a user types it: what it counts, what it leaves out, and what it says of that."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from arc_tui.commands import cli
from replay.compare.rules import BadRule
from replay.store.rows import trace_rows
from replay.trace import Cost, Header, Json, ModelCall, Outcome, ToolCall
from taxonomy.classes import Shape
from taxonomy.findings import Diagnosis, StepScore
from taxonomy.judgements.schema import open_ledger
from taxonomy.metrics.gold import gold_of
from taxonomy.stats.runs import runs_of
from tests.arc_tui.sample import put, scores
from tests.build import Part, call, error, step, trace

GOLD: dict[str, Json] = {
    "actions": [
        {"name": "get_order", "kwargs": {"id": "1"}},
        {"name": "get_policy", "arguments": {}},
        {"tool": "refund_order", "args": {"id": "1", "amount": 5}},
    ]
}
RIGHT = (
    step(call("get_order", id="1")),
    step(call("get_policy")),
    step(call("refund_order", id="1", amount=5)),
    step("Done."),
)
WRONG = (
    step(call("get_order", id="1")),
    step(call("get_policy", error("down"))),
    step(call("refund_order", error("no"), id="1", amount=7)),
    step("Done."),
)
QUIET = Diagnosis(trace="", shape=Shape.HEALTHY, scores=(), findings=(), candidates=())


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


def add(
    path: Path,
    task: str | None,
    trial: str | None,
    passed: bool | None,
    parts: Sequence[Part] | None = None,
    *,
    said: Diagnosis = QUIET,
    usd: float | None = None,
    **more: Any,
) -> None:
    """A run of the shop, its calls right where it passed; each step costs `usd`."""
    known = passed is not None
    outcome = Outcome(
        status=("passed" if passed else "failed") if known else "unknown",
        value=float(bool(passed)) if known else None,
        by="checker",
    )
    spans = trace(parts if parts is not None else RIGHT if passed else WRONG).spans
    if usd is not None:
        spans = tuple(
            structs.replace(span, cost=Cost(usd=usd, source="recorded"))
            if isinstance(span, ModelCall)
            else span
            for span in spans
        )
    source = "/".join(map(str, (task, trial, *more.get("labels", {}).items(), more.get("variant"))))
    head = Header(format="built", source_id=source, task=task, trial=trial, outcome=outcome, **more)
    put(path, head, spans, said)


def run(path: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(
        cli, ["--db", str(path), "stats", *arguments], standalone_mode=False
    )
    if result.exception is not None:
        raise result.exception
    return result


def shown(path: Path, *arguments: str) -> dict[str, list[str]]:
    """The table's rows by the name of the figure, their cells as printed."""
    head, *rows = run(path, *arguments).stdout.splitlines()
    cells = [re.split(" {2,}", row[head.index("figure") :].strip()) for row in rows]
    return {name: rest for name, *rest in cells}


def figures(path: Path, *arguments: str) -> Any:
    return json.loads(run(path, *arguments, "--json").stdout)


def four_trials(path: Path, **more: Any) -> None:
    """Task a passes always, b half the time, c has one trial."""
    for trial in range(4):
        add(path, "a", str(trial), True, **more)
        add(path, "b", str(trial), trial < 2, **more)
    add(path, "c", "0", False, **more)


# --- the table


@pytest.mark.pilot
def test_rates_stand_with_their_interval_and_what_they_count(db: Path) -> None:
    four_trials(db)
    add(db, "c", "1", None)
    rows = shown(db)
    assert rows["passed"][:3] == ["0.667", "0.354–0.879", "9 runs"]
    assert "by checker · 1 run of unknown outcome left out" in rows["passed"][3]
    assert rows["pass^1"][:1] + rows["pass^1"][2:3] == ["0.500", "3 tasks"]
    assert rows["pass^4"][:1] + rows["pass^4"][2:3] == ["0.500", "2 tasks"]
    assert "1 task with fewer than 4 trials left out" in rows["pass^4"][3]
    assert rows["pass@4"][3] == "flattery factor × 1.33"


def test_what_cannot_be_computed_says_why_in_its_row(db: Path) -> None:
    add(db, None, None, True)
    rows = shown(db)
    for name, why in {
        "pass^k": "no run with an outcome names its task",
        "tool-call F1": "no source gives gold actions",
        "GDS, VAF, MOP": "needs tasks of two different lengths",
        "recovery rate": "label `injected`",
        "held-out gap": "no tasks on both sides",
        "contamination": "needs three runs of a benchmark",
        "surface variation": "label `paraphrase_of`",
        "against production": "--production QUERY",
        "all runs": "1 run of unknown cost",
        "input from cache": "no run reports",
    }.items():
        assert rows[name][0] == "–"
        assert why in rows[name][-1]


def test_an_empty_database_ends_with_one(db: Path) -> None:
    result = run(db)
    assert (result.return_value, result.stdout) == (1, "")
    assert "no runs yet" in result.stderr
    assert run(db, "--by", "task", "--json").stdout.strip() == "[]"


def test_words_choose_runs_as_in_ls(db: Path) -> None:
    four_trials(db)
    assert figures(db, "task:b")["outcome"]["rate"]["n"] == 4
    result = run(db, "task:nothing")
    assert result.return_value == 1
    assert "no run matches 'task:nothing'" in result.stderr


# --- calls against gold


def test_gold_actions_of_the_source_are_compared(db: Path) -> None:
    add(db, "a", "0", True, reference=GOLD)
    add(db, "a", "1", False, reference=GOLD)
    found = {(each["what"], each["order"]): each for each in figures(db)["calls"]}
    assert found["all calls", "any"]["f1"]["value"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["all calls", "any"]["f1"]["n"] == 1
    assert found["all calls", "any"]["recall"] == pytest.approx(
        {"value": 5 / 6, "n": 6, "low": 0.4365, "high": 0.9699}, abs=1e-3
    )
    assert found["writing calls", "any"]["f1"]["value"] == 0.5
    assert found["tool names", "sequence"]["f1"]["value"] == 1
    assert ("all calls", "graph") not in found
    assert figures(db)["plans"] == {
        "right plan, carried out": 1,
        "right plan, wrong execution": 1,
    }


def test_arguments_may_be_given_a_tolerance(db: Path) -> None:
    add(db, "a", "0", False, reference=GOLD)
    assert figures(db, "--compare", "refund_order.amount=tolerance:2")["calls"][0]["f1"] == (
        pytest.approx({"value": 1.0, "n": 1, "low": 0.2065, "high": 1.0}, abs=1e-3)
    )
    with pytest.raises(BadRule, match="near"):
        run(db, "--compare", "refund_order.amount=near")


def test_dependencies_of_the_source_allow_either_order_of_the_look_ups(db: Path) -> None:
    swapped = (RIGHT[1], RIGHT[0], *RIGHT[2:])
    graph = {**GOLD, "dependencies": [[0, 2], [1, 2]]}
    add(db, "a", "0", True, swapped, reference=graph)
    found = {each["order"]: each["f1"]["value"] for each in figures(db)["calls"][:3]}
    assert found == {"any": 1.0, "sequence": pytest.approx(2 / 3), "graph": 1.0}


def test_a_reference_that_is_not_all_calls_is_no_gold() -> None:
    assert gold_of({}) is None
    assert gold_of({"actions": "refund"}) is None
    assert gold_of({"actions": [{"name": "a"}, "b"]}) is None
    empty = gold_of({"actions": [], "dependencies": [[0]]})
    assert empty is not None
    assert (empty.calls, empty.after) == ((), None)


# --- length


def test_lengths_are_those_of_gold_and_buckets_as_asked(db: Path) -> None:
    long = {"actions": GOLD["actions"] * 3}
    for trial in range(3):
        add(db, "short", str(trial), True, reference=GOLD)
        add(db, "long", str(trial), False, reference=long)
    rows = shown(db, "--buckets", "5,10,20")
    assert rows["pass@1 ≤ 5"][0] == "1.000"
    assert rows["pass@1 ≤ 5"][-1] == "by gold actions"
    assert rows["pass@1 to 10"][0] == "0.000"
    assert rows["GDS"][0] == "0.000"
    assert rows["MOP"][0] == "to 10"
    assert "its interval overlaps that of the shortest" in rows["MOP"][-1]
    for task, passed, reference in (("short", True, GOLD), ("long", False, long)):
        add(db, task, "3", passed, reference=reference)
    assert "its interval" not in shown(db, "--buckets", "5,10,20")["MOP"][-1]


def test_a_label_with_the_length_comes_first(db: Path) -> None:
    add(db, "a", "0", True, reference=GOLD, labels={"length": "7"})
    assert figures(db)["decay_basis"] == "label"
    assert figures(db, "--buckets", "5")["decay"]["buckets"][0]["above"] == 5


def test_steps_of_passing_runs_serve_where_most_tasks_were_solved(db: Path) -> None:
    four_trials(db)
    found = figures(db)
    assert found["decay_basis"] == "steps of passing runs"
    assert found["decay"]["unsized"] == 1
    assert "the curve is too high" in run(db).stdout


def test_a_run_s_own_steps_are_used_with_the_warning_only(db: Path) -> None:
    add(db, "a", "0", True)
    add(db, "b", "0", False, (step("I cannot."),))
    found = figures(db)
    assert (found["decay_basis"], found["decay_warning"]) == (
        "own steps",
        "length depends on the outcome",
    )
    assert "length depends on the outcome" in run(db).stdout
    assert "length depends on the outcome" in run(db, "--by", "variant").stdout


def test_lengths_that_are_no_numbers_are_refused(db: Path) -> None:
    with pytest.raises(click.BadParameter, match="not a list of lengths"):
        run(db, "--buckets", "5,many")


# --- errors, trust, shapes


def test_a_step_with_an_error_is_followed_by_what_follows(db: Path) -> None:
    add(db, "a", "0", False, said=structs.replace(QUIET, scores=scores(0.9, 0.9, 0.9, 0.9)))
    found = figures(db)["persistence"]
    assert (found["after_failure"]["value"], found["after_failure"]["n"]) == (0.5, 2)
    assert (found["after_success"]["value"], found["after_success"]["n"]) == (1.0, 1)


def test_errors_put_in_are_counted_as_recovered_from_within_two_steps(db: Path) -> None:
    for trial, values in enumerate(([0.9, 0.1, 0.1, 0.9], [0.9, 0.1, 0.1, 0.1])):
        said = structs.replace(QUIET, scores=scores(*values))
        add(db, "a", str(trial), True, said=said, labels={"injected": "1"})
    assert shown(db)["recovery rate"][:1] + shown(db)["recovery rate"][2:3] == [
        "0.500",
        "2 injected errors",
    ]


@pytest.mark.slow
def test_three_runs_of_a_benchmark_that_are_too_good_are_a_risk(db: Path) -> None:
    for trial in range(3):
        for task in range(10):
            add(db, f"t{task}", str(trial), True)
    assert shown(db)["contamination"][:2] == ["risk: retire it", "3 runs of it"]
    gap = shown(db)["held-out gap"]
    assert gap[0] == "+0.000"
    assert "8 against 2 tasks" in gap
    assert "if nothing was tuned on the 2 tasks (a split by digest, 20%" in gap[-1]


def test_tasks_held_out_can_be_named(db: Path) -> None:
    four_trials(db)
    found = figures(db, "--held-out", "task:b")["held_out"]
    assert found["split"] == "yours"
    assert (found["kept_out"]["value"], found["others"]["value"]) == (0.5, 0.5)
    assert found["gap"]["reading"] == "healthy"


def test_paraphrases_of_a_task_are_spread(db: Path) -> None:
    for name, passed in (("a1", True), ("a2", True), ("a3", False)):
        add(db, name, "0", passed, labels={"paraphrase_of": "a"})
    (found,) = figures(db)["wordings"]
    assert found["task"] == "a"
    assert found["spread"]["range"] == 1
    assert shown(db)["surface variation a"][0] == "range 1.000"


def test_production_runs_are_compared_and_counted_nowhere_else(db: Path) -> None:
    four_trials(db)
    drift = structs.replace(QUIET, shape=Shape.LATE_DRIFT)
    for trial in range(2):
        add(db, "live", str(trial), None, RIGHT, said=drift)
    found = figures(db, "--production", "task:live")
    assert (found["runs"], found["shapes"]) == (9, {"healthy": 9})
    assert found["production"]["points"] == {"healthy": -100, "late drift": 100}
    row = shown(db, "--production", "task:live")["against production"]
    assert "9 against 2 runs" in row
    assert "fewer than 50 production runs" in row[-1]


def test_the_layer_that_gave_way_is_named_only_where_someone_judged_each_step(db: Path) -> None:
    judged = tuple(
        StepScore(step=index, value=0.9, source="judge", by="judge") for index in range(4)
    )
    add(db, "a", "0", False, reference=GOLD, said=structs.replace(QUIET, scores=scores(1, 1, 1, 1)))
    assert figures(db)["look_at"] == {}
    add(db, "a", "1", False, reference=GOLD, said=structs.replace(QUIET, scores=judged))
    assert figures(db)["look_at"] == {"environment or verifier": 1}
    assert shown(db)["look first at"] == ["1 run", "environment or verifier 1"]


# --- cost and groups


def test_a_resolved_task_costs_what_all_runs_cost(db: Path) -> None:
    add(db, "a", "0", True, usd=0.25)
    add(db, "a", "1", False, usd=0.25)
    rows = shown(db)
    assert rows["all runs"][0] == "$2.00"
    assert rows["a run"][0] == "$1.00"
    assert rows["a step"][0] == "$0.25"
    assert rows["a resolved task"][:2] == ["$2.00", "1 passed run"]


def test_a_run_of_unknown_cost_makes_a_lower_bound(db: Path) -> None:
    add(db, "a", "0", True, usd=0.25)
    add(db, "a", "1", True)
    assert shown(db)["a resolved task"][0] == "≥ $0.50"
    assert figures(db)["cost"]["per_resolved"] == {"cost_usd": 0.5, "cost_complete": False}


def test_a_total_the_source_reports_serves_unless_it_says_nothing_was_spent(db: Path) -> None:
    add(db, "a", "0", True, reported_cost_usd=0.7)
    add(db, "a", "1", True, reported_cost_usd=0.0)
    with open_ledger(db) as store:
        runs = runs_of(store, trace_rows(store))
    assert [run.money.cost_usd for run in runs] == [0.7, None]


def test_groups_are_rows_compared_at_cost_per_resolved(db: Path) -> None:
    for variant, usd, passes in (("v10", 0.1, 1), ("v9", 0.2, 4)):
        for trial in range(4):
            add(db, "a", str(trial), trial < passes, variant=variant, usd=usd)
    out = run(db, "--by", "variant").stdout
    head, first, second = out.splitlines()[:3]
    assert head.split("  ")[0] == "variant"
    assert [first.split()[0], second.split()[0]] == ["v9", "v10"]
    assert first.split()[-2:] == ["$0.80", "1.00"]
    assert second.split()[-2:] == ["$1.60", "2.00"]
    assert "never at cost per run" in out


def test_groups_of_several_columns_carry_them_in_json(db: Path) -> None:
    four_trials(db, variant="v1")
    found = figures(db, "--by", "variant,task")
    assert [each["group"] for each in found] == [
        {"variant": "v1", "task": "a"},
        {"variant": "v1", "task": "b"},
        {"variant": "v1", "task": "c"},
    ]
    assert [each["outcome"]["rate"]["value"] for each in found] == [1.0, 0.5, 0.0]
    with pytest.raises(click.BadParameter, match="'colour' is none of variant, model, task"):
        run(db, "--by", "colour")


def test_the_same_task_under_two_variants_is_no_second_trial(db: Path) -> None:
    for variant in ("v1", "v2"):
        add(db, "a", "0", True, variant=variant)
    (only,) = figures(db)["repeated"]
    assert (only["k"], only["pass_hat"]["n"]) == (1, 2)


# --- how long calls took


def timed(path: Path, trial: int, seconds: float, variant: str) -> None:
    """A run of two answers, the first of which takes so long, and a call of half a second."""
    parts = (step(call("get_order", id="1"), seconds=seconds), step("Done."))
    spans = [
        structs.replace(span, end_ns=(span.start_ns or 0) + 5 * 10**8)
        if isinstance(span, ToolCall)
        else span
        for span in trace(parts).spans
    ]
    head = Header(
        format="built", source_id=f"timed {trial}", variant=variant, task="a", trial=str(trial),
        outcome=Outcome(status="passed"),
    )  # fmt: skip
    put(path, head, spans, QUIET)


def test_latencies_are_told_by_model_and_by_tool_of_the_runs_that_are_asked(db: Path) -> None:
    for trial, seconds in enumerate((2.0, 3.0, 50.0)):
        timed(db, trial, seconds, "new" if trial == 2 else "old")
    every = figures(db)["latencies"]
    assert [(each["kind"], each["calls"], each["timed"]) for each in every] == [
        ("model", 6, 6),
        ("tool", 3, 3),
    ]
    model, tool = figures(db, "variant:new")["latencies"]
    assert (model["p50_ns"], model["p99_ns"]) == (10**9, 50 * 10**9)
    assert (tool["name"], tool["p90_ns"]) == ("get_order", 5 * 10**8)
    by = figures(db, "--by", "variant")
    assert {each["group"]["variant"]: each["latencies"][0]["calls"] for each in by} == {
        "new": 2,
        "old": 4,
    }
    said = run(db, "variant:new").stdout
    assert re.search(r"model +\S.* +1\.0 s +50\.0 s +50\.0 s +2 calls", said)
    assert re.search(r"tool +get_order +500 ms +500 ms +500 ms +1 call", said)


def test_latencies_that_a_source_does_not_give_are_unknown(db: Path) -> None:
    spans = [
        structs.replace(span, start_ns=None, end_ns=None, time_quality="none")
        for span in trace(RIGHT).spans
    ]
    head = Header(format="built", source_id="untimed", outcome=Outcome(status="passed"))
    put(db, head, spans, QUIET)
    model = figures(db)["latencies"][0]
    assert (model["calls"], model["timed"], model["p50_ns"]) == (4, 0, None)
    assert "latency: unknown, the source gives no times for 7 calls" in run(db).stdout
    timed(db, 0, 2.0, "old")
    said = run(db).stdout
    assert re.search(r"get_policy +– +– +– +1 call +the source gives no times", said)
    assert re.search(r"get_order +500 ms .* 2 calls +1 without a time left out", said)


def test_of_very_many_tools_the_table_shows_those_called_most(db: Path) -> None:
    parts = [step(*(call(f"tool_{n:02}", n=n) for n in range(25)), seconds=2.0)]
    add(db, "a", "0", True, (*parts, step(call("tool_24", n=0)), step("Done.")))
    said = run(db).stdout
    assert re.search(r"tool +tool_24", said)
    assert "tool_23" not in said
    assert "6 more in --json" in said
    assert len(figures(db)["latencies"]) == 26
