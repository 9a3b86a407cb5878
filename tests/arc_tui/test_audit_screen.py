"""The audit screen: what is known, an audit that runs and stops, steps opened, tags given."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.audit.screen import AuditScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.settings import Settings
from replay.store.handle import now_ns
from taxonomy.classes import FailureClass
from taxonomy.judgements.audits import DAY_NS
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import human_tags
from tests.arc_tui.audit_case import put_audited
from tests.arc_tui.opening import until
from tests.screen import settle, text

pytestmark = pytest.mark.pilot


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, value in (("CONFIG_DIR", tmp_path), ("DATA_DIR", tmp_path), ("USER", "tester")):
        monkeypatch.setenv(f"ARC_{name}", str(value))
    put_audited(tmp_path / "arc.db")
    return tmp_path / "arc.db"


@asynccontextmanager
async def audited(
    db: Path, size: tuple[int, int] = (80, 24), *, run: bool = True
) -> AsyncIterator[Pilot[None]]:
    """The screen, opened from the list of runs, after an audit of all of them."""
    app = ArcApp(db, settings=Settings())
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+a")
        await settle(pilot)
        assert isinstance(app.screen, AuditScreen)
        if run:
            await pilot.press("r")
            await until(pilot, "3 runs audited")
            await settle(pilot)
        yield pilot


def screen(pilot: Pilot[None]) -> AuditScreen:
    shown = pilot.app.screen
    assert isinstance(shown, AuditScreen)
    return shown


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def test_without_an_audit_it_says_so_and_what_to_press(db: Path) -> None:
    async with audited(db, run=False) as pilot:
        shown = text(pilot.app)
        assert "No audit yet." in shown
        assert "r   audit 3 runs" in shown


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)], ids=str)
async def test_rates_findings_and_the_one_in_full(db: Path, size: tuple[int, int]) -> None:
    async with audited(db, size) as pilot:
        shown = text(pilot.app)
        assert "3 runs audited, 2 with a finding" in shown
        assert "1/2 .50 (.09–.91)" in shown
        assert "I'll read config.py first." in shown
        assert "x stop" not in shown.splitlines()[-1]


async def test_enter_opens_the_run_at_the_step(db: Path) -> None:
    async with audited(db) as pilot:
        await press(pilot, "j", "enter")
        opened = pilot.app.screen
        assert isinstance(opened, TraceScreen)
        assert opened.spans.step == 1
        await press(pilot, "escape")
        assert screen(pilot).rows.cursor == 1


async def test_a_tag_is_given_with_its_evidence_and_taken_back(db: Path) -> None:
    async with audited(db) as pilot:
        await press(pilot, "t")
        assert "step 0: other / unfaithful: tagged; u undo" in text(pilot.app)
        assert [row.is_tagged for row in screen(pilot).rows.found] == [True, False]
        with open_ledger(db) as store:
            (tag,) = human_tags(store)
            assert (tag.failure, tag.sub, tag.by) == (FailureClass.OTHER, "unfaithful", "tester")
            (evidence,) = store.db.execute("SELECT evidence FROM tag").fetchone()
            assert "I'll read config.py first." in evidence
        await press(pilot, "t")
        with open_ledger(db) as store:
            assert len(human_tags(store)) == 1
        await press(pilot, "u")
        with open_ledger(db) as store:
            assert human_tags(store) == []


async def test_a_tag_given_elsewhere_is_seen_on_the_way_back(db: Path) -> None:
    async with audited(db) as pilot:
        await press(pilot, "t", "enter", "u", "escape")
        row = screen(pilot).rows.row
        assert row is not None
        assert row.is_tagged, "undo there takes back what was given there"


async def test_what_is_stale_is_said_and_new_runs_are_counted(db: Path) -> None:
    async with audited(db) as pilot:
        await press(pilot, "escape")
    with open_ledger(db) as store, store.writing() as rows:
        rows.execute("UPDATE audit SET audited_ns = ?", (now_ns() - 100 * DAY_NS,))
        rows.execute("DELETE FROM audit WHERE rowid = (SELECT min(rowid) FROM audit)")
    async with audited(db, (120, 40), run=False) as pilot:
        shown = text(pilot.app)
        assert (
            "100 days ago: stale after 90; 1 run new, changed, or audited by older rules" in shown
        )
        assert "r audit" in shown


async def test_an_audit_is_stopped_and_keeps_what_was_audited(db: Path) -> None:
    async with audited(db, run=False) as pilot:
        at = screen(pilot)
        at.action_run()
        at.action_stop()
        await settle(pilot)
        assert not at.has_job
        assert at.view.audited <= 1
        assert at.view.age.new >= 2
        await press(pilot, "r")
        await until(pilot, "3 runs audited")
        assert at.view.audited == 3


async def test_copying_copies_the_finding(db: Path) -> None:
    async with audited(db) as pilot:
        await press(pilot, "y")
        assert "I'll read config.py first." in pilot.app.clipboard


async def test_the_panes_are_switched_and_left(db: Path) -> None:
    async with audited(db) as pilot:
        await press(pilot, "tab")
        assert screen(pilot).page.has_focus
        await press(pilot, "escape")
        assert screen(pilot).rows.has_focus
        await press(pilot, "escape")
        assert not isinstance(pilot.app.screen, AuditScreen)


async def test_the_query_of_the_list_is_that_of_the_audit(db: Path) -> None:
    app = ArcApp(db, settings=Settings())
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        await press(pilot, "slash", *"task=tests", "enter", "ctrl+a")
        assert screen(pilot).view.runs == 1
        assert "task=tests" in text(app)
