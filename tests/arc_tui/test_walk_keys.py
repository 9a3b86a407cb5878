"""What keys do that lead through a screen: rows, steps, pages, texts, and what they ask first; and
those that lead out of the app."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from textual.pilot import Pilot

from arc_tui.experiments.dialogs import AttachBox
from arc_tui.experiments.edit_widgets import PromptArea, TargetList
from arc_tui.features.calibration.screen import CalibrationScreen
from arc_tui.features.failures.screen import FailuresScreen
from arc_tui.features.failures.widgets import FailureRuns
from arc_tui.features.replay.screen import ReplayScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.ui.dialogs import AskBox
from replay.store.rows import step_rows, trace_row
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import Tag, put_tag
from tests.arc_tui.free_case import FEW, TOUR
from tests.arc_tui.test_ending import app, running
from tests.arc_tui.test_every_screen import (
    LARGE,
    SMALL,
    at,
    by_key,
    demo,
    environment,
    unprompted,
)
from tests.arc_tui.test_held_out import made as held_out
from tests.screen import press, rows, settle, text

__all__ = ["demo", "environment", "held_out", "unprompted"]

LAST_ON, LAST_OFF = b"\x1b[?2004h", b"\x1b[?1004l"
"""What a terminal is told when keys are listened to: to mark what is pasted; and last before it is
left: to say no more whether it has the focus."""


@pytest.mark.pilot
async def test_a_page_down_and_up_go_to_the_ends_of_a_short_list(demo: Path) -> None:
    async with at(demo, (), LARGE) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, RunsScreen)
        await by_key(pilot, "row.page_down")
        assert screen.table.cursor == len(FEW) - 1
        await by_key(pilot, "row.page_up")
        assert screen.table.cursor == 0


@pytest.mark.pilot
async def test_a_step_on_and_one_back_end_where_they_began(demo: Path) -> None:
    async with at(demo, ("runs.open",), LARGE) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, TraceScreen)
        first = screen.step
        await by_key(pilot, "trace.step_next")
        assert screen.step == first + 1
        await by_key(pilot, "trace.step_before")
        assert screen.step == first


@pytest.mark.pilot
async def test_every_page_of_a_calibration_has_its_digit(demo: Path) -> None:
    async with at(demo, ("runs.calibration",), LARGE) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, CalibrationScreen)
        for page in (5, 4, 3, 2, 1):
            await by_key(pilot, f"calibration.page_{page}")
            assert screen.tab == page - 1


@pytest.mark.pilot
async def test_the_view_menu_counts_how_noise_blurs_a_shape_and_is_then_done(demo: Path) -> None:
    async with at(demo, ("runs.calibration", "calibration.page_5"), SMALL) as pilot:
        assert "noise" not in text(pilot.app)
        assert "calibration.view" in offered_here(pilot)
        await by_key(pilot, "calibration.view")
        shown = text(pilot.app)
        assert "shape by the binned rule: share classified correctly" in shown
        assert "6 steps  12 steps  24 steps  48 steps  96 steps" in shown
        assert "calibration.view" not in offered_here(pilot), "the figures stay the same"


@pytest.mark.pilot
async def test_refreshing_reads_what_was_labelled_meanwhile(demo: Path) -> None:
    async with at(demo, ("runs.calibration",), LARGE) as pilot:
        assert "No labels yet" in text(pilot.app)
        tagged(demo)
        assert "No labels yet" in text(pilot.app)
        await by_key(pilot, "calibration.refresh")
        assert "labels of this database: 1 label on 1 run" in text(pilot.app)


def tagged(db: Path) -> None:
    """A run of it tagged by somebody, elsewhere."""
    with open_ledger(db) as store:
        trace = trace_row(store, TOUR).trace
        span = step_rows(store, trace)[4].span
        loop = Tag(trace=trace, span=span, step=4, failure=FailureClass.LOOP, by="ann")
        put_tag(store, loop)


def offered_here(pilot: Pilot[None]) -> set[str | None]:
    """The ids of the keys that do something now."""
    active = pilot.app.screen.active_bindings.values()
    return {each.binding.id for each in active if each.enabled}


@pytest.mark.pilot
async def test_runs_of_held_out_tasks_are_listed_and_hidden_again(held_out: Path) -> None:
    async with at(held_out, (), LARGE) as pilot:
        for runs, said in ((11, "shown"), (9, "hidden")):
            await by_key(pilot, "runs.view")
            await press(pilot, "3")
            head = rows(pilot.app)[0]
            assert f" {runs} runs · {runs} failed" in head
            assert f"2 runs of held-out tasks {said} (v)" in head


@pytest.mark.pilot
async def test_runs_of_held_out_tasks_are_counted_and_left_out_again(held_out: Path) -> None:
    async with at(held_out, ("runs.failures",), LARGE) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, FailuresScreen)
        for runs, said in ((11, "shown"), (9, "hidden")):
            await by_key(pilot, "failures.view")
            await press(pilot, "5")
            head = rows(pilot.app)[0]
            assert f"2 runs of held-out tasks {said} (v)" in head
            assert f"  {runs} failed runs · {runs} not yet tagged" in head


@pytest.mark.pilot
async def test_texts_to_edit_are_chosen_by_arrow_and_digit(demo: Path) -> None:
    async with at(demo, ("runs.open", "trace.edit"), LARGE) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, ReplayScreen)
        texts = screen.query_one(TargetList)
        texts.focus()
        await settle(pilot)
        for name, place in (("next", 1), ("next", 2), ("before", 1), ("5", 4), ("1", 0)):
            await by_key(pilot, f"targets.{name}")
            assert texts.cursor == place
        for digit in (2, 3, 4, 6, 7, 8, 9):
            await by_key(pilot, f"targets.{digit}")
            assert screen.query_one(PromptArea).text == texts.draft.targets[digit - 1].text
        await by_key(pilot, "targets.choose")
        assert isinstance(screen.focused, PromptArea)
        await by_key(pilot, "replay.pane_before")
        assert texts.has_focus


@pytest.mark.pilot
async def test_what_is_missing_can_be_attached_later(unprompted: Path) -> None:
    async with at(unprompted, ("runs.open", "trace.edit", "attach.leave"), LARGE) as pilot:
        assert isinstance(pilot.app.screen, ReplayScreen)
        await by_key(pilot, "replay.attach")
        assert isinstance(pilot.app.screen, AttachBox)


@pytest.mark.pilot
@pytest.mark.parametrize(
    ("way", "name"),
    [
        ("runs.open trace.bisect ask.choose", "bisect.model"),
        ("runs.open trace.bisect ask.choose", "bisect.choose"),
        ("runs.open trace.bisect_steps", "steps.model"),
        ("runs.open trace.probes", "probe.model"),
        ("runs.open trace.money", "money.route"),
        ("runs.failures failures.try", "try.model"),
    ],
)
async def test_a_key_that_asks_asks_and_changes_nothing_when_it_is_left(
    way: str, name: str, demo: Path
) -> None:
    async with at(demo, tuple(way.split()), LARGE) as pilot:
        screen = pilot.app.screen
        await by_key(pilot, name)
        assert isinstance(pilot.app.screen, AskBox)
        await by_key(pilot, "ask.leave")
        assert pilot.app.screen is screen


@pytest.mark.parametrize(
    ("way", "name"),
    [("runs.calibration", "calibration.copy"), ("runs.open trace.money", "money.copy")],
)
@pytest.mark.pilot
async def test_what_is_shown_is_copied(way: str, name: str, demo: Path) -> None:
    async with at(demo, tuple(way.split()), LARGE) as pilot:
        await by_key(pilot, name)
        copied = pilot.app.clipboard.split("\n")
        shown = text(pilot.app)
        assert any(line.strip() and line.strip() in shown for line in copied)


@pytest.mark.pilot
async def test_tab_goes_from_the_bars_to_the_runs_behind_one_and_back(demo: Path) -> None:
    async with at(demo, ("runs.failures",), LARGE) as pilot:
        first = pilot.app.screen.focused
        await by_key(pilot, "failures.pane")
        second = pilot.app.screen.focused
        assert isinstance(second, FailureRuns)
        await by_key(pilot, "failures.pane")
        assert pilot.app.screen.focused is first


# --- out of the app


@pytest.mark.pilot
async def test_q_goes_back_ends_nothing_and_in_a_line_is_a_letter(demo: Path) -> None:
    async with at(demo, ("runs.filter",), LARGE) as pilot:
        await press(pilot, "q")
        assert " filter q" in rows(pilot.app)
        await press(pilot, "escape")
        home = pilot.app.screen
        await by_key(pilot, "runs.open")
        assert pilot.app.screen is not home
        await press(pilot, "q")
        assert pilot.app.screen is home
        await press(pilot, "q", "q")
        assert pilot.app.is_running
        assert "^q quits arc" in text(pilot.app)
        await by_key(pilot, "app.quit")
        assert not pilot.app.is_running
        assert pilot.app.return_code == 0


@pytest.mark.pilot
@pytest.mark.parametrize(
    "way",
    ["", "runs.filter", "runs.open trace.tag", "runs.compare", "runs.open trace.edit", "app.help"],
    ids=["the list", "a line", "a picker", "a question", "an editor", "the help"],
)
async def test_ctrl_q_leaves_from_anywhere(way: str, demo: Path) -> None:
    async with at(demo, tuple(way.split()), SMALL) as pilot:
        assert pilot.app.is_running
        await press(pilot, "ctrl+q")
        assert not pilot.app.is_running
        assert pilot.app.return_code == 0


@pytest.mark.process
def test_ctrl_z_gives_the_terminal_back_until_the_app_is_called_to_the_front(
    demo: Path, tmp_path: Path
) -> None:
    with running(tmp_path, *app(demo)) as terminal:
        terminal.until(b"many-wishes")
        terminal.type(b"\x1a")
        terminal.until(LAST_OFF)
        _, status = os.waitpid(terminal.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert terminal.is_as_it_was
        os.kill(terminal.pid, signal.SIGCONT)  # as `fg` does
        terminal.until(LAST_ON, b"many-wishes")
        terminal.type(b"A")
        terminal.until(b"hallucinated state")
        terminal.type(b"\x11")
        assert terminal.left() == 0
        assert terminal.is_as_it_was
