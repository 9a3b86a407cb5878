"""The gate screen: two groups are chosen, held against each other, and their runs opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.gate.screen import GateScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.navigation import OpenGate
from arc_tui.settings import Settings
from arc_tui.ui.dialogs import AskBox
from tests.arc_tui.gate_case import SAME, WORSE, put_both
from tests.screen import matches_golden, settle, text

SIZES = [(80, 24), (120, 40), (200, 50)]

MIXED = {
    **dict.fromkeys(list(SAME)[:6], (4, 0)),
    **dict.fromkeys(list(SAME)[6:], (2, 2)),
    "a task with a name that is far too long for its column, and goes on": (4, 0),
}
AFTER = {**WORSE, "task 11": (4, 0), "task 10": (0, 3, 1), "only here": (1,),
    "a task with a name that is far too long for its column, and goes on": (0, 4)}  # fmt: skip


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG_DIR", "DATA_DIR"):
        monkeypatch.setenv(f"ARC_{name}", str(tmp_path))
    return put_both(tmp_path / "arc.db", MIXED, AFTER)


async def open_gate(pilot: Pilot[None], *queries: str) -> GateScreen:
    await settle(pilot)
    pilot.app.screen.post_message(OpenGate(*queries))
    await settle(pilot)
    assert isinstance(pilot.app.screen, GateScreen)
    return pilot.app.screen


@pytest.mark.pilot
@pytest.mark.parametrize("size", SIZES)
async def test_a_regression_looks_like_this(db: Path, size: tuple[int, int]) -> None:
    async with ArcApp(db, settings=Settings()).run_test(size=size) as pilot:
        await open_gate(pilot, "variant=old", "variant=new")
        matches_golden(pilot.app, f"gate_{size[0]}x{size[1]}")


@pytest.mark.pilot
async def test_both_groups_are_chosen_and_the_runs_of_a_task_are_opened(db: Path) -> None:
    async with ArcApp(db, settings=Settings()).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+y")
        await settle(pilot)
        assert isinstance(pilot.app.screen, AskBox)
        assert "variant=old  52 runs · 13 tasks" in text(pilot.app)
        await pilot.press("j", "enter")  # the newest first: old is below new
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, GateScreen)
        assert screen.view is not None
        assert (screen.view.baseline.query, screen.view.candidate.query) == (
            "variant=old", "variant=new",
        )  # fmt: skip
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)
        shown = pilot.app.screen.listed.traces
        worst = screen.view.rows[0]
        assert {*shown} == {*(worst.baseline.traces or ()), *(worst.candidate.traces or ())}


@pytest.mark.pilot
async def test_tasks_that_changed_alone_are_shown_and_it_is_copied_as_markdown(db: Path) -> None:
    async with ArcApp(db, settings=Settings()).run_test(size=(120, 40)) as pilot:
        screen = await open_gate(pilot, "variant=old", "variant=new")
        assert screen.view is not None
        every, changed = screen.rows.row_count, sum(bool(p.change) for p in screen.view.rows)
        assert every > changed
        await pilot.press("f")
        assert screen.rows.row_count == changed
        await pilot.press("f")
        assert screen.rows.row_count == every
        await pilot.press("y")
        assert pilot.app.clipboard.startswith("### arc gate: ")


@pytest.mark.pilot
async def test_groups_that_cannot_be_compared_say_why_and_others_can_be_chosen(db: Path) -> None:
    async with ArcApp(db, settings=Settings()).run_test(size=(80, 24)) as pilot:
        await open_gate(pilot, "variant=old", "variant=none")
        assert "candidate: no run matches 'variant=none'" in text(pilot.app)
        assert "o   other runs" in text(pilot.app)
        await pilot.press("o")
        await settle(pilot)
        assert isinstance(pilot.app.screen, AskBox)
        await pilot.press("tab", *"variant=old", "enter")
        await settle(pilot)
        await pilot.press("tab", *"variant=new task=", '"', *"task 00", '"', "enter")
        await settle(pilot)
        again = pilot.app.screen
        assert isinstance(again, GateScreen)
        assert again.view is not None
        assert again.view.decision.tasks == 1
        await pilot.press("escape")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)


@pytest.mark.pilot
async def test_leaving_the_first_question_leaves_the_screen(db: Path) -> None:
    async with ArcApp(db, settings=Settings()).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+y")
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)
