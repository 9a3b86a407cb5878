"""The app: a database, its look, the keys that work everywhere, and how it ends."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import App
from textual.notifications import SeverityLevel
from textual.screen import Screen
from typing_extensions import override

from arc_tui import ending
from arc_tui.routes import BackTarget
from arc_tui.settings import BY_DEFAULT, Settings
from arc_tui.tour import GuidedTour
from arc_tui.ui.bindings import bind
from arc_tui.ui.textual_private import KeyQueue, Sheets
from arc_tui.ui.themes import DARK, LIGHT, OURS, choose_theme, roles

if TYPE_CHECKING:
    from textual.command import Provider

    from arc_tui.features.settings.screen import SettingsScreen

HERE = Path(__file__).parent

FEW_COLOURS = {"standard", "windows", None}
"""Terminals that know sixteen colours or none, as Rich calls what they know."""


UNDER_WAY_S = 1.0
"""By then a start is over."""


def collect_from_now_on() -> None:
    """Look for garbage, but not among what was made by now."""
    gc.freeze()
    gc.enable()


def key_commands() -> type[Provider]:
    """What the palette lists, loaded when it is opened."""
    from arc_tui.ui.keymap import KeyCommands

    return KeyCommands


class ArcApp(KeyQueue, Sheets, GuidedTour):
    """The debugger over one database."""

    TITLE = "arc"
    # as whole paths: those of a subclass would be looked for beside its file
    CSS_PATH = [
        HERE / "arc.tcss",
        HERE / "tour.tcss",
        HERE / "plain.tcss",
    ]
    COMMANDS = {key_commands}
    ENABLE_COMMAND_PALETTE = True

    BINDINGS = [
        bind("f1", "help", id="app.help_anywhere", show=False, priority=True,
             tooltip="The keys of this screen"),
        bind("?", "help", id="app.help", tooltip="The keys of this screen"),
        bind(":", "command_palette", id="app.palette", show=False,
             tooltip="Find a command by its words; in a run, :12 goes to step 12"),
        bind("^p", "command_palette", id="app.palette_anywhere", priority=True, show=False,
             tooltip="Find a command by its words, from a dialog or a line too"),
        bind(",", "settings", id="app.settings", show=False,
             tooltip="Settings and where each comes from: themes, keys, the file"),
        bind("^t", "theme", id="app.theme", show=False,
             tooltip="Switch between the dark and the light theme, until you quit"),
        bind("^z", "suspend_process", id="app.suspend", show=False,
             tooltip="Back to the shell; fg resumes"),
        bind("^q", "quit", id="app.quit", priority=True, tooltip="Quit arc, from anywhere"),
    ]  # fmt: skip

    def __init__(
        self,
        path: Path,
        imports: tuple[Path, ...] = (),
        trace: str | None = None,
        fleet: str | None = None,
        demo: bool = False,
        tour: bool = False,
        settings: Settings = BY_DEFAULT,
    ) -> None:
        """Opens on the list of runs, else on one `trace`, else on those of the store `fleet`."""
        # Without colours: Textual would turn ours into shades of grey, which are colours too.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.path = path
        self.demo = demo
        self.picked_theme: str | None = None
        self.broke = False
        self.imports = imports
        self._trace = trace
        self._fleet = fleet
        self._tour = tour
        for theme in OURS.values():
            self.register_theme(theme)
        self.settings = settings
        self.theme = self.home_theme
        self.set_keymap(settings.keymap)

    def take(self, settings: Settings) -> None:
        """Look, and listen to keys, as a person has set it. A theme that they picked meanwhile
        stays, unless the one that was set is another now."""
        if settings.theme != self.settings.theme:
            self.picked_theme = None
        if settings.columns != self.settings.columns:
            self._arrange(settings.columns)
        self.settings = settings
        if self.picked_theme is None:
            self.theme = self.home_theme
        self.set_keymap(settings.keymap)

    def _arrange(self, columns: str) -> None:
        from arc_tui.features.runs.screen import RunsScreen

        for screen in self.screen_stack:
            if isinstance(screen, RunsScreen):
                screen.table.columns = columns

    @property
    def home_theme(self) -> str:
        """The theme that was set, as far as this terminal can show it."""
        few = self.no_color or self.console.color_system in FEW_COLOURS
        return choose_theme(self.settings.theme, few_colours=few)

    def pick_theme(self, name: str) -> None:
        """Use a theme until the app is left."""
        self.picked_theme = self.theme = name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return roles(self.current_theme)

    def get_default_screen(self) -> Screen[None]:
        if self._fleet is not None:
            from arc_tui.features.fleet.screen import FleetScreen

            return BackTarget(FleetScreen(self.path, self._fleet), self.runs)
        if self._trace is None:
            return self.apply_sheets(self.runs())
        from arc_tui.features.trace.screen import TraceScreen

        return BackTarget(TraceScreen(self.path, self._trace), self.runs)

    def on_mount(self) -> None:
        if not (self.is_headless or self.is_web):
            ending.on_signal(lambda code: self.exit(return_code=code))
        self.app_resume_signal.subscribe(self, self._redraw)
        if not gc.isenabled():
            self.set_timer(UNDER_WAY_S, collect_from_now_on)
        if self._tour:
            self.begin_tour()

    def _redraw(self, _: App[None]) -> None:
        """All of it: a terminal that is come back to is empty, and as large as it was."""
        self.refresh(layout=True)

    @override
    def _fatal_error(self) -> None:
        """A bug ends the app, with its places and without the values it met."""
        self.broke = True
        self.panic(Text(ending.bug_report(sys.exception() or self._exception or RuntimeError())))

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """A toast; what stands in it is text, whoever wrote it."""
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    @override
    def action_command_palette(self) -> None:
        from arc_tui.ui.keymap import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def action_help(self) -> None:
        from arc_tui.features.help.screen import HelpScreen

        self.push_screen(HelpScreen(self.screen.active_bindings.values()))

    def action_help_quit(self) -> None:
        """What Textual says on ctrl+c, without markup."""
        self.notify(f"{self.key_of('app.quit')} quits arc")

    def action_settings(self) -> None:
        from arc_tui.features.settings.screen import SettingsScreen

        if not isinstance(self.screen, SettingsScreen):
            self.push_screen(SettingsScreen(self.path, self.settings, self.picked_theme))

    def on_settings_screen_theme_picked(self, event: SettingsScreen.ThemePicked) -> None:
        self.pick_theme(event.name)

    def on_settings_screen_reread(self, event: SettingsScreen.Reread) -> None:
        self.take(event.settings)

    def action_theme(self) -> None:
        """Dark for light, or light for dark, and back to what was set."""
        home = self.get_theme(self.home_theme)
        assert home is not None
        away = LIGHT.name if home.dark else DARK.name
        self.pick_theme(away if self.theme == home.name else home.name)
