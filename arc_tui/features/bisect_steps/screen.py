"""The first-contradiction screen: the first step of a run that contradicts its context, the
sources, and whether a fix there removes the failure.

It opens with the rules' result, which needs no model call. No model is called before the user
starts that, and a server only within a limit given for that one search. The fact to ask about and
what a recovered run does are asked of the user.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, get_args

from msgspec import structs
from textual.app import App, ComposeResult
from textual.getters import query_one
from textual.reactive import reactive

from arc_tui.attachment import offers_for
from arc_tui.experiments.dialogs import AttachBox, Attachment, attach
from arc_tui.experiments.runner import JobFinished
from arc_tui.experiments.screen import (
    ExperimentScreen,
    model_key,
    run_key,
    sample_count,
    samples_key,
    stop_key,
)
from arc_tui.features.bisect_steps.plan import BisectStepsRequest, DetectorName
from arc_tui.features.bisect_steps.run import run_step_bisection
from arc_tui.features.bisect_steps.state import (
    DETECTORS,
    EMPTY,
    BisectStepsState,
    SearchCost,
    StepsCost,
    TrialCost,
    build_run,
    build_search_cost,
    build_trial_cost,
)
from arc_tui.features.bisect_steps.widgets import StepsFoot, StepsHead, StepsList, steps_page
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.dialogs import AskBox, Option, ask_until_read
from arc_tui.ui.keys import KeyBar, with_keys
from arc_tui.ui.list import RowList
from arc_tui.ui.page import LinkedPage
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.step import StepView, build_step
from replay.edit.changes import Edit
from replay.errors import ArcError
from replay.models.choose import DEMO
from replay.predicate import predicate
from replay.store.offers import Offer

FREE = "contradiction"
NAMES: tuple[DetectorName, ...] = get_args(DetectorName)

MADE = "made from the finding"
"""The choice of no fix of one's own."""


class StepsScreen(ExperimentScreen[BisectStepsState]):
    """The steps of one run, compared with their context."""

    CSS_PATH = "screen.tcss"
    HELP = "first contradiction"
    MISS_HINT = "‹steps.run› run, with a limit"
    AT_REST = ExperimentScreen.AT_REST | {
        "confirm", "attach", "detector", "turn", "choose", "fact", "expect", "stale", "judge",
    }  # fmt: skip
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]

    BINDINGS = [
        run_key("steps", "Call the model about every step, or continue the run with the fix"),
        bind("V", "confirm", id="steps.confirm",
             tooltip="Confirm the step: call the model as recorded and with the fix"),
        bind("a", "attach", id="steps.attach", tooltip="Attach what the source did not record"),
        stop_key("steps"),
        bind("D", "detector", id="steps.detector",
             tooltip="Choose the detector that names the step"),
        bind("l", "turn(1)", id="steps.detector_next", show=False, tooltip="Use the next detector"),
        bind("h", "turn(-1)", id="steps.detector_before", show=False,
             tooltip="Use the previous detector"),
        bind("o", "choose", id="steps.fix", label="fix",
             tooltip="Choose a saved edit, or a file, as the fix to test"),
        bind('"', "fact", id="steps.fact",
             tooltip="Set a fact to question the model about, and its true value"),
        bind("w", "expect", id="steps.expect",
             tooltip="Set what a recovered run does: tool=NAME, or gold"),
        bind("U", "judge", id="steps.judge", tooltip="Choose the judge of each step"),
        bind("!", "stale", id="steps.stale",
             tooltip="Allow stale results for reads, or no longer"),
        samples_key("steps", "Choose the number of samples of each arm"),
        model_key("steps"),
        *pane_keys("steps", "Switch between the steps and the step in full"),
        bind("esc", "back", id="steps.back", tooltip="Back to the steps, then to the run"),
    ]  # fmt: skip

    state: reactive[BisectStepsState] = reactive(EMPTY, repaint=False)
    request: BisectStepsRequest

    rows = query_one(StepsList)
    page = query_one("#step", LinkedPage)

    def __init__(self, path: Path, trace: str, step: int = 0) -> None:
        """`step` is where the cursor is where none is found."""
        super().__init__(path, BisectStepsRequest(trace=trace))
        self._step = step
        self._detail: StepView | None = None

    def compose(self) -> ComposeResult:
        yield StepsHead().data_bind(StepsScreen.state)
        yield StepsList(id="steps").data_bind(StepsScreen.state)
        yield LinkedPage(id="step")
        yield StepsFoot().data_bind(StepsScreen.state)
        yield KeyBar()

    def on_mount(self) -> None:
        self.rows.focus()
        trace = self.request.trace
        self.read(
            lambda store: build_run(store, trace), lambda run: self.change(run=run), group="run"
        )
        self.request_changed()

    # --- the request

    def request_changed(self) -> None:
        """Estimate the cost; without a model call, run at once."""
        request = self.request
        self.state = BisectStepsState(request=request, run=self.state.run)
        if request.detector == FREE:
            self._run(request)
        elif self.state.is_incomplete:
            self.change(phase="idle")
        else:
            self.read(
                lambda store: build_search_cost(store, request),
                self._show_estimate,
                group="estimate",
            )

    def _show_estimate(self, search: SearchCost) -> None:
        """Where every call is cached, run at once."""
        if search.request != self.request:
            return
        self.change(phase="idle", search=search, view=search.view)
        self.rows.go_to(self._step)
        if search.is_settled:
            self._run(self.request)

    def action_detector(self) -> None:
        choices = [Option(name, DETECTORS.get(name, "")) for name in NAMES]
        box = AskBox("detector", choices=choices)
        self.app.push_screen(box, lambda name: self.change_request(detector=name) if name else None)

    def action_turn(self, direction: int) -> None:
        at = (NAMES.index(self.request.detector) + direction) % len(NAMES)
        self.change_request(detector=NAMES[at])

    def action_choose(self) -> None:
        own = Option(MADE, f"the default of {self.key_of('steps.confirm')}")
        none = None if self.request.detector == "recoverable" else own
        self.pick_edit("fix to test", self._take_fix, none)

    def _take_fix(self, fix: Edit | None) -> None:
        self.change_request(fix=fix)

    def action_fact(self) -> None:
        self.submit(self._ask_fact())

    async def _ask_fact(self) -> None:
        fact = await ask_fact(self.app, self.request)
        if fact is not None:
            self.change_request(detector="belief", question=fact.about, truth=fact.value)

    def action_expect(self) -> None:
        self.submit(self._ask_expectation())

    async def _ask_expectation(self) -> None:
        expect = await ask_expectation(self.app, self.request)
        if expect is not None:
            self.change_request(detector="recoverable", expect=expect)

    def action_samples(self) -> None:
        self.submit(self._ask_samples())

    async def _ask_samples(self) -> None:
        words = f"now: {format.count(self.request.samples, 'sample')} per arm"
        title, hint = "samples per arm", "a number, such as 8"
        samples = await ask_until_read(self.app, title, sample_count, words, hint=hint)
        if samples is not None:
            self.change_request(samples=samples)

    def action_stale(self) -> None:
        self.change_request(allow_stale=not self.request.allow_stale)

    def action_judge(self) -> None:
        choices = [Option(DEMO, "rule-based, local, free")]
        hint = "or a model, of another family than the agent's"
        box = AskBox("judge", hint=hint, choices=choices)
        self.app.push_screen(box, lambda name: self.change_request(judge=name) if name else None)

    def action_attach(self) -> None:
        def take(given: Attachment | None) -> None:
            if given is not None:
                trace = self.request.trace
                self.read(lambda store: attach(store, trace, given), self._reload, group="attach")

        def choose(offers: tuple[Offer, ...]) -> None:
            self.app.push_screen(AttachBox(self.state.lacks, offers), take)

        self.read(lambda store: offers_for(store, self.request.trace), choose, group="attach")

    def _reload(self, what: str) -> None:
        self.say(f"attached {what}")
        self.request_changed()

    def show_error(self, error: ArcError) -> None:
        """An error of the search is shown in place of its sentence."""
        if self.state.running or self.state.phase == "estimating":
            super().show_error(error)
        else:
            ArcScreen.show_error(self, error)

    # --- the run

    def action_run(self) -> None:
        """Run, once the user has given a limit."""
        search = self.state.search
        if self.state.is_incomplete:
            self.action_choose() if self.request.fix is None else self.action_expect()
        elif search is None:
            self.request_changed()
        else:
            self.submit(self._submit(search, self.request))

    def action_confirm(self) -> None:
        trial = self.state.trial
        if trial is not None and self.state.testable:
            self.submit(self._submit(trial, structs.replace(self.request, confirm=True)))

    async def _submit(self, cost: StepsCost, request: BisectStepsRequest) -> None:
        self._run(await self.ask_permission(request, cost))

    def _run(self, request: BisectStepsRequest) -> None:
        self.change(phase="running", request=request, trouble=None)
        self.start(run_step_bisection, request)

    def show_end(self, event: JobFinished) -> None:
        super().show_end(event)
        view = self.state.view
        self.rows.go_to(self._step if view.decisive is None else view.decisive)
        found, request = self.state.found, self.request
        if found is not None and view.confirmation is None and self.state.trouble is None:
            self.read(
                lambda store: build_trial_cost(store, request, found.step),
                self._show_trial,
                group="trial",
            )

    def _show_trial(self, trial: TrialCost) -> None:
        if not self.state.running and self.state.view.decisive == trial.step:
            self.change(trial=trial)
            self.refresh_bindings()

    # --- what is shown

    def watch_state(self, before: BisectStepsState, state: BisectStepsState) -> None:
        if before.phase != state.phase or before.view is not state.view:
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
        """Read the action of the step under the cursor."""
        known = self._detail.row.step if self._detail is not None else None
        if step != known:
            trace = self.request.trace
            self.read(
                lambda store: build_step(store, trace, step), self._show_loaded_step, group="step"
            )

    def _show_loaded_step(self, detail: StepView) -> None:
        self._detail = detail
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
        """Go to the step of a source."""
        self.rows.go_to(event.step)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        state, detector = self.state, self.request.detector
        match action:
            case "confirm" if not state.testable:
                return False
            case "run" if detector == FREE:
                return False
            case "expect" | "stale" if detector != "recoverable":
                return False
            case "judge" if detector != "judge":
                return False
            case "attach" if not state.lacks:
                return False
            case _:
                return super().check_action(action, parameters)

    def action_pane(self) -> None:
        (self.rows if self.focused is self.page else self.page).focus()

    def leave(self) -> None:
        if self.focused is self.page:
            self.rows.focus()
        else:
            super().leave()


GOLD = "gold"

EXPECTATION = (
    "Each free run with the fix meets this or fails. Whether the task would have passed is not"
    " evaluated."
)
TRUTH = "The model's answer is compared with it. STEP:PATH reads it from a recorded tool result."


class Fact(NamedTuple):
    """A fact to ask the model about, and its true value."""

    about: str
    value: str


async def ask_fact(app: App[None], request: BisectStepsRequest) -> Fact | None:
    """The fact that the user names, None where they cancel. From a worker."""
    hint = "such as total_cents of order_id 1047"
    box = AskBox("fact to ask about", hint=hint, answer=request.question or "")
    about = await app.push_screen_wait(box)
    if about is None:
        return None
    hint = "such as 8150, or 0:total_cents"
    box = AskBox("true value", TRUTH, hint=hint, answer=request.truth or "")
    value = await app.push_screen_wait(box)
    return None if value is None else Fact(about, value)


async def ask_expectation(app: App[None], request: BisectStepsRequest) -> str | None:
    """What a recovered run does, None where the user cancels. From a worker."""
    return await ask_until_read(
        app,
        "what a recovered run does",
        _expectation,
        EXPECTATION,
        hint="such as tool=refund_order, args.amount=12900",
        answer=request.expect or "",
    )


def _expectation(words: str) -> str:
    """Raises BadPredicate."""
    return words if words == GOLD else predicate(words).text
