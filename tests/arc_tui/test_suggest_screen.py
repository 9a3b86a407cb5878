"""The screen of suggested edits: what it shows before, while and after they are tested."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.edit_test.suggest.screen import SuggestScreen
from arc_tui.features.replay.screen import ReplayScreen
from arc_tui.settings import Settings
from replay.store.edits import listed
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui import try_case
from tests.arc_tui.test_suggesting import HEALTHY, LOOPS, writes
from tests.messages_api import MessagesApi
from tests.replay.live_case import MODEL
from tests.screen import matches_golden, settle, text

pytestmark = pytest.mark.pilot


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suggest") / "arc.db"
    try_case.put(path, *LOOPS, *HEALTHY)
    return path


@pytest.fixture
def db(shared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(shared, tmp_path / "arc.db"))


@asynccontextmanager
async def opened(
    db: Path,
    size: tuple[int, int] = (120, 40),
    model: str = "demo",
    names: tuple[str, ...] = LOOPS,
) -> AsyncIterator[tuple[Pilot[None], SuggestScreen]]:
    with open_ledger(db) as store:
        known = dict(store.db.execute("SELECT source_id, trace FROM trace_summary").fetchall())
    app = ArcApp(db, settings=Settings())
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        screen = SuggestScreen(db, "loop", [known[name] for name in names])
        screen.request = structs.replace(screen.request, model=model)
        await app.push_screen(screen)
        await settle(pilot)
        await settle(pilot)
        yield pilot, screen


def at(screen: SuggestScreen) -> str:
    return screen.state.phase


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)
        await settle(pilot)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_before_and_after_the_edits_are_tested_it_looks_like_this(
    db: Path, size: tuple[int, int]
) -> None:
    name = f"{size[0]}x{size[1]}"
    async with opened(db, size) as (pilot, screen):
        assert at(screen) == "idle"
        matches_golden(pilot.app, f"suggest_ready_{name}")
        await press(pilot, "r")
        assert at(screen) == "done"
        matches_golden(pilot.app, f"suggest_tested_{name}")


async def test_the_diff_and_the_evidence_are_those_of_the_row_under_the_cursor(db: Path) -> None:
    async with opened(db) as (pilot, _):
        await press(pilot, "r")
        assert "+Never make the same call twice" in text(pilot.app)
        assert "If `find_orders` fails" in text(pilot.app)
        assert "Fix: on 2 tasks held back" in text(pilot.app)
        await press(pilot, "j")
        assert "If `search_help` fails" in text(pilot.app)
        assert "Not looked at further" in text(pilot.app)


async def test_enter_puts_the_edit_into_the_replay_editor_and_saves_nothing(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        edit = screen.rows.row
        assert edit is not None
        await press(pilot, "enter")
        replay = pilot.app.screen
        assert isinstance(replay, ReplayScreen)
        assert (replay.trace, replay.step_here) == (edit.trace, edit.step)
        assert replay.draft.edit is not None
        assert replay.draft.edit.changes == edit.changes
        assert "● system prompt" in text(pilot.app)
        assert "Never make the same call twice" in replay.edit_pane.area.text
    with open_ledger(db) as store:
        assert listed(store) == []


async def test_what_was_tested_before_is_shown_at_once_with_its_day(db: Path) -> None:
    async with opened(db) as (pilot, _):
        await press(pilot, "r")
    async with opened(db) as (pilot, screen):
        assert screen.state.phase == "idle"
        assert "Tested 20" in text(pilot.app)
        assert "✓ fix" in text(pilot.app)


async def test_of_a_run_without_an_edit_the_reason_is_shown(db: Path) -> None:
    with open_ledger(db) as store:
        names = dict(store.db.execute("SELECT source_id, trace FROM trace_summary").fetchall())
        try_case.tagged(store, names[LOOPS[0]], 2, FailureClass.OTHER)
    async with opened(db, names=LOOPS[:1]) as (pilot, _):
        assert "No edit to suggest." in text(pilot.app)
        assert "no edit for 1 run: “other” names no failure" in text(pilot.app)
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, SuggestScreen)


async def test_a_server_is_asked_only_under_a_limit(db: Path, api: MessagesApi) -> None:
    async with opened(db, model=MODEL) as (pilot, screen):
        await pilot.press("r")
        while pilot.app.screen is screen:  # the worker waits for the dialog
            await pilot.pause()
        assert "calls to" in text(pilot.app)
        await press(pilot, "escape")
        assert api.asked == 0
        assert at(screen) == "failed"
        assert "r run again with a limit" in text(pilot.app)


async def test_a_model_proposes_edits_under_a_limit_and_how_far_it_is_is_shown(
    db: Path, api: MessagesApi
) -> None:
    api.policy = writes
    async with opened(db) as (pilot, screen):
        seen: list[str] = []
        screen.watch(screen, "state", lambda state: seen.append(state.view.doing), init=False)
        screen.change_request(samples=2, proposals=2, controls=0)
        await press(pilot, "i", *MODEL, "enter")
        assert screen.request.reflect == MODEL
        assert "r test 2 edits and up to 2 proposals by" in text(pilot.app)
        await pilot.press("r")
        while pilot.app.screen is screen:  # the worker waits for the dialog
            await pilot.pause()
        assert f"calls to demo and {MODEL}" in " ".join(text(pilot.app).split())
        await pilot.press(*"99", "space", *"calls", "enter")
        while at(screen) == "idle" or screen.state.running:
            await pilot.pause()
        assert at(screen) == "done"
        assert screen.state.view.proposed == 2 == api.asked
        assert "Reflecting, proposal 1 of 2, step" in seen
        assert "Reflecting, proposal 2 of 2, step" in seen
        await press(pilot, "i", "enter")
        assert screen.request.reflect is None


async def test_an_edit_is_saved_under_the_name_that_is_given(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        edit = screen.rows.row
        assert edit is not None
        await press(pilot, "o", "escape")
        with open_ledger(db) as store:
            assert listed(store) == []
        await press(pilot, "o", "ctrl+u", *"mine", "enter")
        assert "Saved: mine." in text(pilot.app)
    with open_ledger(db) as store:
        (kept,) = listed(store)
    assert (kept.name, kept.changes) == ("mine", edit.changes)


async def test_without_an_edit_there_is_nothing_to_save(db: Path) -> None:
    with open_ledger(db) as store:
        names = dict(store.db.execute("SELECT source_id, trace FROM trace_summary").fetchall())
        try_case.tagged(store, names[LOOPS[0]], 2, FailureClass.OTHER)
    async with opened(db, names=LOOPS[:1]) as (pilot, screen):
        await press(pilot, "o")
        assert pilot.app.screen is screen
        assert "No edit to save." in text(pilot.app)


async def test_it_is_reached_from_a_run_by_its_key(db: Path) -> None:
    async with opened(db) as (pilot, _):
        await press(pilot, "escape", "enter", "ctrl+e")
        screen = pilot.app.screen
        assert isinstance(screen, SuggestScreen)
        assert len(screen.request.traces or ()) == 1
        assert "nothing can be held back" in text(pilot.app) or "passed" in text(pilot.app)
