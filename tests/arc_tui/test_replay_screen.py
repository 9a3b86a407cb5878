"""The replay screen: what it shows before, during and after a run, and what its keys do."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.widgets import Input

from arc_tui.app import ArcApp
from arc_tui.experiments.locked_view import ReplayView
from arc_tui.experiments.request import ReplayRequest, levels_of, limits_of, views_of
from arc_tui.experiments.runner import JobFinished, JobProgressed
from arc_tui.features.replay.run import run_replay
from arc_tui.features.replay.screen import ReplayScreen
from arc_tui.features.replay.state import estimate_sentence
from arc_tui.features.replay.widgets import StepDiff
from arc_tui.navigation import OpenFreeReplay
from arc_tui.places import fixtures
from arc_tui.ui.editor import edit
from arc_tui.ui.keys import write_keys
from replay.budget import Limits
from replay.edit.changes import (
    Edit,
    InjectConstraint,
    RenameTool,
    SetEffort,
    SetMessage,
    SetObservation,
    SetSystem,
    SetTool,
)
from replay.errors import ArcError, BadEdit
from replay.locked.row import AUTO, LOOK, Sampling
from replay.store import edits
from replay.trace import NO_SYSTEM, NO_TOOLS, Fidelity, Level, ModelCall, Outcome
from taxonomy.judgements.schema import open_ledger
from tests import build
from tests.arc_tui import opening, sample
from tests.arc_tui.opening import SIZES, WIDE, looks_like, until
from tests.messages_api import MessagesApi, message, text
from tests.screen import press, rows, settle
from tests.screen import text as drawn

TOUR = "shop-many-wishes-v5-0"
BREAK = 4
V4 = (fixtures() / "demo/prompts/v4.md").read_text()
Opened = tuple[Pilot[None], ReplayScreen]


@asynccontextmanager
async def opened(
    db: Path,
    size: tuple[int, int] = (120, 40),
    *,
    trace: str = TOUR,
    step: int = BREAK,
    below: bool = False,
) -> AsyncIterator[Opened]:
    screen = ReplayScreen(db, trace, step)
    async with opening.opened(screen, size, below=below) as pilot:
        yield pilot, screen


async def ask(pilot: Pilot[None], screen: ReplayScreen, prompt: str = V4) -> None:
    """Put another system prompt into the editor, submit it under the name it is offered."""
    screen.edit_pane.put(prompt)
    await pilot.press("ctrl+s")
    await until(pilot, NAME)
    await pilot.press("enter")
    await settle(pilot)


def said(pilot: Pilot[None]) -> str:
    """The first lines as one."""
    return " ".join(line.strip() for line in rows(pilot.app)[:3])


def answer(pilot: Pilot[None], words: str) -> None:
    """Type into the line of the question that stands there."""
    pilot.app.screen.query_one(Input).value = words


NAME = "name of the edit"
LIMIT = "cost limit"


def views(db: Path, edit: Edit | None, sampling: Sampling = AUTO) -> list[ReplayView]:
    """What a worker would post, one after another."""
    with open_ledger(db) as store:
        return list(
            views_of(run_replay, store, ReplayRequest(trace=TOUR, edit=edit, sampling=sampling))
        )


@pytest.fixture
def every_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view of every result, however fast they come."""
    monkeypatch.setattr("arc_tui.features.replay.run.BETWEEN_VIEWS_S", 0.0)


def under_way(posted: list[ReplayView], done: int) -> ReplayView:
    """The first view in which so many steps are known."""
    return next(view for view in posted if view.done == done)


# --- what it looks like


@pytest.mark.pilot
@pytest.mark.usefixtures("every_view")
async def test_it_looks_like_this_before_anything_is_asked_and_while_it_asks(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await looks_like(pilot, "replay_before")
        posted = views(db, Edit(name="v4", changes=(SetSystem(V4),)))
        screen.edit_pane.put(V4)
        await pilot.press("tab")
        screen.post_message(JobProgressed(under_way(posted, 5)))
        await settle(pilot)
        await looks_like(pilot, "replay_during", (*SIZES, WIDE))


@pytest.mark.pilot
async def test_it_looks_like_this_afterwards_in_any_theme_and_width(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await ask(pilot, screen)
        await looks_like(pilot, "replay_after", (*SIZES, WIDE))
        pilot.app.theme = "arc-light"
        await pilot.resize_terminal(160, 48)
        await settle(pilot)
        assert 'get_order(order_id="1039")' in drawn(pilot.app)


# --- asking


@pytest.mark.pilot
async def test_half_of_a_character_in_a_prompt_or_a_name_is_refused_in_words(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        screen.edit_pane.put("Be \ud83d kind.")
        await pilot.press("ctrl+s")
        await until(pilot, "half of a character (U+D83D) at 4")
        screen.edit_pane.put(V4)
        await pilot.press("ctrl+s")
        await until(pilot, NAME)
        answer(pilot, "x\ud83d")
        await pilot.press("enter")
        await until(pilot, "half of a character (U+D83D) at 2")
        with open_ledger(db) as store:
            assert store.db.execute("SELECT count(*) FROM edit").fetchone() == (0,)


@pytest.mark.pilot
async def test_submitting_another_prompt_shows_where_it_diverges(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        assert (
            rows(pilot.app)[0]
            .strip()
            .startswith(
                "8 steps × 2 arms (with an edit) × 3 samples: 48 calls to demo, rule-based, at"
            )
        )
        await ask(pilot, screen)
        assert "The edit first diverges at step 4:" in drawn(pilot.app)
        asked = screen.state.view.calls
        assert f"{asked} calls · 0 cached" in drawn(pilot.app)
        with open_ledger(db) as store:
            assert [name for name, _ in edits.names(store)] == [f"edit 1 of {TOUR}"]
        await pilot.press("r")
        await settle(pilot)
        assert (screen.state.view.calls, screen.state.phase) == (0, "done")
        await pilot.press("j", "j", "enter", "G")
        await settle(pilot)
        assert focused(screen) == "step"
        shown = drawn(pilot.app)
        assert '{"order_id":"1055"}' in shown
        assert "after divergence, not counted" in shown


@pytest.mark.pilot
async def test_an_unchanged_prompt_asks_control_alone(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await pilot.press("ctrl+s")
        await settle(pilot)
        assert screen.state.view.edit is None
        assert "Control matches" in rows(pilot.app)[0]
        assert all(row.first.edited is None for row in screen.state.rows)


@pytest.mark.pilot
async def test_steps_and_differences_are_gone_to_from_either_pane(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await ask(pilot, screen)
        await press(pilot, "g", "J", "enter", "J")
        assert (focused(screen), screen.steps.row and screen.steps.row.step) == ("step", 2)
        await press(pilot, ">")
        assert screen.steps.row is not None
        assert (screen.steps.row.step, screen.steps.row.mark) == (4, "fixed")
        await press(pilot, "K")
        assert screen.steps.row.step == 3
        await press(pilot, "<")
        assert screen.steps.row.step == 3
        assert "No such step." in drawn(pilot.app)


@pytest.mark.pilot
async def test_a_key_goes_to_the_editor_where_letters_are_typed(db: Path) -> None:
    async with opened(db, (80, 24)) as (pilot, screen):
        screen.go_to(screen.steps)
        await press(pilot, "e")
        assert screen.focused is screen.edit_pane.area
        before = screen.edit_pane.text
        await press(pilot, "e", "J", "space")
        assert len(screen.edit_pane.text) == len(before) + 3


async def target(pilot: Pilot[None], screen: ReplayScreen, label: str) -> None:
    """Open a text of the list in the editor."""
    labels = [each.label for each in screen.state.draft.targets]
    screen.edit_pane.targets.cursor = labels.index(label)
    await pilot.pause()


@pytest.mark.pilot
async def test_several_texts_edited_make_one_edit(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        pane = screen.edit_pane
        pane.put("Be brief.")
        pane.targets.cursor = 1
        await pilot.pause()
        pane.put("Look an order up. Always call it before a refund.")
        await target(pilot, screen, "message 7")
        pane.put("I will read the order first.")
        await ask(pilot, screen, pane.text)
        with open_ledger(db) as store:
            kept = edits.find(store, f"edit 1 of {TOUR}")
        assert kept.changes == (
            SetSystem("Be brief."),
            SetTool("get_order", description="Look an order up. Always call it before a refund."),
            SetMessage(7, "I will read the order first."),
        )
        assert screen.state.view.differs


@pytest.mark.pilot
async def test_tab_turns_from_the_editor_to_the_result_in_a_narrow_terminal(db: Path) -> None:
    async with opened(db, (80, 24)) as (pilot, screen):
        assert screen.steps not in displayed(screen)
        await pilot.press("tab")
        await settle(pilot)
        assert focused(screen) == "steps"
        assert screen.edit_pane not in displayed(screen)


def focused(screen: ReplayScreen) -> str | None:
    return screen.focused.id if screen.focused is not None else None


def displayed(screen: ReplayScreen) -> list[object]:
    return [
        widget
        for widget in (screen.steps, screen.edit_pane)
        if all(each.display for each in widget.ancestors_with_self if hasattr(each, "display"))
    ]


@pytest.mark.pilot
@pytest.mark.usefixtures("every_view")
async def test_a_live_model_is_asked_within_a_budget_and_can_be_stopped(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    with MessagesApi() as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)

        def policy(_: dict[str, Any]) -> dict[str, Any]:
            if api.asked == 3:
                api.left.wait()
            return message(text("Done."))

        api.policy = policy
        async with opened(db) as (pilot, screen):
            await choose(pilot, "claude-test")
            assert "price unknown" in said(pilot)
            screen.request = structs.replace(screen.request, sampling=LOOK)
            await pilot.press("ctrl+s")
            await until(pilot, LIMIT)
            assert api.base_url in drawn(pilot.app)
            answer(pilot, "20 calls")
            await pilot.press("enter")
            while api.asked < 3:
                await pilot.pause(0.01)
            await pilot.press("x")
            while screen.state.running:
                await pilot.pause(0.01)
            await settle(pilot)
            assert "Stopped after 2 of 8 steps. Completed calls are saved." in rows(pilot.app)[0]
            assert "2 of 20 calls · 0 cached" in drawn(pilot.app)


@pytest.mark.pilot
async def test_what_is_spent_is_counted_while_calls_are_under_way(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    with MessagesApi() as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)

        late = iter([True])

        def policy(body: dict[str, Any]) -> dict[str, Any]:
            if len(body["messages"]) == 1 and next(late, False):
                api.left.wait()
            return message(text("Done."))

        api.policy = policy
        async with opened(db) as (pilot, screen):
            await choose(pilot, "claude-test")
            screen.request = structs.replace(screen.request, sampling=Sampling(schedule="fast"))
            await pilot.press("ctrl+s")
            await until(pilot, LIMIT)
            answer(pilot, "30 calls")
            await pilot.press("enter")
            await until(pilot, "Replaying step 1 of 8 · 23 of 30 calls")
            await pilot.press("x")
            while screen.state.running:
                await pilot.pause(0.01)
            await settle(pilot)
            assert "Stopped after 0 of 8 steps. Completed calls are saved." in rows(pilot.app)[0]


@pytest.mark.pilot
async def test_figures_that_move_do_not_lay_the_steps_out_again(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted = views(db, None, LOOK)
    async with opened(db) as (pilot, screen):
        screen.post_message(JobProgressed(posted[-1]))
        await pilot.pause()
        laid_out: list[StepDiff] = []
        monkeypatch.setattr(StepDiff, "rows_changed", laid_out.append)
        screen.post_message(JobProgressed(structs.replace(posted[-1], calls=99)))
        await pilot.pause()
        assert "99 calls · " in drawn(pilot.app)
        assert not laid_out


async def choose(pilot: Pilot[None], model: str) -> None:
    await pilot.press("f3")
    await settle(pilot)
    answer(pilot, model)
    pilot.app.screen.query_one(Input).focus()
    await pilot.press("enter")
    await settle(pilot)


@pytest.mark.pilot
async def test_without_a_budget_a_missing_answer_is_one_sentence(
    db: Path, api: MessagesApi
) -> None:
    async with opened(db) as (pilot, _):
        await choose(pilot, "claude-test")
        await pilot.press("f5")
        await until(pilot, LIMIT)
        answer(pilot, "plenty")
        await pilot.press("enter")
        await until(pilot, "'plenty' is not a limit")
        await pilot.press("escape")
        await settle(pilot)
        assert "Step 0: no cached response of claude-test to this request." in rows(pilot.app)[0]
        assert "run again with a limit" in rows(pilot.app)[1]


@pytest.mark.pilot
@pytest.mark.usefixtures("every_view")
async def test_what_a_worker_posts_after_a_stop_does_not_start_it_again(db: Path) -> None:
    posted = views(db, None, LOOK)
    async with opened(db) as (pilot, screen):
        screen.post_message(JobProgressed(under_way(posted, 2)))
        await pilot.pause()
        assert screen.state.phase == "running"
        screen.post_message(JobFinished(stopped=True))
        await pilot.pause()
        assert "Stopped after 2 of 8 steps." in rows(pilot.app)[0]


@pytest.mark.pilot
@pytest.mark.parametrize(("key", "pane"), [("e", "area"), ("r", "steps")])
async def test_the_trace_screen_opens_it_at_the_step_under_its_cursor(
    db: Path, key: str, pane: str
) -> None:
    app = ArcApp(db)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        await pilot.press(key)
        await settle(pilot)
        screen = app.screen
        assert isinstance(screen, ReplayScreen)
        assert focused(screen) == pane
        assert screen.steps.step == screen.state.rows[BREAK]
        await pilot.press("escape")
        assert not screen.is_current


@pytest.mark.pilot
async def test_an_edit_nobody_asked_about_is_not_left_by_one_key(db: Path) -> None:
    async with opened(db, below=True) as (pilot, screen):
        screen.edit_pane.put("Be brief.")
        await pilot.press("escape")
        assert screen.is_current
        await pilot.press("escape")
        assert not screen.is_current


# --- how often to ask


@pytest.mark.pilot
async def test_a_number_of_samples_is_taken_foreseen_and_asked_and_nothing_else(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await pilot.press("f6")
        await pilot.pause()
        answer(pilot, "plenty")
        await pilot.press("enter")
        await pilot.pause()
        assert "'plenty' is neither auto nor a number" in drawn(pilot.app)
        await pilot.press("escape")
        assert screen.request.sampling == AUTO
        await pilot.press("f6")
        await pilot.pause()
        answer(pilot, "1")
        await pilot.pause()
        assert "1 sample: not conclusive" in drawn(pilot.app)
        await pilot.press("enter")
        await settle(pilot)
        assert (
            "8 steps × 2 arms (with an edit) × 1 sample: 16 calls to demo, rule-based; free"
            in drawn(pilot.app)
        )
        await ask(pilot, screen)
        assert screen.state.view.calls == 16
        assert "1 sample: not conclusive." in drawn(pilot.app)
        assert "┃" not in drawn(pilot.app)


@pytest.mark.pilot
async def test_asking_afresh_asks_again_what_is_kept(db: Path) -> None:
    posted = views(db, None, LOOK)
    async with opened(db) as (pilot, screen):
        await pilot.press("f6")
        await pilot.pause()
        answer(pilot, "1")
        await pilot.press("tab", "space", "enter")
        await settle(pilot)
        assert "cache ignored: 16 calls" in drawn(pilot.app)
        await pilot.press("f5")
        await settle(pilot)
        assert (screen.state.view.calls, screen.state.view.range) == (8, 1)
        assert screen.state.view.digest != posted[-1].digest


@pytest.mark.pilot
async def test_the_order_of_the_calls_is_a_choice_of_a_server_alone(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await pilot.press("f6")
        await pilot.pause()
        assert "as one provider batch" not in drawn(pilot.app)
        await pilot.press("escape")
        await choose(pilot, "claude-test")
        await pilot.press("f6")
        await pilot.pause()
        assert "as one provider batch" in drawn(pilot.app)
        await pilot.press("tab", "down", "down", "enter")
        await settle(pilot)
        assert screen.request.sampling == Sampling(schedule="batch")
        assert "one batch, within a day" in said(pilot)
        await choose(pilot, "demo")
        assert screen.request.sampling == AUTO


@pytest.mark.pilot
async def test_why_steps_drop_out_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    lost = Fidelity(level=Level.NONE, reasons=("held by the server",))
    spans = list(
        build.trace(sample.PARTS, system=sample.SYSTEM, tools=[build.tool("get_reservation")]).spans
    )
    asks = [at for at, span in enumerate(spans) if isinstance(span, ModelCall)]
    for at in asks[:2]:
        spans[at] = structs.replace(spans[at], fidelity=lost)
    trace = sample.put(path, sample.header("26", "1", Outcome(status="failed")), spans)
    async with opened(path, trace=trace, step=3) as (pilot, _):
        await choose(pilot, "demo")
        assert f"{len(asks) - 2} of {len(asks)} steps × 2 arms" in rows(pilot.app)[0]
        assert "! 2 steps cannot be replayed: held by the server" in drawn(pilot.app)


# --- the edit


@pytest.mark.pilot
async def test_the_diff_takes_the_editors_place_and_gives_it_back_with_all_its_letters(
    db: Path,
) -> None:
    async with opened(db) as (pilot, screen):
        screen.edit_pane.put(V4)
        await pilot.press("f2")
        await settle(pilot)
        assert "+Customers write to you about their" in drawn(pilot.app)
        assert focused(screen) == "diff"
        await pilot.press("d")
        await settle(pilot)
        assert focused(screen) == "area"
        await pilot.press("ctrl+home", "question_mark")
        assert screen.edit_pane.text.startswith("?")
        await pilot.press("f1")
        await pilot.pause()
        assert "keys here" in drawn(pilot.app)


@pytest.mark.pilot
async def test_each_text_is_undone_on_its_own(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        pane = screen.edit_pane
        recorded = pane.text
        pane.put("Be brief.")
        await target(pilot, screen, "tool get_order")
        pane.put("Look it up.")
        await target(pilot, screen, "system prompt")
        assert pane.text == "Be brief."
        pane.area.undo()
        await pilot.pause()
        assert pane.text == recorded
        assert list(pane.texts) == ["tool get_order"]
        pane.area.redo()
        await pilot.pause()
        assert pane.texts["system prompt"] == "Be brief."


@pytest.mark.pilot
async def test_an_observation_is_edited_like_a_text(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await target(pilot, screen, "result 0")
        assert '"order_id":"1049"' in screen.edit_pane.text
        await ask(pilot, screen, "order 1049 was never shipped")
        with open_ledger(db) as store:
            kept = edits.find(store, f"edit 1 of {TOUR}")
        assert kept.changes == (
            SetObservation(step=0, call=0, text="order 1049 was never shipped"),
        )
        assert next(row.first.step for row in screen.state.rows if row.first.p is not None) == 1
        await pilot.press("d")
        await pilot.pause()
        assert "+order 1049 was never shipped" in drawn(pilot.app)


KEPT = Edit(
    name="kept one", changes=(SetSystem("Be brief."), RenameTool("get_order", "read_order"))
)


async def keep_and_take(pilot: Pilot[None], db: Path) -> None:
    """Keep an edit and take it from the list."""
    with open_ledger(db) as store:
        edits.save(store, KEPT)
    await pilot.press("f7")
    await settle(pilot)
    assert "kept one" in drawn(pilot.app)
    await pilot.press("down", "enter")
    await settle(pilot)


@pytest.mark.pilot
async def test_a_kept_edit_is_taken_whole_and_keeps_its_name(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        screen.edit_pane.put("what was typed before")
        await keep_and_take(pilot, db)
        assert screen.edit_pane.text == "Be brief.\n"
        assert "also: tool get_order renamed" in drawn(pilot.app)
        await pilot.press("f5")
        await settle(pilot)
        assert screen.state.view.edit == KEPT.name
        screen.edit_pane.area.undo()
        await pilot.pause()
        assert screen.edit_pane.text == "what was typed before"
        assert "Results of the previous edit. ^s replays the changed one." in drawn(pilot.app)


@pytest.mark.pilot
async def test_a_change_that_no_text_shows_can_be_left_out_again(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await keep_and_take(pilot, db)
        await pilot.press("f9")
        await pilot.pause()
        await pilot.press("end", "enter")
        await settle(pilot)
        assert screen.state.draft.also == ()
        assert screen.edit_pane.text == "Be brief.\n"
        await pilot.press("f7")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert screen.state.draft.edit is None
        assert screen.edit_pane.texts == {}


@pytest.mark.pilot
async def test_a_constraint_shows_in_the_prompt_it_is_added_to(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        screen.edit_pane.put("Be kind.")
        await pilot.press("f9")
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        answer(pilot, "Never guess.")
        await pilot.press("enter")
        await settle(pilot)
        assert screen.edit_pane.text == "Be kind.\n\nNever guess.\n"
        edit = screen.state.draft.edit
        assert edit is not None
        assert edit.changes == (SetSystem("Be kind."), InjectConstraint("Never guess."))


@pytest.mark.pilot
async def test_effort_and_a_model_of_its_own_are_changes_beside_the_texts(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await pilot.press("f9")
        await pilot.pause()
        await pilot.press("down", "down", "down", "enter")
        await pilot.pause()
        await pilot.press("down", "down", "down", "enter")
        await settle(pilot)
        assert screen.state.draft.also == (SetEffort("medium"),)
        assert "also: effort set to medium" in drawn(pilot.app)
        await pilot.press("f9")
        await pilot.pause()
        await pilot.press("down", "down", "enter")
        await pilot.pause()
        answer(pilot, "claude-test")
        await pilot.press("enter")
        await settle(pilot)
        assert "to demo, rule-based, edited arm to claude-test" in said(pilot)
        estimate = screen.state.estimate
        assert estimate is not None
        assert not estimate.is_free


@pytest.mark.pilot
async def test_an_edit_of_another_trace_says_why_it_does_not_fit(db: Path) -> None:
    strange = Edit(name="strange", changes=(SetObservation(step=99, text="x"),))
    with open_ledger(db) as store:
        edits.save(store, strange)
    async with opened(db) as (pilot, screen):
        screen.edit_pane.put("typed")
        await pilot.press("f7")
        await settle(pilot)
        await pilot.press("down", "enter")
        await settle(pilot)
        assert "No step 99 in the trace." in rows(pilot.app)[0]


# --- what goes on from here


@pytest.mark.pilot
@pytest.mark.parametrize("free", [False, True])
async def test_free_replay_is_wanted_of_an_app_that_offers_it(
    db: Path, monkeypatch: pytest.MonkeyPatch, free: bool
) -> None:
    request: list[OpenFreeReplay] = []

    def follow(_: ArcApp, event: OpenFreeReplay) -> None:
        request.append(event)

    monkeypatch.setattr(ArcApp, "on_open_free_replay", follow, raising=False)
    screen = ReplayScreen(db, TOUR, BREAK, free=free)
    async with opening.opened(screen) as pilot:
        screen.edit_pane.put("Be brief.")
        await pilot.press("f12")
        await pilot.pause()
    edit = Edit(name=f"edit 1 of {TOUR}", changes=(SetSystem("Be brief."),))
    assert [(each.step, each.edit, each.model) for each in request] == [(BREAK, edit, None)] * free


# --- around it


@pytest.mark.pilot
async def test_a_trace_without_a_system_prompt_asks_for_one_instead(tmp_path: Path) -> None:
    path, prompt = tmp_path / "arc.db", tmp_path / "system.md"
    prompt.write_text(sample.SYSTEM)
    silent = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS))
    made = [
        structs.replace(span, fidelity=silent) if isinstance(span, ModelCall) else span
        for span in build.trace(sample.PARTS).spans
    ]
    trace = sample.put(path, sample.header("26", "1", Outcome(status="failed")), made)
    async with opened(path, trace=trace, step=0) as (pilot, screen):
        assert f"{NO_SYSTEM} and {NO_TOOLS}" in drawn(pilot.app)
        assert "Attach prompt or tools" in drawn(pilot.app)
        await pilot.press("tab", "tab", "tab", "space")
        await type_path(pilot, tmp_path / "nowhere.md")
        assert "file not found" in drawn(pilot.app)
        await type_path(pilot, prompt)
        assert screen.edit_pane.text == sample.SYSTEM
        assert screen.state.draft.missing == ()
        assert "tool get_reservation" in drawn(pilot.app)


async def type_path(pilot: Pilot[None], path: Path) -> None:
    pilot.app.screen.query_one("#system", Input).value = str(path)
    await pilot.press("enter")
    await settle(pilot)


HOSTILE = "\x1b[31mred\x1b]52;c;aGk=\x07 \u202egnp.exe [bold]x[/bold]\ttab\r\x9b1m"


@pytest.mark.pilot
async def test_a_hostile_trace_is_shown_and_never_obeyed(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    said = build.trace(
        [build.step(HOSTILE, build.call(HOSTILE, HOSTILE, path=HOSTILE)), HOSTILE],
        task=HOSTILE,
        system=f"{HOSTILE}\n{HOSTILE}",
        tools=[build.tool(HOSTILE, HOSTILE)],
    )
    head = sample.header(HOSTILE, HOSTILE, Outcome(), title=HOSTILE)
    trace = sample.put(path, head, said.spans)
    async with opened(path, trace=trace, step=1) as (pilot, screen):
        assert screen.edit_pane.texts == {}
        assert not obeyed(pilot)
        screen.edit_pane.put(f"{HOSTILE} and more")
        await pilot.press("f2")
        await settle(pilot)
        assert "and more" in drawn(pilot.app)
        assert not obeyed(pilot)
        assert screen.state.estimate is not None
        sentence = write_keys(screen, estimate_sentence(screen.state.estimate), typing=True)
        assert sentence == rows(pilot.app)[0].strip()
        await choose(pilot, "demo")
        await pilot.press("f5")
        await until(pilot, NAME)
        await pilot.press("enter")
        await settle(pilot)
        assert "not replayed" in drawn(pilot.app)
        assert not obeyed(pilot)


def obeyed(pilot: Pilot[None]) -> set[str]:
    """The characters on the screen that a terminal would do something with."""
    strips = pilot.app.screen._compositor.render_strips()
    shown = {mark for strip in strips for segment in strip for mark in segment.text}
    return shown & set("\x1b\x07\x9b\r\u202e")


def test_an_editor_gets_a_private_file_and_its_last_line_break_is_no_edit() -> None:
    script = (
        "import os, stat, sys; path = sys.argv[1];"
        "assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700;"
        "open(path, 'a').write(' Be brief.\\n')"
    )
    assert edit("Be kind.", [sys.executable, "-c", script]) == "Be kind. Be brief."


def test_an_editor_that_fails_or_is_absent_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ArcError, match="nothing was changed"):
        edit("Be kind.", [sys.executable, "-c", "raise SystemExit(1)"])
    with pytest.raises(ArcError, match="cannot be started"):
        edit("Be kind.", [str(tmp_path / "nowhere")])


@pytest.mark.pilot
async def test_a_terminal_that_cannot_be_lent_says_so(db: Path) -> None:
    async with opened(db) as (pilot, _):
        await pilot.press("f4")
        assert "No editor can be opened from here." in rows(pilot.app)[0]


LIMITS = [
    ("0.50", Limits(usd=0.5)),
    ("$ 2", Limits(usd=2.0)),
    (".5 usd", Limits(usd=0.5)),
    ("20 calls", Limits(calls=20)),
    ("1call", Limits(calls=1)),
]


@pytest.mark.parametrize(("words", "meant"), LIMITS)
def test_a_limit_is_an_amount_or_a_number_of_calls(words: str, meant: Limits) -> None:
    assert limits_of(words) == meant


@pytest.mark.parametrize("words", ["", "a lot", "-1", "1e9", "20 tokens"])
def test_anything_else_is_no_limit(words: str) -> None:
    with pytest.raises(BadEdit):
        limits_of(words)


def test_samples_are_auto_or_a_number() -> None:
    assert levels_of(" auto ") == AUTO.levels
    assert levels_of("1") == LOOK.levels
    assert levels_of("12") == (12,)


@pytest.mark.parametrize("words", ["", "many", "0", "101", "-1", "1.5", "²"])
def test_anything_else_is_no_number_of_samples(words: str) -> None:
    with pytest.raises(BadEdit):
        levels_of(words)


async def add_arm(pilot: Pilot[None], word: str) -> None:
    await pilot.press("f11")
    await until(pilot, "add an arm")
    pilot.app.screen.query_one(Input).value = word
    pilot.app.screen.query_one(Input).focus()
    await pilot.press("enter")
    await settle(pilot)


@pytest.mark.pilot
async def test_several_arms_stand_beside_one_control(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        for version in ("v4", "v6", "v2"):
            await add_arm(pilot, str(fixtures() / f"demo/prompts/{version}.md"))
        assert "Arms beside control: v4, v6, v2" in drawn(pilot.app)
        await pilot.press("ctrl+s")
        await settle(pilot)
        assert [arm.edit for arm in screen.state.view.arms] == ["v4", "v6", "v2"]
        assert all(arm.digest is not None for arm in screen.state.view.arms)
        await looks_like(pilot, "replay_arms", [(80, 24), (120, 40), (200, 50)])
        assert "v2" not in columns_head(screen)
        await pilot.press("l", "l", "l")
        await settle(pilot)
        assert "v2" in columns_head(screen)
        await pilot.press("g", "greater_than_sign")
        assert screen.steps.step is not None
        assert any(row.mark == "changed" for row in screen.steps.step.arms)


def columns_head(screen: ReplayScreen) -> str:
    return screen.steps.draw_head(0, screen.steps.row_width).plain


@pytest.mark.pilot
async def test_an_edit_being_written_becomes_an_arm_and_an_arm_can_be_left_out(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await add_arm(pilot, str(fixtures() / "demo/prompts/v6.md"))
        screen.edit_pane.put(V4)
        await pilot.press("f11")
        await until(pilot, "add an arm")
        await pilot.press("enter")
        await until(pilot, NAME)
        pilot.app.screen.query_one(Input).value = "mine"
        await pilot.press("enter")
        await settle(pilot)
        assert [each.name for each in screen.request.others] == ["v6", "mine"]
        assert "no edit here: the other arms only" in drawn(pilot.app)
        await add_arm(pilot, str(fixtures() / "demo/prompts/v6.md"))
        assert "Two arms are the same edit" in drawn(pilot.app)
        await pilot.press("f11")
        await until(pilot, "leave out")
        await pilot.press("j", "enter")
        await settle(pilot)
        assert [each.name for each in screen.request.others] == ["mine"]


@pytest.mark.pilot
async def test_another_model_is_an_arm(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        await pilot.press("f11")
        await until(pilot, "another model")
        await pilot.press("enter")
        await until(pilot, "which model?")
        pilot.app.screen.query_one(Input).value = "gpt-5"
        pilot.app.screen.query_one(Input).focus()
        await pilot.press("enter")
        await settle(pilot)
        assert [each.model for each in screen.request.others] == ["gpt-5"]
        assert screen.state.estimate is not None
        assert screen.state.estimate.models == ("demo", "gpt-5")
