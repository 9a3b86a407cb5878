"""Reading a long run: jumps, marks, the filter of the tree, find, copies, time, folded JSON."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.trace.detail import NAMES
from arc_tui.features.trace.lanes import GUTTER, Lanes
from arc_tui.features.trace.screen import TraceScreen
from tests.arc_tui import opening, sample
from tests.arc_tui.opening import looks_like
from tests.build import call, step, tool, trace
from tests.screen import matches_golden, press, settle, text

Opened = tuple[Pilot[None], TraceScreen]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reading") / "arc.db"
    sample.put_failed(path)
    return path


@pytest.fixture(scope="module")
def key(db: Path) -> str:
    return sample.put_failed(db)


@asynccontextmanager
async def opened(
    db: Path, key: str, at: int | None = None, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[Opened]:
    screen = TraceScreen(db, key, at)
    async with opening.opened(screen, size) as pilot:
        yield pilot, screen


# --- jumps


@pytest.mark.pilot
async def test_the_same_tool_is_one_key_away_and_what_says_something_is_a_kind_of_its_own(
    db: Path, key: str
) -> None:
    async with opened(db, key, at=2) as (pilot, screen):
        await press(pilot, "asterisk")
        assert screen.step == 5, "get_reservation again"
        await press(pilot, "underscore", "underscore")
        assert screen.step == 7, "round the start"
        screen.spans.go_to(3)
        await press(pilot, "asterisk")
        assert screen.step == 10, "the next that says something and calls nothing"
        screen.spans.go_to(1)
        await press(pilot, "asterisk")
        assert screen.step == 1
        assert "No other step calls get_user" in text(pilot.app)


@pytest.mark.pilot
async def test_siblings_pass_over_what_hangs_below_them(db: Path, key: str) -> None:
    async with opened(db, key, at=8) as (pilot, screen):
        await press(pilot, "right_parenthesis")
        assert screen.step == 11
        await press(pilot, "left_parenthesis", "left_parenthesis")
        assert screen.step == 5
        screen.spans.go_to(9)
        await press(pilot, "right_parenthesis", "right_parenthesis")
        assert screen.step == 10, "the last of its parent"


@pytest.mark.pilot
async def test_a_mark_is_gone_back_to_and_so_is_where_a_jump_began(db: Path, key: str) -> None:
    async with opened(db, key, at=4) as (pilot, screen):
        await press(pilot, "space")
        assert screen.bookmarks == {4}
        assert "   4'  cancel_reservation" in text(pilot.app)
        await press(pilot, "greater_than_sign", "greater_than_sign")
        assert screen.step == 6
        await press(pilot, "apostrophe")
        assert screen.step == 4
        await press(pilot, "ctrl+o", "backspace")
        assert screen.step == 5, "the last jump but one"
        screen.spans.go_to(4)
        await press(pilot, "space")
        assert not screen.bookmarks


@pytest.mark.pilot
async def test_a_step_is_gone_to_by_its_number_or_by_how_far_it_is(db: Path, key: str) -> None:
    async with opened(db, key, at=2) as (pilot, screen):
        await press(pilot, "colon", "1", "0", "enter")
        assert screen.step == 10
        await press(pilot, "colon", "minus", "3", "enter")
        assert screen.step == 7
        await press(pilot, "colon", "4", "0", "enter")
        assert "a step from 0 to 11, or relative: +5, -5" in text(pilot.app)
        await press(pilot, "escape")
        assert screen.step == 7
        assert screen.spans.has_focus


# --- the filter


@pytest.mark.pilot
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_filtered_tree_keeps_what_its_steps_hang_from(
    db: Path, key: str, size: tuple[int, int]
) -> None:
    async with opened(db, key, at=0, size=size) as (pilot, screen):
        await press(pilot, "ampersand", *"tool:look", "enter")
        assert screen.filtered == frozenset({9})
        assert screen.step == 9
        matches_golden(pilot.app, f"trace_filtered_{size[0]}x{size[1]}")
        await press(pilot, "escape")
        assert screen.filtered is None
        assert screen.step == 9
        assert screen.is_current


@pytest.mark.pilot
async def test_a_filter_is_read_while_it_is_typed_and_says_what_it_cannot_read(
    db: Path, key: str
) -> None:
    async with opened(db, key, at=0) as (pilot, screen):
        await press(pilot, "ampersand", *"is:error")
        assert "spans · 3 of 12 steps: is:error" in text(pilot.app)
        await press(pilot, "s")
        assert "no step kind matches 'errors': did you mean is:error?" in text(pilot.app)
        await press(pilot, "backspace", "enter")
        assert screen.filtered == frozenset({5, 6, 7})
        await press(pilot, "J")
        assert screen.step == 6
        await press(pilot, "J", "J")
        assert screen.step == 7, "the last of those that are shown"
        await press(pilot, "colon", "2", "enter")
        assert screen.step == 2
        assert "Step 2 does not match the filter. Filter cleared." in text(pilot.app)


@pytest.mark.pilot
async def test_a_filter_that_nothing_passes_says_so(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        await press(pilot, "ampersand", *"tool:qq", "enter")
        assert screen.filtered == frozenset()
        assert "No step matches. esc clears the filter." in text(pilot.app)
        await press(pilot, "greater_than_sign")
        assert screen.step in screen.view.errors


# --- find


@pytest.mark.pilot
async def test_find_shows_the_page_that_says_it_with_the_text_unfolded(db: Path, key: str) -> None:
    async with opened(db, key, at=0) as (pilot, screen):
        await press(pilot, "slash", *"HAT201", "enter")
        assert (screen.step, NAMES[screen.tab]) == (2, "Results")
        assert '"number": "HAT201"' in screen.page.draw(screen.page.cursor, 60).plain
        await press(pilot, "slash", *["backspace"] * 6, *"never make", "enter")
        assert (screen.step, NAMES[screen.tab]) == (0, "Request")
        assert "system" in screen.page._opened


@pytest.mark.pilot
async def test_n_counts_the_steps_and_in_the_detail_goes_from_line_to_line(
    db: Path, key: str
) -> None:
    async with opened(db, key, at=0) as (pilot, screen):
        await press(pilot, "slash", *"NQNU5R", "enter")
        assert "“NQNU5R” 1 of 4 steps" in text(pilot.app)
        await press(pilot, "n")
        assert (screen.step, NAMES[screen.tab]) == (8, "Response")
        await looks_like(pilot, "trace_found")
        await press(pilot, "n", "enter", "1", "2", "n")
        assert screen.step == 9
        before = screen.page.cursor
        await press(pilot, "N")
        assert screen.page.cursor != before or screen.step != 9


@pytest.mark.pilot
async def test_n_in_the_detail_opens_a_long_value_that_hides_the_next_place(
    tmp_path: Path,
) -> None:
    path = tmp_path / "arc.db"
    said = "needle\n" + "hay\n" * 1500 + "needle at last"
    spans = trace([step(call("read", said)), "done"]).spans
    key = sample.put(path, sample.header("1", "0", sample.PASSED), spans)
    async with opened(path, key) as (pilot, screen):
        await press(pilot, "slash", *"needle", "enter")
        assert (screen.step, NAMES[screen.tab]) == (0, "Results")
        assert screen.page.row_count < 1500
        await press(pilot, "enter", "n")
        assert "needle at last" in text(pilot.app)
        await press(pilot, "N")
        assert "needle at last" not in text(pilot.app)


@pytest.mark.pilot
async def test_what_was_found_is_looked_for_in_all_runs(db: Path, key: str) -> None:
    screen = TraceScreen(db, key)
    async with opening.opened(screen, below=True) as pilot:
        await press(pilot, "slash", *"HAT201", "enter", "I")
        runs = pilot.app.screen
        assert isinstance(runs, RunsScreen)
        assert runs.arrangement.words == '"HAT201"'
        assert [row.trace for row in runs.view.listed.first_page] == [key]


# --- copies


@pytest.mark.pilot
async def test_a_part_of_the_step_is_chosen_and_copied(db: Path, key: str) -> None:
    async with opened(db, key, at=4) as (pilot, screen):
        await press(pilot, "Y")
        assert "the call of cancel_reservation as JSON" in text(pilot.app)
        await press(pilot, "enter")
        assert pilot.app.clipboard.startswith('{\n  "name": "cancel_reservation"')
        screen.spans.go_to(2)
        await press(pilot, "4", "enter", *"jjjj", "Y", "enter")
        assert pilot.app.clipboard == "IFOYYZ", "the value on the line of the cursor"
        assert screen.is_current


@pytest.mark.pilot
async def test_a_command_is_copied_without_what_a_terminal_would_obey(tmp_path: Path) -> None:
    said = "ls -l \x1b[201~\x1b]0;title\x07\u202e\n"
    key = sample.put(
        tmp_path / "arc.db",
        sample.header("1", "0", sample.PASSED),
        trace([step(call("Bash", "ok", command=said))], tools=[tool("Bash")]).spans,
    )
    async with opened(tmp_path / "arc.db", key) as (pilot, _):
        await press(pilot, "Y", "enter")
        assert pilot.app.clipboard == "ls -l [201~]0;title"
        assert "left out: control characters" in " ".join(text(pilot.app).split())


@pytest.mark.pilot
async def test_a_step_goes_to_the_pager_and_what_is_under_the_cursor_to_the_editor(
    db: Path, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal of a test cannot be lent; what would be shown is."""
    shown: list[tuple[str, str]] = []
    monkeypatch.setattr(
        "arc_tui.ui.editor.page_in_terminal", lambda _, text, suffix: shown.append((text, suffix))
    )
    monkeypatch.setattr(
        "arc_tui.ui.editor.view_in_terminal", lambda _, text, suffix: shown.append((text, suffix))
    )
    async with opened(db, key, at=2) as (pilot, _):
        await press(pilot, "o", "enter", "E", "4", "enter", "j", "E")
    assert [suffix for _, suffix in shown] == [".md", ".md", ".json"]
    assert shown[0][0].startswith("## Step 2 of trace")
    assert shown[2][0] == '{"reservation_id": "IFOYYZ"}'


def test_a_reader_gets_a_private_file_that_it_cannot_change(tmp_path: Path) -> None:
    from arc_tui.ui.editor import read

    script = tmp_path / "reader"
    script.write_text('#!/bin/sh\nls -l "$1" > "$0.said"; cat "$1" >> "$0.said"\n')
    script.chmod(stat.S_IRWXU)
    read("what it says", ".json", [str(script)])
    said = (tmp_path / "reader.said").read_text()
    assert said.startswith("-r--------")
    assert said.endswith("what it says")
    assert "step.json" in said
    assert not any(name.startswith("arc-") for name in os.listdir(tmp_path))


# --- the lanes


@pytest.mark.pilot
async def test_lanes_are_drawn_over_time_where_times_are_known(db: Path, key: str) -> None:
    async with opened(db, key, at=3) as (pilot, screen):
        await press(pilot, "v")
        await looks_like(pilot, "trace_time")
        await pilot.click(Lanes, offset=(1 + GUTTER + 82, 0))
        await settle(pilot)
        assert screen.step == 11
        await press(pilot, "z")
        assert "of the run" in text(pilot.app)
        await press(pilot, "v", "Z")
        assert screen.lanes.zoom == 0


@pytest.mark.pilot
async def test_without_times_there_is_no_axis_of_time(tmp_path: Path) -> None:
    from msgspec import structs

    made = trace([step("a"), step("b")])
    spans = [structs.replace(span, start_ns=None, end_ns=None) for span in made.spans]
    path = tmp_path / "arc.db"
    key = sample.put(path, sample.header("1", "0", sample.PASSED), spans)
    async with opened(path, key) as (pilot, screen):
        await press(pilot, "v")
        assert not screen.lanes.timed


# --- folded JSON


@pytest.mark.pilot
async def test_a_level_of_json_folds_to_one_line_that_counts_the_others(db: Path, key: str) -> None:
    async with opened(db, key, at=2) as (pilot, screen):
        await press(pilot, "4", "enter")
        flights = next(
            place
            for place, row in enumerate(screen.page._rows)
            if '"flights": [' in screen.page.draw(place, 60).plain
        )
        screen.page.cursor = flights
        await press(pilot, "h")
        assert '"flights": [ … 4 lines … ]' in text(pilot.app)
        await press(pilot, "l")
        assert '"HAT201"' in text(pilot.app)
        screen.page.cursor = flights + 2
        await press(pilot, "h")
        assert "{ … 2 lines … }" in text(pilot.app), "from a line within, the level around it"


@pytest.mark.pilot
async def test_the_screen_looks_like_this_where_there_is_room(db: Path, key: str) -> None:
    async with opened(db, key, size=(160, 48)) as (pilot, _):
        matches_golden(pilot.app, "trace_160x48")
