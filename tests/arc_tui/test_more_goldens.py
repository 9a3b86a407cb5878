"""What stands on the screen in a folder with sessions, on the tour, and where keys are listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc_tui.screens.runs.screen import RunsScreen
from arc_tui.widgets.ask_box import AskBox
from tests.arc_tui.opening import SIZES, looks_like, opened
from tests.arc_tui.test_here import NOON_NS, aged, claude, codex, folder, log
from tests.arc_tui.test_settings_screen import environment, settings
from tests.arc_tui.test_tour import press, touring
from tests.screen import matches_golden, settle

__all__ = ["environment", "folder"]

MINUTE, HOUR, DAY = 60, 3_600, 86_400


@pytest.fixture
def found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions and three logs of a folder, seen at noon."""
    monkeypatch.setattr("arc_tui.screens.runs.opening.now_ns", lambda: NOON_NS)
    sized(claude(folder, "why does the night build fail?"), 48_200, age_s=40)
    sized(codex(folder, "mend the tests"), 9_100, age_s=25 * MINUTE)
    log(folder / "agent.jsonl", age_s=2 * HOUR)
    log(folder / "logs" / "night.jsonl", age_s=DAY)
    log(folder / "logs" / "a-run-with-a-long-name-of-the-tenth-of-march.jsonl", age_s=9 * DAY)


def sized(path: Path, size_bytes: int, *, age_s: int) -> None:
    """The file made that large: what it says of its folder is as long as that is."""
    said = path.read_bytes()
    path.write_bytes(said + b"\n" * (size_bytes - len(said)))
    aged(path, age_s)


@pytest.mark.usefixtures("found")
async def test_what_can_be_opened_here_looks_like_this(tmp_path: Path) -> None:
    async with opened(RunsScreen(tmp_path / "arc.db"), SIZES[0]) as pilot:
        assert isinstance(pilot.app.screen, AskBox)
        await looks_like(pilot, "screen_here")


STOPS = {
    2: ("f", "enter"),
    3: ("c", "C"),
    4: ("2", "1"),
    5: ("e", "ctrl+s", "escape"),
    6: ("t", "h", "escape"),
    "end": ("P",),
}
"""What leads to each stop from the one before; the first has a golden where the tour is tested."""


async def test_each_stop_of_the_tour_looks_like_this(db: Path) -> None:
    async with touring(db) as pilot:
        for stop, keys in STOPS.items():
            await press(pilot, *keys)
            matches_golden(pilot.app, f"tour_{stop}_80x24")


async def test_the_list_of_all_keys_looks_like_this(six_runs: Path) -> None:
    async with settings(six_runs, SIZES[0]) as pilot:
        await pilot.press("d")
        await settle(pilot)
        await looks_like(pilot, "settings_keys")
