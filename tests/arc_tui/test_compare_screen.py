"""The compare screen: two runs side by side, how it is reached, and what its keys do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.compare.screen import CompareScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.ui.dialogs import AskBox
from replay.trace import Outcome
from taxonomy.diagnosis import diagnose
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.compare_case import make, named, replayed
from tests.arc_tui.sample import header, put
from tests.arc_tui.test_escapes import drawn
from tests.build import call, step, trace
from tests.faults import hostile
from tests.screen import matches_golden, press, settle, text

SIZES = [(80, 24), (120, 40)]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("compare") / "arc.db")


def run_of(db: Path, task: str, variant: str) -> str:
    with open_ledger(db) as store:
        return named(store, task, variant)


def wishes(db: Path) -> tuple[str, str]:
    """Two runs that differ early and end alike."""
    return run_of(db, "many-wishes", "v4"), run_of(db, "many-wishes", "v6")


@asynccontextmanager
async def opened(
    db: Path, a: str, b: str | None, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Pilot[None], CompareScreen]]:
    app = ArcApp(db)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        screen = CompareScreen(db, a, b)
        app.push_screen(screen)
        await settle(pilot)
        yield pilot, screen


@pytest.mark.pilot
@pytest.mark.parametrize("size", SIZES)
async def test_two_runs_look_like_this(db: Path, size: tuple[int, int]) -> None:
    a, b = run_of(db, "many-wishes", "v5"), run_of(db, "many-wishes", "v4")
    async with opened(db, a, b, size) as (pilot, _screen):
        matches_golden(pilot.app, f"compare_{size[0]}x{size[1]}")


@pytest.mark.pilot
@pytest.mark.parametrize("size", SIZES)
async def test_a_run_and_its_replay_look_like_this(db: Path, size: tuple[int, int]) -> None:
    with open_ledger(db) as store:
        a, b = named(store, "refund", "v1"), replayed(store, "locked")
    async with opened(db, a, b, size) as (pilot, _screen):
        matches_golden(pilot.app, f"compare_replay_{size[0]}x{size[1]}")


@pytest.mark.pilot
@pytest.mark.parametrize("size", SIZES)
async def test_steps_are_gone_to_from_either_pane(db: Path, size: tuple[int, int]) -> None:
    """Both lines of a pair are one step."""
    a, b = run_of(db, "many-wishes", "v5"), run_of(db, "many-wishes", "v4")
    async with opened(db, a, b, size) as (pilot, screen):
        await press(pilot, "J")
        assert screen.rows.row is not None
        assert (screen.rows.row.a, screen.rows.row.b) == (4, 5)
        await press(pilot, "tab", "J")
        assert screen.focused is screen.page
        assert (screen.rows.row.a, screen.rows.row.b) == (5, 6)
        assert screen.pair.row is screen.rows.row
        await press(pilot, "K", "K")
        assert (screen.rows.row.a, screen.rows.row.b) == (None, 4)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.pilot
async def test_whoever_comes_alone_is_offered_the_other_trials(
    db: Path, size: tuple[int, int]
) -> None:
    async with opened(db, run_of(db, "refund", "v1"), None, size) as (pilot, screen):
        matches_golden(pilot.app, f"compare_with_{size[0]}x{size[1]}")
        await press(pilot, "enter")
        assert screen.view is not None
        assert screen.view.b.outcome == "passed"


@pytest.mark.pilot
async def test_without_another_run_it_says_what_to_do_and_escape_leaves(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    run = trace(["Done."])
    put(db, header("26", "0", Outcome()), run.spans, diagnose(run))
    async with opened(db, "last", None, (80, 24)) as (pilot, _screen):
        assert "Select another run in the list of runs with space" in text(pilot.app)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, RunsScreen)


# --- how it is reached


@pytest.mark.pilot
async def test_the_marked_run_is_compared_from_the_list(db: Path) -> None:
    app = ArcApp(db)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        runs = app.screen
        assert isinstance(runs, RunsScreen)
        first = runs.table.at
        await press(pilot, "space")
        assert "»" in text(app)
        await press(pilot, "j")
        second = runs.table.at
        await press(pilot, "equals_sign")
        assert isinstance(app.screen, CompareScreen)
        assert (app.screen.a, app.screen.b) == (first, second)
        await press(pilot, "escape", "k", "space")
        assert app.marked == ""
        assert "»" not in text(app)


@pytest.mark.pilot
async def test_v_in_a_run_compares_it_with_the_marked_one_else_asks(db: Path) -> None:
    a, b = wishes(db)
    app = ArcApp(db)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        app.push_screen(TraceScreen(db, b))
        await settle(pilot)
        await press(pilot, "equals_sign")
        assert isinstance(app.screen, AskBox)
        await press(pilot, "escape")
        app.marked = a
        await press(pilot, "equals_sign")
        assert isinstance(app.screen, CompareScreen)
        assert (app.screen.a, app.screen.b) == (a, b)


# --- its keys


@pytest.mark.pilot
async def test_it_opens_at_the_divergence_and_a_key_leads_back_there(db: Path) -> None:
    async with opened(db, *wishes(db)) as (pilot, screen):
        assert screen.view is not None
        assert screen.rows.row is screen.view.rows[0]
        assert screen.view.divergence == 0
        await press(pilot, "G", "X")
        assert screen.rows.row is screen.view.rows[0]


async def test_two_keys_go_from_difference_to_difference(db: Path) -> None:
    async with opened(db, *wishes(db)) as (pilot, screen):
        seen = []
        for key in ("greater_than_sign", "greater_than_sign", "less_than_sign"):
            await press(pilot, key)
            seen.append(screen.rows.row and (screen.rows.row.a, screen.rows.row.b))
        assert seen == [(3, 2), (3, 2), (0, None)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.pilot
async def test_what_is_in_full_follows_the_cursor(db: Path, size: tuple[int, int]) -> None:
    async with opened(db, *wishes(db), size) as (pilot, screen):
        await press(pilot, "greater_than_sign")
        assert screen.pair.row is screen.rows.row
        assert "warranty Terra Backpack" in str([part.b for part in screen.pair.parts])


@pytest.mark.pilot
async def test_1_and_2_open_that_step_of_either_run(db: Path) -> None:
    a, b = wishes(db)
    for key, run, number in (("1", a, 3), ("2", b, 2)):
        async with opened(db, a, b) as (pilot, _screen):
            await press(pilot, "greater_than_sign", key)
            assert isinstance(pilot.app.screen, TraceScreen)
            assert (pilot.app.screen.trace, pilot.app.screen.step) == (run, number)


@pytest.mark.pilot
async def test_enter_asks_which_where_both_have_the_step(db: Path) -> None:
    a, b = wishes(db)
    async with opened(db, a, b) as (pilot, _screen):
        await press(pilot, "greater_than_sign", "enter")
        assert isinstance(pilot.app.screen, AskBox)
        await press(pilot, "j", "enter")
        assert isinstance(pilot.app.screen, TraceScreen)
        assert pilot.app.screen.trace == b


@pytest.mark.pilot
async def test_enter_opens_the_only_run_that_has_it(db: Path) -> None:
    a, b = wishes(db)
    async with opened(db, a, b) as (pilot, _screen):
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, TraceScreen)
        assert pilot.app.screen.trace == a


@pytest.mark.pilot
async def test_a_step_that_a_run_has_not_is_said_to_be_none(db: Path) -> None:
    async with opened(db, *wishes(db)) as (pilot, screen):
        await press(pilot, "2")
        assert pilot.app.screen is screen
        assert "B has no step in this row." in text(pilot.app)


def long_runs(path: Path) -> Path:
    """Two runs that are the same for eight steps."""
    parts = [step(call("read", path=f"file {number}")) for number in range(8)]
    for trial, last in (("0", "Done."), ("1", step(call("write", path="x")))):
        run = trace([*parts, last])
        put(path, header("26", trial, Outcome(status="failed")), run.spans, diagnose(run))
    return path


@pytest.mark.pilot
async def test_f_and_space_show_what_is_the_same(tmp_path: Path) -> None:
    async with opened(long_runs(tmp_path / "arc.db"), "26/0", "26/1") as (pilot, _screen):
        assert "7 matching steps: A 0–6, B 0–6" in text(pilot.app)
        await press(pilot, "g", "l")
        assert 'read(path="file 3")' in text(pilot.app)
        await press(pilot, "f", "f")
        assert 'read(path="file 3")' not in text(pilot.app)
        await press(pilot, "f")
        assert 'read(path="file 3")' in text(pilot.app)


@pytest.mark.pilot
async def test_folding_keeps_the_cursor_where_it_was(tmp_path: Path) -> None:
    async with opened(long_runs(tmp_path / "arc.db"), "26/0", "26/1") as (pilot, screen):
        row = screen.rows.row
        assert row is not None
        await press(pilot, "f")
        assert screen.rows.row is row
        await press(pilot, "f")
        assert screen.rows.row is row


@pytest.mark.pilot
async def test_tab_goes_to_the_row_in_full_and_y_copies_what_is_in_front(db: Path) -> None:
    async with opened(db, *wishes(db)) as (pilot, screen):
        await press(pilot, "greater_than_sign", "y")
        assert pilot.app.clipboard.startswith("## many-wishes/0 vs. many-wishes/0")
        await press(pilot, "tab", "y")
        assert pilot.app.clipboard.startswith("### step 3 of A, 2 of B")
        await press(pilot, "escape")
        assert screen.rows.has_focus
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, RunsScreen)


@pytest.mark.pilot
async def test_the_prompts_that_differ_are_shown_in_full(db: Path) -> None:
    async with opened(db, *wishes(db)) as (pilot, screen):
        await press(pilot, "g")
        assert "system prompt and tools" in text(pilot.app)
        assert screen.pair.row is None


@pytest.mark.pilot
async def test_an_answer_of_a_free_replay_stands_in_no_run(db: Path) -> None:
    with open_ledger(db) as store:
        a, b = named(store, "refund", "v1"), replayed(store, "free")
    async with opened(db, a, b) as (pilot, screen):
        await press(pilot, "f", "G", "2")
        assert pilot.app.screen is screen
        assert "exists only in the free replay" in text(pilot.app)


@pytest.mark.pilot
async def test_another_run_can_be_named(db: Path) -> None:
    a, b = wishes(db)
    async with opened(db, a, b) as (pilot, screen):
        await press(pilot, "o")
        assert isinstance(pilot.app.screen, AskBox)
        await press(pilot, "tab", *run_of(db, "refund", "v1")[:8], "enter")
        assert screen.view is not None
        assert screen.view.b.task == "refund"


@pytest.mark.pilot
async def test_a_click_twice_on_a_row_opens_it(db: Path) -> None:
    async with opened(db, *wishes(db)) as (pilot, _screen):
        await pilot.click("#rows", offset=(10, 3), times=2)
        await settle(pilot)
        assert isinstance(pilot.app.screen, TraceScreen)


@pytest.mark.pilot
async def test_nothing_that_a_run_says_is_obeyed(tmp_path: Path) -> None:
    db = hostile.database(tmp_path)
    first, second, *_ = hostile.runs_of(db)
    async with opened(db, first, second, (100, 30)) as (pilot, screen):
        app = screen.app
        assert isinstance(app, ArcApp)
        drawn(app, ())
        for key in ("f", "j", "j", "y", "tab", "y", "escape", "o"):
            await press(pilot, key)
            drawn(app, (key,))
