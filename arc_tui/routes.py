"""Which screen follows which.

Screens know nothing of each other: they post what a person asked for, and the app, which is one
of these, pushes what shows it. A screen is imported when it is first wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App
from textual.screen import Screen

from arc_tui.ui.screen import ArcScreen

if TYPE_CHECKING:
    from arc_tui.features.bisect_steps.widgets import StepsList
    from arc_tui.features.calibration.widgets import CalibrationWorst
    from arc_tui.features.compare.screen import CompareScreen
    from arc_tui.features.cost.screen import MoneyScreen
    from arc_tui.features.edit_test.widgets import TryList
    from arc_tui.features.failures.screen import FailuresScreen
    from arc_tui.features.failures.widgets import FailureRuns
    from arc_tui.features.replay.screen import ReplayScreen
    from arc_tui.features.runs.screen import RunsScreen
    from arc_tui.features.runs.widgets import RunTable
    from arc_tui.features.trace.actions import Leaving, Probed
    from arc_tui.features.trace.navigation import Finding
    from arc_tui.features.trace.queue import Walking
    from arc_tui.features.trace.screen import TraceScreen
    from arc_tui.navigation import Queueing
    from arc_tui.settings import Settings
    from arc_tui.views.queue import Visit
    from replay.edit.changes import Edit


class Below(Screen[None]):
    """Below a run that the app was opened on: nothing, until somebody goes back to the list."""

    def __init__(self, run: TraceScreen, runs: Callable[[], RunsScreen]) -> None:
        super().__init__()
        self._run: TraceScreen | None = run
        self._runs = runs

    def on_screen_resume(self) -> None:
        self.app.push_screen(self._run or self._runs())
        self._run = None


class Routing(App[None]):
    """An app over one database that goes from screen to screen."""

    path: Path
    imports: tuple[Path, ...]
    """What the list reads first."""

    demo: bool
    settings: Settings
    marked: str = ""
    """The run that another is to be compared with, "" for none."""

    @property
    def is_reading(self) -> bool:
        """Does the screen in front wait for an answer for longer than a moment?"""
        return isinstance(self.screen, ArcScreen) and self.screen.reading

    def action_stop_reading(self) -> None:
        if isinstance(self.screen, ArcScreen):
            self.screen.stop_reading()

    def runs(self) -> RunsScreen:
        """The list of runs, as it is first shown."""
        from arc_tui.features.runs.screen import RunsScreen

        return RunsScreen(self.path, self.imports, columns=self.settings.columns)

    def on_run_table_opened(self, event: RunTable.Opened) -> None:
        self._open(event.trace)

    def on_runs_screen_demo_requested(self) -> None:
        """The bundled runs in a database of their own, imported where that is new."""
        from arc_tui.places import demo_database, fixtures

        self.path, self.demo, self.marked = demo_database(None), True, ""
        self.imports = () if self.path.exists() else (fixtures() / "traces",)
        self.push_screen(self.runs())
        if self.imports:
            self.begin_tour()

    def begin_tour(self) -> None:
        """Show a person round the bundled runs."""
        raise NotImplementedError

    def on_failure_runs_opened(self, event: FailureRuns.Opened) -> None:
        self._open(event.trace, event.step)

    def on_calibration_worst_opened(self, event: CalibrationWorst.Opened) -> None:
        self._open(event.trace, event.step)

    def on_money_screen_opened(self, event: MoneyScreen.Opened) -> None:
        """Back to the run it was asked of, at the step."""
        from arc_tui.features.trace.screen import TraceScreen

        self.pop_screen()
        if isinstance(self.screen, TraceScreen) and self.screen.trace == event.trace:
            self.screen.go_to(event.step)
        else:
            self._open(event.trace, event.step)

    def on_run_table_marked(self, event: RunTable.Marked) -> None:
        self.marked = event.trace

    def on_runs_screen_compare_requested(self, event: RunsScreen.CompareRequested) -> None:
        self._compare(event.trace)

    def on_leaving_compare_wanted(self, event: Leaving.CompareWanted) -> None:
        self._compare(event.trace)

    def _compare(self, trace: str) -> None:
        """With the marked run, else with one that is asked for."""
        from arc_tui.features.compare.screen import CompareScreen

        if self.marked and self.marked != trace:
            self.push_screen(CompareScreen(self.path, self.marked, trace))
        else:
            self.push_screen(CompareScreen(self.path, trace))

    def on_compare_screen_opened(self, event: CompareScreen.Opened) -> None:
        self._open(event.trace, event.step)

    def _open(self, trace: str, step: int | None = None) -> None:
        from arc_tui.features.trace.screen import TraceScreen

        self.push_screen(TraceScreen(self.path, trace, step))

    def on_queueing_entered(self, event: Queueing.Entered) -> None:
        self.push_screen(self._walked(event.visit))

    def on_walking_moved(self, event: Walking.Moved) -> None:
        """The next run of the queue takes the place of the one before."""
        self.switch_screen(self._walked(event.visit))

    def _walked(self, visit: Visit) -> TraceScreen:
        from arc_tui.features.trace.screen import TraceScreen

        return TraceScreen(self.path, visit.here.trace, visit.here.step, visit)

    def on_runs_screen_failures_requested(self) -> None:
        from arc_tui.features.failures.screen import FailuresScreen

        self.push_screen(FailuresScreen(self.path))

    async def on_finding_everywhere_wanted(self, event: Finding.EverywhereWanted) -> None:
        """Back to the list, which shows the runs that say it. Where the app was opened on a run,
        the list takes its place."""
        from arc_tui.features.runs.screen import RunsScreen

        while not isinstance(self.screen, RunsScreen):
            if isinstance(self.screen_stack[-2], Below):
                await self.switch_screen(self.runs())
            else:
                self.pop_screen()
        self.screen.show_saying(event.words)

    def on_failures_screen_runs_requested(self, event: FailuresScreen.RunsRequested) -> None:
        """Back to the list, which shows just these."""
        from arc_tui.features.runs.screen import RunsScreen

        self.pop_screen()
        if isinstance(self.screen, RunsScreen):
            self.screen.show_only(event.label, event.traces)

    def on_failures_screen_edit_test_requested(
        self, event: FailuresScreen.EditTestRequested
    ) -> None:
        from arc_tui.features.edit_test.screen import TryScreen

        self.push_screen(TryScreen(self.path, event.label, event.traces))

    def on_try_list_opened(self, event: TryList.Opened) -> None:
        self._open(event.trace, event.step)

    def on_steps_list_opened(self, event: StepsList.Opened) -> None:
        self._open(event.trace, event.step)

    def on_runs_screen_calibration_requested(self) -> None:
        from arc_tui.features.calibration.screen import CalibrationScreen

        self.push_screen(CalibrationScreen(self.path))

    def on_leaving_money_wanted(self, event: Leaving.MoneyWanted) -> None:
        from arc_tui.features.cost.screen import MoneyScreen

        self.push_screen(MoneyScreen(self.path, event.trace))

    def on_leaving_replay_wanted(self, event: Leaving.ReplayWanted) -> None:
        from arc_tui.features.replay.screen import ReplayScreen

        step, edit = event.step, event.edit
        self.push_screen(ReplayScreen(self.path, event.trace, step, edit=edit, free=True))

    def on_replay_screen_free_replay_requested(
        self, event: ReplayScreen.FreeReplayRequested
    ) -> None:
        self._run_free(event.trace, event.step, event.edit, event.model)

    def on_leaving_free_wanted(self, event: Leaving.FreeWanted) -> None:
        self._run_free(event.trace, event.step, None, None)

    def on_leaving_bisect_wanted(self, event: Leaving.BisectWanted) -> None:
        self._bisect(event.trace, event.step, None)

    def on_replay_screen_bisect_requested(self, event: ReplayScreen.BisectRequested) -> None:
        self._bisect(event.trace, event.step, event.edit)

    def _bisect(self, trace: str, step: int, edit: Edit | None) -> None:
        from arc_tui.features.bisect.screen import BisectScreen

        self.push_screen(BisectScreen(self.path, trace, step, edit))

    def on_probed_probes_wanted(self, event: Probed.ProbesWanted) -> None:
        from arc_tui.features.probes.screen import ProbeScreen

        self.push_screen(ProbeScreen(self.path, event.trace, event.step))

    def on_leaving_steps_wanted(self, event: Leaving.StepsWanted) -> None:
        from arc_tui.features.bisect_steps.screen import StepsScreen

        self.push_screen(StepsScreen(self.path, event.trace, event.step))

    def _run_free(self, trace: str, step: int, edit: Edit | None, model: str | None) -> None:
        from arc_tui.features.free.screen import FreeScreen

        self.push_screen(FreeScreen(self.path, trace, step, edit, model))
