"""The app opened on one run: no list is read or drawn before somebody goes back to it."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from arc_tui.app import ArcApp
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.open import trace_of
from replay.errors import ArcError
from tests.arc_tui import sample
from tests.screen import settle, text


@asynccontextmanager
async def on_a_run(tmp_path: Path) -> AsyncIterator[Pilot[None]]:
    path = tmp_path / "arc.db"
    app = ArcApp(path, trace=sample.put_failed(path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        yield pilot


def test_what_is_neither_a_file_nor_a_run_is_said_with_what_is_near(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    none = "'gone.jsonl' is neither a file nor a run. No runs yet. Try: arc import"
    with pytest.raises(ArcError, match=none):
        trace_of(path, "gone.jsonl")
    key = sample.put_failed(path)
    with pytest.raises(ArcError, match=rf"neither a file nor a run; did you mean {key[:8]} \(26\)"):
        trace_of(path, "gone.jsonl")
    assert trace_of(path, "26/1") == key


@pytest.mark.pilot
async def test_no_list_is_made_and_it_stands_at_the_break(tmp_path: Path) -> None:
    async with on_a_run(tmp_path) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, TraceScreen)
        assert not any(isinstance(each, RunsScreen) for each in pilot.app.screen_stack)
        assert screen.step == screen.view.marked[0]


@pytest.mark.pilot
async def test_escape_goes_to_the_list_and_enter_back(tmp_path: Path) -> None:
    async with on_a_run(tmp_path) as pilot:
        await pilot.press("escape")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)
        assert "26" in text(pilot.app)
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, TraceScreen)
        await pilot.press("escape")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)
        assert len(pilot.app.screen_stack) == 2


@pytest.mark.pilot
async def test_what_is_looked_for_in_all_runs_is_shown_in_the_list(tmp_path: Path) -> None:
    async with on_a_run(tmp_path) as pilot:
        await pilot.press("slash", *"IFOYYZ", "enter")
        await settle(pilot)
        await pilot.press("I")
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)
        assert pilot.app.screen.arrangement.words == '"IFOYYZ"'


@pytest.mark.pilot
async def test_garbage_is_looked_for_once_the_app_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arc_tui.app.UNDER_WAY_S", 0.01)
    gc.disable()
    try:
        async with on_a_run(tmp_path) as pilot:
            while not gc.isenabled():
                await pilot.pause(0.01)
            assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
        gc.enable()


@pytest.mark.pilot
async def test_nothing_is_drawn_before_the_run_and_no_line_that_nobody_types_in_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    styled = list[str]()
    draw_frame, apply = Screen._compositor_refresh, Stylesheet.apply
    drawn: list[Screen[object]] = []

    def drawing(screen: Screen[object]) -> None:
        drawn.append(screen)
        draw_frame(screen)

    def applying(sheet: Stylesheet, node: DOMNode, **options: Any) -> None:
        styled.append(type(node).__name__)
        apply(sheet, node, **options)

    monkeypatch.setattr(Screen, "_compositor_refresh", drawing)
    monkeypatch.setattr(Stylesheet, "apply", applying)
    monkeypatch.setattr("arc_tui.ui.screen.AT_ONCE_S", 600)
    async with on_a_run(tmp_path) as pilot:
        screen = pilot.app.screen
        assert {*drawn} == {screen}
        assert not screen.query(Input)
        assert styled.count("KeyBar") == 2, "once mounted, once when the screen comes to the front"
        await pilot.press("/")
        await settle(pilot)
        assert isinstance(pilot.app.focused, Input)
