"""`arc stats`, of trust: tasks held out, what moved, goals, injected errors, users, wordings."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec import structs

from replay.errors import NotFound
from replay.trace import AgentSpan, Header, Json, Outcome
from taxonomy.classes import Shape
from taxonomy.findings import Diagnosis
from taxonomy.judgements.schema import open_ledger
from taxonomy.metrics.change import start_of
from taxonomy.paraphrase_test import result
from taxonomy.paraphrase_test.result import Scored, Varied, kept
from tests.arc_tui.sample import PASSED, put, scores
from tests.arc_tui.test_stats import QUIET, add, figures, run, shown
from tests.build import step, trace


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


def suite(path: Path, tasks: int = 10) -> None:
    """So many tasks of two trials; the even ones pass."""
    for task in range(tasks):
        for trial in range(2):
            add(path, f"t{task}", str(trial), task % 2 == 0)


# --- tasks held out


@pytest.mark.slow
def test_tasks_held_out_are_named_and_then_out_of_sight(db: Path) -> None:
    suite(db)
    result = run(db, "--hold-out")
    names = [line.split()[0] for line in result.stdout.splitlines()[1:]]
    assert len(names) == 2
    assert "2 of 10 tasks held out (no label 2 of 10)" in result.stderr
    out = run(db).stdout
    assert (
        "2 held-out tasks (4 runs) hidden except for the gap (--include-held-out shows them)" in out
    )
    assert shown(db)["passed"][2] == "16 runs"
    gap = shown(db)["held-out gap"]
    assert "8 against 2 tasks" in gap
    assert "the held-out tasks" in gap[-1]


@pytest.mark.slow
def test_all_counts_what_is_held_out_and_release_ends_it(db: Path) -> None:
    suite(db)
    run(db, "--hold-out")
    every = json.loads(run(db, "--include-held-out", "--json").stdout)
    assert every["figures"]["runs"] == 20
    assert every["figures"]["held_out"]["split"] == "kept"
    assert every["held_out_tasks"]["shown"] is True
    run(db, "--release")
    assert figures(db)["runs"] == 20
    assert "hidden" not in run(db).stdout


@pytest.mark.slow
def test_held_out_once_is_held_out_for_good(db: Path) -> None:
    suite(db)
    first = json.loads(run(db, "--hold-out", "--json").stdout)
    suite(db, 20)
    second = json.loads(run(db, "--hold-out", "--json").stdout)
    assert len(second["strata"]) == 4
    assert first["strata"].keys() < second["strata"].keys()


@pytest.mark.slow
def test_where_every_run_is_held_out_it_says_so(db: Path) -> None:
    suite(db)
    held = json.loads(run(db, "--hold-out", "--json").stdout)["strata"]
    task = next(iter(held))
    result = run(db, f"task:{task}")
    assert result.return_value == 1
    assert "all of these runs are of held-out tasks" in result.stderr


@pytest.mark.slow
def test_two_tasks_are_too_few_to_hold_any_out(db: Path) -> None:
    suite(db, 2)
    result = run(db, "--hold-out")
    assert (result.return_value, "2 tasks: too few" in result.stderr) == (1, True)
    with pytest.raises(click.UsageError, match="cannot be combined"):
        run(db, "--hold-out", "--release")


# --- weeks, before and since


def dated(path: Path, day: datetime.date, count: int, shape: Shape, passed: bool) -> None:
    said = structs.replace(QUIET, shape=shape)
    for at in range(count):
        add(path, f"{day}", str(at), passed, said=said, start_ns=start_of(day))


JANUARY, MARCH = datetime.date(2026, 1, 5), datetime.date(2026, 3, 2)


@pytest.mark.slow
def test_before_and_since_a_day_show_what_moved_beyond_chance(db: Path) -> None:
    dated(db, JANUARY, 12, Shape.LATE_DRIFT, False)
    dated(db, MARCH, 12, Shape.HEALTHY, True)
    timeless = tuple(structs.replace(s, start_ns=None, end_ns=None) for s in trace(["Hi."]).spans)
    put(db, Header(format="built", source_id="whenever", outcome=PASSED), timeless, QUIET)
    out = run(db, "--since", "2026-02-01").stdout
    head, passed, *_ = out.splitlines()
    assert "since 2026-02-01" in head
    assert passed.split()[:5] == ["passed", "0.000", "0.000–0.242", "12", "1.000"]
    assert passed.endswith("  more")
    trend = json.loads(run(db, "--since", "2026-02-01", "--json").stdout)["trend"]
    by_name = {each["name"]: each for each in trend["changes"]}
    assert by_name["late drift"]["difference"] == -1
    assert by_name["late drift"]["high"] < 0
    assert (trend["before_runs"], trend["since_runs"], trend["undated"]) == (12, 12, 1)
    assert "1 run of unknown start left out" in out


def test_weeks_are_rows_with_the_shares_of_their_shapes(db: Path) -> None:
    dated(db, JANUARY, 3, Shape.LATE_DRIFT, False)
    dated(db, MARCH, 1, Shape.HEALTHY, True)
    groups = json.loads(run(db, "--by", "week", "--json").stdout)
    assert [each["group"] for each in groups] == [{"week": "2026-W02"}, {"week": "2026-W10"}]
    rows = [line.split() for line in run(db, "--by", "week").stdout.splitlines()]
    assert ["2026-W02", "0.000", "1.000", "3", "runs"] in rows
    assert ["2026-W10", "1.000", "0.000", "1", "run"] in rows


# --- goals

WEIGHTS = (3, 2, 3, 2, 1, 1, 1)
SCORES = (0.30, 0.85, 0.80, 0.88, 0.82, 0.90, 0.91)


def goals_file(folder: Path, task: str = "feature") -> str:
    file = folder / "goals.toml"
    file.write_text(
        f'[[task]]\nmatch = "{task}"\n'
        + "".join(
            f'[[task.goal]]\ntext = "goal {at}"\nweight = {weight}\nsteps = "{at}"\n'
            for at, weight in enumerate(WEIGHTS)
        )
    )
    return str(file)


def feature(path: Path, **more: Any) -> None:
    said = structs.replace(QUIET, scores=scores(*SCORES))
    add(path, "feature", "0", False, [step("…") for _ in SCORES], said=said, **more)


def test_the_article_s_goals_weigh_to_722_where_the_plain_mean_is_78(
    db: Path, tmp_path: Path
) -> None:
    """The article prints .64 for the weighted mean; by its own formula it is .722."""
    feature(db, start_ns=start_of(datetime.date(2100, 1, 1)))
    rows = shown(db, "--goals", goals_file(tmp_path))
    assert rows["weighted score"][0] == "0.722"
    assert rows["without weights"][0] == "0.780"
    assert rows["goal 0"][0] == "0.300"
    assert "weight 3" in rows["goal 0"][-1]
    assert "scores by rule" in rows["weighted score"][-1]
    assert "hindsight" not in rows["weighted score"][-1]


def test_goals_first_seen_after_the_run_are_marked_hindsight(db: Path, tmp_path: Path) -> None:
    feature(db)
    note = shown(db, "--goals", goals_file(tmp_path))["weighted score"][-1]
    assert "hindsight in 1 run: first seen after it had begun" in note


def test_goals_of_another_task_give_no_figures(db: Path, tmp_path: Path) -> None:
    feature(db)
    assert figures(db, "--goals", goals_file(tmp_path, "another"))["goals"] is None
    assert "weighted score" not in shown(db)


# --- errors put in


def test_errors_of_a_harness_are_read_from_its_file(db: Path, tmp_path: Path) -> None:
    feature(db)
    file = tmp_path / "errors.jsonl"
    file.write_text(
        '{"run": "another", "step": 3, "corrected_after": null}\n{"run": "feature/0", "step": 2}\n'
    )
    row = shown(db, "--injections", str(file))["recovery rate"]
    assert row[:1] + row[2:3] == ["0.500", "2 injected errors"]
    assert "fewer than 5: a hint" in row[-1]
    file.write_text('{"run": "nobody", "step": 2}\n')
    with pytest.raises(NotFound, match="nobody"):
        run(db, "--injections", str(file))


# --- what users did


def session(path: Path, trial: str, extra: dict[str, Json]) -> None:
    spans = trace([step("Done.")]).spans
    root = structs.replace(spans[0], extra=extra)
    assert isinstance(root, AgentSpan)
    head = Header(format="claude-code", source_id=trial, task="t", trial=trial, outcome=Outcome())
    put(path, head, (root, *spans[1:]), Diagnosis(trace="", shape=None, scores=(), findings=(),
                                                  candidates=()))  # fmt: skip


def test_what_users_did_is_a_share_of_the_sessions_that_would_say_so(db: Path) -> None:
    session(db, "0", {"signals": [{"kind": "interrupt", "line": 1}]})
    session(db, "1", {"unanswered": [{"role": "user", "content": "And now?"}]})
    for trial in "23":
        session(db, trial, {})
    add(db, "another", "0", True)
    rows = shown(db)
    assert rows["interrupted"][0] == "0.250"
    assert rows["abandoned"][2] == "4 runs"
    assert rows["none of these"][0] == "0.500"


# --- other words


def test_tasks_asked_in_other_words_are_listed_with_what_they_show(db: Path) -> None:
    with open_ledger(db) as store:
        assert not kept(store)
    add(db, "route", "0", False)
    key = json.loads(_ls(db))[0]["trace"]
    wordings = tuple(
        Scored(label=label, text="", by="", samples=(score,), steps=(2,))
        for label, score in (("original", 0.31), ("A", 0.87), ("B", 0.82))
    )
    found = Varied(
        trace=key, task="route", model="m", judge="j", broke=2, samples=1, wordings=wordings
    )
    with open_ledger(db) as store:
        result.keep(store, found)
        result.keep(store, structs.replace(found, trace="of another database"))
    row = shown(db)["surface variation route"]
    assert row[:2] == ["range 0.560", "3 wordings"]
    assert "surface sensitivity · variance 0.096 (0.064 of the population)" in row[2]
    assert "m, judged by j, one sample each" in row[2]
    assert shown(db)["surface variation"] == ["1 case", "surface 1"]


def _ls(path: Path) -> str:
    from click.testing import CliRunner

    from arc_tui.commands import cli

    return CliRunner().invoke(cli, ["--db", str(path), "ls", "--json"]).stdout
