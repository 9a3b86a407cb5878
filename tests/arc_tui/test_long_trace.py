"""A long run is shown from where it opens before all of it is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot

from arc_tui.features.trace.lanes import fit_steps
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.views import trace as traces
from arc_tui.views.lane_scale import draw
from arc_tui.views.trace import TraceView, build_beginning, build_trace
from arc_tui.views.tree import visible
from replay.store.handle import Store
from replay.store.rows import span_rows, step_rows
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui import sample
from tests.arc_tui.opening import PATIENCE_S, begun_at, until
from tests.screen import handled, settle, text

BROKE = 3
"""The first candidate of the failed run."""

FIRST = BROKE + 2
"""The steps of the failed run that are read first, where two behind its first candidate are."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    sample.put_failed(tmp_path / "arc.db")
    monkeypatch.setattr(traces, "AHEAD", 2)
    with open_ledger(tmp_path / "arc.db") as store:
        yield store


def labels(view: TraceView) -> list[str]:
    return [row.branch.label for row in visible(view.tree, (), ())]


def test_it_begins_with_the_steps_about_its_first_candidate(store: Store) -> None:
    whole, begun = build_trace(store, "last"), build_beginning(store, "last")
    assert (whole.partial, begun.partial) == (False, True)
    assert begun.opens_at == whole.opens_at == BROKE
    assert begun.steps == whole.steps[:FIRST]
    assert labels(begun) == labels(whole)[:FIRST]
    assert (begun.marked, begun.tags, begun.run) == (whole.marked, whole.tags, whole.run)


def test_it_is_read_whole_where_it_opens_near_its_end_and_where_it_is_short(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not build_beginning(store, "last", at=10).partial
    monkeypatch.undo()
    begun, whole = build_beginning(store, "last"), build_trace(store, "last")
    assert (begun.lanes[0].values, labels(begun)) == (whole.lanes[0].values, labels(whole))


def test_lanes_keep_their_columns_while_the_rest_of_a_run_is_awaited(store: Store) -> None:
    whole, begun = build_trace(store, "last"), build_beginning(store, "last")
    bins = fit_steps(begun.run.steps, 60)
    for known, all_known in zip(begun.lanes[1:], whole.lanes[1:], strict=True):
        assert known.values == all_known.values[:FIRST]
        blocks = draw(known, bins).blocks
        assert len(blocks) == len(whole.steps)
        assert set(blocks[FIRST:]) == {" "}


def test_what_a_screen_does_not_draw_is_printed_all_the_same(store: Store) -> None:
    printed, drawn = build_trace(store, "last"), build_trace(store, "last", drawn=True)
    assert printed.diagnosis is not None
    assert drawn.diagnosis is not None
    assert printed.diagnosis.scores
    assert not drawn.diagnosis.scores
    assert drawn.lanes[0].values == printed.lanes[0].values
    assert printed.marked  # what is worked out of a view is kept beside it, and is no part of it
    assert "marked" not in msgspec.to_builtins(printed)


@pytest.mark.parametrize("first", [0, 1, 5, 12, 99])
def test_the_first_rows_are_the_first_of_all_rows(store: Store, first: int) -> None:
    key = build_trace(store, "last").run.trace
    steps, spans = step_rows(store, key), span_rows(store, key)
    assert step_rows(store, key, first) == steps[:first]
    begun = span_rows(store, key, first)
    assert begun == spans[: len(begun)]
    asks = [span for span in begun if span.kind == "model"]
    assert {row.span for row in steps[:first]} >= {span.span_id for span in asks}
    if first >= len(steps):
        assert begun == spans


@asynccontextmanager
async def begun(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Pilot[None], TraceScreen, Event]]:
    """The failed run with only its beginning there; the rest is read once the event is set."""
    read_on = Event()

    def slow(store: Store, name: str, *, drawn: bool) -> TraceView:
        assert read_on.wait(PATIENCE_S)
        return build_trace(store, name, drawn=drawn)

    monkeypatch.setattr(traces, "AHEAD", 2)
    monkeypatch.setattr("arc_tui.features.trace.screen.build_trace", slow)
    screen = TraceScreen(path, sample.put_failed(path))
    async with begun_at(screen).run_test(size=(120, 40)) as pilot:
        try:
            await until(pilot, "says: IFOYYZ was booked")
            yield pilot, screen, read_on
        finally:
            read_on.set()


async def typed(pilot: Pilot[None], *keys: str) -> None:
    """Keys in one burst, handled as far as they can be before the rest is there."""
    for key in keys:
        pilot.app.post_message(events.Key(key, key if len(key) == 1 else None))
    await handled(pilot)


@pytest.mark.pilot
async def test_the_rest_follows_and_keys_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with begun(tmp_path / "arc.db", monkeypatch) as (pilot, screen, read_on):
        before = text(pilot.app)
        await typed(pilot, "G")
        assert screen.view.partial
        assert (screen.step, screen.spans.row_count) == (BROKE, FIRST)
        read_on.set()
        await settle(pilot)
        assert "score by rule" not in before
        assert "score by rule" in text(pilot.app)
        assert not screen.view.partial
        assert screen.spans.cursor == screen.spans.row_count - 1 > FIRST


@pytest.mark.pilot
async def test_keys_within_what_is_there_wait_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with begun(tmp_path / "arc.db", monkeypatch) as (pilot, screen, _):
        await typed(pilot, "j")
        assert screen.step == BROKE + 1
        await typed(pilot, "k", "k")
        assert screen.step == BROKE - 1
        await typed(pilot, "g", "J")
        assert screen.step == 1
        await typed(pilot, "K", "2")
        assert screen.step == 0
        assert screen.tab == 1
        await until(pilot, "system")
        await typed(pilot, "enter", "j", "G")
        assert screen.focused is screen.page
        assert screen.page.cursor == screen.page.row_count - 1 > 0
        assert screen.view.partial


@pytest.mark.pilot
@pytest.mark.parametrize("key", ["j", "J", "ctrl+d", "G", ">", "*", "l"])
async def test_a_key_past_what_is_there_waits_and_so_do_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    async with begun(tmp_path / "arc.db", monkeypatch) as (pilot, screen, read_on):
        await typed(pilot, "j")
        last = screen.spans.cursor
        assert last == FIRST - 1
        await typed(pilot, key, "k", "g")
        assert screen.view.partial
        assert screen.spans.cursor == last
        read_on.set()
        await settle(pilot)
        assert screen.spans.cursor == 0
