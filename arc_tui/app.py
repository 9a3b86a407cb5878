"""The app: two themes, the palette and the help over live bindings, and which screen follows which.

Screens know nothing of each other; they post what a person asked for, and it is pushed here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App
from textual.binding import ActiveBinding, Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.notifications import SeverityLevel
from textual.theme import Theme

from arc_tui.screens.runs import RunsScreen
from arc_tui.widgets.run_table import RunTable

if TYPE_CHECKING:
    from arc_tui.screens.failures import FailuresScreen
    from arc_tui.screens.leaving import Leaving
    from arc_tui.screens.money import MoneyScreen
    from arc_tui.screens.probed import Probed
    from arc_tui.screens.queue import Queueing
    from arc_tui.screens.replay import ReplayScreen
    from arc_tui.screens.trace import TraceScreen
    from arc_tui.screens.walking import Walking
    from arc_tui.views.queue import Visit
    from arc_tui.widgets.calibration_worst import CalibrationWorst
    from arc_tui.widgets.failure_runs import FailureRuns
    from arc_tui.widgets.steps_list import StepsList
    from arc_tui.widgets.try_list import TryList
    from replay.edit import Edit

DARK = Theme(
    name="arc-dark",
    dark=True,
    background="#14161a",
    surface="#1a1d22",
    panel="#1f232a",
    foreground="#d5d9e0",
    primary="#6cb4ee",
    secondary="#c9a0dc",
    success="#45c4a0",
    warning="#f0b849",
    error="#ff8a5c",
    accent="#f0b849",
    variables={
        "good": "#45c4a0",
        "bad": "#ff8a5c",
        "quiet": "#8b93a1",
        "faint": "#4b5360",
        "calm": "#7d8a9e",
        "line": "#343a45",
        "focus-line": "#6cb4ee",
        "cursor": "#2b3b50",
        "cursor-dim": "#22272f",
    },
)

LIGHT = Theme(
    name="arc-light",
    dark=False,
    background="#fcfcfa",
    surface="#f5f5f2",
    panel="#ecedea",
    foreground="#22262c",
    primary="#0a67b0",
    secondary="#7d3c98",
    success="#00775a",
    warning="#8c5f00",
    error="#b83a00",
    accent="#8c5f00",
    variables={
        "good": "#00775a",
        "bad": "#b83a00",
        "quiet": "#5c6470",
        "faint": "#b4b9c0",
        "calm": "#7b8794",
        "line": "#cfd2d6",
        "focus-line": "#0a67b0",
        "cursor": "#cfe3f5",
        "cursor-dim": "#e6e9ec",
    },
)
"""Good and bad differ in hue and in lightness, so that they stay apart for colour-blind eyes; no
meaning rests on them alone."""


class Keys(Provider):
    """The palette: everything the keys can do here and now, by its words."""

    async def discover(self) -> Hits:
        for active in self._active():
            words = active.binding.description
            yield DiscoveryHit(Content(words), self._run(active), help=active.binding.tooltip)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for active in self._active():
            words = active.binding.description
            score = matcher.match(words)
            if score > 0:
                shown = matcher.highlight(words)
                yield Hit(score, shown, self._run(active), help=active.binding.tooltip)

    def _active(self) -> list[ActiveBinding]:
        """One binding an action that does something here, those of the footer first."""
        by_action = {
            active.binding.action: active
            for active in reversed(self.screen.active_bindings.values())
            if active.enabled and active.binding.id and active.binding.id != "app.palette"
        }
        found = reversed(by_action.values())
        return sorted(found, key=lambda active: not active.binding.show)

    def _run(self, active: ActiveBinding) -> Callable[[], Awaitable[bool]]:
        return partial(self.app.run_action, active.binding.action, active.node)


class ArcApp(App[None]):
    """The debugger over one database."""

    TITLE = "arc"
    CSS_PATH = [  # as whole paths: those of a subclass would be looked for beside its file
        Path(__file__).parent / name
        for name in (
            "arc.tcss",
            "screens/runs.tcss",
            "screens/trace.tcss",
            "screens/replay.tcss",
            "screens/free.tcss",
            "screens/help.tcss",
            "screens/money.tcss",
            "screens/queue.tcss",
            "screens/failures.tcss",
            "screens/calibration.tcss",
            "screens/trying.tcss",
            "screens/bisect.tcss",
            "screens/probing.tcss",
            "screens/steps.tcss",
        )
    ]
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

    def on_run_table_opened(self, event: RunTable.Opened) -> None:
        self._open(event.trace)

    def on_opening_demo_wanted(self) -> None:
        """The bundled runs in a database of their own, imported where that is new."""
        from arc_tui.places import demo_database, fixtures

        self.path, self.demo = demo_database(None), True
        new = () if self.path.exists() else (fixtures() / "traces",)
        self.push_screen(RunsScreen(self.path, new))

    def on_failure_runs_opened(self, event: FailureRuns.Opened) -> None:
        self._open(event.trace, event.step)

    def on_calibration_worst_opened(self, event: CalibrationWorst.Opened) -> None:
        self._open(event.trace, event.step)

    def on_money_screen_opened(self, event: MoneyScreen.Opened) -> None:
        """Back to the run it was asked of, at the step."""
        from arc_tui.screens.trace import TraceScreen

        self.pop_screen()
        if isinstance(self.screen, TraceScreen) and self.screen.trace == event.trace:
            self.screen.go_to(event.step)
        else:
            self._open(event.trace, event.step)

    def _open(self, trace: str, step: int | None = None) -> None:
        from arc_tui.screens.trace import TraceScreen

        self.push_screen(TraceScreen(self.path, trace, step))

    def on_queueing_entered(self, event: Queueing.Entered) -> None:
        self.push_screen(self._walked(event.visit))

    def on_walking_moved(self, event: Walking.Moved) -> None:
        """The next run of the queue takes the place of the one before."""
        self.switch_screen(self._walked(event.visit))

    def _walked(self, visit: Visit) -> TraceScreen:
        from arc_tui.screens.trace import TraceScreen

        return TraceScreen(self.path, visit.here.trace, visit.here.step, visit)

    def on_runs_screen_failures_wanted(self) -> None:
        from arc_tui.screens.failures import FailuresScreen

        self.push_screen(FailuresScreen(self.path))

    def on_failures_screen_runs_wanted(self, event: FailuresScreen.RunsWanted) -> None:
        """Back to the list, which shows just these."""
        self.pop_screen()
        if isinstance(self.screen, RunsScreen):
            self.screen.show_only(event.label, event.traces)

    def on_failures_screen_try_wanted(self, event: FailuresScreen.TryWanted) -> None:
        from arc_tui.screens.trying import TryScreen

        self.push_screen(TryScreen(self.path, event.label, event.traces))

    def on_try_list_opened(self, event: TryList.Opened) -> None:
        self._open(event.trace, event.step)

    def on_steps_list_opened(self, event: StepsList.Opened) -> None:
        self._open(event.trace, event.step)

    def on_runs_screen_calibration_wanted(self) -> None:
        from arc_tui.screens.calibration import CalibrationScreen

        self.push_screen(CalibrationScreen(self.path))

    def on_leaving_money_wanted(self, event: Leaving.MoneyWanted) -> None:
        from arc_tui.screens.money import MoneyScreen

        self.push_screen(MoneyScreen(self.path, event.trace))

    def on_leaving_replay_wanted(self, event: Leaving.ReplayWanted) -> None:
        from arc_tui.screens.replay import ReplayScreen

        step, edit = event.step, event.edit
        self.push_screen(ReplayScreen(self.path, event.trace, step, edit=edit, free=True))

    def on_replay_screen_free_wanted(self, event: ReplayScreen.FreeWanted) -> None:
        self._run_free(event.trace, event.step, event.edit, event.model)

    def on_leaving_free_wanted(self, event: Leaving.FreeWanted) -> None:
        self._run_free(event.trace, event.step, None, None)

    def on_leaving_bisect_wanted(self, event: Leaving.BisectWanted) -> None:
        self._bisect(event.trace, event.step, None)

    def on_replay_screen_bisect_wanted(self, event: ReplayScreen.BisectWanted) -> None:
        self._bisect(event.trace, event.step, event.edit)

    def _bisect(self, trace: str, step: int, edit: Edit | None) -> None:
        from arc_tui.screens.bisect import BisectScreen

        self.push_screen(BisectScreen(self.path, trace, step, edit))

    def on_probed_probes_wanted(self, event: Probed.ProbesWanted) -> None:
        from arc_tui.screens.probing import ProbeScreen

        self.push_screen(ProbeScreen(self.path, event.trace, event.step))

    def on_leaving_steps_wanted(self, event: Leaving.StepsWanted) -> None:
        from arc_tui.screens.steps import StepsScreen

        self.push_screen(StepsScreen(self.path, event.trace, event.step))

    def _run_free(self, trace: str, step: int, edit: Edit | None, model: str | None) -> None:
        from arc_tui.screens.free import FreeScreen

        self.push_screen(FreeScreen(self.path, trace, step, edit, model))

    def action_help(self) -> None:
        from arc_tui.screens.help import HelpScreen

        self.push_screen(HelpScreen(self.screen.active_bindings.values()))

    def action_help_quit(self) -> None:
        """What Textual says on ctrl+c, without markup."""
        self.notify("q leaves arc; ctrl+q does so from anywhere")

    def action_theme(self) -> None:
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name
