"""A list of runs that is longer than what is read of it: what is drawn is there, and stays."""

from __future__ import annotations

import shutil
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.text import Text
from textual.pilot import Pilot
from textual.screen import Screen

from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.runs.widgets import RunTable
from arc_tui.views import columns
from arc_tui.views.columns import SORTED
from arc_tui.views.runs import NO_RUN, Arrangement, Listed, RunsView, build_runs, first_page
from replay.store.handle import Store
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.listing import PAGE, RunRow
from tests.arc_tui import opening, sample
from tests.build import trace
from tests.screen import rows, settle, text

RUNS = 3 * PAGE + 50


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the tasks t0, t1 … in the order of their import; every seventh failed."""
    path = tmp_path_factory.mktemp("long") / "arc.db"
    short = trace(sample.PARTS[:4], task="Hi.").spans
    sample.put(path, sample.header("t0", None, sample.FAILED), short, sample.HEALTHY)
    with open_ledger(path) as store:
        for number in range(1, RUNS):
            copy(store, number)
    return path


def copy(store: Store, number: int, imported: int | None = None) -> None:
    """The first run again, called otherwise."""
    given = {"id": "NULL", "key": "'k' || :n", "run": "'r' || :n", "task": "'t' || :n",
             "outcome": "iif(:n % 7, 'passed', 'failed')", "steps": "steps + :n",
             "imported_ns": "imported_ns + :at"}  # fmt: skip
    names = [row[1] for row in store.db.execute("PRAGMA table_info(trace)")]
    taken = ", ".join(given.get(name, name) for name in names)
    with store.writing() as db:
        db.execute(
            f"INSERT INTO trace SELECT {taken} FROM trace WHERE task = 't0'",
            {"n": number, "at": number if imported is None else imported},
        )


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[Pilot[None], RunsScreen]]:
    screen = RunsScreen(path)
    async with opening.opened(screen) as pilot:
        yield pilot, screen


@pytest.mark.pilot
async def test_a_list_is_read_where_it_is_looked_at(many: Path) -> None:
    async with opened(many) as (pilot, screen):
        assert screen.table.row_count == RUNS
        assert {*screen.listed.rows} == {*screen.listed.traces[:PAGE]}
        await pilot.press("G")
        await settle(pilot)
        assert f" t{RUNS - 1} " in text(pilot.app)
        assert not any("…" in line for line in rows(pilot.app)[:-1])
        assert len(screen.listed.rows) < RUNS
        screen.table.scroll_to(y=RUNS // 2, animate=False)
        await settle(pilot)
        assert all(f" t{RUNS // 2 + line} " in text(pilot.app) for line in range(20))


@pytest.mark.parametrize("words", ["", "outcome:failed", "t1", "tag:loop"])
@pytest.mark.parametrize("order", ["", *(column.id for column in SORTED)])
def test_the_first_page_is_that_of_the_whole_list(many: Path, words: str, order: str) -> None:
    arranged = Arrangement(words=words, order=order)
    with open_ledger(many) as store:
        page, whole = first_page(store, arranged), build_runs(store, arranged)
        assert page.traces == whole.listed.traces[:PAGE]
        assert page.first_page == whole.listed.first_page


@pytest.mark.pilot
async def test_the_first_page_is_shown_before_the_rest_is_counted(many: Path) -> None:
    async with opened(many) as (pilot, screen):
        shown: list[int] = []
        screen.watch(screen, "listed", lambda listed: shown.append(len(listed.traces)), init=False)
        await pilot.press("S")
        await settle(pilot)
        assert shown[:2] == [PAGE, RUNS]
        await pilot.press("G")
        await settle(pilot)
        await pilot.press("S")
        await settle(pilot)
        assert screen.table.row_count == RUNS, "with the cursor below, it stays on its run"
        assert shown[2:] == [RUNS, RUNS]


@pytest.mark.pilot
async def test_the_first_page_is_drawn_before_the_rest_is_counted(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, in_time = threading.Event(), list[bool]()
    draw = RunTable.draw

    def drawing(table: RunTable, index: int, width: int) -> Text:
        drawn.set()
        return draw(table, index, width)

    def counting(store: Store, *words: Any, **more: Any) -> RunsView:
        in_time.append(drawn.wait(10))
        return build_runs(store, *words, **more)

    monkeypatch.setattr("arc_tui.ui.screen.AT_ONCE_S", 600)
    monkeypatch.setattr("arc_tui.features.runs.screen.build_runs", counting)
    monkeypatch.setattr(RunTable, "draw", drawing)
    async with opened(many) as (_, screen):
        assert screen.table.row_count == RUNS
    assert in_time[0]


@pytest.mark.pilot
async def test_until_its_first_frame_a_list_is_measured_once_and_no_row_drawn_twice(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, drawn, frames = list[int](), list[int](), list[list[int]]()
    draw, draw_frame = RunTable.draw, Screen._compositor_refresh

    def layout(rows: Sequence[RunRow], chosen: str, width: int) -> columns.Layout:
        measured.extend([width] if rows else [])
        return columns.layout(rows, chosen, width)

    def drawing(table: RunTable, index: int, width: int) -> Text:
        drawn.append(index)
        return draw(table, index, width)

    def drawing_frame(screen: Screen[object]) -> None:
        draw_frame(screen)
        frames.append([*drawn])

    monkeypatch.setattr("arc_tui.features.runs.widgets.layout", layout)
    monkeypatch.setattr("arc_tui.ui.screen.AT_ONCE_S", 600)
    monkeypatch.setattr(RunTable, "draw", drawing)
    monkeypatch.setattr(Screen, "_compositor_refresh", drawing_frame)
    async with opened(many) as (_, screen):
        assert screen.table.page_rows - 1 <= len(frames[0]) == len({*frames[0]})
    assert len(measured) == 1


@pytest.mark.pilot
async def test_a_run_that_was_not_read_is_opened_by_its_name(many: Path) -> None:
    async with opened(many) as (_, screen):
        screen.table.cursor = RUNS - 1
        assert screen.table.at == f"k{RUNS - 1}"


@pytest.mark.pilot
async def test_while_a_list_grows_the_cursor_and_its_rows_stay(many: Path, tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    shutil.copy(many, path)
    async with opened(path) as (pilot, screen):
        at = RUNS - 100
        screen.table.cursor = at
        await settle(pilot)
        with open_ledger(path) as store:
            copy(store, 10_000, imported=5)
            store.db.execute("UPDATE trace SET variant = 'v2' WHERE key = ?", (f"k{at}",))
            store.db.execute("DELETE FROM trace WHERE key IN ('k7', 'k8', 'k9')")
        await pilot.press("ctrl+r")
        await settle(pilot)
        assert screen.table.row_count == RUNS - 2
        assert screen.table.cursor == at - 2
        assert screen.table.at == f"k{at}"
        row = screen.listed.rows[screen.table.at]
        assert (row.task, row.variant) == (f"t{at}", "v2")
        assert f" t{at} " in text(pilot.app)


@pytest.mark.pilot
async def test_sorted_and_filtered_it_is_the_same_list(many: Path) -> None:
    async with opened(many) as (pilot, screen):
        screen.table.cursor = 500
        screen.arrangement = Arrangement(order="steps", failed_only=True)
        await settle(pilot)
        failed = [number for number in range(RUNS) if number % 7 == 0]
        assert [*screen.listed.traces[:-1]] == [f"k{number}" for number in reversed(failed)][:-1]
        assert f"{len(failed)} of {RUNS} runs · {len(failed)} failed" in text(pilot.app)
        assert f"failures of {len(failed)} of {RUNS} runs" in text(pilot.app)


def test_an_answer_for_a_list_of_before_is_not_shown_in_this_one() -> None:
    old = Listed(traces=("a", "b"))
    assert {*old.and_rows([structs.replace(NO_RUN, trace="b")]).rows} == {"b"}
    assert old.rows == {}


@given(st.integers(0, 3 * PAGE), st.integers(-PAGE, 4 * PAGE), st.integers(0, PAGE), st.data())
def test_of_whole_pages_what_is_not_there_is_missing(
    runs: int, first: int, more: int, data: st.DataObject
) -> None:
    traces = tuple(map(str, range(runs)))
    have = data.draw(st.sets(st.sampled_from(traces), max_size=5)) if traces else set()
    listed = Listed(traces=traces, rows=dict.fromkeys(have, NO_RUN))
    seen = {trace for at, trace in enumerate(traces) if first <= at <= first + more}
    missing = {*listed.missing(first, first + more)}
    assert missing & have == set()
    assert seen <= missing | have
    assert len(missing) <= (more // PAGE + 2) * PAGE


def test_what_is_asked_near_a_run_is_read_with_the_first_page(many: Path) -> None:
    with open_ledger(many) as store:
        listed = build_runs(store, near=f"k{RUNS - 1}").listed
        assert listed.rows.keys() >= {*listed.traces[:PAGE], *listed.traces[-50:]}
        assert len(listed.rows) < RUNS
        assert build_runs(store, near="gone").listed.rows.keys() == {*listed.traces[:PAGE]}
