"""What is here, offered on a screen: the choices, and what each answer comes to."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.message import Message
from textual.pilot import Pilot

from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.runs.widgets import ALL, DEMO, options
from arc_tui.ui.dialogs import AskBox, Choices
from tests.arc_tui.opening import SIZES, looks_like, opened
from tests.arc_tui.test_here import NOON_NS, aged, claude, codex, folder, log
from tests.screen import settle, text

__all__ = ["folder"]

MINUTE, HOUR, DAY = 60, 3_600, 86_400


class Remembering(RunsScreen):
    """The list of runs, which remembers what it was to open and opens nothing."""

    CSS_PATH = str(Path(inspect.getfile(RunsScreen)).with_name("screen.tcss"))

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.taken: list[Path] = []
        self.demo_wanted = False

    def import_path(self, path: Path) -> None:
        self.taken.append(path)

    def on_open_demo(self, event: Message) -> None:
        self.demo_wanted = True
        event.stop()


@asynccontextmanager
async def offered(tmp_path: Path) -> AsyncIterator[tuple[Pilot[None], Remembering]]:
    screen = Remembering(tmp_path / "arc.db")
    async with opened(screen) as pilot:
        await settle(pilot)
        assert isinstance(pilot.app.screen, AskBox)
        yield pilot, screen


@pytest.mark.pilot
async def test_enter_opens_the_newest(folder: Path, tmp_path: Path) -> None:
    log(folder / "old.jsonl", age_s=60)
    newest = claude(folder, "why is the sky blue?")
    async with offered(tmp_path) as (pilot, screen):
        shown = text(pilot.app)
        assert shown.index("why is the sky blue?") < shown.index("old.jsonl")
        assert "claude-code" in shown
        await pilot.press("enter")
        await settle(pilot)
        assert screen.taken == [newest]
        assert pilot.app.screen is screen


@pytest.mark.pilot
async def test_where_nothing_is_the_demo_is_offered_and_the_reason_said(
    folder: Path, tmp_path: Path
) -> None:
    async with offered(tmp_path) as (pilot, screen):
        assert "No agent sessions or traces found for" in text(pilot.app)
        assert [option.answer for option in pilot.app.screen.query_one(Choices).choices] == [DEMO]
        await pilot.press("enter")
        await settle(pilot)
        assert screen.demo_wanted
        assert not screen.taken


@pytest.mark.pilot
async def test_a_path_may_be_typed_instead(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with offered(tmp_path) as (pilot, screen):
        await pilot.press("tab", *"~", "slash", *"runs", "enter")
        await settle(pilot)
        assert screen.taken == [tmp_path / "runs"]


@pytest.mark.pilot
async def test_escape_opens_nothing(folder: Path, tmp_path: Path) -> None:
    log(folder / "old.jsonl")
    async with offered(tmp_path) as (pilot, screen):
        await pilot.press("escape")
        await settle(pilot)
        assert (screen.taken, screen.demo_wanted) == ([], False)


def test_a_folder_with_several_traces_of_its_own_can_be_taken_as_a_whole(
    folder: Path,
) -> None:
    from arc_tui.features.runs.offers import look

    claude(folder, "a question")
    log(folder / "one.jsonl")
    assert ALL not in {option.answer for option in options(tuple(look(folder)), folder)}
    log(folder / "logs" / "two.jsonl")
    assert ALL in {option.answer for option in options(tuple(look(folder)), folder)}


@pytest.mark.pilot
async def test_a_title_cannot_draw_on_the_screen(folder: Path, tmp_path: Path) -> None:
    claude(folder, "evil \x1b[2J [bold]title[/bold]")
    async with offered(tmp_path) as (pilot, _):
        shown = text(pilot.app)
        assert "\x1b" not in shown
        assert "[bold]title[/bold]" in shown


@pytest.fixture
def found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions and three logs of a folder, seen at noon."""
    monkeypatch.setattr("arc_tui.features.runs.widgets.now_ns", lambda: NOON_NS)
    sized(claude(folder, "why does the night build fail?"), 48_200, age_s=40)
    sized(codex(folder, "mend the tests"), 9_100, age_s=25 * MINUTE)
    log(folder / "agent.jsonl", age_s=2 * HOUR)
    log(folder / "logs" / "night.jsonl", age_s=DAY)
    log(folder / "logs" / "a-run-with-a-long-name-of-the-tenth-of-march.jsonl", age_s=9 * DAY)


def sized(path: Path, size_bytes: int, *, age_s: int) -> None:
    """The file made that large: what it says of its folder is as long as that is."""
    said = path.read_bytes()
    path.write_bytes(said + b"\n" * (size_bytes - len(said)))
    aged(path, age_s)


@pytest.mark.usefixtures("found")
@pytest.mark.pilot
async def test_what_can_be_opened_here_looks_like_this(tmp_path: Path) -> None:
    async with opened(RunsScreen(tmp_path / "arc.db"), SIZES[0]) as pilot:
        assert isinstance(pilot.app.screen, AskBox)
        await looks_like(pilot, "screen_here")
