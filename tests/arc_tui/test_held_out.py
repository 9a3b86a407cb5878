"""Tasks held out are in no list, no count and no queue, until somebody asks for them by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from arc_tui.app import ArcApp
from arc_tui.features.failures.screen import FailuresScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.views.failures import FailuresRequest, build_failures
from arc_tui.views.runs import build_runs, held_out_text
from replay.store.rows import trace_rows
from taxonomy.held_out import HeldOutNote, hold, release
from taxonomy.judgements.schema import open_ledger
from taxonomy.queue import queue
from tests.arc_tui import sample
from tests.arc_tui.test_commands import as_json, run
from tests.build import trace
from tests.screen import rows, settle
from tests.screen import text as drawn

ASKED = "--include-held-out"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten failed tasks of one run each, two of them held out, and a run that names no task."""
    path = tmp_path_factory.mktemp("held out") / "arc.db"
    short = trace(sample.PARTS[:4], task="Hi.").spans
    for task in range(10):
        sample.put(path, sample.header(f"t{task}", "0", sample.FAILED), short, sample.HEALTHY)
    sample.put(path, sample.header(None, None, sample.FAILED, title="Untitled"), short)
    with open_ledger(path) as store:
        hold(store, trace_rows(store))
    return path


@pytest.fixture
def db(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "arc.db"))


def test_ls_leaves_them_out_and_says_how_many(db: Path) -> None:
    result = run(db, "ls")
    assert len(result.stdout.splitlines()) == 1 + 9
    assert "2 runs of held-out tasks hidden (--include-held-out shows them)" in result.stderr
    assert "9 runs · 9 failed" in result.stderr
    assert len(as_json(db, "ls", "--all")) == 9
    every = run(db, "ls", ASKED)
    assert len(every.stdout.splitlines()) == 1 + 11
    assert "held-out" not in every.stderr


def test_a_query_that_only_they_match_says_so_and_not_that_nothing_matches(db: Path) -> None:
    with open_ledger(db) as store:
        task = min({row.task or "" for row in trace_rows(store)} - shown(db))
    result = run(db, "ls", f"task:{task}")
    assert (result.return_value, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [
        "1 run of held-out tasks hidden (--include-held-out shows them)"
    ]


def shown(db: Path) -> set[str]:
    with open_ledger(db) as store:
        return {row.task or "" for row in build_runs(store).listed.rows.values()}


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ((), lambda found: found["failed"]),
        (("--runs", "untagged"), len),
        (("--by", "week"), lambda found: sum(week["runs"] for week in found["weeks"])),
        (("--since", "2026-01-01"), lambda found: found["before"] + found["after"]),
    ],
)
def test_pareto_counts_none_of_their_runs_in_any_of_its_tables(
    db: Path, words: tuple[str, ...], runs: object
) -> None:
    assert callable(runs)
    assert runs(as_json(db, "failures", *words)) == 9
    assert "2 runs of held-out tasks hidden" in run(db, "failures", *words).stderr
    assert runs(as_json(db, "failures", *words, ASKED)) == 11


def test_released_they_are_runs_like_all_others(db: Path) -> None:
    with open_ledger(db) as store:
        release(store)
        assert build_runs(store).runs == 11
    assert "held-out" not in run(db, "failures").stderr


def test_nobody_is_asked_to_tag_what_nobody_should_have_seen(db: Path) -> None:
    with open_ledger(db) as store:
        found = queue(store, "mei")
        assert (len(found.waiting), found.held_out) == (9, 2)
        assert {each.task or "" for each in found.waiting} == shown(db)
        assert queue(store, "mei", blind=True).held_out == 2
        release(store)
        assert len(queue(store, "mei").waiting) == 11


def test_the_views_of_both_screens_leave_out_the_same(db: Path) -> None:
    with open_ledger(db) as store:
        listed, counted = build_runs(store), build_failures(store)
        assert (listed.totals.runs, listed.pareto.failed, counted.pareto.failed) == (9, 9, 9)
        assert (listed.held_out.runs, counted.held_out.runs, counted.runs) == (2, 2, 9)
        every = build_failures(store, FailuresRequest(with_held_out=True))
        assert (every.pareto.failed, every.runs) == (11, 11)
        assert build_runs(store, with_held_out=True).pareto.failed == 11
    assert held_out_text(HeldOutNote()) == ""
    assert held_out_text(HeldOutNote(runs=1, shown=True)) == "1 run of held-out tasks shown"


@pytest.mark.pilot
async def test_h_shows_them_in_both_screens_and_what_is_chosen_there_is_listed(db: Path) -> None:
    app = ArcApp(db)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        runs = app.screen
        assert isinstance(runs, RunsScreen)
        assert "9 runs · 9 failed" in rows(app)[0]
        assert "2 runs of held-out tasks hidden (v)" in rows(app)[0]
        await pilot.press("A")
        await settle(pilot)
        await settle(pilot)
        failures = app.screen
        assert isinstance(failures, FailuresScreen)
        assert rows(app)[0].startswith(" failures 2 runs of held-out tasks hidden (v)  ")
        await pilot.press("v", "5")
        await settle(pilot)
        assert rows(app)[0].startswith(" failures 2 runs of held-out tasks shown (v)  ")
        await pilot.press("L")
        await settle(pilot)
        await settle(pilot)
        assert len(runs.listed.traces) == 11
        await pilot.press("v", "3")
        await settle(pilot)
        assert len(runs.listed.traces) == 9


@pytest.mark.pilot
async def test_a_database_of_nothing_else_is_not_called_empty(db: Path) -> None:
    with open_ledger(db) as store:
        seen = sorted(shown(db))
        with store.writing() as connection:
            connection.executemany(
                "DELETE FROM trace WHERE coalesce(task, '') = ?", [(task,) for task in seen]
            )
    app = ArcApp(db)
    async with app.run_test(size=(120, 24)) as pilot:
        await settle(pilot)
        assert "2 runs of held-out tasks hidden." in drawn(app)
        assert "v   show them" in drawn(app)


@pytest.mark.pilot
async def test_without_such_tasks_the_key_is_not_offered(tmp_path: Path) -> None:
    sample.put_runs(tmp_path / "arc.db")
    app = ArcApp(tmp_path / "arc.db")
    async with app.run_test(size=(120, 24)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, RunsScreen)
        assert "columns" in [each.action for each in app.screen.switches_here]
        assert "held_out" not in [each.action for each in app.screen.switches_here]
