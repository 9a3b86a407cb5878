"""The replay screen: an edit at the left, the model asked again at every step at the right.

The state is all that is drawn; workers post what moves it. Nothing is asked before a person says
so, and of a server only under a limit given for that one replay.

The panes of a replay: which one is in front, what tab goes through, the step in full.

Actions of the replay screen that change nothing but what is looked at, and the one that hands
the open text to an editor outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui.experiments import locked_view as replays
from arc_tui.experiments.dialogs import AttachBox, Attachment, attach
from arc_tui.experiments.edit_widgets import EditPane
from arc_tui.experiments.edits import Draft, build_draft, edit_of
from arc_tui.experiments.estimate import Prospect, build_prospect
from arc_tui.experiments.locked_view import ReplayRow, ReplayView
from arc_tui.experiments.request import ReplayRequest
from arc_tui.experiments.runner import BackgroundRun, JobFinished, JobProgressed
from arc_tui.features.replay.pages import step_page
from arc_tui.features.replay.parts import Choosing, Submission
from arc_tui.features.replay.run import run_replay
from arc_tui.features.replay.state import EMPTY, ReplayState
from arc_tui.features.replay.widgets import ReplayFoot, ReplayHead, StepDiff
from arc_tui.navigation import OpenBisect, OpenFreeReplay
from arc_tui.ui.editor import edited
from arc_tui.ui.key_bar import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from arc_tui.ui.screen import ArcScreen
from replay.edit.changes import Edit
from replay.errors import ArcError, OfflineMiss
from replay.locked.tally import BreakTest


class Panes(ArcScreen):
    """An edit at the left, the steps at the right, one of them in full below."""

    edit_pane = query_one(EditPane)
    steps = query_one(StepDiff)
    page = query_one("#step", Page)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._shown: tuple[ReplayRow, BreakTest | None] | None = None

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.steps:
            self._show_step()

    def on_step_diff_chosen(self) -> None:
        self.go_to(self.page)

    def _show_step(self) -> None:
        row, broken = self.steps.row, self.steps.broken
        if row is not None and (row, broken) != self._shown:
            self._shown = row, broken
            self.page.border_title = f"step {row.step}"
            self.page.document = step_page(row, broken)

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

    def action_editor(self) -> None:
        pane = self.edit_pane
        try:
            pane.put(edited(self.app, pane.text))
        except ArcError as error:
            self.show_error(error)
        pane.diffed = False
        self.go_to(pane.area)


TICK_S = 0.5
"""Between two looks at what was spent so far, while nothing else is heard of a replay."""


class ReplayScreen(Choosing, Panes):
    """One trace asked again, as recorded and with an edit."""

    CSS_PATH = "screen.tcss"
    HELP = "a replay"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        Binding("ctrl+s,f5,r", "run", "ask the model", id="replay.run",
                tooltip="Ask the model again at every step, as recorded and with the edit"),
        Binding("x", "stop", "stop", id="replay.stop",
                tooltip="Ask nothing more; what was answered is kept"),
        Binding("f,f12", "free", "free replay", id="replay.free",
                tooltip="Let the edited agent go on by itself from the step under the cursor"),
        Binding("b,f10", "bisect", "which part", id="replay.bisect",
                tooltip="Find the part of this edit that makes the step go wrong"),
        Binding("tab", "pane(1)", "other pane", id="replay.pane_next",
                tooltip="Go on: the texts, the editor, the steps, one step in full"),
        Binding("shift+tab", "pane(-1)", "pane before", id="replay.pane_before", show=False,
                tooltip="Go back: one step in full, the steps, the editor, the texts"),
        Binding("d,f2", "diff", "diff", id="replay.diff",
                tooltip="Show the edit as a diff, or the editor again"),
        Binding("s,f6", "samples", "samples", id="replay.samples",
                tooltip="Choose how often, in which order, and whether to ask afresh"),
        Binding("m,f3", "model", "model", id="replay.model",
                tooltip="Choose the model to ask"),
        Binding("o,f7", "stored", "kept edits", id="replay.stored",
                tooltip="Take an edit that was kept, or none"),
        Binding("i,f9", "change", "also change", id="replay.change",
                tooltip="Change what no text shows: a constraint, the edit's model, the effort"),
        Binding("E,f4", "editor", "$EDITOR", id="replay.editor",
                tooltip="Edit the text in your own editor"),
        Binding("a,f8", "attach", "attach", id="replay.attach",
                tooltip="Attach what the source did not record"),
        Binding("escape", "back", "back", id="replay.back",
                tooltip="Stop what runs, else back to the steps, then to the run"),
    ]  # fmt: skip

    state: reactive[ReplayState] = reactive(EMPTY, repaint=False)

    class Loaded(Message):
        """What can be edited was read, with the texts `folded` into its edit."""

        def __init__(self, draft: Draft, folded: Mapping[str, str]) -> None:
            super().__init__()
            self.draft = draft
            self.folded = folded

    class Foreseen(Message):
        """What asking would come to."""

        def __init__(self, prospect: Prospect) -> None:
            super().__init__()
            self.prospect = prospect

    class Attached(Message):
        """The trace has what it lacked."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    def __init__(
        self, path: Path, trace: str, step: int, *, edit: bool = True, free: bool = False
    ) -> None:
        """`edit` starts in the editor; `free` tells that the app follows `OpenFreeReplay`."""
        super().__init__(path)
        self.trace = trace
        self.step = step
        self._edits_first = edit
        self._free = free
        self._submission = Submission(self)
        self._asking: BackgroundRun[ReplayRequest, ReplayView] | None = None
        self._ran: str | None = None
        self._warned = False

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
        self.load(None)

    def on_unmount(self) -> None:
        if self._asking is not None:
            self._asking.stop()

    def _move(self, **changes: Any) -> None:
        """The state with some of it changed."""
        self.state = structs.replace(self.state, **changes)

    # --- what is there

    @property
    def draft(self) -> Draft:
        return self.state.draft

    @property
    def texts(self) -> Mapping[str, str]:
        return self.edit_pane.texts

    @property
    def step_here(self) -> int:
        return self.steps.row.step if self.steps.row is not None else self.step

    def load(self, edit: Edit | None, folded: Mapping[str, str] | None = None) -> None:
        self.ask(
            lambda store: build_draft(store, self.trace, self.step, edit),
            lambda draft: self.Loaded(draft, folded or {}),
            group="draft",
        )

    def on_replay_screen_loaded(self, event: Loaded) -> None:
        first = self.state.at == "loading"
        self._move(draft=event.draft, at="ready", trouble=None, view=replays.EMPTY)
        self.edit_pane.show(event.draft, event.folded)
        self._foresee()
        if first:
            self.steps.go_to(self.step)
        if first and event.draft.missing and self._edits_first:
            self.action_attach()

    def wished(self) -> None:
        self._move(at="ready", trouble=None, view=replays.EMPTY)
        self._foresee()

    def _foresee(self) -> None:
        draft, wish = self.state.draft, self.wish
        self.ask(lambda store: build_prospect(store, draft, wish), self.Foreseen, group="prospect")

    def on_replay_screen_foreseen(self, event: Foreseen) -> None:
        self._move(prospect=event.prospect)

    def show_error(self, error: ArcError) -> None:
        """What goes wrong stands where the verdict would."""
        if isinstance(error, OfflineMiss):
            self._submission.missed = True
            hint = "ask again, and say what it may cost, or for fewer samples (‹replay.samples›)"
            error = OfflineMiss(error.message, hint)
        self._move(at="failed" if self.state.running else self.state.at, trouble=error)

    # --- asking

    def action_run(self) -> None:
        """Ask, after what is still open was asked of the person."""
        if self.state.running or self.state.at == "loading":
            return
        if self.wish.model is None and self.draft.model is None:
            self.action_model()
        else:
            self.run_worker(self._submit(), group="submit", exclusive=True, exit_on_error=False)

    async def _submit(self) -> None:
        request = await self._submission.request(self.draft, self.texts, self.wish)
        if request is not None:
            self._start(request)

    def _start(self, request: ReplayRequest) -> None:
        self._ran = request.edit.digest if request.edit is not None else None
        self._move(
            at="asking", trouble=None, changed=False, view=replays.EMPTY, limits=request.limits
        )
        self._asking = BackgroundRun(
            self, run_replay, request, cut_short=lambda view: view.ended is not None
        )
        self.go_to(self.steps)

    def on_job_progressed(self, event: JobProgressed[ReplayView]) -> None:
        at = "stopping" if self.state.at == "stopping" else "asking"
        self._move(at=at, view=event.view)

    def _count(self) -> None:
        """Show what was spent by now."""
        if self._asking is not None and self.state.running:
            view, spent = self.state.view, self._asking.spending
            if (spent.asked, spent.kept) != (view.asked, view.kept):
                view = structs.replace(
                    view,
                    asked=spent.asked,
                    kept=spent.kept,
                    spent_usd=spent.usd,
                    spent_complete=spent.complete,
                )
                self._move(view=view)

    def on_job_finished(self, event: JobFinished) -> None:
        self._asking = None
        if event.trouble is not None:
            self.show_error(event.trouble)
        else:
            cut_short = event.stopped and self.state.view.digest is None
            self._move(at="stopped" if cut_short else "done")

    def action_stop(self) -> None:
        if self._asking is not None:
            self._asking.stop()
            self._move(at="stopping")

    def action_free(self) -> None:
        edit = self._submission.edit(self.draft, self.texts)
        self.post_message(OpenFreeReplay(self.draft.trace, self.step_here, edit, self.wish.model))

    def action_bisect(self) -> None:
        edit = self._submission.edit(self.draft, self.texts)
        self.post_message(OpenBisect(self.draft.trace, self.step_here, edit))

    # --- what is shown

    def watch_state(self, before: ReplayState, state: ReplayState) -> None:
        if before.at != state.at or before.draft is not state.draft:
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        match action:
            case "stop":
                return self.state.running
            case "run" | "bisect" | "model" | "samples" | "stored" | "change":
                return not self.state.running
            case "free":
                return self._free and not self.state.running
            case "attach":
                return bool(self.state.draft.missing) and not self.state.running
            case _:
                return True

    def on_edit_pane_edited(self) -> None:
        if self.state.view.done:
            self._move(changed=self._edited != self._ran)

    @property
    def _edited(self) -> str | None:
        """The digest of the edit as it stands, None for none."""
        edit = edit_of(self.draft, self.texts, "")
        return edit.digest if edit is not None else None

    def action_back(self) -> None:
        if self.state.at == "asking":
            self.action_stop()
        elif self.focused is self.page:
            self.go_to(self.steps)
        elif not self._warned and self._edited not in {None, self._ran, *self.draft.names}:
            self._warned = True
            again = self.key_of("replay.back")
            self.say(f"this edit was never asked about; {again} again leaves without it")
        else:
            self.dismiss()

    # --- around it

    def action_attach(self) -> None:
        self.app.push_screen(AttachBox(self.state.draft.missing), self._files_given)

    def _files_given(self, given: Attachment | None) -> None:
        if given is not None:
            self.ask(lambda store: attach(store, self.trace, given), self.Attached, group="attach")

    def on_replay_screen_attached(self, event: Attached) -> None:
        self.say(f"the trace now has {event.what}")
        self.load(self.draft.edit)
