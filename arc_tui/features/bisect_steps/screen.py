"""The steps screen: at which step of a run belief left the world, what it contradicts, and whether
a fix there takes the failure away.

It opens with what the rules say, who ask nobody. The state is all that is drawn; no model is
asked before a person says so, and a server only under a limit given for that once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import Binding
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.experiments.dialogs import AttachBox, Attachment, allowed, attach
from arc_tui.experiments.runner import BackgroundRun, JobFinished, JobProgressed
from arc_tui.features.bisect_steps.dialogs import StepsWishing
from arc_tui.features.bisect_steps.plan import BisectStepsRequest
from arc_tui.features.bisect_steps.run import run_step_bisection
from arc_tui.features.bisect_steps.state import EMPTY, BisectStepsState, build_run
from arc_tui.features.bisect_steps.text import (
    Bill,
    Prospect,
    TrialProspect,
    build_prospect,
    build_trial,
    price,
)
from arc_tui.features.bisect_steps.view import StepsView
from arc_tui.features.bisect_steps.widgets import StepsFoot, StepsHead, StepsList, steps_page
from arc_tui.ui.key_bar import KeyBar
from arc_tui.ui.key_names import with_keys
from arc_tui.ui.list import RowList
from arc_tui.ui.page import LinkedPage
from arc_tui.views.step import StepView, build_step
from replay.errors import ArcError, OfflineMiss

ORACLE = Binding.Group("oracle", compact=True)
ASKS_NOBODY = "contradiction"


class StepsScreen(StepsWishing):
    """The steps of one run, held against what they had been shown."""

    CSS_PATH = "screen.tcss"
    HELP = "the step where belief left the world"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]

    BINDINGS = [
        Binding("r,f5", "run", "ask", id="steps.run",
                tooltip="Ask the model about every step, or let the run go on with the fix"),
        Binding("v", "validate", "test it", id="steps.validate",
                tooltip="Ask the step that was found again, as recorded and with the fix"),
        Binding("a,f8", "attach", "attach", id="steps.attach",
                tooltip="Attach what the source did not record"),
        Binding("x", "stop", "stop", id="steps.stop",
                tooltip="Ask nothing more; what was answered is kept"),
        Binding("o", "oracle", "oracle", id="steps.oracle",
                tooltip="Choose who says at which step belief left the world"),
        Binding("right", "turn(1)", "next oracle", id="steps.oracle_next", show=False,
                tooltip="Go by the next oracle"),
        Binding("left", "turn(-1)", "oracle before", id="steps.oracle_before", show=False,
                tooltip="Go by the oracle before"),
        Binding("e,f7", "choose", "fix", id="steps.fix",
                tooltip="Take a kept edit, or a file, as the fix that is tried"),
        Binding("f", "fact", "fact", id="steps.fact",
                tooltip="Name a fact to ask the model about, and its true value"),
        Binding("w", "expect", "saved if", id="steps.expect",
                tooltip="Say what a saved run does: tool=NAME, or gold"),
        Binding("J", "judge", "judge", id="steps.judge",
                tooltip="Choose who judges each step"),
        Binding("A", "stale", "allow stale", id="steps.stale",
                tooltip="Answer reads with what was recorded at another moment, or no longer"),
        Binding("s,f6", "samples", "samples", id="steps.samples",
                tooltip="Choose how often each arm of a test is asked"),
        Binding("m,f3", "model", "model", id="steps.model",
                tooltip="Choose the model to ask"),
        Binding("tab,shift+tab", "pane", "other pane", id="steps.pane",
                tooltip="Between the steps and the step in full"),
        Binding("escape", "back", "back", id="steps.back",
                tooltip="Stop what runs, else back to the steps, then to the run"),
    ]  # fmt: skip

    state: reactive[BisectStepsState] = reactive(EMPTY, repaint=False)

    rows = query_one(StepsList)
    page = query_one("#step", LinkedPage)

    class Named(Message):
        """What the run is called."""

        def __init__(self, run: str) -> None:
            super().__init__()
            self.run = run

    class Foreseen(Message):
        """What a search would ask."""

        def __init__(self, prospect: Prospect) -> None:
            super().__init__()
            self.prospect = prospect

    class TrialForeseen(Message):
        """What a test would ask."""

        def __init__(self, trial: TrialProspect) -> None:
            super().__init__()
            self.trial = trial

    class StepLoaded(Message):
        """A step was read."""

        def __init__(self, detail: StepView) -> None:
            super().__init__()
            self.detail = detail

    class Attached(Message):
        """The trace has what it lacked."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    def __init__(self, path: Path, trace: str, step: int = 0) -> None:
        """`step` is where the cursor stands where none is found."""
        super().__init__(path, trace)
        self._step = step
        self._going: BackgroundRun[BisectStepsRequest, StepsView] | None = None
        self._detail: StepView | None = None
        self._missed = False

    def compose(self) -> ComposeResult:
        yield StepsHead().data_bind(StepsScreen.state)
        yield StepsList(id="steps").data_bind(StepsScreen.state)
        yield LinkedPage(id="step")
        yield StepsFoot().data_bind(StepsScreen.state)
        yield KeyBar()

    def on_mount(self) -> None:
        self.rows.focus()
        self.ask(lambda store: build_run(store, self.request.trace), self.Named, group="run")
        self.wish()

    def on_unmount(self) -> None:
        if self._going is not None:
            self._going.stop()

    def on_steps_screen_named(self, event: Named) -> None:
        self._move(run=event.run)

    def _move(self, **changes: Any) -> None:
        """The state with some of it changed."""
        self.state = structs.replace(self.state, **changes)

    # --- what is wanted

    @override
    def wish(self, **changes: Any) -> None:
        """Want something else, and see what it would ask; what asks nobody is answered at once."""
        self.request = request = structs.replace(self.request, **changes)
        self.state = BisectStepsState(request=request, run=self.state.run)
        if request.oracle == ASKS_NOBODY:
            self._start(request)
        elif self.state.lacks_wish:
            self._move(at="ready")
        else:
            self.ask(lambda store: build_prospect(store, request), self.Foreseen, group="prospect")

    def on_steps_screen_foreseen(self, event: Foreseen) -> None:
        """Where all is answered already it is shown: nobody is asked for it."""
        if event.prospect.request != self.request:
            return
        self._move(at="ready", prospect=event.prospect, view=event.prospect.view)
        self.rows.go_to(self._step)
        if event.prospect.bill.settled:
            self._start(self.request)

    def on_steps_screen_trial_foreseen(self, event: TrialForeseen) -> None:
        if not self.state.running and self.state.view.decisive == event.trial.step:
            self._move(trial=event.trial)
            self.refresh_bindings()

    @override
    def show_error(self, error: ArcError) -> None:
        """What keeps the search from going on stands where its sentence would."""
        if isinstance(error, OfflineMiss):
            self._missed = True
            hint = "ask again (‹steps.run›), and say what it may cost"
            error = OfflineMiss(error.message, hint)
        if self.state.running or self.state.at == "looking":
            self._move(at="failed", trouble=error)
        else:
            super().show_error(error)

    # --- asking

    def action_run(self) -> None:
        """Ask, after what it may cost was asked of the person."""
        prospect = self.state.prospect
        if self.state.lacks_wish:
            self.action_choose() if self.request.fix is None else self.action_expect()
        elif prospect is None:
            self.wish()
        else:
            self._ask(prospect.bill, self.request)

    def action_validate(self) -> None:
        trial = self.state.trial
        if trial is not None and self.state.testable:
            self._ask(trial.bill, structs.replace(self.request, validate=True))

    def _ask(self, bill: Bill, request: BisectStepsRequest) -> None:
        submit = self._submit(bill, request)
        self.run_worker(submit, group="submit", exclusive=True, exit_on_error=False)

    async def _submit(self, bill: Bill, request: BisectStepsRequest) -> None:
        if not bill.local and (bill.estimate is None or bill.estimate.calls or self._missed):
            self._missed = False
            limits = await allowed(self.app, price(bill))
            if limits is not None:
                request = structs.replace(request, live=True, limits=limits)
        self._start(request)

    def _start(self, request: BisectStepsRequest) -> None:
        self._move(at="asking", request=request, trouble=None)
        self._going = BackgroundRun(self, run_step_bisection, request)

    def on_job_progressed(self, event: JobProgressed[StepsView]) -> None:
        self._move(view=event.view)

    def on_job_finished(self, event: JobFinished) -> None:
        self._going = None
        if event.trouble is not None:
            self.show_error(event.trouble)
        else:
            self._move(at="stopped" if event.stopped else "done")
        view = self.state.view
        self.rows.go_to(self._step if view.decisive is None else view.decisive)
        self._foresee_trial()

    def _foresee_trial(self) -> None:
        found, request = self.state.found, self.request
        if found is not None and self.state.view.trial is None and self.state.trouble is None:
            self.ask(
                lambda store: build_trial(store, request, found.step),
                self.TrialForeseen,
                group="trial",
            )

    def action_stop(self) -> None:
        if self._going is not None:
            self._going.stop()
            self._move(at="stopping")

    # --- what is shown

    def watch_state(self, before: BisectStepsState, state: BisectStepsState) -> None:
        if before.at != state.at or before.view is not state.view:
            self._show()
            self.refresh_bindings()

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        row = self.rows.row
        if event.rows is not self.rows or row is None:
            return
        self._step = row.step
        self._show()
        self._load(row.step)

    def _load(self, step: int) -> None:
        """Read what the step under the cursor did."""
        known = self._detail.row.step if self._detail is not None else None
        if step != known:
            self.ask(
                lambda store: build_step(store, self.request.trace, step),
                self.StepLoaded,
                group="step",
            )

    def on_steps_screen_step_loaded(self, event: StepLoaded) -> None:
        self._detail = event.detail
        self._show(again=True)

    def _show(self, *, again: bool = False) -> None:
        """The step under the cursor in full; `again`: only more of it."""
        if not self.is_mounted:
            return
        row, detail = self.rows.row, self._detail
        here = detail if row is not None and detail and detail.row.step == row.step else None
        self.page.border_title = f"step {row.step}" if row is not None else ""
        page = steps_page(self.state.view, row, here)
        self.page.show(with_keys(self, page), again=again)

    def on_linked_page_followed(self, event: LinkedPage.Followed) -> None:
        """A source leads to the step that it is from."""
        self.rows.go_to(event.step)

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        state, oracle = self.state, self.request.oracle
        match action:
            case "stop":
                return state.running
            case "validate":
                return not state.running and state.testable
            case "run":
                return not state.running and oracle != ASKS_NOBODY
            case "expect" | "stale":
                return not state.running and oracle == "savable"
            case "judge":
                return not state.running and oracle == "judge"
            case "attach":
                return not state.running and bool(state.lacks)
            case "oracle" | "turn" | "choose" | "fact" | "samples" | "model":
                return not state.running
            case _:
                return True

    # --- around it

    def action_attach(self) -> None:
        self.app.push_screen(AttachBox(self.state.lacks), self._files_given)

    def _files_given(self, given: Attachment | None) -> None:
        if given is not None:
            trace = self.request.trace
            self.ask(lambda store: attach(store, trace, given), self.Attached, group="attach")

    def on_steps_screen_attached(self, event: Attached) -> None:
        self.say(f"the trace now has {event.what}")
        self.wish()

    def action_pane(self) -> None:
        (self.rows if self.focused is self.page else self.page).focus()

    def action_back(self) -> None:
        if self.state.at == "asking":
            self.action_stop()
        elif self.focused is self.page:
            self.rows.focus()
        else:
            self.dismiss()
