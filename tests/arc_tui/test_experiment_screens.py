"""What every screen that calls a model keeps to, whichever experiment it shows. A new one is a row
of the table."""

from __future__ import annotations

import pkgutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.widgets import Input

from arc_tui import features
from arc_tui.experiments.request import ReplayRequest
from arc_tui.experiments.screen import ExperimentScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.ui.dialogs import AskBox
from replay.errors import ArcError
from tests.arc_tui.test_every_screen import LARGE, SMALL, at, by_key, demo, environment
from tests.screen import settle, text

__all__ = ["demo", "environment"]

SCREENS = {
    "replay": ("runs.open", "trace.replay"),
    "free": ("runs.open", "trace.free"),
    "bisect": ("runs.open", "trace.bisect", "ask.choose"),
    "steps": ("runs.open", "trace.bisect_steps", "steps.detector_next"),
    "probe": ("runs.open", "trace.probes"),
    "try": ("runs.failures", "failures.try"),
    "classify": ("runs.failures", "failures.classify"),
    "suggest": ("runs.failures", "failures.suggest"),
}
"""How each is reached by keys; its own keys' ids begin with its name."""

every_screen = pytest.mark.parametrize("name", SCREENS)


@asynccontextmanager
async def opened(
    demo: Path, name: str, size: tuple[int, int] = LARGE
) -> AsyncIterator[tuple[Pilot[None], ExperimentScreen[Any]]]:
    async with at(demo, SCREENS[name], size) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, ExperimentScreen)
        yield pilot, screen


def offered(pilot: Pilot[None]) -> set[str]:
    """What can be done: the ids of the keys without the screen's name."""
    active = pilot.app.screen.active_bindings.values()
    ids = (each.binding.id or "" for each in active if each.enabled)
    return {each.partition(".")[2] for each in ids}


def test_every_screen_that_calls_a_model_is_in_the_table() -> None:
    for found in pkgutil.walk_packages(features.__path__, "arc_tui.features."):
        if found.name.endswith(".screen"):
            import_module(found.name)
    assert len(ExperimentScreen.__subclasses__()) == len(SCREENS)


@pytest.mark.pilot
@every_screen
async def test_opened_it_waits_for_a_key(demo: Path, name: str) -> None:
    async with opened(demo, name) as (pilot, screen):
        assert screen.spending is None
        assert not screen.state.running
        assert "run" in offered(pilot)
        assert "stop" not in offered(pilot)


@every_screen
@pytest.mark.pilot
async def test_while_it_runs_it_can_be_stopped_and_neither_left_nor_changed(
    demo: Path, name: str
) -> None:
    async with opened(demo, name) as (pilot, screen):
        at_rest = screen.state.phase
        screen.change(phase="running")
        await settle(pilot)
        assert "stop" in offered(pilot)
        assert offered(pilot).isdisjoint({"run", "model", "samples"})
        for key in ("escape", "q"):
            await pilot.press(key)
            await settle(pilot)
            assert pilot.app.screen is screen
            assert "A run is in progress. x stops it." in text(pilot.app)
        screen.change(phase=at_rest)
        await settle(pilot)
        assert "run" in offered(pilot)


@pytest.mark.pilot
@every_screen
@pytest.mark.parametrize("key", ["escape", "q"])
async def test_at_rest_it_is_left_by_the_keys_that_go_back(demo: Path, name: str, key: str) -> None:
    async with opened(demo, name) as (pilot, screen):
        for _ in range(2):  # the first leaves a pane, where one has the keys
            if pilot.app.screen is screen:
                await pilot.press(key)
                await settle(pilot)
        assert screen not in pilot.app.screen_stack


@pytest.mark.pilot
@every_screen
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
async def test_what_went_wrong_is_said_with_what_to_do_and_it_can_be_run_again(
    demo: Path, name: str, size: tuple[int, int]
) -> None:
    async with opened(demo, name, size) as (pilot, screen):
        screen.show_error(ArcError("The server is down.", "wait a moment"))
        await settle(pilot)
        assert "The server is down" in text(pilot.app)
        assert "wait a moment" in text(pilot.app)
        assert "run" in offered(pilot)


@pytest.mark.pilot
@every_screen
async def test_another_model_is_chosen_in_a_dialog_and_not_called_yet(
    demo: Path, name: str
) -> None:
    async with opened(demo, name) as (pilot, screen):
        before = structs.asdict(screen.request)
        for answer in (None, "a-model"):
            await by_key(pilot, f"{name}.model")
            box = pilot.app.screen
            assert isinstance(box, AskBox)
            if answer is None:
                await pilot.press("escape")
            else:
                box.query_one(Input).value = answer
                box.query_one(Input).focus()
                await pilot.press("enter")
            await settle(pilot)
            assert structs.asdict(screen.request) == before | (
                {} if answer is None else {"model": answer}
            )
        assert screen.spending is None


@pytest.mark.pilot
async def test_a_run_that_is_stopped_before_it_begins_ends_all_the_same(demo: Path) -> None:
    async with opened(demo, "replay") as (pilot, screen):
        screen.change(phase="running")
        screen.start(lambda *_: (_ for _ in ()), ReplayRequest(trace="none"))
        screen.action_stop()
        await settle(pilot)
        assert screen.state.phase in ("stopped", "done")


@pytest.mark.pilot
async def test_an_import_that_is_stopped_before_it_begins_ends_all_the_same(demo: Path) -> None:
    async with at(demo, (), LARGE) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, RunsScreen)
        assert not screen.has_job
        screen._start_import()
        screen.action_stop()
        assert screen.has_job
        await settle(pilot)
        assert not screen.has_job
