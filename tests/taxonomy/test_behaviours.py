"""How often a behaviour appears, where it begins, and by which shape."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from arc_tui.commands import cli
from replay.store.rows import step_rows, trace_row
from taxonomy.findings import Source, StepScore
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import keep_scores
from taxonomy.stats.behaviours import third_of

RUNS = Path(__file__).parents[2] / "fixtures" / "bloom"


def arc(db: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(db), *words])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("behaviours") / "arc.db"
    assert arc(db, "import", str(RUNS)).exit_code == 0
    return db


@pytest.fixture
def db(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "arc.db"))


def rows(db: Path, *words: str) -> list[dict[str, Any]]:
    found = json.loads(arc(db, "stats", "--behaviours", "--json", *words).stdout)
    listed: list[dict[str, Any]] = found["behaviours"]
    return listed


def scored(db: Path, trace: str, values: list[float], source: Source) -> None:
    with open_ledger(db) as store:
        key = trace_row(store, trace).trace
        steps = step_rows(store, key)
        keep_scores(
            store,
            key,
            [
                StepScore(step=at, value=value, source=source, by="x", span=steps[at].span)
                for at, value in enumerate(values)
            ],
        )


class TestRates:
    def test_only_runs_that_were_judged_are_counted(self, db: Path) -> None:
        flattery, purchase = rows(db)
        assert flattery["runs"] == 6
        assert (flattery["elicited"]["value"], flattery["elicited"]["n"]) == (0.6, 5)
        assert flattery["elicited"]["low"] == pytest.approx(0.2307, abs=1e-4)
        assert (purchase["elicited"]["value"], purchase["elicited"]["n"]) == (0.5, 2)

    def test_a_query_and_a_column_cut_them(self, db: Path) -> None:
        assert [each["behaviour"] for each in rows(db, "task:flattery")] == ["flattery"]
        by_task = rows(db, "task:flattery", "--by", "task")
        assert [each["group"]["task"] for each in by_task] == [
            "flattery v1", "flattery v2", "flattery v3",
        ]  # fmt: skip
        assert [each["elicited"]["n"] for each in by_task] == [2, 2, 1]


class TestOnset:
    def test_it_is_the_first_answer_that_the_judge_cites(self, db: Path) -> None:
        found = {each["steps"]: each for each in rows(db)[0]["found"]}
        assert [(found[n]["onset"], found[n]["third"]) for n in (3, 6)] == [
            (0, "first"), (5, "last"),
        ]  # fmt: skip

    def test_where_it_cites_none_a_low_score_of_a_judge_tells_and_a_rules_does_not(
        self, db: Path
    ) -> None:
        (run,) = (each["trace"] for each in rows(db)[0]["found"] if each["steps"] == 1)
        scored(db, run, [0.1], "rule")
        assert {e["trace"]: e["onset"] for e in rows(db)[0]["found"]}[run] is None
        scored(db, run, [0.1], "judge")
        told = next(each for each in rows(db)[0]["found"] if each["trace"] == run)
        assert (told["onset"], told["by"], told["third"]) == (0, "step scores", "too short")

    @pytest.mark.parametrize(
        ("step", "steps", "third"),
        [(None, 9, "unknown"), (0, 2, "too short"), (0, 3, "first"), (1, 3, "middle"),
         (2, 3, "last"), (2, 7, "middle"), (4, 7, "last"), (1, 7, "first")],
    )  # fmt: skip
    def test_thirds_are_cut_as_the_shapes_cut_them(
        self, step: int | None, steps: int, third: str
    ) -> None:
        assert third_of(step, steps) == third


class TestShape:
    def test_a_collapse_is_told_from_a_drift_by_the_scores_of_a_judge(self, db: Path) -> None:
        long = next(each["trace"] for each in rows(db)[0]["found"] if each["steps"] == 6)
        short = next(each["trace"] for each in rows(db)[0]["found"] if each["steps"] == 3)
        scored(db, long, [0.9, 0.9, 0.9, 0.9, 0.7, 0.2], "judge")
        scored(db, short, [0.9, 0.2, 0.1], "judge")
        assert rows(db)[0]["shapes"] == {"late drift": 1, "early collapse": 1}

    def test_scores_of_rules_and_of_two_steps_give_none(self, db: Path) -> None:
        long = next(each["trace"] for each in rows(db)[0]["found"] if each["steps"] == 6)
        scored(db, long, [0.9, 0.9, 0.9, 0.9, 0.7, 0.2], "rule")
        assert rows(db)[0]["shapes"] == {}
        scored(db, long, [0.9, 0.2], "judge")
        assert rows(db)[0]["shapes"] == {}


class TestPrinted:
    def test_the_table_says_what_it_rests_on(self, db: Path) -> None:
        said = arc(db, "stats", "--behaviours").stdout
        assert "0.600" in said
        assert "0.231–0.882" in said
        assert "5 of 6 runs" in said
        row = next(line for line in said.splitlines() if line.startswith("flattery"))
        assert row.split("6.3")[1].split() == ["1", "0", "1", "1", "2.5", "–"]
        assert "in 3 of 4 elicited runs the first answer that the judge cites" in said

    def test_runs_without_a_behaviour_are_left_out_and_counted(self, db: Path) -> None:
        arc(db, "import", str(RUNS.parent / "traces" / "shop-stock-v8-0.jsonl"))
        assert "1 run without a behaviour left out" in arc(db, "stats", "--behaviours").stdout

    def test_none_is_said_with_what_to_do(self, db: Path) -> None:
        assert "No runs match." in arc(db, "stats", "--behaviours", "nosuchrun").stderr
        empty = db.parent / "other.db"
        arc(empty, "import", str(RUNS.parent / "traces" / "shop-stock-v8-0.jsonl"))
        words = ["--db", str(empty), "stats", "--behaviours"]
        said = CliRunner().invoke(cli, words, standalone_mode=False)
        assert said.return_value == 1
        assert "None of 1 run names a behaviour. Try: arc import FOLDER" in said.stderr

    @pytest.mark.parametrize(
        "other",
        [("--since", "2026-01-01"), ("--buckets", "5"), ("--hold-out",), ("--production", "x")],
    )
    def test_an_option_that_it_would_not_heed_is_refused(
        self, db: Path, other: tuple[str, ...]
    ) -> None:
        said = arc(db, "stats", "--behaviours", *other)
        assert said.exit_code == 2
        assert "--behaviours goes with QUERY, --by and --include-held-out only" in said.stderr

    def test_a_list_shows_the_judges_word_and_filters_by_it(self, db: Path) -> None:
        lines = arc(db, "ls", "label:elicited=yes").stdout.splitlines()
        assert len(lines) == 5
        assert all("\telicited\t" in line for line in lines[1:])


class TestOneRun:
    def test_what_its_judge_said_stands_first_and_at_the_steps_it_cites(self, db: Path) -> None:
        run = next(each["trace"] for each in rows(db)[0]["found"] if each["steps"] == 3)
        said = arc(db, "diagnose", run).stdout.splitlines()
        assert said[0] == (
            "score · behavior_presence 9 of 10, elicited · bloom judgement claude-opus-4.1"
        )
        assert said[1] == (
            "score · step 0 · cited by its source's judge: praises without ground"
            " “a work of genius”"
        )
        assert said[2].startswith("score · step 1 · cited by")

    def test_of_other_runs_nothing_is_said(self, db: Path) -> None:
        arc(db, "import", str(RUNS.parent / "traces" / "shop-stock-v8-0.jsonl"))
        assert "behavior_presence" not in arc(db, "diagnose", "last").stdout
