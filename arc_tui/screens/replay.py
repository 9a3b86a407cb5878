"""The replay screen: an edit at the left, the model asked again at every step at the right.

The stage is all that is drawn; workers post what moves it. Nothing is asked before a person says
so, and of a server only under a limit given for that one replay.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui.replaying import Wanted
from arc_tui.screens.asking import Asking, ReplayEnded, ReplayMoved
from arc_tui.screens.attach import attach
from arc_tui.screens.base import ArcScreen
from arc_tui.screens.editing import edited
from arc_tui.screens.submission import Submission
from arc_tui.views import replay as replays
from arc_tui.views.draft import Draft, build_draft
from arc_tui.views.prospect import Prospect, build_prospect
from arc_tui.views.replay import ReplayRow
from arc_tui.views.stage import EMPTY, Stage
from arc_tui.widgets.ask_box import AskBox
from arc_tui.widgets.attach_box import AttachBox, Attachment
from arc_tui.widgets.edit_pane import EditPane, TargetList
from arc_tui.widgets.key_bar import KeyBar
from arc_tui.widgets.page import Page
from arc_tui.widgets.replay_foot import ReplayFoot
from arc_tui.widgets.replay_head import ReplayHead
from arc_tui.widgets.rows import RowList
from arc_tui.widgets.step_diff import StepDiff
from arc_tui.widgets.step_pages import step_page
from replay.errors import ArcError, OfflineMiss
from replay.models.choose import DEMO
from replay.store import Store


class ReplayScreen(ArcScreen):
    """One trace asked again, as recorded and with an edit."""

    HELP = "a replay"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        Binding("ctrl+s,f5,r", "run", "ask the model", id="replay.run",
                tooltip="Ask the model again at every step, as recorded and with the edit"),
        Binding("x", "stop", "stop", id="replay.stop",
                tooltip="Ask nothing more; what was answered is kept"),
        Binding("tab", "pane(1)", "other pane", id="replay.pane_next",
                tooltip="Go on: the texts, the editor, the steps, one step in full"),
        Binding("shift+tab", "pane(-1)", "pane before", id="replay.pane_before", show=False,
                tooltip="Go back: one step in full, the steps, the editor, the texts"),
        Binding("d,f2", "diff", "diff", id="replay.diff",
                tooltip="Show the edit as a diff, or the editor again"),
        Binding("E,f4", "editor", "$EDITOR", id="replay.editor",
                tooltip="Edit the text in your own editor"),
        Binding("m,f3", "model", "model", id="replay.model",
                tooltip="Choose the model to ask"),
        Binding("a,f8", "attach", "attach", id="replay.attach",
                tooltip="Attach what the source did not record"),
        Binding("escape", "back", "back", id="replay.back",
                tooltip="Stop what runs, else back to the steps, then to the run"),
    ]  # fmt: skip

    stage: reactive[Stage] = reactive(EMPTY, repaint=False)

    edit_pane = query_one(EditPane)
    steps = query_one(StepDiff)
    page = query_one("#step", Page)

    class Loaded(Message):
        """What can be edited was read."""

        def __init__(self, draft: Draft) -> None:
            super().__init__()
            self.draft = draft

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

    def __init__(self, path: Path, trace: str, step: int, *, edit: bool = True) -> None:
        super().__init__(path)
        self.trace = trace
        self.step = step
        self._edits_first = edit
        self._model: str | None = None
        self._submission = Submission(self)
        self._asking: Asking | None = None
        self._ran: dict[str, str] = {}
        self._warned = False
        self._shown: ReplayRow | None = None

    def compose(self) -> ComposeResult:
        yield ReplayHead().data_bind(ReplayScreen.stage)
        with Container(id="body"):
            yield EditPane(id="edit")
            with Vertical(id="result"):
                yield StepDiff(id="steps").data_bind(ReplayScreen.stage)
                yield Page(id="step")
        yield ReplayFoot().data_bind(ReplayScreen.stage)
        yield KeyBar()

    def on_mount(self) -> None:
        self._go_to(self.edit_pane.area if self._edits_first else self.steps)
        self.load()

    def on_unmount(self) -> None:
        if self._asking is not None:
            self._asking.stop()

    # --- what is there

    def load(self) -> None:
        self.ask(
            lambda store: build_draft(store, self.trace, self.step), self.Loaded, group="draft"
        )

    def on_replay_screen_loaded(self, event: Loaded) -> None:
        draft = event.draft
        self.stage = structs.replace(self.stage, draft=draft, at="ready", trouble=None)
        self.edit_pane.draft = draft
        self.steps.go_to(self.step)
        self._foresee()
        if draft.missing and self._edits_first:
            self.action_attach()

    def _foresee(self) -> None:
        draft, model = self.stage.draft, self._model
        self.ask(lambda store: build_prospect(store, draft, model), self.Foreseen, group="prospect")

    def on_replay_screen_foreseen(self, event: Foreseen) -> None:
        self.stage = structs.replace(self.stage, prospect=event.prospect)

    def tell(self, error: ArcError) -> None:
        """What goes wrong stands where the verdict would."""
        if isinstance(error, OfflineMiss):
            error = OfflineMiss(error.message, "ask again, and say what it may cost")
        at = "failed" if self.stage.running else self.stage.at
        self.stage = structs.replace(self.stage, at=at, trouble=error)

    # --- asking

    def action_run(self) -> None:
        """Ask, after what is still open was asked of the person."""
        if self.stage.running or self.stage.at == "loading":
            return
        model = self._model or self.stage.draft.model
        if model is None:
            self.action_model()
        else:
            self.run_worker(
                self._submit(model), group="submit", exclusive=True, exit_on_error=False
            )

    async def _submit(self, model: str) -> None:
        texts = self.edit_pane.texts
        wanted = await self._submission.wanted(self.stage.draft, texts, model)
        if wanted is not None:
            self._ran = texts
            self._start(wanted)

    def _start(self, wanted: Wanted) -> None:
        self.stage = structs.replace(self.stage, at="asking", trouble=None, view=replays.EMPTY)
        self._asking = Asking(self, wanted)
        self._go_to(self.steps)

    def on_replay_moved(self, event: ReplayMoved) -> None:
        at = "stopping" if self.stage.at == "stopping" else "asking"
        self.stage = structs.replace(self.stage, at=at, view=event.view)

    def on_replay_ended(self, event: ReplayEnded) -> None:
        self._asking = None
        if event.trouble is not None:
            self.tell(event.trouble)
        else:
            self.stage = structs.replace(self.stage, at="stopped" if event.stopped else "done")

    def action_stop(self) -> None:
        if self._asking is not None:
            self._asking.stop()
            self.stage = structs.replace(self.stage, at="stopping")

    # --- what is shown

    def watch_stage(self, before: Stage, stage: Stage) -> None:
        if before.at != stage.at or before.draft is not stage.draft:
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        match action:
            case "stop":
                return self.stage.running
            case "run" | "model":
                return not self.stage.running
            case "attach":
                return bool(self.stage.draft.missing) and not self.stage.running
            case _:
                return True

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.steps:
            self._show_step()

    def on_step_diff_chosen(self) -> None:
        self._go_to(self.page)

    def _show_step(self) -> None:
        row = self.steps.row
        if row is not None and row != self._shown:
            self._shown = row
            self.page.border_title = f"step {row.step}"
            self.page.document = step_page(row)

    def action_diff(self) -> None:
        self.edit_pane.diffed = not self.edit_pane.diffed
        self._go_to(self._panes[1])

    @property
    def _panes(self) -> tuple[Widget, Widget, Widget, Widget]:
        """What tab goes through."""
        pane = self.edit_pane
        return (
            self.query_one(TargetList),
            pane.page if pane.diffed else pane.area,
            self.steps,
            self.page,
        )

    def action_pane(self, direction: int) -> None:
        panes = self._panes
        here = panes.index(self.focused) if self.focused in panes else -1
        self._go_to(panes[(here + direction) % len(panes)])

    def _go_to(self, pane: Widget) -> None:
        """Focus a pane; a narrow terminal shows the half it is in."""
        self.set_class(pane in (self.steps, self.page), "-result")
        pane.focus()

    def action_back(self) -> None:
        if self.stage.at == "asking":
            self.action_stop()
        elif self.focused is self.page:
            self._go_to(self.steps)
        elif not self._warned and self.edit_pane.texts not in ({}, self._ran):
            self._warned = True
            self.say("this edit was never asked about; escape again leaves without it")
        else:
            self.dismiss()

    # --- around it

    def action_editor(self) -> None:
        pane = self.edit_pane
        try:
            pane.put(edited(self.app, pane.text))
        except ArcError as error:
            self.tell(error)
        pane.diffed = False
        self._go_to(pane.area)

    def action_model(self) -> None:
        own = self.stage.draft.model
        choices = [(DEMO, "rule-based, on this machine, free")]
        if own is not None and own != DEMO:
            choices.insert(0, (own, "the trace's own"))
        self.app.push_screen(
            AskBox("which model?", hint="or another model's name", choices=choices),
            self._chosen,
        )

    def _chosen(self, model: str | None) -> None:
        if model is not None:
            self._model = model
            self.stage = structs.replace(self.stage, at="ready", trouble=None, view=replays.EMPTY)
            self._foresee()

    def action_attach(self) -> None:
        self.app.push_screen(AttachBox(self.stage.draft.missing), self._files_given)

    def _files_given(self, given: Attachment | None) -> None:
        if given is None:
            return

        def work(store: Store) -> str:
            return attach(store, self.trace, given)

        self.ask(work, self.Attached, group="attach")

    def on_replay_screen_attached(self, event: Attached) -> None:
        self.say(f"the trace now has {event.what}")
        self.load()
