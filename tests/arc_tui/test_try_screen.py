"""The try screen: what it shows before, while and after an edit is tried, and what its keys do."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from arc_tui.app import ArcApp
from arc_tui.experiments.request import views_of
from arc_tui.experiments.runner import JobProgressed
from arc_tui.features.edit_test.plan import KEPT, saved_edit_tests
from arc_tui.features.edit_test.run import run_edit_test
from arc_tui.features.edit_test.screen import EditTestScreen
from arc_tui.features.edit_test.view import EditTestRequest, EditTestView
from arc_tui.features.failures.screen import FailuresScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.ui.dialogs import AskBox
from replay.edit.changes import Edit
from replay.store import answers, edits
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui import try_case
from tests.arc_tui.try_case import V4, V4_EDIT
from tests.messages_api import MessagesApi
from tests.replay.live_case import MODEL
from tests.screen import matches_golden, press, rows, settle
from tests.screen import text as drawn

LABEL = "hallucinated state"


class Opener(ArcApp):
    """The app over a blank screen."""

    def get_default_screen(self) -> Screen[None]:
        return Screen()


Opened = tuple[Pilot[None], EditTestScreen]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("try") / "arc.db"
    try_case.put(path)
    return path


@pytest.fixture
def db(shared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(shared, tmp_path / "arc.db"))


def broken(db: Path) -> tuple[str, ...]:
    with open_ledger(db) as store:
        found = store.db.execute(
            "SELECT trace FROM trace_summary WHERE outcome = 'failed' ORDER BY trial"
        )
        return tuple(row[0] for row in found)


@asynccontextmanager
async def opened(
    db: Path, edit: Edit | None = V4_EDIT, size: tuple[int, int] = (120, 40), model: str = "demo"
) -> AsyncIterator[Opened]:
    app = Opener(db)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = EditTestScreen(db, LABEL, broken(db), edit)
        screen.request = structs.replace(screen.request, model=model)
        app.push_screen(screen)
        await settle(pilot)
        await settle(pilot)
        yield pilot, screen


def at(screen: EditTestScreen) -> str:
    return screen.state.phase


async def answer(pilot: Pilot[None], words: str) -> None:
    """Type an answer into the box that is open."""
    assert isinstance(pilot.app.screen, AskBox)
    line = pilot.app.screen.query_one(Input)
    line.value = words
    line.focus()
    await press(pilot, "enter")


@pytest.mark.pilot
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_tried_edit_looks_like_this(db: Path, size: tuple[int, int]) -> None:
    name = f"{size[0]}x{size[1]}"
    async with opened(db, size=size) as (pilot, screen):
        assert at(screen) == "idle"
        assert "call" in drawn(pilot.app)
        await press(pilot, "r")
        assert at(screen) == "done"
        matches_golden(pilot.app, f"trying_{name}")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.pilot
async def test_before_anything_is_asked_it_looks_like_this(db: Path, size: tuple[int, int]) -> None:
    async with opened(db, size=size) as (pilot, _):
        matches_golden(pilot.app, f"trying_ready_{size[0]}x{size[1]}")


@pytest.mark.pilot
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_was_tried_before_is_shown_with_its_day_before_anything_is_asked(
    db: Path, size: tuple[int, int]
) -> None:
    kept_at(db, ran_ns=1_795_000_000 * 10**9)
    async with opened(db, size=size) as (pilot, screen):
        assert at(screen) == "idle"
        assert "Tested 2026-11-18 11:06 UTC: fixed 3/3" in drawn(pilot.app)
        matches_golden(pilot.app, f"trying_before_{size[0]}x{size[1]}")
        if size == (80, 24):
            return
        await press(pilot, "r")
        assert at(screen) == "done"
        assert screen.state.view.spent.calls == 0
        assert "Tried" not in drawn(pilot.app)


def kept_at(db: Path, ran_ns: int) -> None:
    """The edit tried on those runs by the command, on that day."""
    with open_ledger(db) as store:
        request = EditTestRequest(edit=V4_EDIT, query=LABEL, traces=broken(db), model="demo")
        *_, view = views_of(run_edit_test, store, request)
        (kept,) = saved_edit_tests(store)
        name = f"{KEPT}{kept.edit}/{view.digest}"
        answers.keep(store, name, structs.replace(kept, ran_ns=ran_ns))


@pytest.mark.pilot
async def test_without_an_edit_r_asks_for_one_which_may_be_a_file(db: Path) -> None:
    async with opened(db, edit=None) as (pilot, screen):
        assert "No edit yet. o choose an edit" in drawn(pilot.app)
        assert "many-wishes · 2" in drawn(pilot.app)
        await press(pilot, "r")
        await answer(pilot, str(V4))
        assert screen.state.request.edit is not None
        assert screen.state.request.edit.name == "v4"
        assert "r test with demo, rule-based" in drawn(pilot.app)


@pytest.mark.pilot
async def test_e_takes_a_kept_edit(db: Path) -> None:
    with open_ledger(db) as store:
        edits.save(store, V4_EDIT)
    async with opened(db, edit=None) as (pilot, screen):
        await press(pilot, "o", "enter")
        assert screen.state.request.edit == V4_EDIT
        assert at(screen) == "idle"


@pytest.mark.pilot
async def test_an_edit_that_reaches_no_run_is_told_and_another_may_be_chosen(
    db: Path, tmp_path: Path
) -> None:
    same = tmp_path / "same.md"
    same.write_text((V4.parent / "v5.md").read_text())
    async with opened(db, edit=None) as (pilot, screen):
        await press(pilot, "o")
        await answer(pilot, str(same))
        assert "Cannot test the edit on any of 3 runs" in drawn(pilot.app)
        await press(pilot, "r")
        assert at(screen) == "failed"
        await press(pilot, "o")
        await answer(pilot, str(V4))
        assert at(screen) == "idle"


@pytest.mark.pilot
async def test_the_newest_prompt_is_edited_in_the_editor_of_the_person(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def write(app: object, text: str) -> str:
        seen.append(text)
        return V4.read_text()

    monkeypatch.setattr("arc_tui.features.edit_test.screen.edit_in_terminal", write)
    async with opened(db, edit=None) as (pilot, screen):
        await press(pilot, "E")
        assert "there is no need to" in seen[0]
        edit = screen.state.request.edit
        assert edit is not None
        assert edit.digest == V4_EDIT.digest
        assert edit.name.startswith("prompt ")


@pytest.mark.pilot
async def test_samples_and_healthy_steps_are_as_many_as_a_person_says(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "s")
        await answer(pilot, "2")
        await press(pilot, "H")
        await answer(pilot, "0")
        assert (screen.state.request.samples, screen.state.request.controls) == (2, 0)
        assert screen.state.view.steps == ()
        await press(pilot, "s")
        await answer(pilot, "none")
        assert screen.state.request.samples == 2
        assert "'none' is not a number from" in drawn(pilot.app)


@pytest.mark.pilot
async def test_enter_opens_the_run_at_the_step_that_is_asked_past_the_heading(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "j", "j", "j")
        assert screen.rows.row is screen.state.view.steps[0]
        await press(pilot, "k", "enter")
        run = pilot.app.screen
        assert isinstance(run, TraceScreen)
        last = screen.state.view.runs[-1]
        assert (run.trace, run.step) == (last.trace, last.step)


@pytest.mark.pilot
async def test_while_it_runs_it_says_how_far_it_is_and_x_stops_it(db: Path) -> None:
    halfway = views(db)[2]
    assert 0 < halfway.done < halfway.total
    async with opened(db) as (pilot, screen):
        screen.state = structs.replace(screen.state, phase="running")
        screen.post_message(JobProgressed(halfway))
        await settle(pilot)
        assert "So far: fixed" in drawn(pilot.app)
        assert rows(pilot.app)[-2].endswith("x stop")
        assert f"step {halfway.done + 1} of {halfway.total}" in drawn(pilot.app)


def views(db: Path) -> list[EditTestView]:
    """Every view of a try, in another database."""
    request = EditTestRequest(edit=V4_EDIT, query=LABEL, traces=broken(db), model="demo")
    with pytest.MonkeyPatch.context() as patch, open_ledger(":memory:") as store:
        patch.setattr("arc_tui.features.edit_test.run.BETWEEN_VIEWS_S", 0)
        with open_ledger(db) as source:
            source.db.backup(store.db)
        return list(views_of(run_edit_test, store, request))


@pytest.mark.pilot
async def test_e_on_a_bar_of_the_failures_tries_an_edit_on_its_runs(db: Path) -> None:
    app = Opener(db)
    async with app.run_test(size=(120, 40)) as pilot:
        app.push_screen(FailuresScreen(db))
        await settle(pilot)
        await press(pilot, "e")
        screen = app.screen
        assert isinstance(screen, EditTestScreen)
        assert [row.trace for row in screen.state.view.runs] == list(broken(db))
        assert rows(app)[0] == " test an edit on hallucinated state"


@pytest.mark.pilot
async def test_escape_goes_back_once_nothing_runs(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "escape")
        assert pilot.app.screen is not screen


# --- live


async def asked_for_a_limit(pilot: Pilot[None]) -> None:
    """Ask to run, until the box is there: its worker waits for the answer."""
    await pilot.press("r")
    while not isinstance(pilot.app.screen, AskBox):
        await pilot.pause()
    await pilot.pause()


@pytest.mark.pilot
async def test_a_server_is_asked_only_under_a_limit_and_what_it_said_is_kept(
    api: MessagesApi, db: Path
) -> None:
    async with opened(db, model=MODEL) as (pilot, screen):
        screen.change_request(controls=1, samples=1)
        await settle(pilot)
        await asked_for_a_limit(pilot)
        assert "Server: http://127.0.0.1" in drawn(pilot.app)
        await press(pilot, "escape")
        assert "no cached response" in drawn(pilot.app)
        assert "r run again with a limit" in drawn(pilot.app)
        assert api.asked == 0
        await asked_for_a_limit(pilot)
        await answer(pilot, "2 calls")
        assert at(screen) == "stopped"
        assert "stopped after 3 of 4 steps: limit of 2 calls" in drawn(pilot.app)
        assert api.asked == 2
        await asked_for_a_limit(pilot)
        await answer(pilot, "9 calls")
        assert at(screen) == "done"
        assert screen.state.view.done == screen.state.view.total
        assert screen.state.view.spent.cached >= 2
