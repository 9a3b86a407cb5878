"""The failures screen: what it shows at two sizes, and what its keys do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from arc_tui.app import ArcApp
from arc_tui.cli import diagnose_new
from arc_tui.features.failures.screen import FailuresScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.views.failures import is_here
from taxonomy.classes import FailureClass
from taxonomy.judgements.scans import (
    Partition,
    ScanFinding,
    ScannedRun,
    ScanQuestion,
    begin_scan,
    finish_scan,
    keep_partition,
)
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui import failures_case
from tests.arc_tui.layers_case import put_pyramid
from tests.screen import matches_golden, press, rows, settle
from tests.screen import text as drawn


class Opener(ArcApp):
    """The app over a blank screen."""

    def get_default_screen(self) -> Screen[None]:
        return Screen()


Opened = tuple[Pilot[None], FailuresScreen]


@asynccontextmanager
async def opened(path: Path, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Opened]:
    app = Opener(path)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = FailuresScreen(path)
        app.push_screen(screen)
        await settle(pilot)
        await settle(pilot)
        yield pilot, screen


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read only."""
    path = tmp_path_factory.mktemp("db") / "arc.db"
    failures_case.put(path)
    return path


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_CONFIG_DIR", failures_case.configured(tmp_path / "settings"))


def here(screen: FailuresScreen) -> str:
    return screen.bars.bar.label if screen.bars.bar is not None else ""


def focused(screen: FailuresScreen) -> str | None:
    return screen.focused.id if screen.focused is not None else None


def labels(screen: FailuresScreen) -> list[str]:
    return [row.label for row in screen.bars.bars]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.pilot
async def test_the_screen_looks_like_this(db: Path, size: tuple[int, int]) -> None:
    async with opened(db, size) as (pilot, _):
        matches_golden(pilot.app, f"failures_{size[0]}x{size[1]}")


@pytest.mark.pilot
async def test_the_runs_and_the_card_follow_the_cursor_past_the_heading(db: Path) -> None:
    async with opened(db, (160, 48)) as (pilot, screen):
        assert labels(screen)[-3:] == [
            "not attributed to the agent",
            "other / premise not checked (user)",
            "not yet tagged",
        ]
        screen.bars.cursor = 1
        await press(pilot, "j")
        assert here(screen) == "other / premise not checked (user)"
        assert "attribution: user; a prompt edit cannot fix it" in drawn(pilot.app)
        assert "the user asked for another trip" in drawn(pilot.app)
        await press(pilot, "k")
        assert here(screen) == "wrong tool"
        await press(pilot, "G")
        assert here(screen) == "not yet tagged"
        assert "░ 31 · 0" in drawn(pilot.app)


async def test_enter_goes_to_the_runs_and_opens_one_at_its_step(db: Path) -> None:
    async with opened(db, (80, 24)) as (pilot, screen):
        await press(pilot, "enter")
        assert focused(screen) == "runs"
        await press(pilot, "j", "enter")
        run = pilot.app.screen
        assert isinstance(run, TraceScreen)
        assert (run.trace, run.step) == (screen.runs.runs[1].trace, 3)
        await press(pilot, "escape")
        assert pilot.app.screen is screen
        await press(pilot, "escape")
        assert focused(screen) == "bars"
        await press(pilot, "escape")
        assert pilot.app.screen is not screen


@pytest.mark.pilot
async def test_f_goes_back_to_the_list_with_just_these_runs(db: Path) -> None:
    app = ArcApp(db)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "A")
        screen = app.screen
        assert isinstance(screen, FailuresScreen)
        behind = {run.trace for run in screen.runs.runs}
        await press(pilot, "L")
        runs = app.screen
        assert isinstance(runs, RunsScreen)
        assert {*runs.listed.traces} == behind
        assert "hallucinated state" in rows(app)[1]
        await press(pilot, "escape")
        assert len(runs.listed.traces) > len(behind)


@pytest.mark.pilot
async def test_b_splits_the_bars_and_says_by_what(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "v", "1")
        assert "hallucinated state · no call" in labels(screen)
        assert rows(pilot.app)[0].startswith(" failures by tool  hallucinated state · no call: 2")
        await press(pilot, "v", "2", "v", "2")
        assert "hallucinated state · grounding" in labels(screen)
        await press(pilot, "v", "1")
        assert labels(screen)[0] == "hallucinated state"


@pytest.mark.pilot
async def test_e_counts_every_class_of_a_run(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        assert "bad args" not in labels(screen)
        screen.bars.cursor = 1
        await press(pilot, "v", "3")
        assert "bad args" in labels(screen)
        assert here(screen) == "wrong tool"
        assert rows(pilot.app)[0].startswith(" failures every class  ")
        await press(pilot, "v", "3")
        assert "bad args" not in labels(screen)


@pytest.mark.pilot
async def test_agreement_hides_in_a_narrow_terminal_until_it_is_asked_for(db: Path) -> None:
    async with opened(db, (80, 24)) as (pilot, _):
        assert "─ agreement ─" not in drawn(pilot.app)
        await press(pilot, "v", "4")
        assert "person, rule   same class 1/2 .50" in drawn(pilot.app)
        assert "26 · 1" in drawn(pilot.app)


@pytest.mark.pilot
async def test_a_tag_given_meanwhile_is_counted_when_the_screen_comes_back(
    db: Path, tmp_path: Path
) -> None:
    own = tmp_path / "arc.db"
    own.write_bytes(db.read_bytes())
    async with opened(own) as (pilot, screen):
        await press(pilot, "G", "question_mark")
        assert pilot.app.screen is not screen
        with open_ledger(own) as store:
            trace = screen.runs.runs[0].trace
            failures_case.tagged(store, trace, 0, FailureClass.LOOP)
        await press(pilot, "escape")
        assert "loop" in labels(screen)
        assert "not yet tagged" not in labels(screen)


@pytest.mark.pilot
async def test_a_database_without_failures_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path / "new.db", (80, 24)) as (pilot, screen):
        assert "no failed runs here" in drawn(pilot.app)
        await press(pilot, "enter", "f", "escape")
        app = pilot.app
        assert isinstance(app, Opener)
        assert (pilot.app.screen, labels(screen)) == (screen, [])


@pytest.mark.pilot
async def test_a_bad_setting_is_told_on_the_screen(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = failures_case.configured(tmp_path / "wrong", "[ownrs]\nloop = 'Ann'")
    monkeypatch.setenv("ARC_CONFIG_DIR", folder)
    async with opened(db, (120, 24)) as (pilot, _):
        assert "unknown key 'ownrs'" in drawn(pilot.app)


@pytest.mark.pilot
async def test_a_bar_shows_what_the_playbook_has_for_it(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "playbook.toml"
    file.write_text('["hallucinated state"]\nowner = "retrieval"\nrollback = "Deploy v7."')
    async with opened(db) as (pilot, screen):
        shown = drawn(pilot.app)
        assert here(screen) == "hallucinated state"
        assert "rollback    Deploy v7." in shown
        assert "guard       none in playbook.toml" in shown
        assert "owner       retrieval" in shown
        file.write_text("[lop]\nguard = 'x'")
        await press(pilot, "ctrl+r")
        assert "did you mean" in drawn(pilot.app)
        assert here(screen) == "hallucinated state"  # the bars stay
        assert "rollback" not in drawn(pilot.app)


@pytest.fixture(scope="module")
def pyramid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two variants, one of which fails more; read only."""
    path = tmp_path_factory.mktemp("db") / "arc.db"
    put_pyramid(path, lost=16)
    with open_ledger(path) as store:
        diagnose_new(store)
    return path


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.pilot
async def test_the_layers_stand_in_place_of_the_bars(pyramid: Path, size: tuple[int, int]) -> None:
    async with opened(pyramid, size) as (pilot, screen):
        await press(pilot, "v", "5")
        await settle(pilot)
        matches_golden(pilot.app, f"layers_{size[0]}x{size[1]}")
        assert focused(screen) == "pyramid"
        assert not screen.bars.region
        await press(pilot, "escape")
        assert focused(screen) == "bars"
        assert screen.bars.region
        assert "layers of the eval pyramid" not in drawn(pilot.app)


@pytest.mark.pilot
async def test_other_groups_are_chosen_one_after_the_other(pyramid: Path) -> None:
    async with opened(pyramid) as (pilot, _):
        await press(pilot, "v", "5")
        await press(pilot, "v", "2")
        await settle(pilot)
        assert "variant=old  48 runs · 48 tasks" in drawn(pilot.app)
        await press(pilot, "1")
        await press(pilot, "1")
        await settle(pilot)
        assert "before 'variant=new', 48 runs; after 'variant=old', 48 runs" in drawn(pilot.app)
        assert "No layer is down" in drawn(pilot.app)


@pytest.mark.pilot
async def test_without_two_groups_the_pane_says_so(tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    open_ledger(empty).close()
    async with opened(empty) as (pilot, _):
        await press(pilot, "v", "5")
        await settle(pilot)
        assert "no two groups to compare" in drawn(pilot.app)


@pytest.fixture
def scanned(tmp_path: Path) -> Path:
    """Runs here, and a scan of a store with four failed runs of which one is here."""
    path = tmp_path / "arc.db"
    runs = failures_case.put(path)
    with open_ledger(path) as store:
        asked = ScanQuestion(fleet="prod", query="", since="7d", until=None, engine="")
        part = Partition(place=0, from_ns=0, until_ns=1, low=0, high=1024, traces=5)
        scan = begin_scan(store, asked, (0, 1), [part], has_outcomes=True)
        keys = (runs["26/1"], "f" * 16, "e" * 16, "d" * 16)
        found = [_scanned_run(number, key) for number, key in enumerate(keys)]
        lost = ScannedRun(trace="t9", problem="the store gave none of its spans")
        keep_partition(store, scan.id, 0, [*found, lost], 10**9)
        finish_scan(store, scan.id)
    return path


def _scanned_run(number: int, key: str) -> ScannedRun:
    loop = ScanFinding(
        place=0, step=number, span=f"s{number}", failure=FailureClass.LOOP, sub=None,
        attribution=None, why="get_order called 5 times with the same arguments", by="loop",
        confidence=None, evidence=(), tool="get_order",
    )  # fmt: skip
    return ScannedRun(
        trace=f"t{number}", key=key, title=f"Where is order W{number}?", outcome="failed",
        start_ns=1_780_000_000 * 10**9, findings=(loop,) if number < 3 else (),
    )  # fmt: skip


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.pilot
async def test_the_source_of_the_runs_can_be_a_scan(scanned: Path, size: tuple[int, int]) -> None:
    async with opened(scanned, size) as (pilot, screen):
        before = labels(screen)
        screen.action_source()
        await settle(pilot)
        await settle(pilot)
        assert labels(screen) == ["loop", "not yet tagged"]
        assert "prod (scanned " in "".join(rows(pilot.app))
        assert "4 runs, 1 could not be read)" in "".join(rows(pilot.app))
        await press(pilot, "enter")
        drawn_rows = rows(pilot.app)
        assert any("▒○" in row for row in drawn_rows)
        away = next(i for i, run in enumerate(screen.runs.runs) if not is_here(run))
        here_ = next(i for i, run in enumerate(screen.runs.runs) if is_here(run))
        screen.runs.cursor = away
        await press(pilot, "enter")
        assert "arc fleet pull prod source=t" in "".join(rows(pilot.app))
        assert isinstance(pilot.app.screen, FailuresScreen)
        screen.runs.cursor = here_
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, TraceScreen)
        await press(pilot, "escape")
        screen.action_source()
        await settle(pilot)
        await settle(pilot)
        assert labels(screen) == before


@pytest.mark.pilot
async def test_without_a_scan_there_is_no_other_source(db: Path) -> None:
    async with opened(db) as (_, screen):
        assert screen.check_action("source", ()) is False
