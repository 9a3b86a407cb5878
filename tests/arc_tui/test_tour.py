"""The guided tour: what it says on each screen, and that doing it leads on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.failures.screen import FailuresScreen
from arc_tui.features.replay.screen import ReplayScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.importing import import_paths
from arc_tui.places import fixtures
from arc_tui.settings import Settings
from arc_tui.tour import STOPS, TourStrip
from arc_tui.ui.keymap import bound
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import human_tags
from tests.arc_tui.opening import looks_like
from tests.screen import matches_golden, rows, settle, text


@asynccontextmanager
async def touring(
    db: Path, size: tuple[int, int] = (80, 24), using: Settings | None = None
) -> AsyncIterator[Pilot[None]]:
    """The app with the tour begun; toasts, which may cover its line for a while, are not drawn."""
    app = ArcApp(db, demo=True, tour=True, settings=using or Settings())
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield pilot


def said(pilot: Pilot[None]) -> str:
    """The line of the tour, "" where there is none."""
    found = [row.strip() for row in rows(pilot.app) if row.strip().startswith("tour ")]
    assert len(found) <= 1
    return found[0] if found else ""


async def press(pilot: Pilot[None], *keys: str) -> str:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)
    return said(pilot)


def test_it_has_six_stops_and_every_key_of_it_is_one() -> None:
    assert len(STOPS) == 6
    assert all(move.key in bound() for stop in STOPS for move in stop)
    places = {move.place for stop in STOPS for move in stop}
    assert places == {RunsScreen.HELP, TraceScreen.HELP, ReplayScreen.HELP}


@pytest.mark.pilot
async def test_the_line_stands_above_the_keys(db: Path) -> None:
    async with touring(db, (120, 40)) as pilot:
        await looks_like(pilot, "tour_runs")


TO_STOPS = {
    2: ("f", "enter"),
    3: ("c", "C"),
    4: ("2", "1"),
    5: ("e", "ctrl+s", "escape"),
    6: ("t", "h", "escape"),
    "end": ("A",),
}
"""What leads to each stop from the one before."""


@pytest.mark.pilot
async def test_each_stop_looks_like_this(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_USER", "tester")
    async with touring(db) as pilot:
        for stop, keys in TO_STOPS.items():
            await press(pilot, *keys)
            matches_golden(pilot.app, f"tour_{stop}_80x24")


@pytest.mark.pilot
async def test_whoever_does_what_it_says_comes_through_the_whole_loop(db: Path) -> None:
    async with touring(db) as pilot:
        assert said(pilot).startswith("tour 1/6  f shows failed runs only")
        assert (await press(pilot, "f")).startswith("tour 1/6  ⏎ opens")
        assert (await press(pilot, "enter")).startswith(
            "tour 2/6  c goes to the next break candidate"
        )
        assert (await press(pilot, "c")).startswith("tour 2/6  C goes back to the first")
        assert (await press(pilot, "C")).startswith("tour 3/6  2 shows the request")
        assert (await press(pilot, "2")).startswith("tour 3/6  1 shows why")
        assert (await press(pilot, "1")).startswith("tour 4/6  e edits")
        assert (await press(pilot, "e")).startswith("tour 4/6  ^s replays on the demo model")
        assert await press(pilot, "ctrl+s") == "tour 5/6  esc goes back to the run"
        assert "sha256:" in text(pilot.app)
        assert (await press(pilot, "escape")).startswith("tour 5/6  t and a letter")
        assert (await press(pilot, "t", "h")).startswith("tour 6/6  esc goes back to the runs")
        with open_ledger(db) as store:
            assert len(human_tags(store)) == 1, "everything was really done"
        assert (await press(pilot, "escape")).startswith("tour 6/6  A counts the failure classes")
        done = await press(pilot, "A")
        assert "done: break, cause" in done
        assert "^g ends the tour" in done
        assert isinstance(pilot.app.screen, FailuresScreen)
        assert "done: break, cause" in await press(pilot, "escape")
        assert await press(pilot, "ctrl+g") == ""


@pytest.mark.pilot
async def test_it_leads_to_a_run_whose_break_is_shown_wherever_that_stands_in_the_list(
    tmp_path: Path,
) -> None:
    path = tmp_path / "arc.db"
    names = ("big-refund-v3-0", "many-wishes-v5-1", "many-wishes-v5-0", "stock-v4-0")
    with open_ledger(path) as store:
        files = [fixtures() / "traces" / f"shop-{each}.jsonl" for each in names]
        for _ in import_paths(store, files):
            pass
    async with touring(path) as pilot:
        await press(pilot, "f", "enter")
        assert "many-wishes · trial 0 ·" in text(pilot.app)
        assert "amount 7500 not found in context" in text(pilot.app)


@pytest.mark.pilot
async def test_another_key_does_what_it_does_and_the_line_waits(db: Path) -> None:
    async with touring(db) as pilot:
        before = said(pilot)
        assert await press(pilot, "j", "S") == before
        assert (await press(pilot, "enter")) == "tour 1/6  esc goes back to the runs"
        assert await press(pilot, "escape") == before


@pytest.mark.pilot
async def test_who_leaves_in_the_middle_of_a_stop_is_led_back_into_it(db: Path) -> None:
    async with touring(db) as pilot:
        await press(pilot, "f", "enter", "c", "C", "2", "1", "e")
        assert said(pilot).startswith("tour 4/6  ^s")
        assert (await press(pilot, "escape")).startswith("tour 4/6  e edits")
        assert (await press(pilot, "e")).startswith("tour 4/6  ^s")


@pytest.mark.pilot
async def test_its_key_ends_it_and_neither_escape_nor_q_does(db: Path) -> None:
    async with touring(db) as pilot:
        assert "^g ends the tour" in said(pilot)
        await press(pilot, "slash", "x")
        assert (await press(pilot, "escape")) != "", "it closed the line"
        assert (await press(pilot, "escape", "q")) != ""
        assert await press(pilot, "ctrl+g") == ""
        assert not pilot.app.screen.query(TourStrip)
        assert (await press(pilot, "ctrl+g")).startswith("tour 1/6")


@pytest.mark.pilot
async def test_inside_it_escape_goes_back_and_ends_nothing(db: Path) -> None:
    async with touring(db) as pilot:
        assert (await press(pilot, "f", "enter")).startswith("tour 2/6")
        assert "ends" not in said(pilot)
        assert await press(pilot, "escape") == "tour 2/6  ⏎ opens the run again"
        assert isinstance(pilot.app.screen, RunsScreen)
        assert (await press(pilot, "escape")).startswith("tour 2/6  ⏎ opens"), "nor a second time"
        assert (await press(pilot, "enter")).startswith("tour 2/6  c goes to")
        await press(pilot, "c", "C", "2", "1", "e", "escape")
        assert (await press(pilot, "escape")) == "tour 4/6  ⏎ opens the run again"
        assert (await press(pilot, "enter")).startswith("tour 4/6  e edits")


@pytest.mark.pilot
async def test_it_shows_the_keys_that_were_set(db: Path) -> None:
    async with touring(db, using=Settings(keymap={"runs.failed": "f7"})) as pilot:
        assert said(pilot).startswith("tour 1/6  f7 shows")
        assert (await press(pilot, "f7")).startswith("tour 1/6  ⏎")


@pytest.mark.pilot
@pytest.mark.parametrize("key", ["ctrl+g", "palette"])
async def test_it_can_be_called_from_any_database_and_opens_the_bundled_runs(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, db: Path
) -> None:
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path))
    db.rename(tmp_path / "demo.db")
    app = ArcApp(tmp_path / "other.db")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "escape")
        keys = ("ctrl+p", *"guided", "enter") if key == "palette" else (key,)
        assert (await press(pilot, *keys)).startswith("tour 1/6")
        assert "demo.db" in rows(app)[0]
