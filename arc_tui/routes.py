"""Which screen follows which.

Screens post the requests of `navigation`, and the app, which is one of these, pushes what shows
it. A screen is imported when it is first wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App
from textual.screen import Screen
from typing_extensions import override

from arc_tui.ui.format import plain
from arc_tui.ui.keys import key_of
from arc_tui.ui.screen import ArcScreen

if TYPE_CHECKING:
    from arc_tui.features.fleet.screen import FleetScreen
    from arc_tui.features.runs.screen import RunsScreen
    from arc_tui.features.runs.widgets import RunTable
    from arc_tui.features.trace.screen import TraceScreen
    from arc_tui.navigation import (
        ChooseSource,
        FilterRuns,
        OpenAudit,
        OpenBisect,
        OpenBisectSteps,
        OpenClassify,
        OpenCompare,
        OpenCost,
        OpenDrift,
        OpenEditTest,
        OpenFreeReplay,
        OpenGate,
        OpenMatrix,
        OpenProbes,
        OpenQueue,
        OpenReplay,
        OpenRuns,
        OpenSuggestions,
        OpenTrace,
        ReturnToTrace,
        SearchRuns,
    )
    from arc_tui.settings import Settings
    from taxonomy.queue import Queue


class BackTarget(Screen[None]):
    """Below a run, or a store, that the app was opened on: nothing, until somebody goes back to
    the list."""

    def __init__(self, first: TraceScreen | FleetScreen, runs: Callable[[], RunsScreen]) -> None:
        super().__init__()
        self._first: TraceScreen | FleetScreen | None = first
        self._runs = runs

    def on_screen_resume(self) -> None:
        self.app.push_screen(self._first or self._runs())
        self._first = None

    @override
    def _compositor_refresh(self) -> None:
        """Nothing is drawn of it: a screen comes at once."""


class Navigation(App[None]):
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
        screen = self.screen
        return isinstance(screen, ArcScreen) and screen.reading and not screen.has_job

    def action_stop_reading(self) -> None:
        if isinstance(self.screen, ArcScreen):
            self.screen.stop_reading()

    def runs(self) -> RunsScreen:
        """The list of runs, as it is first shown."""
        from arc_tui.features.runs.screen import RunsScreen

        return RunsScreen(self.path, self.imports, columns=self.settings.columns)

    def on_run_table_marked(self, event: RunTable.Marked) -> None:
        self.marked = event.trace

    def on_open_trace(self, event: OpenTrace) -> None:
        self._open(event.trace, event.step)

    def _open(self, trace: str, step: int | None) -> None:
        from arc_tui.features.trace.screen import TraceScreen

        self.push_screen(TraceScreen(self.path, trace, step))

    def on_return_to_trace(self, event: ReturnToTrace) -> None:
        from arc_tui.features.trace.screen import TraceScreen

        self.pop_screen()
        if isinstance(self.screen, TraceScreen) and self.screen.trace == event.trace:
            self.screen.go_to(event.step)
        else:
            self._open(event.trace, event.step)

    async def on_open_runs(self, event: OpenRuns) -> None:
        (await self._back_to_runs()).show_only(event.label, event.traces)

    async def on_search_runs(self, event: SearchRuns) -> None:
        (await self._back_to_runs()).show_saying(event.text)

    async def on_filter_runs(self, event: FilterRuns) -> None:
        (await self._back_to_runs()).show_meant(event.query, event.with_held_out)

    def on_open_matrix(self, event: OpenMatrix) -> None:
        from arc_tui.features.runs.matrix import MatrixScreen

        screen = MatrixScreen(self.path, event.query, with_held_out=event.with_held_out)
        self.push_screen(screen)

    def on_open_audit(self, event: OpenAudit) -> None:
        from arc_tui.features.audit.screen import AuditScreen

        screen = AuditScreen(self.path, event.query, with_held_out=event.with_held_out)
        self.push_screen(screen)

    def on_open_gate(self, event: OpenGate) -> None:
        from arc_tui.features.gate.screen import GateScreen

        self.push_screen(GateScreen(self.path, event.baseline, event.candidate))

    def on_open_drift(self, event: OpenDrift) -> None:
        from arc_tui.features.drift.screen import DriftScreen

        self.push_screen(DriftScreen(self.path, event.first, event.second))

    def on_choose_source(self, event: ChooseSource) -> None:
        del event
        from arc_tui.features.fleet.widgets import SourceChoice

        SourceChoice().ask(self, self._list_source)

    async def _list_source(self, name: str | None) -> None:
        """The runs of a store in place of those of another; "" are those of the database."""
        from arc_tui.features.fleet.screen import FleetScreen

        if name == "":
            await self._back_to_runs()
        elif name is not None and isinstance(self.screen, FleetScreen):
            await self.switch_screen(FleetScreen(self.path, name))
        elif name is not None:
            self.push_screen(FleetScreen(self.path, name))

    async def _back_to_runs(self) -> RunsScreen:
        """The list below the screen in front; where the app was opened on a run, the list takes its
        place."""
        from arc_tui.features.runs.screen import RunsScreen

        while not isinstance(self.screen, RunsScreen):
            if isinstance(self.screen_stack[-2], BackTarget):
                await self.switch_screen(self.runs())
            else:
                self.pop_screen()
        return self.screen

    def on_open_demo(self) -> None:
        """Imported where its database is new."""
        from arc_tui.places import demo_database, fixtures

        self.path, self.demo, self.marked = demo_database(None), True, ""
        self.imports = () if self.path.exists() else (fixtures() / "traces",)
        self.push_screen(self.runs())
        if self.imports:
            self.begin_tour()

    def begin_tour(self) -> None:
        """Show a person round the bundled runs."""
        raise NotImplementedError

    def on_open_queue(self, event: OpenQueue) -> None:
        """The first run that waits, unless none does: a toast says so."""
        from arc_tui.features.trace.screen import TraceScreen

        visit = event.visit
        if not visit.queue.waiting:
            self._say_queue_empty(visit.queue)
            return
        screen = TraceScreen(self.path, visit.here.trace, visit.here.step, visit)
        if event.in_place:
            self.switch_screen(screen)
        else:
            self.push_screen(screen)

    def _say_queue_empty(self, queue: Queue) -> None:
        from arc_tui.views.queue import nothing_waits

        seen = key_of(self.screen, "runs.queue") or key_of(self.screen, "queue.walk")
        blind = key_of(self.screen, "runs.blind") or key_of(self.screen, "queue.blind")
        self.notify(plain(nothing_waits(queue, seen=seen, blind=blind)), markup=False)

    def on_open_failures(self) -> None:
        from arc_tui.features.failures.screen import FailuresScreen

        self.push_screen(FailuresScreen(self.path))

    def on_open_calibration(self) -> None:
        from arc_tui.features.calibration.screen import CalibrationScreen

        self.push_screen(CalibrationScreen(self.path))

    def on_open_compare(self, event: OpenCompare) -> None:
        from arc_tui.features.compare.screen import CompareScreen

        if self.marked and self.marked != event.trace:
            self.push_screen(CompareScreen(self.path, self.marked, event.trace))
        else:
            self.push_screen(CompareScreen(self.path, event.trace))

    def on_open_cost(self, event: OpenCost) -> None:
        from arc_tui.features.cost.screen import CostScreen

        self.push_screen(CostScreen(self.path, event.trace))

    def on_open_replay(self, event: OpenReplay) -> None:
        from arc_tui.features.replay.screen import ReplayScreen

        step, edit, start = event.step, event.edit, event.start
        self.push_screen(
            ReplayScreen(self.path, event.trace, step, edit=edit, start=start, free=True)
        )

    def on_open_free_replay(self, event: OpenFreeReplay) -> None:
        from arc_tui.features.free.screen import FreeScreen

        step, edit, model = event.step, event.edit, event.model
        self.push_screen(FreeScreen(self.path, event.trace, step, edit, model))

    def on_open_bisect(self, event: OpenBisect) -> None:
        from arc_tui.features.bisect.screen import BisectScreen

        self.push_screen(BisectScreen(self.path, event.trace, event.step, event.edit))

    def on_open_bisect_steps(self, event: OpenBisectSteps) -> None:
        from arc_tui.features.bisect_steps.screen import StepsScreen

        self.push_screen(StepsScreen(self.path, event.trace, event.step))

    def on_open_probes(self, event: OpenProbes) -> None:
        from arc_tui.features.probes.screen import ProbeScreen

        self.push_screen(ProbeScreen(self.path, event.trace, event.step))

    def on_open_classify(self, event: OpenClassify) -> None:
        from arc_tui.features.judge.screen import ClassifyScreen

        self.push_screen(ClassifyScreen(self.path, event.label, event.traces))

    def action_suggest(self) -> None:
        """Edits for the run in front."""
        from arc_tui.features.trace.screen import TraceScreen
        from arc_tui.navigation import OpenSuggestions
        from arc_tui.views.columns import run_name

        if isinstance(self.screen, TraceScreen):
            named = run_name(self.screen.view.run, "/")
            self.on_open_suggestions(OpenSuggestions(named, (self.screen.trace,)))

    def action_golden(self) -> None:
        """The golden set; of the run in front a task is made first."""
        from arc_tui.features.golden.screen import GoldenScreen
        from arc_tui.features.trace.screen import TraceScreen

        here = self.screen
        if isinstance(here, TraceScreen) and here.queue.hidden:
            here.say("A blind review comes first: a check says what others found.")
        elif isinstance(here, TraceScreen):
            self.push_screen(GoldenScreen(self.path, here.trace, here.spans.step))
        else:
            self.push_screen(GoldenScreen(self.path))

    def on_open_suggestions(self, event: OpenSuggestions) -> None:
        from arc_tui.features.edit_test.suggest.screen import SuggestScreen

        self.push_screen(SuggestScreen(self.path, event.label, event.traces))

    def on_open_edit_test(self, event: OpenEditTest) -> None:
        from arc_tui.features.edit_test.screen import EditTestScreen

        self.push_screen(EditTestScreen(self.path, event.label, event.traces))
