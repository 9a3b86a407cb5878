"""The settings screen: what it shows, what its keys do, and that the app follows at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.command import Hit
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.config import TEMPLATE
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.settings.screen import SettingsScreen
from arc_tui.settings import Settings, read_settings
from arc_tui.ui.keymap import KeyCommands
from arc_tui.ui.themes import DARK, LIGHT
from tests.arc_tui.opening import looks_like
from tests.screen import rows, settle, text


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of settings in a folder of its own, and nothing else set; where it is."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "VISUAL",
        "NO_COLOR",
        "ARC_KILL",
        "ARC_DB",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ARC_REDACT_KEY",
        "ARC_DB_KEY",
        "ARC_DB_KEY_FILE",
    ):
        monkeypatch.delenv(name, raising=False)  # fmt: skip
    for name, value in (
        ("ARC_CONFIG_DIR", "settings"),
        ("ARC_DATA_DIR", "data"),
        ("ARC_USER", "tester"),
        ("EDITOR", "vi"),
    ):
        monkeypatch.setenv(name, value)  # fmt: skip
    (tmp_path / "settings").mkdir()
    return tmp_path / "settings" / "config.toml"


@asynccontextmanager
async def settings(
    six_runs: Path, size: tuple[int, int] = (120, 40), using: Settings | None = None
) -> AsyncIterator[Pilot[None]]:
    """The screen over the list of runs."""
    app = ArcApp(six_runs, settings=using or Settings())
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("comma")
        await settle(pilot)
        assert isinstance(app.screen, SettingsScreen)
        yield pilot


def screen_of(pilot: Pilot[None]) -> SettingsScreen:
    assert isinstance(pilot.app.screen, SettingsScreen)
    return pilot.app.screen


@pytest.mark.pilot
async def test_settings_look(six_runs: Path, environment: Path) -> None:
    environment.write_text('[app]\ntheme = "arc-dark"\n[keys]\ntrace.tag = "ctrl+k"\n')
    async with settings(six_runs, using=read_settings()) as pilot:
        await looks_like(pilot, "settings")


@pytest.mark.pilot
async def test_the_list_of_all_keys_looks_like_this(six_runs: Path) -> None:
    async with settings(six_runs, (80, 24)) as pilot:
        await pilot.press("v")
        await settle(pilot)
        await looks_like(pilot, "settings_keys")


@pytest.mark.pilot
async def test_a_theme_is_tried_while_the_cursor_is_on_it_and_used_by_enter(six_runs: Path) -> None:
    async with settings(six_runs) as pilot:
        app = pilot.app
        await pilot.press("tab", "j")
        await settle(pilot)
        assert app.theme == LIGHT.name, "it is tried"
        await pilot.press("tab")
        await settle(pilot)
        assert app.theme == DARK.name, "it was only tried"
        await pilot.press("tab", "j", "enter", "escape", "escape")
        await settle(pilot)
        assert isinstance(app.screen, RunsScreen)
        assert app.theme == LIGHT.name
        await pilot.press("comma")
        await settle(pilot)
        assert "arc-light" in next(row for row in rows(app) if "app.theme" in row)
        assert "session" in next(row for row in rows(app) if "app.theme" in row)


@pytest.mark.pilot
async def test_y_copies_what_keeps_the_theme(six_runs: Path) -> None:
    async with settings(six_runs) as pilot:
        await pilot.press("tab", "j", "enter", "y")
        assert pilot.app.clipboard == '[app]\ntheme = "arc-light"'


@pytest.mark.pilot
async def test_d_shows_every_key_with_its_id(six_runs: Path) -> None:
    async with settings(six_runs) as pilot:
        await pilot.press("v")
        await settle(pilot)
        assert "app.settings" in text(pilot.app)
        await pilot.press("v")
        await settle(pilot)
        assert "app.columns" in text(pilot.app)


@pytest.mark.pilot
async def test_e_makes_the_file_once(
    six_runs: Path, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arc_tui.features.settings.screen.edit_file", lambda *_: None)
    async with settings(six_runs) as pilot:
        assert "does not exist yet" in rows(pilot.app)[0]
        await pilot.press("e")
        await settle(pilot)
        assert environment.read_text() == TEMPLATE
        assert "does not exist yet" not in rows(pilot.app)[0]
        environment.write_text("# mine")
        await pilot.press("e")
        assert environment.read_text() == "# mine"


@pytest.mark.pilot
async def test_what_the_file_says_then_holds_at_once(six_runs: Path, environment: Path) -> None:
    async with settings(six_runs) as pilot:
        app = pilot.app
        assert isinstance(app, ArcApp)
        environment.write_text(
            '[app]\ntheme = "nord"\ncolumns = "figures"\n[keys]\nruns.sort = "f7"\n'
        )
        await pilot.press("ctrl+r")
        await settle(pilot)
        assert app.theme == "nord"
        await pilot.press("escape", "f7")
        await settle(pilot)
        assert isinstance(app.screen, RunsScreen)
        assert app.screen.arrangement.order
        assert "tokens" in rows(app)[2]


@pytest.mark.pilot
async def test_a_file_that_cannot_be_used_is_told_and_what_was_set_stays(
    six_runs: Path, environment: Path
) -> None:
    environment.write_text('[app]\ntheme = "nord"\n')
    async with settings(six_runs, using=read_settings()) as pilot:
        environment.write_text('[app]\ntheme = "nrod"\n')
        await pilot.press("ctrl+r")
        await settle(pilot)
        assert "[app] unknown theme 'nrod'" in text(pilot.app)
        assert pilot.app.theme == "nord"
        assert ("app.theme", "nord") in [
            (each.name, each.value) for each in screen_of(pilot).view.settings
        ]


@pytest.mark.pilot
async def test_a_terminal_that_cannot_be_lent_is_said(six_runs: Path, environment: Path) -> None:
    environment.write_text("")
    async with settings(six_runs) as pilot:
        await pilot.press("e")
        await settle(pilot)
        assert "o editor can be opened from here" in " ".join(text(pilot.app).split())


@pytest.mark.pilot
async def test_every_theme_can_be_used(six_runs: Path) -> None:
    async with settings(six_runs) as pilot:
        themes = screen_of(pilot).themes
        themes.focus()
        for at in range(themes.row_count):
            themes.cursor = at
            await settle(pilot)
            assert pilot.app.theme == themes.names[at]


# --- keys that were set


@pytest.mark.pilot
async def test_bar_help_and_palette_show_the_keys_that_were_set(six_runs: Path) -> None:
    app = ArcApp(six_runs, settings=Settings(keymap={"runs.sort": "f7", "app.help": "f11"}))
    async with app.run_test(size=(160, 40)) as pilot:
        await settle(pilot)
        assert "f7 sort" in rows(app)[-1]
        assert "f11 help" in rows(app)[-1]
        hits = [hit async for hit in KeyCommands(app.screen).search("sort")]
        assert "sort  f7" in [str(hit.match_display) for hit in hits if isinstance(hit, Hit)]
        await pilot.press("S")
        await settle(pilot)
        assert isinstance(app.screen, RunsScreen)
        assert not app.screen.arrangement.order, "its old key does nothing"
        await pilot.press("f11")
        await settle(pilot)
        assert "f7              Sort by outcome" in text(app)


@pytest.mark.pilot
async def test_a_letter_that_was_set_can_still_be_typed(six_runs: Path) -> None:
    app = ArcApp(six_runs, settings=Settings(keymap={"runs.sort": "w"}))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await pilot.press("slash", "w")
        await settle(pilot)
        assert isinstance(app.screen, RunsScreen)
        assert app.screen.arrangement.words == "w"
        assert not app.screen.arrangement.order
