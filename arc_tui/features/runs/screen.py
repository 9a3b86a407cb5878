"""The runs screen: every run of the database, why each failed, and how often that happens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.worker import Worker, WorkerState
from typing_extensions import override

from arc_tui.features.runs.state import (
    CursorTarget,
    ImportFinished,
    ImportJob,
    ImportProgressed,
    RunsReading,
)
from arc_tui.features.runs.widgets import (
    DEMO,
    ImportBar,
    ParetoPanel,
    RunTable,
    change_recording,
    offers_dialog,
    stop_dialog,
)
from arc_tui.navigation import (
    ChooseSource,
    OpenAudit,
    OpenCalibration,
    OpenCompare,
    OpenCost,
    OpenDemo,
    OpenDrift,
    OpenFailures,
    OpenGate,
    OpenMatrix,
    OpenTrace,
    read_queue,
)
from arc_tui.ui.bindings import bind
from arc_tui.ui.dialogs import PromptLine
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.screen import ViewSwitch, Watching
from arc_tui.ui.styles import Headline
from arc_tui.views.columns import SETS, SORTED
from arc_tui.views.runs import (
    EMPTY,
    Arrangement,
    HeldOut,
    Listed,
    RunsView,
    build_runs,
    counted,
    first_page,
    headline,
    nothing,
    title,
)
from replay.store.handle import Store
from taxonomy.judgements.diagnoses import undiagnosed
from taxonomy.query.language import BadQuery, quote
from taxonomy.query.listing import PAGE, RunRow, runs_at

if TYPE_CHECKING:
    from arc_tui.features.runs.offers import Offer


WIDE, BROAD = 100, 150
"""Columns from which on the failures are shown: under the runs, then at their right."""

TALL = 30
"""Rows from which on the failures have room under the runs."""

ERRORS = 3
"""Errors of an import that are shown; the summary counts all."""


class RunsScreen(Watching):
    """The runs, and the failures under them or at their right."""

    CSS_PATH = "screen.tcss"
    HELP = "runs"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide"), (BROAD, "-broad")]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (TALL, "-tall")]

    BINDINGS = [
        bind("/", "filter", id="runs.filter", label="filter",
             tooltip="Show only the runs that match a query: outcome:failed tag:loop cost>0.5"),
        bind("f", "failed", id="runs.failed", label="failed only",
             tooltip="Show failed runs only, or all again"),
        bind("A", "failures", id="runs.failures",
             tooltip="Count the failures by class and attribution, with the runs of each"),
        bind("^x", "matrix", id="runs.matrix", show=False,
             tooltip="Show the tasks of these runs by variant and model: passed, pass^k, cost"),
        bind("^y", "gate", id="runs.gate", show=False,
             tooltip="Hold the runs of a change against those before it, task by task"),
        bind("^v", "environments", id="runs.drift", show=False,
             tooltip="Compare the environments of two groups: tools, results, models, versions"),
        bind("^a", "audit", id="runs.audit", show=False,
             tooltip="Hold what the agent says and claims against what it does, run by run"),
        bind("^n", "app.golden", id="runs.golden", show=False, label="golden tasks",
             tooltip="Show the golden tasks, and the classes of failures that have none"),
        bind("^f", "source", id="runs.source", show=False,
             tooltip="List the runs of a trace store of your team instead of those here"),
        bind("T", "queue(False)", id="runs.queue",
             tooltip="Go through the runs that need a tag of yours"),
        bind("Q", "queue(True)", id="runs.blind", show=False,
             tooltip="Go through runs that others tagged, their tags hidden"),
        bind("%", "calibration", id="runs.calibration",
             tooltip="Measure rules, judge and localiser against labels"),
        bind("S", "sort", id="runs.sort",
             tooltip=f"Sort by {', '.join(each.heading for each in SORTED)}, or as imported"),
        bind("v", "view_menu", id="runs.view",
             tooltip="Change the view: columns, the panel of failures, held-out tasks"),
        bind("space", "mark", id="runs.mark", label="select",
             tooltip="Select this run to compare others with it, or clear the selection"),
        bind("'", "marked", id="runs.marked", show=False, tooltip="Go to the selected run"),
        bind("=", "compare", id="runs.compare",
             tooltip="Compare with the selected run, else with another trial or a replay"),
        bind("$", "cost", id="runs.cost", show=False,
             tooltip="Show what the run under the cursor cost, step by step"),
        bind("o", "here", id="runs.here", label="open files", only="o",
             tooltip="Open files: sessions of this folder, logs, another path, the demo"),
        bind("^k", "stop_recording", id="runs.stop_recording", show=False,
             tooltip="Stop what is recorded: new runs, or every call; or resume"),
        bind("x", "stop", id="runs.stop",
             tooltip="Stop the import; what was imported stays"),
        bind("^r", "refresh", id="runs.refresh", show=False, tooltip="Read the database again"),
        bind("esc", "back", id="runs.back", show=False,
             tooltip="Clear the filter and show all runs"),
    ]  # fmt: skip

    view: reactive[RunsView] = reactive(EMPTY, repaint=False)
    listed: reactive[Listed] = reactive(EMPTY.listed, repaint=False)
    arrangement: reactive[Arrangement] = reactive(Arrangement(), repaint=False)

    table = query_one(RunTable)
    prompt = query_one(PromptLine)
    bar = query_one(ImportBar)

    class Loaded(Message):
        """The runs that are wanted were read, or why they cannot be told."""

        def __init__(self, found: RunsView | BadQuery) -> None:
            super().__init__()
            self.found = found

    class PageRead(Message):
        """The first page of a long list was read, and the rest of it is being counted."""

        def __init__(self, arrangement: Arrangement, page: Listed) -> None:
            super().__init__()
            self.arrangement = arrangement
            self.page = page

    class RowsRead(Message):
        """More of a list was read."""

        def __init__(self, listed: Listed, rows: Sequence[RunRow]) -> None:
            super().__init__()
            self.listed = listed
            self.rows = rows

    class Waiting(Message):
        """Runs wait for the rules to look at them."""

        def __init__(self, traces: Sequence[str]) -> None:
            super().__init__()
            self.traces = traces

    class RecordingChanged(Message):
        """Recorders were stopped, or may go on."""

        def __init__(self, sentence: str) -> None:
            super().__init__()
            self.sentence = sentence

    class OffersFound(Message):
        """What is here to be opened was looked for."""

        def __init__(self, offers: tuple[Offer, ...]) -> None:
            super().__init__()
            self.offers = offers

    def __init__(
        self, path: Path, imports: tuple[Path, ...] = (), columns: str = next(iter(SETS))
    ) -> None:
        super().__init__(path)
        self.cursor_target = CursorTarget(self)
        self._columns = columns
        self._reading = RunsReading()
        self._import = ImportJob(self, imports)
        self._offered = bool(imports)
        self._left = False
        self._with_held_out: HeldOut = False

    def compose(self) -> ComposeResult:
        yield Headline(id="head")
        with Horizontal(id="body"):
            yield RunTable(id="runs").data_bind(RunsScreen.listed)
            yield ParetoPanel(id="failures")
        yield ImportBar()
        yield PromptLine("filter ", 'outcome:failed tag:loop cost>0.5 "said"')
        yield KeyBar()

    def on_mount(self) -> None:
        self.table.border_title = "runs"
        self.table.columns = self._columns
        self.bar.display = False
        self.load()

    def on_changed(self) -> None:
        """Someone writes runs: those that are live grow."""
        if self.is_current and self.view is not EMPTY:
            self.load()

    def on_open_trace(self, event: OpenTrace) -> None:
        """Not by a person and by an import at once: the screen is left for the first of the two."""
        if self._left:
            event.stop()
        self._left = True

    def on_screen_resume(self) -> None:
        """Tags may have been given meanwhile."""
        self._left = False
        if self.view is not EMPTY:
            self.load()

    @property
    @override
    def awaits(self) -> bool:
        coming = self._reading.under_way or self._import.may_bring_one
        only_a_page = self._reading.under_way and self.view is EMPTY
        return super().awaits or only_a_page or (coming and not self.table.row_count)

    @property
    @override
    def expects(self) -> bool:
        """The run that is imported may be the only one, which is opened: who names it and types
        on means no other."""
        return self._import.may_bring_one or "target" in self._questions

    def load(self) -> None:
        """Read the runs; asked while that is under way, once more after it."""
        if self._reading.request():
            self._read()

    def _read(self) -> Worker[None]:
        """Read the runs as they are arranged now."""
        self._reading.begin()
        arrangement, shown, near = self.arrangement, self._with_held_out, self.table.at
        is_new = self.view is EMPTY or arrangement != self.view.arrangement
        page_first = is_new and not self.table.cursor

        def read(store: Store) -> RunsView | BadQuery:
            try:
                if page_first:
                    page = first_page(store, arrangement, with_held_out=shown)
                    if len(page.traces) == PAGE:
                        self.post_message(self.PageRead(arrangement, page))
                return build_runs(store, arrangement, with_held_out=shown, near=near)
            except BadQuery as refused:
                return refused

        return self.ask(read, self.Loaded, group="load")

    def on_runs_screen_page_read(self, event: PageRead) -> None:
        """Who sorts or asks sees the beginning of it, long before all of a large list is known."""
        if self._reading.under_way and event.arrangement == self.arrangement:
            self.listed = event.page
            self.table.cursor = 0
            self._draw()

    def on_runs_screen_loaded(self, event: Loaded) -> None:
        if self._reading.finish():
            self.load()
        if isinstance(event.found, BadQuery):
            self._refuse(str(event.found))
        else:
            self.prompt.refusal = ""
            self._show(event.found)

    def _refuse(self, why: str) -> None:
        """What was listed stays until the words can be read."""
        self.prompt.refusal = why
        if not self.prompt.display:
            self.say(why, severity="warning")

    def _show(self, view: RunsView) -> None:
        first = self.view is EMPTY
        resorted = view.arrangement.order != self.view.arrangement.order
        at_top = self.table.cursor == 0
        self.view, self.listed = view, view.listed
        if resorted and at_top:  # who sorts wants to see what comes first
            self.table.cursor = 0
        if self._with_held_out is None:
            self._with_held_out = view.held_out.shown
        self.cursor_target.find()
        panel = self.query_one(ParetoPanel)
        panel.pareto = view.pareto
        panel.border_title = f"failures of {counted(view)}"
        self.refresh_bindings()
        if self._import.waiting:
            self._start_import()
        elif first:
            self.ask(_waiting, self.Waiting, group="waiting")
        importing = self._import.is_running
        self.table.nothing = (
            "No runs yet. The import is running." if importing else nothing(view, self.key_of)
        )
        self.table.border_title = title(view.arrangement)
        self.query_one("#head", Headline).left = headline(view, self.key_of)
        if not (view.runs or view.held_out.runs or self._offered):
            self._offered = True
            self.action_here()

    def on_runs_screen_waiting(self, event: Waiting) -> None:
        if event.traces and not self._import.is_running:
            self._start_import()

    def on_cursor_target_found(self, event: CursorTarget.Found) -> None:
        if event.trace and self.table.stand_on(event.trace):
            self.cursor_target.reached()

    def on_run_table_rows_needed(self, event: RunTable.RowsNeeded) -> None:
        listed, traces = event.listed, event.traces
        self.ask(
            lambda store: runs_at(store, traces),
            lambda rows: self.RowsRead(listed, rows),
            group="rows",
        )

    def on_runs_screen_rows_read(self, event: RowsRead) -> None:
        if event.listed is self.listed:  # of a list that is not shown any more they may be old
            self.listed = self.listed.and_rows(event.rows)

    def import_path(self, path: Path) -> None:
        """Import a file or a folder, and open what comes of it where that is one run."""
        if self._import.is_running:
            self.say("An import is already running.")
        else:
            self._import.waiting = (path,)
            self._start_import()

    def _start_import(self) -> None:
        """Start what was asked for with the app, once the database is known to open; the rules
        look at what waits for them."""
        self._import.start()
        self.bar.traces = 0
        self.bar.display = True

    @override
    def after_stop(self) -> None:
        self._reading.cancel()
        if self.view is EMPTY:
            self._show_not_loaded("Loading stopped.")
        super().after_stop()

    def _show_not_loaded(self, why: str) -> None:
        self.table.nothing = f"{why}\n\n{self.key_of('runs.refresh')}   load runs"
        self.query_one(ParetoPanel).note = ""

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """What failed is no longer under way; the base says why."""
        if event.state is WorkerState.ERROR and event.worker.group == "load":
            self._reading.finish()
            if self.view is EMPTY:
                self._show_not_loaded("Runs not loaded.")
        elif event.state is WorkerState.ERROR and event.worker.group == "import":
            self._import.finish()
            self.bar.display = False

    def watch_arrangement(self) -> None:
        if self._reading.under_way or self.view is not EMPTY:
            self.table.sorted_by = self.arrangement.order
            self.hold_keys(self._read())

    def on_import_progressed(self, event: ImportProgressed) -> None:
        bar, now = self.bar, event.progress
        runs_came = self._import.advance(now)
        bar.done, bar.total, bar.path = now.done, now.total, now.path
        bar.traces, bar.diagnoses = self._import.traces, now.diagnoses
        if runs_came:
            self.load()

    def on_import_finished(self, event: ImportFinished) -> None:
        self._import.finish()
        self.bar.display = False
        self.load()
        for error in event.errors[:ERRORS]:
            self.say(error, severity="error")
        self.say(event.summary)
        if event.fruitless and self.is_current:
            self.app.post_message(self.Missed())
        if event.only is not None and self.is_current:  # else someone went on meanwhile
            self.post_message(OpenTrace(event.only))

    def on_prompt_line_changed(self, event: PromptLine.Changed) -> None:
        self.arrangement = structs.replace(self.arrangement, words=event.words)

    def on_prompt_line_closed(self, event: PromptLine.Closed) -> None:
        self.arrangement = structs.replace(self.arrangement, words=event.words)
        self.table.focus()

    async def action_filter(self) -> None:
        await self.prompt.open()

    def action_failed(self) -> None:
        failed_only = not self.arrangement.failed_only
        self.arrangement = structs.replace(self.arrangement, failed_only=failed_only)

    def action_sort(self) -> None:
        order = self.arrangement.next_order()
        self.arrangement = structs.replace(self.arrangement, order=order)

    def action_mark(self) -> None:
        self.table.toggle_mark()

    def on_run_table_marked(self, event: RunTable.Marked) -> None:
        if event.trace:
            self.say(f"Selected. {self.key_of('runs.compare')} on another run compares them.")

    def action_compare(self) -> None:
        if self.table.at:
            self.post_message(OpenCompare(self.table.at))
        else:
            back, here = self.key_of("runs.back"), self.key_of("runs.here")
            self.say(f"No run to compare. {back} shows all runs, {here} opens files.")

    def action_here(self) -> None:
        """Offer what is here, once it is known."""
        folder = Path.cwd()
        self.hold_keys(self.ask(lambda _: _found(folder), self.OffersFound, group="offers"))

    def on_runs_screen_offers_found(self, event: OffersFound) -> None:
        if self.is_current:  # else someone went on meanwhile
            self.app.push_screen(offers_dialog(event.offers, Path.cwd()), self._open_answer)

    def _open_answer(self, answer: str | None) -> None:
        if answer == DEMO:
            self.post_message(OpenDemo())
        elif answer is not None:
            self.import_path(Path(answer).expanduser())

    def action_marked(self) -> None:
        """To the selected run, where it is listed."""
        if not self.table.stand_on(self.table.marked):
            self.say("The selected run is not listed.")

    def action_stop_recording(self) -> None:
        """Ask what is to be stopped, or whether recorders may go on."""
        self.app.push_screen(stop_dialog(self.path), self._stop_recording)

    def _stop_recording(self, answer: str | None) -> None:
        if answer is not None:
            self.ask(lambda _: change_recording(self.path, answer), self.RecordingChanged,
                     group="recording")  # fmt: skip

    def on_runs_screen_recording_changed(self, event: RecordingChanged) -> None:
        self.say(event.sentence)
        self.load()

    def action_cost(self) -> None:
        self.post_message(OpenCost(self.table.at))

    @override
    def view_switches(self) -> Sequence[ViewSwitch]:
        return (
            ViewSwitch("columns", "columns", f"show other columns: {', '.join(SETS)}"),
            ViewSwitch("panel", "failures", "show or hide the panel of failure classes"),
            ViewSwitch("held_out", "held-out", "show or hide the runs of held-out tasks"),
        )

    def action_columns(self) -> None:
        self.table.next_columns()

    def action_panel(self) -> None:
        """Show the panel in a small terminal, hide it in a larger one, and the other way."""
        self.toggle_class("-toggled")

    def action_queue(self, blind: bool) -> None:
        read_queue(self, blind=blind)

    def action_failures(self) -> None:
        self.post_message(OpenFailures())

    def action_matrix(self) -> None:
        self.post_message(OpenMatrix(self.arrangement.words, bool(self._with_held_out)))

    def action_audit(self) -> None:
        self.post_message(OpenAudit(self.arrangement.words, bool(self._with_held_out)))

    def action_gate(self) -> None:
        self.post_message(OpenGate())

    def action_environments(self) -> None:
        self.post_message(OpenDrift())

    def action_source(self) -> None:
        self.post_message(ChooseSource())

    def action_calibration(self) -> None:
        self.post_message(OpenCalibration())

    def show_only(self, kind: str, traces: Collection[str]) -> None:
        """List just these runs, which `kind` names; escape shows all again.

        Where runs of held-out tasks are among them, all of these are shown from now on.
        """
        if not self._with_held_out:
            self._with_held_out = None
        wanted = Arrangement(order=self.arrangement.order, only=frozenset(traces), kind=kind)
        if wanted == self.arrangement:
            self.load()
        self.arrangement = wanted

    def show_saying(self, words: str) -> None:
        """List the runs in which somebody says some words; escape shows all again."""
        self._show_words(quote(words))

    def show_meant(self, query: str, with_held_out: bool) -> None:
        """List the runs that a query means; escape shows all again."""
        self._with_held_out = with_held_out
        self._show_words(query)

    def _show_words(self, query: str) -> None:
        self.arrangement = Arrangement(order=self.arrangement.order, words=query)
        self.prompt.words = query

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "held_out":
            return bool(self.view.held_out.runs)
        if action == "stop":
            return self._import.is_running
        if action in {"marked", "cost"}:
            return bool(self.table.marked if action == "marked" else self.table.at) or None
        return super().check_action(action, parameters)

    def action_held_out(self) -> None:
        self._with_held_out = not self._with_held_out
        self.load()

    def action_refresh(self) -> None:
        self.load()

    def action_stop(self) -> None:
        """Stop the import."""
        self._import.stop()
        self.bar.stopping = True

    @property
    @override
    def has_job(self) -> bool:
        return self._import.is_running

    def action_back(self) -> None:
        """Show all runs again; this is the first screen, so nothing is left."""
        everything = Arrangement(order=self.arrangement.order)
        if self.arrangement == everything:
            self.say(f"{self.key_of('app.quit')} quits arc")
        self.prompt.words = ""
        self.arrangement = everything


def _waiting(store: Store) -> list[str]:
    """The traces the rules are to look at; none where what they say could not be kept."""
    return [] if store.read_only else undiagnosed(store)


def _found(folder: Path) -> tuple[Offer, ...]:
    """What is here to be opened, the newest first."""
    from arc_tui.features.runs.offers import MOST, look

    return tuple(islice(look(folder), MOST))
