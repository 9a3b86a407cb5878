"""The drift screen: two groups are chosen, their environments compared, and runs opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.drift.screen import DriftScreen
from arc_tui.features.gate.screen import GateScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.navigation import OpenDrift, OpenGate
from arc_tui.settings import Settings
from arc_tui.ui.dialogs import AskBox
from tests.arc_tui.drift_case import put_drift
from tests.screen import matches_golden, press, settle, text

pytestmark = pytest.mark.pilot


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG_DIR", "DATA_DIR"):
        monkeypatch.setenv(f"ARC_{name}", str(tmp_path))
    return put_drift(tmp_path / "arc.db")


async def open_drift(pilot: Pilot[None], *queries: str) -> DriftScreen:
    await settle(pilot)
    pilot.app.screen.post_message(OpenDrift(*queries))
    await settle(pilot)
    assert isinstance(pilot.app.screen, DriftScreen)
    return pilot.app.screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_differences_look_like_this(db: Path, size: tuple[int, int]) -> None:
    async with ArcApp(db, settings=Settings()).run_test(size=size) as pilot:
        await open_drift(pilot, "variant=old", "variant=new")
        matches_golden(pilot.app, f"drift_{size[0]}x{size[1]}")


async def test_both_groups_are_chosen_and_the_runs_of_a_difference_opened(db: Path) -> None:
    async with ArcApp(db, settings=Settings()).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "ctrl+v")
        assert isinstance(pilot.app.screen, AskBox)
        assert "variant=old  12 runs · 6 tasks" in text(pilot.app)
        await press(pilot, "j", "enter", "enter")
        screen = pilot.app.screen
        assert isinstance(screen, DriftScreen)
        assert screen.view is not None
        assert (screen.view.request.first, screen.view.request.second) == (
            "variant=old", "variant=new",
        )  # fmt: skip
        await press(pilot, "j")
        row = screen.view.rows[1]
        assert row.change in text(pilot.app)
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, RunsScreen)
        assert {*pilot.app.screen.listed.traces} == {*row.traces}


async def test_a_gate_leads_to_the_environments_of_its_groups(db: Path) -> None:
    async with ArcApp(db, settings=Settings()).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        pilot.app.screen.post_message(OpenGate("variant=old", "variant=new"))
        await settle(pilot)
        assert isinstance(pilot.app.screen, GateScreen)
        await press(pilot, "ctrl+v")
        screen = pilot.app.screen
        assert isinstance(screen, DriftScreen)
        assert screen.view is not None
        assert len(screen.view.rows) == 7
        await press(pilot, "y")
        assert pilot.app.clipboard.startswith("The environments differ beyond chance: 7")
        await press(pilot, "tab", "escape", "escape")
        assert isinstance(pilot.app.screen, GateScreen)


async def test_groups_that_cannot_be_compared_say_why_and_others_can_be_chosen(db: Path) -> None:
    async with ArcApp(db, settings=Settings()).run_test(size=(80, 24)) as pilot:
        await open_drift(pilot, "variant=old", "variant=none")
        assert "B: no run matches 'variant=none'" in text(pilot.app)
        assert "o   other runs" in text(pilot.app)
        await press(pilot, "o")
        assert isinstance(pilot.app.screen, AskBox)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, DriftScreen)


async def test_leaving_the_first_question_leaves_the_screen(db: Path) -> None:
    async with ArcApp(db, settings=Settings()).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "ctrl+v", "escape")
        assert isinstance(pilot.app.screen, RunsScreen)
