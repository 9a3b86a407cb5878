"""What takes longer than a moment says so on the line of keys, and x stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.failures.screen import FailuresScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.ui import screen
from replay.store import connection
from replay.store.handle import Store
from tests.arc_tui.opening import PATIENCE_S, until
from tests.screen import settle, text

SAID = "x stop reading…"
FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture(autouse=True)
def no_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is not answered at once takes long, and what never ends is not ended for that."""
    monkeypatch.setattr(screen, "MOMENT_S", 0.02)
    monkeypatch.setattr(connection, "FREE_STEPS", 10**15)


class Endless:
    """A question that SQLite never answers; `ended` is set once it was stopped."""

    def __init__(self) -> None:
        self.begun, self.ended = Event(), Event()

    def __call__(self, store: Store, *_: object, **__: object) -> None:
        self.begun.set()
        try:
            store.db.execute(FOREVER).fetchone()
        finally:
            self.ended.set()


@pytest.fixture
def endless() -> Iterator[Endless]:
    question = Endless()
    yield question
    assert not question.begun.is_set() or question.ended.wait(PATIENCE_S)


async def stopped(pilot: Pilot[None], question: Endless) -> None:
    """Press x and wait for the end of the statement."""
    await pilot.press("x")
    async with asyncio.timeout(PATIENCE_S):
        while not question.ended.is_set():
            await pilot.pause(0.01)
    await settle(pilot)


@pytest.mark.pilot
async def test_a_screen_that_was_not_told_anything_yet_is_left(
    six_runs: Path, endless: Endless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arc_tui.features.failures.screen.build_failures", endless)
    async with ArcApp(six_runs).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("A")
        await until(pilot, SAID)
        assert isinstance(pilot.app.screen, FailuresScreen)
        await stopped(pilot, endless)
        assert isinstance(pilot.app.screen, RunsScreen)
        assert SAID not in text(pilot.app)


@pytest.mark.pilot
async def test_what_was_shown_stays_where_another_question_is_stopped(
    six_runs: Path, endless: Endless, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ArcApp(six_runs).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("A")
        await settle(pilot)
        before = text(pilot.app)
        with monkeypatch.context() as patched:
            patched.setattr("arc_tui.features.failures.screen.build_failures", endless)
            await pilot.press("v", "1")
            await until(pilot, SAID)
            await stopped(pilot, endless)
        assert text(pilot.app) == before
        await pilot.press("ctrl+r")
        await settle(pilot)
        assert "by tool" in text(pilot.app), "it is asked again"


@pytest.mark.pilot
async def test_the_list_of_runs_stays_and_can_be_read_again(
    six_runs: Path, endless: Endless, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("arc_tui.features.runs.screen.build_runs", endless)
        async with ArcApp(six_runs).run_test(size=(80, 24)) as pilot:
            await until(pilot, SAID)
            assert "Loading runs." in text(pilot.app)
            await stopped(pilot, endless)
            assert isinstance(pilot.app.screen, RunsScreen)
            assert "Loading stopped." in text(pilot.app)
            patched.undo()
            await pilot.press("ctrl+r")
            await settle(pilot)
            assert "cost ≥ $0.27" in text(pilot.app)


@pytest.mark.pilot
async def test_what_is_answered_in_time_says_nothing(
    six_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "MOMENT_S", PATIENCE_S)
    async with ArcApp(six_runs).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert not pilot.app.screen._questions  # type: ignore[attr-defined]
        await pilot.press("A")
        await settle(pilot)
        assert SAID not in text(pilot.app)


@pytest.mark.pilot
async def test_a_click_on_it_stops_too(
    six_runs: Path, endless: Endless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arc_tui.features.failures.screen.build_failures", endless)
    async with ArcApp(six_runs).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("A")
        await until(pilot, SAID)
        await pilot.click("KeyBar", offset=(3, 0))
        async with asyncio.timeout(PATIENCE_S):
            while not endless.ended.is_set():
                await pilot.pause(0.01)
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)


@pytest.mark.parametrize(
    ("run", "opens"),
    [
        (None, "arc_tui.features.runs.screen.build_runs"),
        ("x", "arc_tui.features.trace.screen.build_beginning"),
    ],
)
@pytest.mark.pilot
async def test_what_the_app_opens_on_says_that_it_is_loading_before_it_is_read(
    six_runs: Path, endless: Endless, monkeypatch: pytest.MonkeyPatch, run: str | None, opens: str
) -> None:
    monkeypatch.setattr(opens, endless)
    async with ArcApp(six_runs, trace=run).run_test(size=(80, 24)) as pilot:
        await until(pilot, "Loading run")
        shown = pilot.app.screen
        assert isinstance(shown, screen.ArcScreen)
        assert "no failed runs" not in text(pilot.app)
        await until(pilot, SAID)
        await stopped(pilot, endless)
