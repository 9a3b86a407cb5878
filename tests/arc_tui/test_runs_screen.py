"""The runs screen: what it shows at two sizes, and what its keys do."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.runs.widgets import RunTable
from arc_tui.places import fixtures
from arc_tui.views.runs import Arrangement
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.listing import RunRow
from tests.screen import matches_golden, rows, settle, text

Opened = tuple[Pilot[None], RunsScreen]


@asynccontextmanager
async def opened(db: Path, size: tuple[int, int] = (120, 24)) -> AsyncIterator[Opened]:
    app = ArcApp(db)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        screen = app.screen_stack[0]
        assert isinstance(screen, RunsScreen)
        yield pilot, screen


@pytest.fixture
def db(six_runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(six_runs, tmp_path / "arc.db"))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
@pytest.mark.pilot
async def test_the_screen_looks_like_this(db: Path, size: tuple[int, int]) -> None:
    async with opened(db, size) as (pilot, _):
        matches_golden(pilot.app, f"runs_{size[0]}x{size[1]}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a person is who has one trace there, and no sessions anywhere."""
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path / "nowhere"))
    here = tmp_path / "here"
    here.mkdir()
    shutil.copy(fixtures() / "traces" / "shop-refund-v5-0.jsonl", here / "run.jsonl")
    monkeypatch.chdir(here)
    return here


@pytest.mark.pilot
async def test_an_empty_database_offers_what_is_here_and_else_says_what_to_do(
    tmp_path: Path, folder: Path
) -> None:
    async with opened(tmp_path / "new.db", (80, 24)) as (pilot, screen):
        shown = text(pilot.app)
        assert "╭─ open ─" in shown
        assert "a leaking kettle, and a question" in shown
        await pilot.press("escape")
        await settle(pilot)
        matches_golden(pilot.app, "runs_empty_80x24")
        await pilot.press("o")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert [row.task for row in listed(screen)] == ["refund"]


@pytest.mark.pilot
async def test_the_demo_that_is_offered_is_shown_from_a_database_of_its_own(
    tmp_path: Path, folder: Path, db: Path
) -> None:
    (tmp_path / "nowhere").mkdir()
    shutil.copy(db, tmp_path / "nowhere" / "demo.db")
    async with opened(tmp_path / "new.db", (80, 24)) as (pilot, _):
        await pilot.press("j", "enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)
        assert len(listed(pilot.app.screen)) == 6


@pytest.mark.pilot
async def test_no_offer_stands_before_files_that_were_named(tmp_path: Path, folder: Path) -> None:
    app = ArcApp(tmp_path / "new.db", imports=(folder / "run.jsonl",))
    async with app.run_test() as pilot:
        await settle(pilot)
        assert "╭─ open ─" not in text(app)


def listed(screen: RunsScreen) -> tuple[RunRow, ...]:
    """The rows of the list, all of which are on its first page."""
    return screen.listed.read(screen.listed.traces)


def names(screen: RunsScreen) -> list[str]:
    return [f"{row.task}/{row.trial}" for row in listed(screen)]


async def test_the_filter_follows_what_is_typed_and_escape_takes_it_back(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await pilot.press("slash", "2", "6")
        await settle(pilot)
        assert names(screen) == ["26/1", "26/0"]
        assert "2 of 6 runs" in rows(pilot.app)[0]
        await pilot.press("enter")
        assert screen.table.has_focus
        await pilot.press("escape")
        await settle(pilot)
        assert len(names(screen)) == 6


@pytest.mark.pilot
async def test_the_filter_takes_a_query_and_says_in_its_line_what_it_cannot_read(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await pilot.press("slash", *"outcome:f")
        await settle(pilot)
        assert names(screen) == ["26/1", "7/0", "9/0"]
        await pilot.press(*" (")
        await settle(pilot)
        assert "missing term at the end (at character 12)" in rows(pilot.app)[-2]
        assert " filter outcome:f (" in rows(pilot.app)[-3]
        assert names(screen) == ["26/1", "7/0", "9/0"]
        await pilot.press("enter")
        assert screen.prompt.display
        await pilot.press(*"tag:h)")
        await settle(pilot)
        assert names(screen) == ["26/1"]
        assert "missing term" not in text(pilot.app)
        await pilot.press("enter")
        assert screen.table.has_focus


@pytest.mark.pilot
async def test_a_filter_that_cannot_be_read_is_told_where_no_line_is_open(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        screen.arrangement = Arrangement(words="tag:lop")
        await settle(pilot)
        assert len(names(screen)) == 6
        assert "unknown class 'lop'" in text(pilot.app)


@pytest.mark.pilot
async def test_f_shows_failed_runs_only(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await pilot.press("f")
        await settle(pilot)
        assert names(screen) == ["26/1", "7/0", "9/0"]
        assert "failed only" in rows(pilot.app)[1]


@pytest.mark.pilot
async def test_a_filter_that_matches_nothing_says_how_to_get_out(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        screen.arrangement = Arrangement(words="nowhere")
        await settle(pilot)
        assert "No runs match 'nowhere'." in text(pilot.app)


@pytest.mark.pilot
async def test_s_sorts_and_the_cursor_stays_on_its_run(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        screen.table.cursor = 3
        await pilot.press("S")
        await settle(pilot)
        assert listed(screen)[screen.table.cursor].task == "7"
        assert screen.arrangement.order == "outcome"


@pytest.mark.pilot
async def test_who_sorts_from_the_top_sees_what_comes_first(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        screen.arrangement = Arrangement(order="steps")
        await settle(pilot)
        assert screen.table.cursor == 0
        await pilot.press("S", "S")
        await settle(pilot)
        assert screen.arrangement.order == "duration_ns"
        assert screen.table.cursor == 0
        screen.arrangement = Arrangement(order="task")
        await settle(pilot)
        assert (screen.table.cursor, names(screen)[0]) == (0, "26/0")


@pytest.mark.pilot
async def test_v_shows_other_columns(db: Path) -> None:
    async with opened(db) as (pilot, _):
        assert "why" in rows(pilot.app)[2]
        await pilot.press("v", "1")
        head = rows(pilot.app)[2]
        assert all(name in head for name in ("tokens", "cost", "time", "shape"))
        await pilot.press("v", "1")
        head = rows(pilot.app)[2]
        assert all(name in head for name in ("fidelity", "title"))
        assert "variant" not in head
        assert "model" not in head


@pytest.mark.pilot
async def test_sorted_by_outcome_the_failed_are_first_and_the_unknown_last(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await pilot.press("S")
        await settle(pilot)
        assert "sorted by outcome" in rows(pilot.app)[1]
        marks = [line[2:4].strip() for line in rows(pilot.app)[3:9]]
        assert marks == ["✗", "✗", "✗", "✓!", "✓", "·"]
        assert [row.outcome for row in listed(screen)][-1] == "unknown"


@pytest.mark.pilot
async def test_an_error_of_the_filter_is_whole_under_it_in_a_small_terminal(db: Path) -> None:
    async with opened(db, (80, 24)) as (pilot, _):
        await pilot.press("slash", *"outcme:failed")
        await settle(pilot)
        query, *error = (line.strip() for line in rows(pilot.app)[-4:-1])
        assert query == "filter outcme:failed"
        assert " ".join(error) == (
            "unknown field 'outcme' (at character 1); did you mean 'outcome'?"
            " To search messages, put the text in quotes."
        )


@pytest.mark.parametrize("size", [(80, 24), (120, 24)])
@pytest.mark.pilot
async def test_the_failures_hide_in_a_small_terminal_until_they_are_asked_for(
    db: Path, size: tuple[int, int]
) -> None:
    async with opened(db, size) as (pilot, _):
        assert "failures of" not in text(pilot.app)
        await pilot.press("v", "2")
        assert "failures of 6 runs ─" in text(pilot.app)


@pytest.mark.pilot
async def test_enter_opens_the_run_under_the_cursor(db: Path) -> None:
    async with opened(db) as (pilot, _):
        await pilot.press("enter")
        await settle(pilot)
        assert "candidate: step 3 (also 5)" in text(pilot.app)
        await pilot.press("escape")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)


@pytest.mark.pilot
async def test_r_reads_what_another_process_wrote(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        with open_ledger(db) as store, store.writing() as connection:
            connection.execute("DELETE FROM trace WHERE task = '26'")
        await pilot.press("ctrl+r")
        await settle(pilot)
        assert len(listed(screen)) == 4


@pytest.mark.pilot
async def test_a_double_click_opens_a_run(db: Path) -> None:
    async with opened(db) as (pilot, _):
        await pilot.click(RunTable, offset=(10, 2), times=2)
        await settle(pilot)
        assert "candidate: step 3" in text(pilot.app)
