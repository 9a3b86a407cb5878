"""The try screen: an edit on every run behind a bar, at the step where each broke, and at healthy
steps beside them.

Nothing is asked before a person says so, and of a server only under a limit given for that one
try.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import Binding
from textual.getters import query_one
from textual.reactive import reactive

from arc_tui.experiments.screen import (
    ExperimentScreen,
    model_key,
    run_key,
    samples_key,
    stop_key,
)
from arc_tui.features.edit_test.request import EditTestRequest
from arc_tui.features.edit_test.run import run_edit_test
from arc_tui.features.edit_test.state import (
    EMPTY,
    EditTestEstimate,
    EditTestState,
    build_estimate,
)
from arc_tui.features.edit_test.widgets import TryFoot, TryHead, TryList
from arc_tui.ui import format
from arc_tui.ui.dialogs import AskBox
from arc_tui.ui.editor import edit_in_terminal
from arc_tui.ui.keys import KeyBar
from replay.edit.changes import Edit, SetSystem
from replay.errors import ArcError
from replay.store.edits import short

MOST = {"samples": 100, "controls": 1000}


class TryScreen(ExperimentScreen[EditTestState]):
    """One edit tried on the runs behind a bar."""

    CSS_PATH = "screen.tcss"
    HELP = "a tried edit"
    MISS_HINT = "ask again (‹try.run›), and say what it may cost"
    AT_REST = ExperimentScreen.AT_REST | {"choose", "controls", "editor"}

    BINDINGS = [
        run_key("try", "ask the model",
                "Ask the model at every break and at the healthy steps, both arms"),
        stop_key("try"),
        Binding("e,f7", "choose", "choose edit", id="try.choose",
                tooltip="Take a kept edit, or a file with a system prompt or changes"),
        Binding("E,f4", "editor", "$EDITOR", id="try.editor",
                tooltip="Edit the newest run's system prompt in your own editor"),
        samples_key("try", "Choose how often each request is asked"),
        Binding("c", "controls", "healthy steps", id="try.controls",
                tooltip="Choose how many healthy steps are asked beside the runs"),
        model_key("try"),
        Binding("escape", "back", "back", id="try.back",
                tooltip="Stop what runs, else back to where you came from"),
    ]  # fmt: skip

    state: reactive[EditTestState] = reactive(EMPTY, repaint=False)
    request: EditTestRequest

    rows = query_one(TryList)

    def __init__(
        self, path: Path, label: str, traces: Sequence[str], edit: Edit | None = None
    ) -> None:
        """`label` says what the runs have in common."""
        super().__init__(path, EditTestRequest(edit=edit, query=label, traces=tuple(traces)))

    def compose(self) -> ComposeResult:
        yield TryHead().data_bind(TryScreen.state)
        yield TryList(id="tried").data_bind(TryScreen.state)
        yield TryFoot().data_bind(TryScreen.state)
        yield KeyBar()

    def on_mount(self) -> None:
        self.rows.focus()
        self.request_changed()

    # --- what is asked

    def request_changed(self) -> None:
        self.state = EditTestState(request=self.request)
        request = self.request
        self.read(
            lambda store: build_estimate(store, request), self._show_estimate, group="estimate"
        )

    def _show_estimate(self, estimate: EditTestEstimate) -> None:
        self.change(phase="idle", estimate=estimate, view=estimate.shown, trouble=None)

    def action_choose(self) -> None:
        self.pick_edit("which edit?", lambda edit: self.change_request(edit=edit))

    def action_editor(self) -> None:
        estimate = self.state.estimate
        if estimate is None:
            return
        try:
            text = edit_in_terminal(self.app, estimate.prompt)
        except ArcError as error:
            self.show_error(error)
            return
        if text != estimate.prompt:
            edit = Edit(name="", changes=(SetSystem(text),))
            self.change_request(edit=structs.replace(edit, name=f"prompt {short(edit.digest)}"))

    def action_samples(self) -> None:
        words = f"{format.count(self.request.samples, 'sample')} of each request now"
        box = AskBox("how many samples of each request?", words, hint="a number, as 5")
        self.app.push_screen(box, lambda typed: self._count("samples", typed))

    def action_controls(self) -> None:
        words = f"at most {format.count(self.request.controls, 'healthy step')} now"
        box = AskBox("how many healthy steps?", words, hint="a number, as 40")
        self.app.push_screen(box, lambda typed: self._count("controls", typed))

    def _count(self, what: str, typed: str | None) -> None:
        """A number of samples from 1, or of healthy steps from 0."""
        if typed is None:
            return
        if typed.isdecimal() and (int(typed) or what == "controls"):
            self.change_request(**{what: min(int(typed), MOST[what])})
        else:
            self.say(f"{typed!r} is no number of {what}", severity="error")

    # --- the run

    def action_run(self) -> None:
        """Ask, after what it may cost was asked of the person."""
        if self.request.edit is None:
            self.action_choose()
        elif not self.state.running and self.state.estimate is not None:
            self.submit(self._submit(self.state.estimate))

    async def _submit(self, estimate: EditTestEstimate) -> None:
        request = await self.ask_permission(self.request, estimate)
        view = estimate.view if self.state.phase == "idle" else self.state.view
        self.change(phase="running", request=request, view=view, trouble=None)
        self.start(run_edit_test, request, cut_short=lambda view: view.ended is not None)

    # --- around it

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "editor" and self.state.estimate is None:
            return False
        return super().check_action(action, parameters)
