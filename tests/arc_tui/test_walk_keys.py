"""What keys do that lead through a screen: rows, steps, pages, texts, and what they ask first."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc_tui.screens.calibration import CalibrationScreen
from arc_tui.screens.replay.screen import ReplayScreen
from arc_tui.screens.runs.screen import RunsScreen
from arc_tui.screens.trace.screen import TraceScreen
from arc_tui.widgets.ask_box import AskBox
from arc_tui.widgets.attach_box import AttachBox
from arc_tui.widgets.failures.runs import FailureRuns
from arc_tui.widgets.replay.prompt_area import PromptArea
from arc_tui.widgets.replay.target_list import TargetList
from tests.arc_tui.test_every_screen import LARGE, RUNS, at, by_key, demo, environment, unprompted
from tests.screen import settle, text

__all__ = ["demo", "environment", "unprompted"]


async def test_a_page_down_and_up_go_to_the_ends_of_a_short_list(demo: Path) -> None:
    async with at(demo, (), LARGE) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, RunsScreen)
        await by_key(pilot, "row.page_down")
        assert screen.table.cursor == len(RUNS) - 1
        await by_key(pilot, "row.page_up")
        assert screen.table.cursor == 0


async def test_a_step_on_and_one_back_end_where_they_began(demo: Path) -> None:
    async with at(demo, ("runs.open",), LARGE) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, TraceScreen)
        first = screen.step
        await by_key(pilot, "trace.step_next")
        assert screen.step == first + 1
        await by_key(pilot, "trace.step_before")
        assert screen.step == first


async def test_every_page_of_a_calibration_has_its_digit(demo: Path) -> None:
    async with at(demo, ("runs.calibration",), LARGE) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, CalibrationScreen)
        for page in (5, 4, 3, 2, 1):
            await by_key(pilot, f"calibration.page_{page}")
            assert screen.tab == page - 1


async def test_texts_to_edit_are_chosen_by_arrow_and_digit(demo: Path) -> None:
    async with at(demo, ("runs.open", "trace.edit"), LARGE) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, ReplayScreen)
        texts = screen.query_one(TargetList)
        texts.focus()
        await settle(pilot)
        for name, place in (("next", 1), ("next", 2), ("before", 1), ("5", 4), ("1", 0)):
            await by_key(pilot, f"targets.{name}")
            assert texts.cursor == place
        await by_key(pilot, "targets.choose")
        assert isinstance(screen.focused, PromptArea)
        await by_key(pilot, "replay.pane_before")
        assert texts.has_focus


async def test_what_is_missing_can_be_attached_later(unprompted: Path) -> None:
    async with at(unprompted, ("runs.open", "trace.edit", "attach.leave"), LARGE) as pilot:
        assert isinstance(pilot.app.screen, ReplayScreen)
        await by_key(pilot, "replay.attach")
        assert isinstance(pilot.app.screen, AttachBox)


@pytest.mark.parametrize(
    ("way", "name"),
    [
        ("runs.open trace.bisect ask.choose", "bisect.model"),
        ("runs.open trace.bisect ask.choose", "bisect.choose"),
        ("runs.open trace.bisect_steps", "steps.model"),
        ("runs.open trace.probes", "probe.model"),
        ("runs.open trace.money", "money.route"),
        ("runs.failures failures.try", "try.model"),
    ],
)
async def test_a_key_that_asks_asks_and_changes_nothing_when_it_is_left(
    way: str, name: str, demo: Path
) -> None:
    async with at(demo, tuple(way.split()), LARGE) as pilot:
        screen = pilot.app.screen
        await by_key(pilot, name)
        assert isinstance(pilot.app.screen, AskBox)
        await by_key(pilot, "ask.leave")
        assert pilot.app.screen is screen


@pytest.mark.parametrize(
    ("way", "name"),
    [("runs.calibration", "calibration.copy"), ("runs.open trace.money", "money.copy")],
)
async def test_what_is_shown_is_copied(way: str, name: str, demo: Path) -> None:
    async with at(demo, tuple(way.split()), LARGE) as pilot:
        await by_key(pilot, name)
        copied = pilot.app.clipboard.split("\n")
        shown = text(pilot.app)
        assert any(line.strip() and line.strip() in shown for line in copied)


async def test_tab_goes_from_the_bars_to_the_runs_behind_one_and_back(demo: Path) -> None:
    async with at(demo, ("runs.failures",), LARGE) as pilot:
        first = pilot.app.screen.focused
        await by_key(pilot, "failures.pane")
        second = pilot.app.screen.focused
        assert isinstance(second, FailureRuns)
        await by_key(pilot, "failures.pane")
        assert pilot.app.screen.focused is first
