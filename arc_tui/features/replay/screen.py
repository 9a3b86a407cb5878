"""The replay screen: an edit at the left, the model asked again at every step at the right, one
step in full below.

Nothing is asked before a person says so, and of a server only under a limit given for that one
replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Vertical
from textual.getters import query_one
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui.experiments import locked_view as replays
from arc_tui.experiments.dialogs import AttachBox, Attachment, SamplesBox, attach, edit_option
from arc_tui.experiments.edit_widgets import EditPane
from arc_tui.experiments.edits import Draft, build_draft, edit_of
from arc_tui.experiments.locked_view import ReplayRow, arm_names
from arc_tui.experiments.models import spending_of
from arc_tui.experiments.request import (
    CostEstimate,
    ReplayRequest,
    asked_models,
    is_local,
    with_own_names,
)
from arc_tui.experiments.runner import JobFinished
from arc_tui.experiments.screen import ExperimentScreen, model_key, run_key, samples_key, stop_key
from arc_tui.features.replay.arms import ask_arm
from arc_tui.features.replay.pages import arms_page, step_page
from arc_tui.features.replay.run import estimate_cost, estimate_draft, run_replay
from arc_tui.features.replay.state import EMPTY, ReplayState
from arc_tui.features.replay.widgets import EditNames, ReplayFoot, ReplayHead, StepDiff, ask_change
from arc_tui.navigation import OpenBisect, OpenFreeReplay
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.editor import edit_in_terminal
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from replay.edit.changes import Edit
from replay.errors import ArcError, BadEdit
from replay.locked.estimate import Estimate
from replay.locked.tally import BreakTest
from replay.store.edits import KeptEdit, edit_named, find, listed
from taxonomy.judgements.schema import open_ledger

STEP = Binding.Group("step", compact=True)
DIFFERENCE = Binding.Group("difference", compact=True)

TICK_S = 0.5
"""Between two looks at what was spent so far, while nothing else is heard of a replay."""

AS_RECORDED = "as recorded"
"""Answers the question for an edit where none is wanted."""


class ReplayScreen(ExperimentScreen[ReplayState]):
    """One trace asked again, as recorded and with an edit."""

    CSS_PATH = "screen.tcss"
    HELP = "a replay"
    MISS_HINT = "run again with a limit, or with fewer samples (‹replay.samples›)"
    AT_REST = ExperimentScreen.AT_REST | {"bisect", "stored", "change", "free", "attach", "arms"}
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        run_key("replay", "Call the model at every step, as recorded and with the edit"),
        stop_key("replay"),
        bind("a", "attach", id="replay.attach", tooltip="Attach what the source did not record"),
        bind("e", "edit", id="replay.edit", tooltip="Edit the text that is chosen at the left"),
        bind("J", "step(1)", id="replay.step_next", group=STEP, show=False,
             tooltip="Go to the next step, from the one in full too"),
        bind("K", "step(-1)", id="replay.step_before", group=STEP, show=False,
             tooltip="Go to the previous step, from the one in full too"),
        bind(">", "difference(1)", id="replay.difference_next", group=DIFFERENCE, show=False,
             tooltip="Go to the next step where the arms are not the same"),
        bind("<", "difference(-1)", id="replay.difference_before", group=DIFFERENCE, show=False,
             tooltip="Go to the previous step where the arms are not the same"),
        bind("F", "free", id="replay.free",
             tooltip="Let the edited agent continue from the step under the cursor"),
        bind("b", "bisect", id="replay.bisect",
             tooltip="Find the change of this edit that makes the step fail"),
        bind("tab", "pane(1)", id="replay.pane_next", label="other pane",
             tooltip="Next pane: the texts, the editor, the steps, one step in full"),
        bind("shift+tab", "pane(-1)", id="replay.pane_before", show=False,
             tooltip="Previous pane: one step in full, the steps, the editor, the texts"),
        bind("d", "diff", id="replay.diff",
             tooltip="Show the edit as a diff, or the editor again"),
        samples_key("replay", "Choose the samples, the order of calls, and the use of stored ones"),
        model_key("replay"),
        bind("o", "stored", id="replay.stored", label="saved edits",
             tooltip="Choose a saved edit, or none"),
        bind("i", "change", id="replay.change", label="also change",
             tooltip="Insert a change that no text shows: a constraint, the edit's model, effort"),
        bind(";", "arms", id="replay.arms",
             tooltip="Add another edit or model as an arm beside control, or leave one out"),
        bind("E", "editor", id="replay.editor", tooltip="Edit the text in your own editor"),
        bind("esc", "back", id="replay.back", tooltip="Back to the steps, then to the run"),
    ]  # fmt: skip

    state: reactive[ReplayState] = reactive(EMPTY, repaint=False)
    request: ReplayRequest

    edit_pane = query_one(EditPane)
    steps = query_one(StepDiff)
    page = query_one("#step", Page)

    def __init__(
        self,
        path: Path,
        trace: str,
        step: int,
        *,
        edit: bool = True,
        start: Edit | None = None,
        free: bool = False,
    ) -> None:
        """`edit` starts in the editor, with the edit `start` where one is given; `free` tells that
        the app follows `OpenFreeReplay`."""
        super().__init__(path, ReplayRequest(trace=trace))
        self.trace = trace
        self.step = step
        self._edits_first = edit
        self._start = start
        self._free = free
        self._names = EditNames()
        self._ran: str | None = None
        self._warned = False
        self._shown: tuple[tuple[ReplayRow, ...], tuple[BreakTest | None, ...]] | None = None

    def compose(self) -> ComposeResult:
        yield ReplayHead().data_bind(ReplayScreen.state)
        with Container(id="body"):
            yield EditPane(id="edit")
            with Vertical(id="result"):
                yield StepDiff(id="steps").data_bind(ReplayScreen.state)
                yield Page(id="step")
        yield ReplayFoot().data_bind(ReplayScreen.state)
        yield KeyBar()

    def on_mount(self) -> None:
        self.go_to(self.edit_pane.area if self._edits_first else self.steps)
        self.set_interval(TICK_S, self._count)
        self._load(self._start, {})

    # --- what is asked

    @property
    def draft(self) -> Draft:
        return self.state.draft

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts that were written anew, by the label of their target."""
        return self.edit_pane.texts

    @property
    def step_here(self) -> int:
        """The step under the cursor."""
        return self.steps.row.step if self.steps.row is not None else self.step

    def _load(self, edit: Edit | None, folded: Mapping[str, str]) -> None:
        """Read the draft anew under an edit that texts were `folded` into, or are given up for."""
        self.read(
            lambda store: build_draft(store, self.trace, self.step, edit),
            lambda draft: self._show_draft(draft, folded),
            group="draft",
        )

    def _show_draft(self, draft: Draft, folded: Mapping[str, str]) -> None:
        first = self.state.phase == "estimating"
        self.change(draft=draft, phase="idle", trouble=None, view=replays.EMPTY)
        self.edit_pane.show(draft, folded)
        self._estimate()
        if first:
            self.steps.go_to(self.step)
        if first and draft.missing and self._edits_first:
            self.action_attach()

    def request_changed(self) -> None:
        self.edit_pane.has_arms = bool(self.request.others)
        self.change(phase="idle", trouble=None, view=replays.EMPTY)
        self._estimate()

    def _estimate(self) -> None:
        draft, request = self.draft, self.request
        self.read(
            lambda store: estimate_draft(store, draft, request),
            lambda estimate: self.change(estimate=estimate),
            group="estimate",
        )

    @property
    def recorded_model(self) -> str | None:
        return self.draft.model

    def model_chosen(self, name: str) -> None:
        sampling = structs.replace(self.request.sampling, schedule="cheap")
        self.change_request(model=name, sampling=sampling)

    def action_samples(self) -> None:
        def take(request: ReplayRequest | None) -> None:
            if request is not None:
                self.change_request(sampling=request.sampling, resample=request.resample)

        arms = (self.draft.edit, *self.request.others)
        models = asked_models(self.request.model or self.draft.model, *arms)
        self.app.push_screen(SamplesBox(self.request, live=not is_local(models)), take)

    def action_stored(self) -> None:
        self.hold_keys(self.read(lambda s: tuple(listed(s)), self._choose_edit, group="edits"))

    def _choose_edit(self, kept: tuple[KeptEdit, ...]) -> None:
        if not kept:
            self.say("No saved edits yet. Replaying an edit saves it.")
            return
        options = [edit_option(each, format.count(each.replays, "replay")) for each in kept]
        hint = "or the start of an edit's name or id"
        choices = [Option(AS_RECORDED, "no edit"), *options]
        self.app.push_screen(AskBox("which edit?", hint=hint, choices=choices), self._take_edit)

    def _take_edit(self, name: str | None) -> None:
        if name == AS_RECORDED:
            self._load(None, self.texts)
        elif name is not None:
            self.read(
                lambda store: find(store, name),
                lambda edit: self._load(edit, self.texts),
                group="edits",
            )

    def action_change(self) -> None:
        self.run_worker(self._change(), group="change", exclusive=True, exit_on_error=False)

    async def _change(self) -> None:
        """One change more, or one less."""
        draft, texts = self.draft, self.texts
        edit = edit_of(draft, texts, "")
        changes = edit.changes if edit is not None else ()
        other = await ask_change(self.app, changes, draft.also, self.step_here)
        if other is not None:
            edit = Edit(name="", changes=other, thread=draft.thread) if other else None
            self._load(edit, texts)

    def action_arms(self) -> None:
        def choose(kept: tuple[KeptEdit, ...]) -> None:
            self.run_worker(self._arm(kept), group="change", exclusive=True, exit_on_error=False)

        self.hold_keys(self.read(lambda s: tuple(listed(s)), choose, group="edits"))

    async def _arm(self, kept: tuple[KeptEdit, ...]) -> None:
        """One arm more, or one less."""
        edit = self._names.edit(self.draft, self.texts)
        arms = self.request.others
        recorded = self.recorded_model
        change = await ask_arm(self.app, arms, kept, edits=edit is not None, recorded=recorded)
        if change is None:
            return
        if change.without is not None:
            at = change.without
            self.change_request(others=arms[:at] + arms[at + 1 :])
        elif isinstance(change.added, str):
            word = change.added
            self.read(lambda store: edit_named(store, word), self._add_arm, group="edits")
        elif change.added is not None:
            self._add_arm(change.added)
        elif edit is not None and (named := await self._name_edit(edit)) is not None:
            self._add_arm(named)
            self._load(None, self.texts)

    def _add_arm(self, edit: Edit) -> None:
        try:
            self.change_request(others=with_own_names([*self.request.others, edit]))
        except BadEdit as error:
            self.show_error(error)

    async def _name_edit(self, edit: Edit) -> Edit | None:
        """The edit under the name it has, or a person gives it; None where they leave."""
        if self._names.is_named(self.draft, edit):
            return edit
        return await self._names.ask(self.app, edit)

    def action_attach(self) -> None:
        def take(given: Attachment | None) -> None:
            if given is not None:
                self.read(
                    lambda store: attach(store, self.trace, given), self._reload, group="attach"
                )

        self.app.push_screen(AttachBox(self.draft.missing, self.draft.offers), take)

    def _reload(self, what: str) -> None:
        self.say(f"Attached: {what}")
        self._load(self.draft.edit, {})

    def show_error(self, error: ArcError) -> None:
        """What goes wrong before a run leaves what is shown of it."""
        phase = "failed" if self.state.running else self.state.phase
        super().show_error(error)
        self.change(phase=phase)

    # --- the run

    def action_run(self) -> None:
        """Ask, after what is still open was asked of the person."""
        if self.state.running or self.state.phase == "estimating":
            return
        if self.request.model is None and self.draft.model is None:
            self.action_model()
        else:
            self.submit(self._submit())

    async def _submit(self) -> None:
        draft, edit = self.draft, self._names.edit(self.draft, self.texts)
        if edit is not None and (edit := await self._name_edit(edit)) is None:
            return
        arms = with_own_names([*([edit] if edit is not None else []), *self.request.others])
        first, *others = arms or (None,)
        request = structs.replace(
            self.request,
            trace=draft.trace,
            edit=first,
            others=tuple(each for each in others if each is not None),
        )
        models = asked_models(request.model or draft.model, *request.edits)
        if not is_local(models):
            calls = await asyncio.to_thread(self._calls, request)
            request = await self.ask_permission(request, CostEstimate(models=models, calls=calls))
        self._ran = edit.digest if edit is not None else None
        self.change(
            phase="running", trouble=None, changed=False, view=replays.EMPTY, limits=request.limits
        )
        self.start(run_replay, request, cut_short=lambda view: view.ended is not None)
        self.go_to(self.steps)

    def _calls(self, request: ReplayRequest) -> Estimate:
        with open_ledger(self.path) as store:
            return estimate_cost(store, request)

    def _count(self) -> None:
        """Show what was spent by now: of calls made together, what they say is known only once all
        of them are answered."""
        spent, view = self.spending, self.state.view
        if spent is not None and spent != spending_of(view):
            view = structs.replace(
                view,
                calls=spent.calls,
                cached=spent.cached,
                spent_usd=spent.usd,
                spent_complete=spent.complete,
            )
            self.change(view=view)

    def show_end(self, event: JobFinished) -> None:
        super().show_end(event)
        if self.state.phase == "stopped" and self.state.view.digest is not None:
            self.change(phase="done")

    def action_free(self) -> None:
        edit = self._names.edit(self.draft, self.texts)
        self.post_message(
            OpenFreeReplay(self.draft.trace, self.step_here, edit, self.request.model)
        )

    def action_bisect(self) -> None:
        edit = self._names.edit(self.draft, self.texts)
        self.post_message(OpenBisect(self.draft.trace, self.step_here, edit))

    # --- what is shown

    def watch_state(self, before: ReplayState, state: ReplayState) -> None:
        if before.phase != state.phase or before.draft is not state.draft:
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "free" and not self._free:
            return False
        if action == "attach" and not self.draft.missing:
            return False
        return super().check_action(action, parameters)

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.steps:
            self._show_step()

    def on_step_diff_chosen(self) -> None:
        self.go_to(self.page)

    def _show_step(self) -> None:
        step, view = self.steps.step, self.state.view
        tests = tuple(arm.verdict.at_break_test for arm in view.arms)
        if step is None or self._shown == (step.arms, tests):
            return
        self._shown = step.arms, tests
        self.page.border_title = f"step {step.first.step}"
        if len(step.arms) < 2:
            self.page.document = step_page(step.first, view.verdict)
            return
        arms = zip(arm_names(view), step.arms, view.arms, strict=True)
        self.page.document = arms_page([(name, row, arm.verdict) for name, row, arm in arms])

    def action_diff(self) -> None:
        self.edit_pane.diffed = not self.edit_pane.diffed
        self.go_to(self._panes[1])

    @property
    def _panes(self) -> tuple[Widget, Widget, Widget, Widget]:
        """What tab goes through."""
        pane = self.edit_pane
        return pane.targets, pane.page if pane.diffed else pane.area, self.steps, self.page

    def action_pane(self, direction: int) -> None:
        panes = self._panes
        here = panes.index(self.focused) if self.focused in panes else -1
        self.go_to(panes[(here + direction) % len(panes)])

    def go_to(self, pane: Widget) -> None:
        """Focus a pane; a narrow terminal shows the half it is in."""
        self.set_class(pane in (self.steps, self.page), "-result")
        pane.focus()

    def action_step(self, direction: int) -> None:
        self.steps.action_move(direction)

    def action_difference(self, direction: int) -> None:
        if not self.steps.next_difference(direction):
            self.say("No such step." if self.state.view.rows else "Not replayed yet.")

    def action_edit(self) -> None:
        self.edit_pane.diffed = False
        self.go_to(self.edit_pane.area)

    def action_editor(self) -> None:
        pane = self.edit_pane
        try:
            pane.put(edit_in_terminal(self.app, pane.text))
        except ArcError as error:
            self.show_error(error)
        pane.diffed = False
        self.go_to(pane.area)

    def on_edit_pane_edited(self) -> None:
        if self.state.view.done:
            self.change(changed=self._edited != self._ran)

    @property
    def _edited(self) -> str | None:
        """The digest of the edit as it stands, None for none."""
        edit = edit_of(self.draft, self.texts, "")
        return edit.digest if edit is not None else None

    def leave(self) -> None:
        in_editor = self.edit_pane in self.focused.ancestors if self.focused else False
        if self.focused is self.page or (in_editor and not self._edits_first):
            self.go_to(self.steps)
        elif not self._warned and self._edited not in {None, self._ran, *self.draft.names}:
            self._warned = True
            again = self.key_of("replay.back")
            self.say(f"This edit was not replayed and is not saved. {again} again discards it.")
        else:
            super().leave()
