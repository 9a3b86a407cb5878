"""What a step says is read for the cursor: ahead of it, never for a row that it has left, and what
is shown in the end is the step under it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from arc_tui.features.trace import step_reader
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.features.trace.step_reader import AHEAD, LOW
from arc_tui.views.step import StepView, build_step
from replay.errors import ArcError
from replay.store.handle import Store
from taxonomy.findings import StepScore
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import keep_scores
from tests.arc_tui import sample
from tests.arc_tui.opening import opened
from tests.screen import handled, press, settle, text

LAST = 11
"""The last step of the failed run."""


@pytest.fixture
def key(tmp_path: Path) -> str:
    return sample.put_failed(tmp_path / "arc.db")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps that are read, in their order."""
    found: list[int] = []

    def build(store: Store, trace: str, index: int, **given: object) -> StepView:
        found.append(index)
        with store.writing():  # waits in SQLite where the database is `locked`
            pass
        return build_step(store, trace, index, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(step_reader, "build_step", build)
    return found


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The database as long as another process writes into it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            writer.execute("ROLLBACK")


async def hold(pilot: Pilot[None], letter: str, times: int) -> None:
    """A key held down: nobody waits for what it does."""
    for _ in range(times):
        pilot.app.post_message(events.Key(letter, letter))
    await handled(pilot)


@pytest.mark.pilot
async def test_steps_are_read_ahead_of_the_cursor_and_each_once(
    tmp_path: Path, key: str, built: list[int]
) -> None:
    screen = TraceScreen(tmp_path / "arc.db", key, 0)
    async with opened(screen) as pilot:
        assert built == [*range(AHEAD + 1)]
        await hold(pilot, "J", 1)
        assert screen.detail.row.step == 1, "without a question"
        await settle(pilot)
        assert built == [*range(AHEAD + 1)], "enough are left"
        await press(pilot, *"J" * (AHEAD - LOW))
        assert built == [*range(LAST + 1)]
        assert screen.detail.row.step == screen.spans.step == 1 + AHEAD - LOW


@pytest.mark.pilot
async def test_of_rows_passed_while_the_database_is_locked_only_the_last_is_read_next(
    tmp_path: Path, key: str, built: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_reader, "AHEAD", 0)
    screen = TraceScreen(tmp_path / "arc.db", key, 0)
    async with opened(screen) as pilot:
        assert built == [0]
        with locked(tmp_path / "arc.db"):
            await hold(pilot, "J", 1)
            while built != [0, 1]:
                await pilot.pause(0.001)
            await hold(pilot, "J", 8)
            assert screen.spans.step == 9
            assert screen.detail.row.step == 0, "what is shown is still called step 0"
            assert " step 0 " in text(pilot.app)
        await settle(pilot)
        assert screen.detail.row.step == 9
        assert " step 9 " in text(pilot.app)
        assert built == [0, 1, 9]


@pytest.mark.pilot
@pytest.mark.parametrize("keys", ["JJJJJJKK", "GgGJgJJ", "JJGKKKgJJJ"])
async def test_the_last_row_wins_whatever_was_read_before(
    tmp_path: Path, key: str, keys: str
) -> None:
    screen = TraceScreen(tmp_path / "arc.db", key, 4)
    async with opened(screen) as pilot:
        for letter in keys:
            await hold(pilot, letter, 1)
            await pilot.pause(0.001)
        await settle(pilot)
        with open_ledger(tmp_path / "arc.db") as store:
            alone = build_step(store, key, screen.spans.step)
        assert screen.detail.row.step == screen.spans.step
        assert screen.detail.raw == alone.raw
        assert screen.detail.new == alone.new


@pytest.mark.pilot
async def test_what_was_read_ahead_is_forgotten_when_somebody_writes(
    tmp_path: Path, key: str, built: list[int]
) -> None:
    screen = TraceScreen(tmp_path / "arc.db", key, 0)
    async with opened(screen) as pilot:
        assert 1 in built
        with open_ledger(tmp_path / "arc.db") as store:
            given = StepScore(step=1, value=0.125, source="human", by="ada", items=())
            keep_scores(store, key, [given])
        built.clear()
        screen.on_changed()
        await settle(pilot)
        assert built == [], "what is shown stays"
        await press(pilot, "J")
        assert built[0] == 1
        assert [each.score.value for each in screen.detail.scores][:1] == [0.125]


@pytest.mark.pilot
async def test_a_step_that_cannot_be_read_is_said_to_be_so_when_the_cursor_is_there(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_ledger(tmp_path / "arc.db") as store, store.writing() as db:
        db.execute(
            "UPDATE message SET body = 'x' WHERE id ="
            " (SELECT response FROM model_call JOIN span ON id = span WHERE step = 2)"
        )
    errors: list[ArcError] = []
    screen = TraceScreen(tmp_path / "arc.db", key, 0)
    async with opened(screen) as pilot:
        await press(pilot, "3")
        monkeypatch.setattr(screen, "show_error", errors.append)
        await press(pilot, "J")
        assert screen.detail.row.step == 1
        assert errors == [], "though step 2 was to be read ahead"
        await press(pilot, "J")
        assert len(errors) == 1
        assert screen.detail.row.step == 1
        assert " step 1 " in text(pilot.app)


@pytest.mark.pilot
async def test_earlier_messages_are_read_where_their_fold_is_opened(
    tmp_path: Path, key: str
) -> None:
    screen = TraceScreen(tmp_path / "arc.db", key, 4)
    async with opened(screen) as pilot:
        await press(pilot, "2", "enter")
        assert screen.detail.earlier is None
        fold = next(at for at, row in enumerate(screen.page._rows) if row.key == "earlier")
        screen.page.cursor = fold
        await press(pilot, "enter")
        assert screen.page.cursor == fold, "the place in it is kept"
        assert screen.detail.earlier is not None
        assert len(screen.detail.earlier) == screen.detail.shared
        await press(pilot, "J")
        assert screen.detail.row.step == 5
        assert screen.detail.earlier is not None, "what was opened stays open"
        assert "Loading messages" not in text(pilot.app)


@pytest.mark.pilot
async def test_a_move_of_the_cursor_lays_out_nothing_anew(tmp_path: Path, key: str) -> None:
    screen = TraceScreen(tmp_path / "arc.db", key, 0)
    async with opened(screen, (120, 40)) as pilot:
        await press(pilot, "3")
        laid_out: list[object] = []
        screen.screen_layout_refresh_signal.subscribe(screen, laid_out.append)
        await press(pilot, "J", "J", "j", "j", "K")
        assert screen.spans.step
        assert laid_out == []
