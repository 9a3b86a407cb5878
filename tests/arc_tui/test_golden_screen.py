"""The golden screen: a task is made from a run, and nothing is written before enter."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.golden.screen import GoldenScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.settings import Settings
from arc_tui.ui.dialogs import AskBox
from replay.store.rows import trace_row
from taxonomy.classes import FailureClass
from taxonomy.golden.sets import JudgeCheck, RuleCheck, read_set
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, put_tag
from tests.arc_tui.free_case import put_bundled
from tests.screen import matches_golden, settle, text

LOOP, PASSED = "shop-warranty-v3-0", "shop-many-wishes-v8-0"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("golden") / "arc.db"
    put_bundled(path, LOOP, PASSED)
    return path


@pytest.fixture
def folder(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "arc.db").write_bytes(runs.read_bytes())
    monkeypatch.chdir(tmp_path)
    for name, value in (("CONFIG_DIR", tmp_path), ("DATA_DIR", tmp_path), ("USER", "tester")):
        monkeypatch.setenv(f"ARC_{name}", str(value))
    return tmp_path


@asynccontextmanager
async def on_run(
    folder: Path, source: str, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[Pilot[None]]:
    app = ArcApp(folder / "arc.db", settings=Settings())
    with open_ledger(folder / "arc.db") as store:
        key = trace_row(store, source).trace
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        await app.push_screen(TraceScreen(app.path, key, None))
        await settle(pilot)
        yield pilot


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


@pytest.mark.pilot
async def test_a_task_is_made_of_a_run_once_it_is_accepted(folder: Path) -> None:
    async with on_run(folder, LOOP) as pilot:
        await press(pilot, "ctrl+n")
        assert isinstance(pilot.app.screen, AskBox)
        assert "check: rule absent: loop" in text(pilot.app)
        assert "does not meet the checks" in text(pilot.app)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, GoldenScreen)
        assert "No golden tasks in golden yet." in text(pilot.app)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, TraceScreen)
        assert not (folder / "golden").exists()
        await press(pilot, "ctrl+n", "enter")
        assert "added: task warranty" in text(pilot.app)
        assert read_set(folder / "golden").task("warranty").check == (RuleCheck(absent="loop"),)
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, TraceScreen)


@pytest.mark.pilot
async def test_where_nothing_is_known_a_check_is_asked_for(folder: Path) -> None:
    async with on_run(folder, PASSED) as pilot:
        await press(pilot, "ctrl+n")
        assert "no check can be prefilled" in text(pilot.app)
        await press(pilot, *"vibes:x", "enter")
        assert "kind unknown" in text(pilot.app)
        assert not (folder / "golden").exists()
        await press(pilot, "escape", "ctrl+n")
        assert isinstance(pilot.app.screen, AskBox)
        await press(pilot, *"judge:kind?", "enter")
        assert "check: judge: kind? [given]" in text(pilot.app)
        await press(pilot, "enter")
        (task,) = read_set(folder / "golden").tasks
        assert task.check == (JudgeCheck(item="kind?"),)


@pytest.mark.pilot
async def test_the_tag_of_the_step_says_what_the_task_is_about(folder: Path) -> None:
    with open_ledger(folder / "arc.db") as store:
        key = trace_row(store, LOOP).trace
        for step, failure in ((0, FailureClass.WRONG_TOOL), (1, FailureClass.GAVE_UP)):
            put_tag(store, Tag(trace=key, span=f"s{step}", step=step, failure=failure, by="ann"))
    async with on_run(folder, LOOP) as pilot:
        await press(pilot, "g", "J")
        assert isinstance(pilot.app.screen, TraceScreen)
        step = pilot.app.screen.spans.step
        await press(pilot, "ctrl+n", "enter")
    (task,) = read_set(folder / "golden").tasks
    assert task.origin is not None
    assert (task.origin.step, task.origin.by) == (step, "ann")


@pytest.mark.pilot
async def test_a_set_that_cannot_be_read_is_said(folder: Path) -> None:
    (folder / "golden").mkdir()
    (folder / "golden" / "manifest.toml").write_text("<<<<<<< ours\n")
    async with on_run(folder, LOOP) as pilot:
        await press(pilot, "escape", "ctrl+n")
        assert "has the marks of a merge conflict" in " ".join(text(pilot.app).split())


@pytest.mark.pilot
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_screen_shows_tasks_findings_and_classes(
    folder: Path, size: tuple[int, int]
) -> None:
    async with on_run(folder, LOOP, size) as pilot:
        await press(pilot, "ctrl+n", "enter")
        pilot.app.clear_notifications()
        await settle(pilot)
        matches_golden(pilot.app, f"golden_tasks_{size[0]}x{size[1]}")
    assert os.listdir(folder / "golden")
