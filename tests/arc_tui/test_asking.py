"""Commands and lists that take a question: which runs they then speak of."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from arc_tui.features.help import command
from arc_tui.views.failures import FailuresRequest, build_failures
from arc_tui.views.runs import Arrangement, build_runs, run_rows
from replay.errors import NotFound
from taxonomy.failures import tally
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.fields import FIELDS
from taxonomy.query.language import BadQuery
from tests.arc_tui import sample
from tests.arc_tui.test_commands import as_json, run


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    sample.put_runs(path)
    return path


def tasks(db: Path, *query: str) -> list[str | None]:
    return [row["task"] for row in as_json(db, "ls", *query)]


def test_ls_lists_what_is_meant_in_one_word_or_several(db: Path) -> None:
    assert tasks(db, "outcome:failed", "tag:hallucinated") == ["26"]
    assert tasks(db, "outcome:failed tag:bad-args") == ["7", "26"]
    assert tasks(db, "attribution:user or warned:yes") == ["9", "4"]
    assert tasks(db, '"flaky test" or task:""') == [None]
    assert tasks(db, "tool.error:get_* not task:26") == []
    assert tasks(db, '"window. Shall I"', "outcome:failed") == ["26"]
    with pytest.raises(BadQuery, match=r"unknown field 'outcom'.*did you mean 'outcome'"):
        run(db, "ls", "outcom:failed")


def test_ls_is_sorted_by_any_column_and_unknown_comes_last(db: Path) -> None:
    rows = as_json(db, "ls", "--sort", "-steps")
    steps = [row["steps"] for row in rows]
    assert steps == sorted(steps, reverse=True)
    named = [row["task"] for row in as_json(db, "ls", "--sort", "task")]
    assert named == [*sorted(filter(None, named)), None]
    assert [row["task"] for row in as_json(db, "ls", "--sort", "-task")][-1] is None
    with pytest.raises(NotFound, match="no column 'stepz'"):
        run(db, "ls", "--sort", "stepz")


def test_ls_shows_the_columns_that_are_named_and_as_many_rows_as_are_wanted(db: Path) -> None:
    everything = as_json(db, "ls")
    told = run(db, "ls", "--columns", "task,why,format", "--limit", "2")
    head, *rows = told.stdout.splitlines()
    assert head.split("\t") == ["task", "why", "format"]
    assert [row.split("\t")[2] for row in rows] == [row["format"] for row in everything[:2]]
    assert f"2 of {len(everything)} shown" in told.stderr
    assert [*as_json(db, "ls", "--columns", "task,steps", "--limit", "1")[0]] == ["task", "steps"]
    assert len(as_json(db, "ls", "--limit", "0")) == len(everything)
    with pytest.raises(NotFound, match="no column 'colour'"):
        run(db, "ls", "--columns", "task,colour")


def test_the_pareto_counts_the_failures_of_the_runs_that_are_meant(db: Path) -> None:
    assert as_json(db, "failures")["failed"] == 3
    found = as_json(db, "failures", "task:26", "or", "task:9")
    assert found["failed"] == 2
    assert [bar["label"] for bar in found["bars"]] == ["hallucinated state"]
    assert [bar["attribution"] for bar in found["apart"]] == ["user"]
    weeks = as_json(db, "failures", "--by", "week", "task:26")
    assert [week["runs"] for week in weeks["weeks"]] == [2]
    assert as_json(db, "failures", "--since", "2020-01-01", "task:26")["after"] == 2
    assert [each["trace"] for each in as_json(db, "failures", "--runs", "h", "task:26")]
    assert run(db, "failures", "--agreement", "task:26").exception is None
    with open_ledger(db) as store:
        view = build_failures(store, FailuresRequest(query="task:7"))
        assert (view.runs, view.pareto.failed) == (1, 1)
        assert build_failures(store, FailuresRequest(query="task:7", every=True)).pareto.failed == 1


def test_tags_are_asked_for_by_what_they_say_and_by_their_runs(db: Path) -> None:
    classes = [row["class"] for row in as_json(db, "tag", "list", "task:26")]
    assert classes == ["hallucinated state", "bad args"]
    assert [row["task"] for row in as_json(db, "tag", "list", "tag:bad")] == ["26", "7"]
    assert [row["task"] for row in as_json(db, "tag", "list", "premise")] == ["9"]
    long = as_json(db, "tag", "list", "steps>5", "not", "tag:h")
    assert [row["class"] for row in long] == ["bad args"]


def test_find_looks_in_the_runs_that_are_meant(db: Path) -> None:
    assert len(as_json(db, "search", "IFOYYZ")) == 6
    found = as_json(db, "search", "IFOYYZ", "--on", "outcome:failed not task:9")
    assert sorted(row["task"] for row in found) == ["26", "7"]
    result = run(db, "search", "IFOYYZ", "--on", "outcome:failed", "--limit", "1", "--json")
    assert result.stdout.count('"excerpt"') == 1
    assert "First 1 shown" in result.stderr


def test_stats_are_of_the_runs_that_are_meant(db: Path) -> None:
    assert as_json(db, "stats", "task:26 or task:4")["outcome"]["rate"]["n"] == 3


def test_a_name_that_cannot_be_read_as_a_query_is_still_said_to_be_no_run(db: Path) -> None:
    with pytest.raises(NotFound, match=r"no trace 'run\(1'"):
        run(db, "attach", "run(1", "--infer-tools")


def test_a_list_on_screen_and_all_that_is_counted_beside_it_are_of_what_is_meant(db: Path) -> None:
    with open_ledger(db) as store:
        every = run_rows(store)
        view = build_runs(store, Arrangement(words="outcome:failed not task:9", order="cost_usd"))
        assert [row.task for row in view.listed.first_page] == ["26", "7"]
        assert (view.totals.runs, view.totals.failed, view.runs) == (2, 2, len(every))
        assert view.totals.cost_usd == sum(
            row.cost_usd or 0 for row in every if row.outcome == "failed" and row.task != "9"
        )
        assert (view.pareto.failed, view.pareto.apart) == (2, ())
        assert build_runs(store).listed.first_page == every
        assert build_runs(store).pareto == tally(store)
        with pytest.raises(BadQuery, match=r"missing value after outcome: \(at character 9\)"):
            build_runs(store, Arrangement(words="outcome:"))


def test_help_says_what_can_be_asked(db: Path) -> None:
    said = CliRunner().invoke(command.help_, ["query"], standalone_mode=False).stdout
    assert "a or b, not a, (…)" in said
    for field in FIELDS:
        assert field.example in said
