"""The free screen: what it shows while the run goes on, at a miss and at its end, and its keys."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.widgets import Input

from arc_tui.app import ArcApp
from arc_tui.experiments.models import Spending
from arc_tui.experiments.request import FreeRunRequest, views_of
from arc_tui.experiments.runner import JobProgressed
from arc_tui.features.free.run import run_free_replays
from arc_tui.features.free.screen import FreeScreen, StubBox
from arc_tui.features.free.view import NO_RUN, ONE_RUN, UNCHECKED, FreeStop, FreeView
from arc_tui.features.free.widgets import FreeState, left_of, next_steps
from arc_tui.features.replay.screen import ReplayScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.navigation import OpenFreeReplay
from replay import kept
from replay.budget import Limits
from replay.edit.changes import Edit
from replay.free.recorded_results import Stub
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui import opening
from tests.arc_tui.free_case import READ, REFUND, TOUR, V4, WITHDRAWN, put_account
from tests.arc_tui.opening import looks_like, until
from tests.messages_api import MessagesApi, demo_policy
from tests.replay.live_case import clean_environment
from tests.screen import press, rows, settle
from tests.screen import text as drawn

Opened = tuple[Pilot[None], FreeScreen]


@asynccontextmanager
async def opened(
    db: Path,
    size: tuple[int, int] = (120, 40),
    *,
    edit: Edit | None = V4,
    trace: str = TOUR,
    model: str | None = None,
    below: bool = False,
) -> AsyncIterator[Opened]:
    screen = FreeScreen(db, trace, 0, edit, model)
    async with opening.opened(screen, size, below=below) as pilot:
        yield pilot, screen


def keep(db: Path, *written: Stub, trace: str = TOUR) -> str:
    """Stubs as an earlier run left them; the trace's key."""
    with open_ledger(db) as store:
        request = FreeRunRequest(trace=trace, model="demo", stubs=written, max_steps=1)
        return [view.trace for view in views_of(run_free_replays, store, request)][-1]


def focused(screen: FreeScreen) -> str | None:
    return screen.focused.id if screen.focused is not None else None


def status(screen: FreeScreen) -> str:
    return screen.state.view.status


# --- what it looks like


@pytest.mark.pilot
async def test_it_looks_like_this_at_a_miss_where_a_stub_is_written_and_while_it_goes_on(
    db: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"  # what it keeps is not to be found by the screen
    other.write_bytes(db.read_bytes())
    with open_ledger(other) as store:
        first = next(views_of(run_free_replays, store, FreeRunRequest(trace=TOUR, edit=V4)))
    assert first.stop is None
    async with opened(db) as (pilot, screen):
        await looks_like(pilot, "free_miss")
        await press(pilot, "i")
        await looks_like(pilot, "free_stub")
        await press(pilot, "escape")
        screen.state = structs.replace(screen.state, phase="running")
        await settle(pilot)
        screen.post_message(JobProgressed(first))
        await settle(pilot)
        await settle(pilot)
        await looks_like(pilot, "free_going")


@pytest.mark.pilot
async def test_it_looks_like_this_when_it_is_finished_and_offers_no_key_that_does_nothing(
    db: Path,
) -> None:
    async with opened(db, edit=None) as (pilot, screen):
        await looks_like(pilot, "free_finished")
        offered = {
            active.binding.action
            for active in pilot.app.screen.active_bindings.values()
            if active.enabled
        }
        assert not offered & {"stub", "forget", "stale", "stop"}
        await press(pilot, "i", "delete", "exclamation_mark", "x")
        assert pilot.app.screen is screen
        assert screen.state.phase == "done"


@pytest.mark.pilot
async def test_an_answer_beyond_the_road_looks_like_this(db: Path) -> None:
    keep(db, READ, REFUND)
    async with opened(db) as (pilot, _):
        await press(pilot, "k", "k")
        await looks_like(pilot, "free_beyond")


@pytest.mark.pilot
async def test_no_words_on_it_say_how_the_run_would_have_ended(db: Path) -> None:
    keep(db, READ, REFUND)
    for edit in (None, V4):
        async with opened(db, edit=edit) as (pilot, _):
            said = drawn(pilot.app)
            assert UNCHECKED in said
            assert not re.search(r"(?i)\b(pass|fail|succe|solved|fixed|verdict)", said.replace(
                UNCHECKED, ""
            ))  # fmt: skip


# --- stubs


@pytest.mark.pilot
async def test_a_stub_is_written_with_one_key_and_the_run_goes_on_at_once(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "i")
        box = pilot.app.screen
        assert isinstance(box, StubBox)
        assert 'from step 0, for order_id "1049"' in drawn(pilot.app)
        box.area.load_text(READ.result)
        await press(pilot, "ctrl+s")
        assert screen.state.view.rows[4].got[0].stub == READ
        assert "refund_order" in "".join(rows(pilot.app)[:2])
        assert "1 call · 5 cached" in drawn(pilot.app)
        with open_ledger(db) as store:
            assert kept.stubs_of_trace(store, screen.state.view.trace) == (READ,)
        await press(pilot, "i", "ctrl+s", "ctrl+s")
        assert screen.state.view.status == "user"
        assert screen.state.view.ranks == {"exact": 4, "stub": 2}


@pytest.mark.pilot
async def test_what_another_call_got_is_taken_only_when_that_is_said_twice(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "i", "ctrl+s")
        assert 'Still unchanged, from step 0, for order_id "1049"' in drawn(pilot.app)
        assert screen.state.view.status == "miss"
        await press(pilot, "ctrl+s")
        assert screen.state.view.ranks["stub"] == 1


@pytest.mark.pilot
async def test_a_stub_may_be_an_error_and_be_left_unwritten(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await press(pilot, "i", "escape")
        assert screen.state.view.status == "miss"
        await press(pilot, "i", "tab", "space", "ctrl+s", "ctrl+s")
        [got] = screen.state.view.rows[4].got
        assert got.is_error
        assert got.stub is not None
        assert got.stub.is_error


@pytest.mark.pilot
async def test_a_stub_is_changed_and_forgotten_where_it_answered(db: Path) -> None:
    keep(db, READ)
    async with opened(db) as (pilot, screen):
        screen.path_rows.cursor = 4
        await press(pilot, "i")
        assert "Your stub." in drawn(pilot.app)
        box = pilot.app.screen
        assert isinstance(box, StubBox)
        box.area.load_text("gone")
        await press(pilot, "ctrl+s")
        assert screen.state.view.rows[4].got[0].text == "gone"
        screen.path_rows.cursor = 4
        await press(pilot, "delete")
        assert screen.state.view.status == "miss"
        assert screen.state.view.rows[4].got[0].text is None


# --- stale answers


@pytest.mark.pilot
async def test_a_stale_answer_is_allowed_after_it_was_asked_and_taken_back(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    key = put_account(db)
    with open_ledger(db) as store:
        kept.put(store, key, WITHDRAWN, source="test")
    async with opened(db, edit=None, trace=key, model="script") as (pilot, screen):
        assert status(screen) == "stale"
        await press(pilot, "exclamation_mark", "escape")
        assert status(screen) == "stale"
        await press(pilot, "exclamation_mark", "enter")
        assert status(screen) == "finished"
        assert "1 call got a stale result" in drawn(pilot.app)
        await press(pilot, "exclamation_mark")
        assert status(screen) == "stale"


# --- running again, another model, a server


@pytest.mark.pilot
async def test_it_runs_again_on_what_is_kept_in_any_theme_and_width(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        digest = screen.state.view.digest
        assert "5 calls · 0 cached" in drawn(pilot.app)
        await press(pilot, "r")
        assert "0 calls · 5 cached" in drawn(pilot.app)
        assert screen.state.view.digest == digest
        pilot.app.theme = "arc-light"
        await pilot.resize_terminal(160, 48)
        await settle(pilot)
        assert 'get_order(order_id="1039")' in drawn(pilot.app)


@pytest.mark.pilot
async def test_a_server_is_asked_only_under_a_limit_which_holds_for_the_screen(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_environment(monkeypatch, tmp_path)
    with MessagesApi(demo_policy()) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
        async with opened(db) as (pilot, screen):
            await press(pilot, "m")
            pilot.app.screen.query_one(Input).value = "claude-test"
            pilot.app.screen.query_one(Input).focus()
            await pilot.press("enter")
            await until(pilot, "cost limit")
            assert api.base_url in drawn(pilot.app)
            assert api.asked == 0
            pilot.app.screen.query_one(Input).value = "a lot"
            await pilot.press("enter")
            await until(pilot, "'a lot' is not a limit")
            pilot.app.screen.query_one(Input).value = "6 calls"
            await press(pilot, "enter")
            assert screen.state.view.status == "miss"
            assert "5 of 6 calls" in drawn(pilot.app)
            await press(pilot, "i", "ctrl+s", "ctrl+s")
            assert api.asked == 6
            assert "1 of 1 call · 5 cached" in drawn(pilot.app)


@pytest.mark.pilot
async def test_without_a_limit_it_says_how_far_stored_answers_go(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_environment(monkeypatch, tmp_path)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    app = ArcApp(db)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = FreeScreen(db, TOUR, 0, V4, "claude-test")
        app.push_screen(screen)
        await until(pilot, "cost limit")
        await press(pilot, "escape")
        assert screen.state.phase == "failed"
        assert rows(app)[0].startswith(" Step 0: no cached response of claude-test")


@pytest.mark.pilot
async def test_a_run_is_stopped_and_what_was_answered_is_kept(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_environment(monkeypatch, tmp_path)
    policy = demo_policy()
    with MessagesApi() as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)

        def waits(body: dict[str, Any]) -> dict[str, Any]:
            if api.asked == 3:
                api.left.wait()
            return policy(body)

        api.policy = waits
        app = ArcApp(db)
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            screen = FreeScreen(db, TOUR, 0, V4, "claude-test")
            app.push_screen(screen)
            await until(pilot, "cost limit")
            pilot.app.screen.query_one(Input).value = "9 calls"
            await pilot.press("enter")
            while api.asked < 3:
                await pilot.pause(0.01)
            await press(pilot, "x")
            await until(pilot, "Stopped. Completed calls are saved.")
            assert screen.state.phase == "stopped"


def test_a_limit_is_what_is_left_of_it() -> None:
    spent = Spending(calls=3, usd=0.2)
    assert left_of(Limits(calls=5), spent) == Limits(calls=2)
    assert left_of(Limits(calls=3), spent) is None
    left = left_of(Limits(usd=0.5), spent)
    assert left is not None
    assert left.usd == pytest.approx(0.3)
    assert left_of(Limits(), spent) is None


# --- moving about, copying


@pytest.mark.pilot
async def test_enter_shows_an_answer_in_full_and_escape_goes_back_step_by_step(db: Path) -> None:
    async with opened(db, (80, 24), below=True) as (pilot, screen):
        await press(pilot, "g", "enter")
        assert focused(screen) == "answer"
        assert " steps " not in drawn(pilot.app)
        assert '"order_id":"1049"' in drawn(pilot.app)
        await press(pilot, "escape")
        assert focused(screen) == "path"
        await press(pilot, "tab")
        assert focused(screen) == "answer"
        await press(pilot, "tab", "escape")
        assert pilot.app.screen is not screen


@pytest.mark.pilot
async def test_what_is_shown_in_full_is_copied(db: Path) -> None:
    async with opened(db) as (pilot, _):
        await press(pilot, "y")
        copied = pilot.app.clipboard
        assert "no recorded result   never recorded with these arguments" in copied
        assert '{"order_id":"1055","status":"cancelled"}' in copied
        await press(pilot, "k", "y")
        assert pilot.app.clipboard.startswith("≠ diverged   refund_order → get_order\n")


# --- how one comes here


@pytest.mark.pilot
async def test_from_a_step_of_a_run_one_key_lets_the_agent_run_on(db: Path) -> None:
    app = ArcApp(db)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        trace = TraceScreen(db, TOUR)
        app.push_screen(trace)
        await settle(pilot)
        trace.spans.go_to(3)
        await press(pilot, "F")
        assert isinstance(app.screen, FreeScreen)
        assert [row.step for row in app.screen.state.view.rows] == [3, 4, 5, 6, 7]


@pytest.mark.pilot
async def test_from_a_replay_the_edited_agent_runs_on(db: Path) -> None:
    app = ArcApp(db)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        app.push_screen(ReplayScreen(db, TOUR, 4, free=True))
        await settle(pilot)
        app.screen.post_message(OpenFreeReplay(TOUR, 4, V4, "demo"))
        await settle(pilot)
        assert isinstance(app.screen, FreeScreen)
        view: FreeView = app.screen.state.view
        assert (view.start, view.edit, view.diverged and view.diverged.step) == (4, "v4", 4)


@pytest.mark.pilot
async def test_trouble_stands_where_the_sentence_would(db: Path) -> None:
    async with opened(db, edit=None, trace="nothing") as (pilot, screen):
        assert screen.state.phase == "failed"
        assert "nothing" in rows(pilot.app)[0]


def test_a_run_without_an_answer_is_no_sample_and_names_what_helps() -> None:
    why = "Cannot replay step 3: tool definitions not recorded (`arc attach` adds them)."
    view = structs.replace(NO_RUN, sentence=why, stop=FreeStop(status="refused", sentence=why))
    state = FreeState(phase="done", view=view)
    assert state.lines == (why,)
    assert list(next_steps(state)) == [
        "‹free.back› back, then ‹trace.edit:e› attach what is missing"
    ]
    answered = structs.replace(view, spent=Spending(calls=1))
    assert structs.replace(state, view=answered).lines == (f"{why} {ONE_RUN}",)
