"""The free screen: the edited run continues from a step; recorded results answer its calls.

The path at the left, one answer in full at the right. It runs as soon as it is opened, on stored
answers and local models; a server is asked only under a limit that a person gives, which holds
for as long as the screen is open. No tool is run: what is not recorded, a person writes in a
box, as the result of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import structs
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container, Vertical, VerticalScroll
from textual.getters import query_one
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.widgets import Static

from arc_tui.experiments.dialogs import Tick
from arc_tui.experiments.edit_widgets import PromptArea, as_edited
from arc_tui.experiments.request import FreeRunRequest
from arc_tui.experiments.runner import JobFinished
from arc_tui.experiments.screen import ExperimentScreen, model_key, run_key, stop_key
from arc_tui.features.free.run import estimate_cost, run_free_replays
from arc_tui.features.free.view import FreeRow, FreeRunEstimate
from arc_tui.features.free.widgets import (
    EMPTY,
    FreeFoot,
    FreeHead,
    FreePath,
    FreeState,
    left_of,
    row_page,
    stop_page,
)
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.document import document_text, laid_out_json
from arc_tui.ui.keys import KeyBar, key_of, with_keys, write_keys
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from replay import kept
from replay.budget import Limits
from replay.edit.changes import Edit
from replay.errors import OfflineMiss
from replay.free.recorded_results import Stub
from replay.store.handle import Store

ALLOW, LEAVE = "allow stale results", "stop here"
STALE_WORDS = (
    "Other calls that may write came before this one than in the recording, so the recorded"
    " result may be out of date. Stale results are served to reads only, never to writes."
)


class FreeScreen(ExperimentScreen[FreeState]):
    """One free run of one trace."""

    CSS_PATH = "screen.tcss"
    HELP = "a free run"
    MODEL_QUESTION = "which model?"
    MISS_HINT = "‹free.run› run again with a limit"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        bind("i", "stub", id="free.stub", label="stub",
             tooltip="Write the result of a call that has no recorded result, or change it"),
        bind("delete", "forget", id="free.forget",
             tooltip="Remove the stub of the call under the cursor"),
        run_key("free", "Run again from the same step; completed calls are reused",
                label="run again"),
        bind("!", "stale", id="free.stale",
             tooltip="Allow stale results for reads, or no longer"),
        model_key("free", "Choose the model of the agent"),
        stop_key("free"),
        bind("y", "copy", id="free.copy", tooltip="Copy what is shown in full as text"),
        *pane_keys("free", "Switch between the path and the response in full"),
        bind("esc", "back", id="free.back",
             tooltip="Back to the path, then to where you came from"),
    ]  # fmt: skip

    state: reactive[FreeState] = reactive(EMPTY, repaint=False)
    request: FreeRunRequest

    path_rows = query_one(FreePath)
    page = query_one("#answer", Page)

    def __init__(
        self, path: Path, trace: str, step: int, edit: Edit | None, model: str | None
    ) -> None:
        """`model` acts unless the edit names another one."""
        model = (edit.model if edit is not None else None) or model
        super().__init__(path, FreeRunRequest(trace=trace, start=step, edit=edit, model=model))
        self._left: Limits | None = None

    def compose(self) -> ComposeResult:
        yield FreeHead().data_bind(FreeScreen.state)
        with Container(id="free"):
            yield FreePath(id="path").data_bind(FreeScreen.state)
            yield Page(id="answer")
        yield FreeFoot().data_bind(FreeScreen.state)
        yield KeyBar()

    def on_mount(self) -> None:
        self.path_rows.focus()
        self.request_changed()

    # --- the run

    def request_changed(self) -> None:
        """Run again, at first on what is there already."""
        self._run(self.request)

    def _run(self, request: FreeRunRequest) -> None:
        self.state = FreeState(request=request)
        self.start(run_free_replays, request)

    def show_end(self, event: JobFinished) -> None:
        request, view = self.state.request, self.state.view
        if request.live:
            passing = view.stop is not None and view.stop.passing
            self._left = None if passing else left_of(request.limits, view.spent)
        super().show_end(event)
        if isinstance(event.trouble, OfflineMiss):
            self._go_live()

    def _go_live(self) -> None:
        """Go on asking a server: under what is left of a limit, else under one that is given."""
        request = self.request
        if self._left is not None:
            self._run(structs.replace(request, live=True, limits=self._left))
        else:
            self.read(
                lambda store: estimate_cost(store, request),
                lambda estimate: self.submit(self._permit(estimate)),
                group="estimate",
            )

    async def _permit(self, estimate: FreeRunEstimate) -> None:
        request = await self.ask_permission(self.request, estimate)
        if request.live:
            self._run(request)

    def action_run(self) -> None:
        self.request_changed()

    # --- what was not recorded

    def action_stub(self) -> None:
        """A stub of the call that stopped the run, or the one that answered here."""
        yours, missed = self._stub_here, self.state.missed
        if yours is not None:
            self.app.push_screen(StubBox(yours, yours=True), self._keep)
        elif missed is not None and missed.draft is not None:
            self.app.push_screen(StubBox(missed.draft, missed.drafted_from), self._keep)

    @property
    def _stub_here(self) -> Stub | None:
        """The stub that answered the first call of the row under the cursor that has one."""
        row = self.path_rows.row
        found = (got.stub for got in row.got if got.stub is not None) if row is not None else ()
        return next(iter(found), None)

    def _keep(self, stub: Stub | None) -> None:
        if stub is not None:
            self._change(lambda store, trace: kept.put(store, trace, stub, source="screen"))

    def action_forget(self) -> None:
        stub = self._stub_here
        if stub is not None:
            self._change(lambda store, trace: kept.remove(store, trace, stub.tool, stub.arguments))

    def _change(self, change: Callable[[Store, str], object]) -> None:
        trace = self.state.view.trace
        self.read(
            lambda store: change(store, trace), lambda _: self.request_changed(), group="stubs"
        )

    def action_stale(self) -> None:
        if self.request.allow_stale:
            self.change_request(allow_stale=False)
            return
        choices = [Option(ALLOW, "the run continues; results are marked stale"), Option(LEAVE, "")]
        box = AskBox("allow stale results?", STALE_WORDS, choices=choices)
        self.app.push_screen(box, self._allow)

    def _allow(self, answer: str | None) -> None:
        if answer == ALLOW:
            self.change_request(allow_stale=True)

    # --- what is shown

    def watch_state(self, before: FreeState, state: FreeState) -> None:
        if before.phase != state.phase or before.view is not state.view:
            self._show()
            self.refresh_bindings()

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.path_rows:
            self._show()
            self.refresh_bindings()

    def _show(self) -> None:
        """The row under the cursor in full."""
        if not self.is_mounted:
            return
        row = self.path_rows.row
        self.page.border_title = _title(row, self.state)
        page = row_page(row) if row is not None else stop_page(self.state)
        self.page.document = with_keys(self, page)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        running = self.state.running
        match action:
            case "stub":
                return not running and (self.state.missed or self._stub_here) is not None
            case "forget":
                return not running and self._stub_here is not None
            case "stale":
                return self.state.can_allow_stale
            case _:
                return super().check_action(action, parameters)

    def on_free_path_chosen(self) -> None:
        self._go_to(self.page)

    def action_pane(self) -> None:
        self._go_to(self.path_rows if self.focused is self.page else self.page)

    def _go_to(self, pane: RowList) -> None:
        """Focus a pane; a narrow terminal shows the answer in full alone."""
        self.set_class(pane is self.page, "-full")
        pane.focus()

    def action_copy(self) -> None:
        text = document_text(self.page.document)
        self.app.copy_to_clipboard(text)
        self.say(f"copied {self.page.border_title}: {format.count(len(text), 'character')}")

    def leave(self) -> None:
        if self.focused is self.page:
            self._go_to(self.path_rows)
        else:
            super().leave()


def _title(row: FreeRow | None, state: FreeState) -> str:
    """What is shown in full."""
    if row is None:
        return "end of the run" if state.view.stop is not None else ""
    return f"step {row.step}" if row.step is not None else f"response {row.index}"


NEVER_RECORDED = "No recorded result of this tool: write one."
UNCHANGED = "Still unchanged, from"
AGAIN = "‹stub.take› again accepts it as it is."


class StubBox(ModalScreen[Stub | None]):
    """The stub as it is to be kept; None where it is left.

    `origin` names the recorded call whose result stands there to begin with, "" for none; `yours`
    tells that it is a stub written before.
    """

    CSS_PATH = "../../ui/dialogs.tcss"
    HELP = "a stub"

    BINDINGS = [
        bind("r", "take", id="stub.take", label="continue", only="ctrl+s,f5", priority=True,
             tooltip="Save the stub and continue the run"),
        bind("esc", "leave", id="stub.leave", show=False,
             tooltip="Close and save nothing"),
    ]  # fmt: skip

    area = query_one(PromptArea)
    whence = query_one("#whence", Static)
    tick = query_one(Tick)

    def __init__(self, stub: Stub, origin: str = "", *, yours: bool = False) -> None:
        super().__init__()
        self._stub = stub
        self._origin = origin
        self._yours = yours
        self._warned = False

    def compose(self) -> ComposeResult:
        with Vertical(id="stub"):
            with VerticalScroll(id="call", can_focus=False):
                yield Static(Text(self._call))
            yield Static(Text(self._whence), id="whence")
            yield PromptArea(id="result")
            yield Tick("the result is an error", self._stub.is_error, compact=True)
            take, leave = key_of(self, "stub.take"), key_of(self, "stub.leave")
            keys = f"{take} accept   tab next   space toggle   {leave} cancel"
            yield Static(Text(keys), id="keys")

    def on_mount(self) -> None:
        title = f"stub: result of {format.one_line(self._stub.tool)}"
        self.query_one("#stub").border_title = Text(title)
        self.area.open("result", self._stub.result)
        self.area.focus()

    @property
    def _call(self) -> str:
        arguments = msgspec.json.encode(self._stub.arguments).decode()
        return format.plain(f"{self._stub.tool}\n{laid_out_json(arguments) or arguments}")

    @property
    def _whence(self) -> str:
        """Where the text in the editor comes from."""
        if self._yours:
            return "Your stub."
        if not self._origin:
            return NEVER_RECORDED
        return f"Copied from {format.one_line(self._origin)}: adapt it to this call."

    def action_take(self) -> None:
        """Keep it; the result of another call only when it is accepted twice."""
        as_it_is = self.area.text == as_edited(self._stub.result)
        if as_it_is and self._origin and not self._warned:
            self._warned = True
            again = write_keys(self, AGAIN)
            self.whence.update(Text(f"{UNCHANGED} {format.one_line(self._origin)}: {again}"))
            return
        result = self._stub.result if as_it_is else self.area.text
        self.dismiss(structs.replace(self._stub, result=result, is_error=self.tick.value))

    def action_leave(self) -> None:
        self.dismiss(None)
