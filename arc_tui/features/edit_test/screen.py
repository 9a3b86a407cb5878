"""The try screen: an edit on every run behind a bar, at the step where each broke, and at healthy
steps beside them.

The state is all that is drawn. Nothing is asked before a person says so, and of a server only
under a limit given for that one try.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import Binding
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive

from arc_tui.experiments.dialogs import allowed
from arc_tui.experiments.estimate import asking_price
from arc_tui.experiments.runner import BackgroundRun, JobFinished, JobProgressed
from arc_tui.features.edit_test.request import EditTestRequest
from arc_tui.features.edit_test.run import run_edit_test
from arc_tui.features.edit_test.state import EMPTY, EditTestState, Prospect, build_prospect
from arc_tui.features.edit_test.view import TryView
from arc_tui.features.edit_test.widgets import TryFoot, TryHead, TryList
from arc_tui.ui import format
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.editor import edited
from arc_tui.ui.key_bar import KeyBar
from arc_tui.ui.screen import ArcScreen
from replay.edit.changes import Edit, SetSystem, describe
from replay.errors import ArcError, OfflineMiss
from replay.models.choose import DEMO
from replay.store.edits import KeptEdit, edit_named, listed, short


class TryScreen(ArcScreen):
    """One edit tried on the runs behind a bar."""

    CSS_PATH = "screen.tcss"
    HELP = "a tried edit"

    BINDINGS = [
        Binding("r,f5", "run", "ask the model", id="try.run",
                tooltip="Ask the model at every break and at the healthy steps, both arms"),
        Binding("x", "stop", "stop", id="try.stop",
                tooltip="Ask nothing more; what was answered is kept"),
        Binding("e,f7", "choose", "choose edit", id="try.choose",
                tooltip="Take a kept edit, or a file with a system prompt or changes"),
        Binding("E,f4", "editor", "$EDITOR", id="try.editor",
                tooltip="Edit the newest run's system prompt in your own editor"),
        Binding("s,f6", "samples", "samples", id="try.samples",
                tooltip="Choose how often each request is asked"),
        Binding("c", "controls", "healthy steps", id="try.controls",
                tooltip="Choose how many healthy steps are asked beside the runs"),
        Binding("m,f3", "model", "model", id="try.model",
                tooltip="Choose the model to ask"),
        Binding("escape", "back", "back", id="try.back",
                tooltip="Stop what runs, else back to where you came from"),
    ]  # fmt: skip

    state: reactive[EditTestState] = reactive(EMPTY, repaint=False)

    rows = query_one(TryList)

    class Foreseen(Message):
        """Which runs and steps it reaches, and what asking would come to."""

        def __init__(self, prospect: Prospect) -> None:
            super().__init__()
            self.prospect = prospect

    class EditsListed(Message):
        """The kept edits were read."""

        def __init__(self, kept: tuple[KeptEdit, ...]) -> None:
            super().__init__()
            self.kept = kept

    class EditFound(Message):
        """The edit that was named."""

        def __init__(self, edit: Edit) -> None:
            super().__init__()
            self.edit = edit

    def __init__(
        self, path: Path, label: str, traces: Sequence[str], edit: Edit | None = None
    ) -> None:
        """`label` says what the runs have in common."""
        super().__init__(path)
        self._request = EditTestRequest(edit=edit, query=label, traces=tuple(traces))
        self._going: BackgroundRun[EditTestRequest, TryView] | None = None
        self._missed = False

    def compose(self) -> ComposeResult:
        yield TryHead().data_bind(TryScreen.state)
        yield TryList(id="tried").data_bind(TryScreen.state)
        yield TryFoot().data_bind(TryScreen.state)
        yield KeyBar()

    def on_mount(self) -> None:
        self.rows.focus()
        self._wish()

    def on_unmount(self) -> None:
        if self._going is not None:
            self._going.stop()

    def _move(self, **changes: Any) -> None:
        """The state with some of it changed."""
        self.state = structs.replace(self.state, **changes)

    # --- what is wanted

    def _wish(self, **changes: Any) -> None:
        """Want something else, and see what it would ask."""
        self._request = request = structs.replace(self._request, **changes)
        self.state = EditTestState(request=request)
        self.ask(lambda store: build_prospect(store, request), self.Foreseen, group="prospect")

    def on_try_screen_foreseen(self, event: Foreseen) -> None:
        self._move(at="ready", prospect=event.prospect, view=event.prospect.shown, trouble=None)

    def show_error(self, error: ArcError) -> None:
        """What goes wrong stands where the rates would."""
        if isinstance(error, OfflineMiss):
            self._missed = True
            hint = "ask again (‹try.run›), and say what it may cost"
            error = OfflineMiss(error.message, hint)
        self._move(at="failed", trouble=error)

    def action_choose(self) -> None:
        self.ask(lambda store: tuple(listed(store)), self.EditsListed, group="edits")

    def on_try_screen_edits_listed(self, event: EditsListed) -> None:
        hint = "or a file: a system prompt (.md, .txt) or changes (.toml)"
        box = AskBox("which edit?", hint=hint, choices=[*map(_option, event.kept)])
        self.app.push_screen(box, self._take)

    def _take(self, word: str | None) -> None:
        if word is not None:
            self.ask(lambda store: edit_named(store, word), self.EditFound, group="edits")

    def on_try_screen_edit_found(self, event: EditFound) -> None:
        self._wish(edit=event.edit)

    def action_editor(self) -> None:
        prospect = self.state.prospect
        if prospect is None:
            return
        try:
            text = edited(self.app, prospect.prompt)
        except ArcError as error:
            self.show_error(error)
            return
        if text != prospect.prompt:
            edit = Edit(name="", changes=(SetSystem(text),))
            self._wish(edit=structs.replace(edit, name=f"prompt {short(edit.digest)}"))

    def action_model(self) -> None:
        choices = [Option(DEMO, "rule-based, on this machine, free")]
        box = AskBox("which model?", hint="or another model's name", choices=choices)
        self.app.push_screen(box, lambda name: self._wish(model=name) if name else None)

    def action_samples(self) -> None:
        words = f"{format.count(self._request.samples, 'sample')} of each request now"
        box = AskBox("how many samples of each request?", words, hint="a number, as 5")
        self.app.push_screen(box, lambda said: self._count("samples", said))

    def action_controls(self) -> None:
        words = f"at most {format.count(self._request.controls, 'healthy step')} now"
        box = AskBox("how many healthy steps?", words, hint="a number, as 40")
        self.app.push_screen(box, lambda said: self._count("controls", said))

    def _count(self, what: str, said: str | None) -> None:
        """A number of samples from 1, or of healthy steps from 0."""
        if said is None:
            return
        if said.isdecimal() and (int(said) or what == "controls"):
            self._wish(**{what: min(int(said), 100 if what == "samples" else 1000)})
        else:
            self.say(f"{said!r} is no number of {what}", severity="error")

    # --- asking

    def action_run(self) -> None:
        """Ask, after what it may cost was asked of the person."""
        if self._request.edit is None:
            self.action_choose()
        elif not self.state.running and self.state.prospect is not None:
            self.run_worker(self._submit(), group="submit", exclusive=True, exit_on_error=False)

    async def _submit(self) -> None:
        prospect = self.state.prospect
        assert prospect is not None
        estimate, request = prospect.estimate, self._request
        live = not self.state.local and estimate is not None
        if live and estimate is not None and (estimate.calls or self._missed):
            self._missed = False
            limits = await allowed(self.app, asking_price(prospect.models, estimate))
            if limits is not None:
                request = structs.replace(request, live=True, limits=limits)
        self._start(request)

    def _start(self, request: EditTestRequest) -> None:
        prospect = self.state.prospect
        assert prospect is not None
        view = prospect.view if self.state.at == "ready" else self.state.view
        self._move(at="asking", request=request, view=view, trouble=None)
        self._going = BackgroundRun(
            self,
            run_edit_test,
            request,
            cut_short=lambda view: view.ended is not None,
        )

    def on_job_progressed(self, event: JobProgressed[TryView]) -> None:
        self._move(view=event.view)

    def on_job_finished(self, event: JobFinished) -> None:
        self._going = None
        if event.trouble is not None:
            self.show_error(event.trouble)
        else:
            self._move(at="stopped" if event.stopped else "done")

    def action_stop(self) -> None:
        if self._going is not None:
            self._going.stop()
            self._move(at="stopping")

    # --- around it

    def watch_state(self, before: EditTestState, state: EditTestState) -> None:
        if before.at != state.at:
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        match action:
            case "stop":
                return self.state.running
            case "run" | "choose" | "model" | "samples" | "controls":
                return not self.state.running
            case "editor":
                return not self.state.running and self.state.prospect is not None
            case _:
                return True

    def action_back(self) -> None:
        if self.state.at == "asking":
            self.action_stop()
        else:
            self.dismiss()


def _option(kept: KeptEdit) -> Option:
    """A kept edit by its digest, which no other has, shown by its name."""
    words = f"{'; '.join(map(describe, kept.changes))} · {kept.short}"
    return Option(kept.digest, format.one_line(words), format.cut(format.one_line(kept.name), 40))
