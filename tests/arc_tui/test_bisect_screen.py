"""The bisect screen: what it shows before, while and after a search, and what its keys do."""

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
from arc_tui.features.bisect.plan import BisectRequest
from arc_tui.features.bisect.run import run_bisection
from arc_tui.features.bisect.screen import BisectScreen
from arc_tui.features.bisect.state import named
from arc_tui.features.bisect.versions import of_files
from arc_tui.features.bisect.view import BisectView
from arc_tui.ui.dialogs import AskBox
from replay.bisection.rounds import Settings
from replay.edit.changes import Edit, SetSystem
from replay.errors import Stopped
from replay.models.demo import Demo
from replay.store import edits
from replay.store.rows import trace_row
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.bisect_case import TOUR, prompt, put_runs, repository
from tests.messages_api import Body, MessagesApi
from tests.replay.live_case import MODEL
from tests.screen import matches_golden, press, rows, settle
from tests.screen import text as drawn

BROKE = 4
"""Where the tour went wrong."""


class Opener(ArcApp):
    """The app over a blank screen."""

    def get_default_screen(self) -> Screen[None]:
        return Screen()


Opened = tuple[Pilot[None], BisectScreen]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bisect") / "arc.db"
    put_runs(path)
    return path


@pytest.fixture
def db(shared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(shared, tmp_path / "arc.db"))


@asynccontextmanager
async def opened(
    db: Path,
    *,
    trace: str = TOUR,
    step: int = BROKE,
    edit: Edit | None = None,
    size: tuple[int, int] = (120, 40),
    model: str = "demo",
) -> AsyncIterator[Opened]:
    app = Opener(db)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = BisectScreen(db, key(db, trace), step, edit)
        screen.request = structs.replace(screen.request, model=model)
        app.push_screen(screen)
        await settle(pilot)
        yield pilot, screen


def key(db: Path, trace: str) -> str:
    with open_ledger(db) as store:
        return trace_row(store, trace).trace


async def answer(pilot: Pilot[None], words: str) -> None:
    """Type an answer into the box that is open."""
    assert isinstance(pilot.app.screen, AskBox)
    line = pilot.app.screen.query_one(Input)
    line.value = words
    line.focus()
    await press(pilot, "enter")


def files(*versions: int) -> str:
    return " ".join(str(prompt(version)) for version in versions)


# --- what it looks like


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_it_opens_with_what_can_be_searched(db: Path, size: tuple[int, int]) -> None:
    async with opened(db, size=size) as (pilot, _):
        matches_golden(pilot.app, f"bisect_open_{size[0]}x{size[1]}")


@pytest.mark.pilot
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_two_keys_later_the_version_is_named_and_its_diff_shown(
    db: Path, size: tuple[int, int]
) -> None:
    name = f"{size[0]}x{size[1]}"
    async with opened(db, size=size) as (pilot, screen):
        await press(pilot, "enter")
        assert screen.state.phase == "idle"
        matches_golden(pilot.app, f"bisect_ready_{name}")
        await press(pilot, "r")
        assert screen.state.view.first_bad == "v5"
        assert rows(pilot.app)[1].startswith(" First bad: v5; ")
        matches_golden(pilot.app, f"bisect_found_{name}")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.pilot
async def test_while_it_runs_it_says_what_is_asked_and_why(db: Path, size: tuple[int, int]) -> None:
    halfway = views(db, 1, 2, 3, 4, 5)[1]
    assert halfway.samples
    async with opened(db, size=size) as (pilot, screen):
        await press(pilot, "j", "enter")
        screen.state = structs.replace(screen.state, phase="running")
        screen.post_message(JobProgressed(halfway))
        await settle(pilot)
        said = drawn(pilot.app)
        assert "Round 2: v5 ×4 · most informative next sample." in said
        assert "next ×4" in said
        assert rows(pilot.app)[-2].endswith("x stop")
        matches_golden(pilot.app, f"bisect_going_{size[0]}x{size[1]}")


def views(db: Path, *versions: int, most: int = 200) -> list[BisectView]:
    """Every view of a search, in a copy of the database."""
    with open_ledger(":memory:") as store, open_ledger(db) as source:
        source.db.backup(store.db)
        request = BisectRequest(
            trace=TOUR,
            sources=tuple(of_files([prompt(each) for each in versions])),
            settings=Settings(max_samples=most),
        )
        return list(views_of(run_bisection, store, request))


# --- what is searched


@pytest.mark.pilot
async def test_files_are_named_in_their_order_and_a_slip_loses_nothing(
    db: Path, tmp_path: Path
) -> None:
    async with opened(db) as (pilot, screen):
        await answer(pilot, f"{prompt(3)} nowhere.md")
        assert "no file 'nowhere.md'" in drawn(pilot.app)
        assert pilot.app.screen.query_one(Input).value == f"{prompt(3)} nowhere.md"
        await answer(pilot, files(3, 4))
        assert [row.name for row in screen.state.view.rows] == ["v3", "v4"]
        await press(pilot, "r")
        assert screen.state.view.status == "no change"
        assert "neither fails in most samples" in drawn(pilot.app)


def test_a_pattern_is_put_in_its_natural_order(tmp_path: Path) -> None:
    for version in (10, 9, 1):
        (tmp_path / f"v{version}.md").write_text(str(version))
    way = named(f"{tmp_path}/v*.md")
    assert [each.name for each in way.sources] == ["v1", "v9", "v10"]
    assert way.name == "v1 … v10"
    assert named(str(tmp_path)).sources == way.sources


@pytest.mark.pilot
async def test_a_range_of_git_is_searched_too(db: Path, tmp_path: Path) -> None:
    scratch = repository(tmp_path / "scratch")
    hashes = [
        scratch.commit(f"prompt {version}", system__md=prompt(version).read_text())
        for version in (3, 4, 5)
    ]
    async with opened(db) as (pilot, screen):
        await answer(pilot, f"{scratch.folder / 'system.md'} {hashes[0]}..{hashes[-1]}")
        assert [row.name for row in screen.state.view.rows] == hashes
        await press(pilot, "r")
        assert f"{hashes[-1]} “prompt 5”; " in drawn(pilot.app)


@pytest.mark.pilot
async def test_from_the_cursor_on_only_the_rest_is_asked(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "j", "enter", "r")
        assert "Not monotonic: v5 is one boundary of possibly several" in drawn(pilot.app)
        assert "R leave out the versions above the cursor" in drawn(pilot.app)
        await press(pilot, "R")
        assert len(screen.state.view.rows) == 5, "of one version nothing can be searched"
        await press(pilot, "k", "k", "R")
        assert [row.name for row in screen.state.view.rows] == ["v3", "v4", "v5"]
        await press(pilot, "r")
        assert screen.state.view.first_bad == "v5"
        assert screen.state.view.cached > 0


@pytest.mark.pilot
async def test_the_parts_of_an_edit_are_searched_at_once_where_it_is_given(db: Path) -> None:
    async with opened(db, edit=LOOKS_UP) as (pilot, screen):
        assert screen.state.view.kind == "hunks"
        assert rows(pilot.app)[0] == " bisect hunks of careful · many-wishes · 0"
        await press(pilot, "j")
        assert "old → old + hunk 1" in drawn(pilot.app)
        await press(pilot, "r")
        assert screen.state.view.status == "reversed"
        assert "Reversed: oldest fails, newest passes" in drawn(pilot.app)


LOOKS_UP = Edit(name="careful", changes=(SetSystem(prompt(4).read_text()),))
"""It repairs the run, so that its parts break nothing."""


@pytest.mark.pilot
async def test_kept_edits_are_offered_with_their_parts_and_from_each_step(db: Path) -> None:
    with open_ledger(db) as store:
        edits.save(store, LOOKS_UP)
    async with opened(db) as (pilot, screen):
        assert "hunks of careful  3 hunks of the system prompt" in drawn(pilot.app)
        await press(pilot, "j", "j", "j", "enter")
        assert "what a recovered run does" in drawn(pilot.app)
        await answer(pilot, "tool=get_ordre")
        assert "get_order" in drawn(pilot.app), "what is known is named"
        assert pilot.app.screen.query_one(Input).value == "tool=get_ordre"
        await answer(pilot, "tool=get_order, args.order_id=1039 or tool!=refund_order")
        assert screen.state.view.kind == "prefix"
        await press(pilot, "r")
        assert "Last recoverable: step 4 " in drawn(pilot.app)
        assert "outcome not evaluated" in drawn(pilot.app)


@pytest.mark.pilot
async def test_an_earlier_bisection_is_shown_without_asking_anyone(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_ledger(db) as store:
        sources = tuple(of_files([prompt(each) for each in (3, 4, 5)]))
        kept = list(views_of(run_bisection, store, BisectRequest(trace=TOUR, sources=sources)))[-1]
    monkeypatch.setattr(Demo, "complete", _asked_nobody)
    async with opened(db) as (pilot, screen):
        assert "earlier: found" in drawn(pilot.app)
        await press(pilot, "enter")
        assert screen.state.view.digest == kept.digest
        assert "First bad: v5; " in rows(pilot.app)[1]
        assert "v4 → v5" in drawn(pilot.app)
        await press(pilot, "k")
        assert "o choose the versions again" in drawn(pilot.app)
        await press(pilot, "r")
        assert isinstance(pilot.app.screen, AskBox)


def _asked_nobody(self: Demo, body: Body, sample: int) -> Body:
    raise AssertionError("nobody is to be asked")


# --- what is expected, and how it is asked


@pytest.mark.pilot
async def test_a_step_where_no_rule_found_anything_asks_what_is_expected(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "enter", "M")
        await answer(pilot, "2")
        assert "what a good answer does at step 2" in drawn(pilot.app)
        await press(pilot, "escape")
        assert screen.state.options is not None
        assert (screen.state.view.step, screen.state.options.step) == (4, 4), "as it was"
        await press(pilot, "M")
        await answer(pilot, "2")
        await answer(pilot, "tool=get_order")
        assert screen.state.view.step == 2
        assert "bad at step 2: does not meet tool=get_order" in drawn(pilot.app)


@pytest.mark.pilot
async def test_beside_a_finding_of_a_rule_it_opens_at_the_step_that_has_one(db: Path) -> None:
    async with opened(db, step=0) as (_, screen):
        assert screen.state.options is not None
        assert screen.state.options.step == BROKE


@pytest.mark.pilot
async def test_what_is_expected_can_be_typed_instead_of_what_a_rule_found(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "enter", "w")
        assert "without the rule's finding" in drawn(pilot.app)
        await answer(pilot, "tool=")
        assert pilot.app.screen.query_one(Input).value == "tool="
        await answer(pilot, "tool=get_order")
        assert screen.state.request.expect == "tool=get_order"
        await press(pilot, "r")
        assert screen.state.view.first_bad == "v5"


@pytest.mark.pilot
async def test_whole_runs_are_judged_by_what_a_person_expects_of_them(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "enter", "F")
        await answer(pilot, "tool!=refund_order")
        assert screen.state.view.free
        assert "of up to" in rows(pilot.app)[1]
        assert "bad whole runs" in drawn(pilot.app)


@pytest.mark.pilot
async def test_after_as_many_answers_as_were_allowed_it_is_not_sure_and_more_go_on(
    db: Path,
) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "enter", "s")
        await answer(pilot, "3")
        await press(pilot, "r")
        assert screen.state.view.status == "budget"
        assert "Try: s" in drawn(pilot.app)
        await press(pilot, "s")
        await answer(pilot, "many")
        assert "'many' is not a number" in drawn(pilot.app)
        await press(pilot, "s")
        await answer(pilot, "200")
        await press(pilot, "r")
        assert (screen.state.view.status, screen.state.view.cached) == ("found", 3)


@pytest.mark.pilot
async def test_stopped_it_keeps_what_was_answered_and_asks_only_the_rest(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = views(db, 3, 4, 5)[-1]
    answered, left = Demo.complete, [7]

    def mortal(self: Demo, body: Body, sample: int) -> Body:
        if not left[0]:
            screen._job.stop()  # type: ignore[union-attr]
            raise Stopped("stopped")
        left[0] -= 1
        return answered(self, body, sample)

    monkeypatch.setattr(Demo, "complete", mortal)
    async with opened(db) as (pilot, screen):
        await press(pilot, "enter", "r")
        assert screen.state.phase == "stopped"
        assert "Stopped. Completed calls are saved. r continue" in drawn(pilot.app)
        left[0] = 1000
        await press(pilot, "r")
        assert screen.state.view.digest == whole.digest
        assert screen.state.view.calls == whole.calls - 7


@pytest.mark.pilot
async def test_x_stops_what_runs_and_escape_and_q_neither_stop_nor_leave_it(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "enter")
        stopped: list[str] = []
        screen._job = _Stops(stopped)  # type: ignore[assignment]
        screen.state = structs.replace(screen.state, phase="running")
        for key_ in ("escape", "q"):
            await press(pilot, key_)
            assert pilot.app.screen is screen
            assert (screen.state.phase, stopped) == ("running", [])
            assert "A run is in progress. x stops it." in drawn(pilot.app)
            pilot.app.clear_notifications()
        await press(pilot, "x")
        assert (screen.state.phase, stopped) == ("stopping", ["stopped"])
        screen._job = None
        screen.state = structs.replace(screen.state, phase="idle")
        await press(pilot, "tab", "escape")
        assert pilot.app.screen is screen
        await press(pilot, "escape")
        assert pilot.app.screen is not screen


class _Stops:
    """Stands where work under way would."""

    def __init__(self, said: list[str]) -> None:
        self._said = said

    def stop(self) -> None:
        self._said.append("stopped")


@pytest.mark.pilot
async def test_what_was_found_is_copied_as_markdown(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "enter")
        await press(pilot, "r", "y")
        copied = pilot.app.clipboard.splitlines()
        assert copied[0].startswith("**First bad: v5; ")
        assert "| **v5** | 5/5 | 1.00 | as recorded |" in copied
        assert (
            "+- Customers know their orders. When they give you the number there is no need to"
            in (copied)
        )
        assert any("nothing about a real model" in line for line in copied)
        assert any(screen.state.view.digest or "–" in line for line in copied)


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
        await press(pilot, "enter")
        await asked_for_a_limit(pilot)
        assert "Server: http://127.0.0.1" in drawn(pilot.app)
        await press(pilot, "escape")
        assert "r run, with a limit" in drawn(pilot.app)
        assert api.asked == 0
        await asked_for_a_limit(pilot)
        await answer(pilot, "9 calls")
        assert api.asked == 9
        assert "stopped before it was confirmed" in drawn(pilot.app)
        assert "Not confirmed: no new samples of the boundary." in drawn(pilot.app)
        await asked_for_a_limit(pilot)
        await answer(pilot, "60 calls")
        assert screen.state.view.verified
        assert api.asked == 13
        await press(pilot, "s")
        await answer(pilot, "199")
        await press(pilot, "r")
        assert screen.state.phase == "done", "all of it is there: no limit is asked for"
        assert api.asked == 13
