"""A judge's classes on screen: the price first, a limit, rows as they come, then what Why says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from arc_tui.app import ArcApp
from arc_tui.features.judge.screen import ClassifyScreen
from arc_tui.features.trace.detail import NAMES
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.ui.dialogs import AskBox
from replay.trace import Outcome
from taxonomy.diagnosis import diagnose
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.suggestions import judge_findings
from tests.arc_tui.sample import header, put
from tests.arc_tui.test_classifying import put_run, refund
from tests.build import trace
from tests.judge_policy import Judge
from tests.messages_api import MessagesApi
from tests.replay.live_case import MODEL
from tests.screen import settle, text

pytestmark = pytest.mark.pilot


@pytest.fixture
def server() -> Judge:
    return Judge()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    put_run(path, "refund", refund(9900))
    put_run(path, "paid", refund(2500, 1043))
    greeting = trace(["Hello."], task="Say hello.")
    put(path, header("greet", "0", Outcome(status="passed")), greeting.spans, diagnose(greeting))
    return path


async def asked_for_a_limit(pilot: Any) -> None:
    """The run waits for a person, so nothing settles before they answer."""
    while not isinstance(pilot.app.screen, AskBox):
        await pilot.pause()
    await pilot.pause()


async def type_in(pilot: Any, words: str) -> None:
    box = pilot.app.screen
    assert isinstance(box, AskBox)
    box.query_one(Input).value = words
    box.query_one(Input).focus()
    await pilot.press("enter")
    await settle(pilot)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)], ids=str)
async def test_the_untagged_runs_are_classified_under_a_limit_and_one_opens_with_its_why(
    api: MessagesApi, db: Path, size: tuple[int, int]
) -> None:
    async with ArcApp(db).run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.press("A")
        await settle(pilot)
        await pilot.press("U")
        await settle(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, ClassifyScreen)
        assert "No judge yet." in text(pilot.app)
        await pilot.press("m")
        await settle(pilot)
        await type_in(pilot, MODEL)
        assert "2 calls, 0 cached" in text(pilot.app)
        assert api.asked == 0
        await pilot.press("r")
        await asked_for_a_limit(pilot)
        assert "2 calls to claude-test" in text(pilot.app)
        await type_in(pilot, "9 calls")
        await settle(pilot)
        assert api.asked == 2
        shown = text(pilot.app)
        assert "1 of 2 runs classified." in shown
        assert "bad args" in shown
        assert "no failure seen" in shown
        assert "never calibrated" in shown
        rows = [row.state for row in screen.state.view.rows]
        screen.rows.cursor = rows.index("suggested")
        await pilot.press("enter")
        await settle(pilot)
        opened = pilot.app.screen
        assert isinstance(opened, TraceScreen)
        (found,) = opened.detail.findings
        assert found.rule == "judge claude-test · never calibrated"
        if size[0] >= 110:  # where the detail stands beside the tree
            assert "bad args?" in text(pilot.app)
            assert "judge claude-test · never calibrated" in text(pilot.app)


async def test_left_without_a_limit_nothing_is_asked_and_it_says_what_to_do(
    api: MessagesApi, db: Path
) -> None:
    async with ArcApp(db).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("A")
        await settle(pilot)
        await pilot.press("U")
        await settle(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, ClassifyScreen)
        screen.model_chosen(MODEL)
        await settle(pilot)
        await pilot.press("r")
        await asked_for_a_limit(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert api.asked == 0
        assert "answer not stored" in text(pilot.app)


async def test_a_run_is_classified_from_its_own_screen_and_shows_it_on_return(
    api: MessagesApi, db: Path
) -> None:
    with open_ledger(db) as store:
        (key,) = [
            row[0]
            for row in store.db.execute("SELECT trace FROM trace_summary WHERE task = 'refund'")
        ]
    async with ArcApp(db).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        run = TraceScreen(db, key, 1)
        pilot.app.push_screen(run)
        await settle(pilot)
        run.tab = NAMES.index("Why")
        await settle(pilot)
        assert "bad args?" not in text(pilot.app)
        await pilot.press("U")
        await settle(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, ClassifyScreen)
        screen.model_chosen(MODEL)
        await settle(pilot)
        await pilot.press("r")
        await asked_for_a_limit(pilot)
        await type_in(pilot, "3 calls")
        await settle(pilot)
        with open_ledger(db) as store:
            assert len(judge_findings(store, key)) == 1
        await pilot.press("escape")
        await settle(pilot)
        assert "bad args?" in text(pilot.app)
