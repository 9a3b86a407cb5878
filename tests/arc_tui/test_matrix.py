"""Runs as a matrix: as `arc ls --matrix` prints it, and the screen."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec import structs
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.commands import cli
from arc_tui.features.runs.command import _blocks
from arc_tui.features.runs.matrix import MatrixScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.settings import Settings
from replay.store.answers import keep
from replay.trace import ModelCall, Outcome
from taxonomy.held_out import HeldOutSet
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.sample import header, put
from tests.build import step, trace
from tests.screen import settle, text

GRID = {
    "refund": {"v1": "pppp", "v2": "ffff"},
    "where is it": {"v1": "pfpf", "v2": "pppp"},
    "new": {"v2": "pu"},
    "unjudged": {"v1": "u"},
}
"""Tasks, and the outcomes of their trials by variant: passed, failed, unknown."""

OUTCOMES = {"p": "passed", "f": "failed", "u": "unknown"}


def put_grid(path: Path, grid: dict[str, dict[str, str]] = GRID) -> None:
    for task, variants in grid.items():
        for variant, trials in variants.items():
            for trial, letter in enumerate(trials):
                spans = [
                    structs.replace(span, response=structs.replace(span.response, model="large"))
                    if isinstance(span, ModelCall) and span.response is not None
                    else span
                    for span in trace([step("Done.", usd=0.25)]).spans
                ]
                known = header(task, str(trial), Outcome(status=OUTCOMES[letter]))  # type: ignore[arg-type]
                put(
                    path,
                    structs.replace(known, variant=variant, source_id=f"{task} {variant} {trial}"),
                    spans,
                )


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    put_grid(path)
    return path


def arc(path: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(path), "ls", *words])


def test_columns_in_figures_then_tasks_by_column(grid: Path) -> None:
    done = arc(grid, "--matrix")
    assert done.exit_code == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    v1, v2 = lines[1], lines[2]
    assert v1[:7] == ["v1", "large", "9,", "1?", "2", ".75", "(.20–.97)"]
    assert v1[-1] == "$0.33"  # eight runs of known outcome, six resolved
    assert v2[-1] == "$0.45"
    rows = {line[0]: line[1:] for line in lines[5:9]}
    assert rows["refund"] == ["1.00", "4/4", "0/4"]
    assert rows["new"] == ["–", "1/1", "1?"]
    assert rows["unjudged"] == ["–", "1?"]


def test_k_is_asked_for(grid: Path) -> None:
    found = json.loads(arc(grid, "--matrix", "-k", "2", "--json").stdout)
    (v1, v2) = found["columns"]
    assert found["k"] == 2
    assert v1["pass_hat"]["value"] == pytest.approx((1 + 1 / 6) / 2)
    assert (v2["pass_hat"]["n"], v2["short"]) == (2, 1)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ((), "refund"),
        (("--sort", "-changed"), "where is it"),
        (("--sort", "task"), "new"),
        (("--sort", "-task"), "where is it"),
        (("--sort", "passed"), "refund"),
    ],
)
def test_rows_are_sorted_as_asked(grid: Path, words: tuple[str, ...], first: str) -> None:
    found = json.loads(arc(grid, "--matrix", "--json", *words).stdout)
    assert found["rows"][0]["task"] == first


def test_csv_has_a_row_for_each_cell_and_starts_no_formula(grid: Path) -> None:
    put_grid(grid, {"=1+1": {"v1": "u"}})
    lines = arc(grid, "--matrix", "--csv", "--sort", "task").stdout.splitlines()
    assert lines[0] == "task,variant,models,passed,failed,unknown,cost_usd,cost_complete"
    assert "refund,v2,large,0,4,0,1,true" in lines
    assert "'=1+1,v1,large,0,0,1,,false" in lines
    assert len(lines) == 1 + 7


def test_runs_of_several_golden_versions_are_said_to_be(grid: Path) -> None:
    said = "runs of several golden versions are not comparable: no version, 3 0123456789ab"
    assert said not in arc(grid, "--matrix").stdout
    known = header("stamped", "0", Outcome(status="passed"))
    spans = trace([step("Done.")]).spans
    put(grid, structs.replace(known, labels={"arc.golden": "3 0123456789ab"}), spans)
    assert said in arc(grid, "--matrix").stdout
    found = json.loads(arc(grid, "--matrix", "task:stamped", "--json").stdout)
    assert found["golden"] == ["3 0123456789ab"]


def hold(path: Path, task: str) -> None:
    with open_ledger(path) as store:
        keep(store, "held out", HeldOutSet(strata={task: ""}, since_ns={task: 1}))


def test_held_out_tasks_are_in_no_row_and_no_rate_unless_asked(grid: Path) -> None:
    hold(grid, "refund")
    done = arc(grid, "--matrix", "--json")
    found = json.loads(done.stdout)
    assert "8 runs of held-out tasks hidden" in done.stderr
    assert "refund" not in {row["task"] for row in found["rows"]}
    assert [column["runs"] for column in found["columns"]] == [5, 6]
    every = json.loads(arc(grid, "--matrix", "--json", "--include-held-out").stdout)
    assert [column["runs"] for column in every["columns"]] == [9, 10]


@pytest.mark.pilot
async def test_held_out_tasks_are_shown_by_the_view_menu(grid: Path) -> None:
    hold(grid, "refund")
    async with shown(grid, "ctrl+x") as pilot:
        assert "8 runs of held-out tasks hidden (v)" in text(pilot.app)
        await press(pilot, "v")
        matrix = pilot.app.screen
        assert isinstance(matrix, MatrixScreen)
        assert "8 runs of held-out tasks shown (v)" in text(pilot.app)
        await press(pilot, "enter")
        runs = pilot.app.screen
        assert isinstance(runs, RunsScreen)
        assert len(runs.listed.traces) == 4


def test_rows_left_out_are_counted(grid: Path) -> None:
    done = arc(grid, "--matrix", "--limit", "1")
    assert "1 of 4 shown. Try: --limit 0" in done.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--matrix", "--all"), "--all cannot be combined with --matrix"),
        (("--matrix", "--columns", "task"), "--columns cannot be combined with --matrix"),
        (("--matrix", "--sort", "chnged"), "no matrix order 'chnged'"),
        (("--matrix", "--sort", "cost"), "no matrix order 'cost'"),
        (("-k", "2"), "-k cannot be used without --matrix"),
        (("--csv",), "--csv cannot be used without --matrix"),
        (("--matrix", "--csv", "--json"), "--csv cannot be combined with --json"),
        (("--matrix", "-k", "0"), "0 is not in the range"),
        (("--matrix", "outcome:maybe"), "unknown outcome 'maybe'"),
    ],
)
def test_what_cannot_be_meant_is_refused(grid: Path, words: tuple[str, ...], why: str) -> None:
    done = arc(grid, *words)
    said = getattr(done.exception, "message", None) or done.output
    assert why in said


@pytest.mark.slow
def test_no_run_of_a_task(tmp_path: Path) -> None:
    assert "No runs of a task yet." in arc(tmp_path / "arc.db", "--matrix").stderr
    put_grid(tmp_path / "arc.db")
    assert (
        "No runs of a task match 'nosuch'." in arc(tmp_path / "arc.db", "--matrix", "nosuch").stderr
    )


def test_columns_that_do_not_fit_a_line_stand_below() -> None:
    left, cells = [["task", "change"]], [["variant-1", "variant-2", "v3"]]
    assert list(_blocks(left, cells, 200)) == [(0, 3)]
    assert list(_blocks(left, cells, 30)) == [(0, 1), (1, 3)]
    assert list(_blocks(left, cells, 3)) == [(0, 1), (1, 2), (2, 3)]  # one is always shown


@asynccontextmanager
async def shown(
    path: Path, *keys: str, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[Pilot[None]]:
    app = ArcApp(path, settings=Settings())
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        await press(pilot, *keys)
        yield pilot


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


@pytest.mark.pilot
async def test_enter_lists_the_runs_of_the_cell_by_their_query(grid: Path) -> None:
    async with shown(grid, "ctrl+x", "l", "enter") as pilot:
        runs = pilot.app.screen
        assert isinstance(runs, RunsScreen)
        words = 'task="refund" variant="v2" model="large"'
        assert (runs.arrangement.words, len(runs.listed.traces)) == (words, 4)
        await press(pilot, "escape", "ctrl+x")
        assert isinstance(pilot.app.screen, MatrixScreen)


@pytest.mark.pilot
async def test_the_matrix_is_of_the_runs_that_are_listed(grid: Path) -> None:
    async with shown(grid, "slash", *"variant:v2", "enter", "ctrl+x") as pilot:
        matrix = pilot.app.screen
        assert isinstance(matrix, MatrixScreen)
        assert [column.variant for column in matrix.view.matrix.columns] == ["v2"]
        await press(pilot, "enter")
        runs = pilot.app.screen
        assert isinstance(runs, RunsScreen)
        assert runs.arrangement.words.startswith('(variant:v2) task="')
        assert len(runs.listed.traces) in (2, 4)


@pytest.mark.pilot
async def test_an_empty_cell_has_no_runs_to_list(grid: Path) -> None:
    async with shown(grid, "ctrl+x", "j", "j", "enter") as pilot:
        assert isinstance(pilot.app.screen, MatrixScreen)
        assert "No run of this task in this column." in text(pilot.app)


@pytest.mark.pilot
async def test_columns_beyond_the_line_come_into_sight(tmp_path: Path) -> None:
    path = tmp_path / "wide.db"
    put_grid(path, {"task": {f"v{number}": "p" for number in range(12)}})
    async with shown(path, "ctrl+x") as pilot:
        assert "columns 1–4 of 12" in text(pilot.app)
        await press(pilot, *"l" * 30)
        assert "columns 9–12 of 12" in text(pilot.app)
        assert "v11" in text(pilot.app)
        await press(pilot, *"h" * 30)
        assert "columns 1–4 of 12" in text(pilot.app)
        await pilot.resize_terminal(40, 24)
        await settle(pilot)
        assert "of 12" in text(pilot.app)


@pytest.mark.pilot
async def test_tasks_are_sorted_and_the_cursor_goes_to_the_first(grid: Path) -> None:
    async with shown(grid, "ctrl+x", "G", "S") as pilot:
        matrix = pilot.app.screen
        assert isinstance(matrix, MatrixScreen)
        assert matrix.table.matrix.rows[0].task == "new"
        assert (matrix.table.cursor, "by task" in text(pilot.app)) == (0, True)


@pytest.mark.pilot
async def test_no_task_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    put_grid(path, {"task": {"v1": "p"}})
    async with shown(path, "slash", *"nosuch", "enter", "ctrl+x") as pilot:
        assert "No runs of a task match 'nosuch'." in text(pilot.app)
        await press(pilot, "S", "enter", "l", "escape")
        assert isinstance(pilot.app.screen, RunsScreen)
