"""A long run is shown from where it opens before all of it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import msgspec
import pytest
from textual import events

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


@pytest.mark.pilot
async def test_the_rest_follows_and_keys_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_on = Event()

    def slow(store: Store, name: str, *, drawn: bool) -> TraceView:
        assert read_on.wait(PATIENCE_S)
        return build_trace(store, name, drawn=drawn)

    monkeypatch.setattr(traces, "AHEAD", 2)
    monkeypatch.setattr("arc_tui.features.trace.screen.build_trace", slow)
    key = sample.put_failed(tmp_path / "arc.db")
    screen = TraceScreen(tmp_path / "arc.db", key)
    app = begun_at(screen)
    async with app.run_test(size=(120, 40)) as pilot:
        try:
            await until(pilot, "says: IFOYYZ was booked")
            begun = text(app)
            app.post_message(events.Key("G", "G"))
            await handled(pilot)
            assert screen.view.partial
            assert (screen.step, screen.spans.row_count) == (BROKE, FIRST)
        finally:
            read_on.set()
        await settle(pilot)
        assert "score by rule" not in begun
        assert "score by rule" in text(app)
        assert not screen.view.partial
        assert screen.spans.cursor == screen.spans.row_count - 1 > FIRST
