"""The app: a database, two themes, the palette and the help over live bindings."""

from __future__ import annotations

from pathlib import Path

from textual.binding import Binding
from textual.notifications import SeverityLevel

from arc_tui.palette import Keys
from arc_tui.routing import Routing
from arc_tui.screens.runs.screen import RunsScreen
from arc_tui.themes import DARK, LIGHT

HERE = Path(__file__).parent


class ArcApp(Routing):
    """The debugger over one database."""

    TITLE = "arc"
    # as whole paths: those of a subclass would be looked for beside its file
    CSS_PATH = [HERE / "arc.tcss", *sorted((HERE / "screens").rglob("*.tcss"))]
    COMMANDS = {Keys}
    ENABLE_COMMAND_PALETTE = True

    BINDINGS = [
        Binding("f1", "help", "help", id="app.help_anywhere", show=False, priority=True,
                tooltip="What the keys do here"),
        Binding("question_mark", "help", "help", id="app.help", key_display="?",
                tooltip="What the keys do here"),
        Binding("ctrl+p", "command_palette", "palette", id="app.palette", priority=True,
                show=False, tooltip="Find a command by its words"),
        Binding("ctrl+t", "theme", "dark or light", id="app.theme", show=False,
                tooltip="Change between the dark and the light theme"),
        Binding("q", "quit", "quit", id="app.quit", tooltip="Leave arc"),
        Binding("ctrl+q", "quit", "quit", id="app.quit_anywhere", show=False, priority=True,
                tooltip="Leave arc, from a dialog or a line too"),
    ]  # fmt: skip

    def __init__(self, path: Path, imports: tuple[Path, ...] = (), demo: bool = False) -> None:
        super().__init__()
        self.path = path
        self.demo = demo
        self._imports = imports
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return DARK.variables

    def get_default_screen(self) -> RunsScreen:
        return RunsScreen(self.path, self._imports)

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

    def action_help(self) -> None:
        from arc_tui.screens.help import HelpScreen

        self.push_screen(HelpScreen(self.screen.active_bindings.values()))

    def action_help_quit(self) -> None:
        """What Textual says on ctrl+c, without markup."""
        self.notify("q leaves arc; ctrl+q does so from anywhere")

    def action_theme(self) -> None:
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name
