"""The free screen: the edited agent runs on from a step, and the tape answers it.

The path at the left, one answer in full at the right. It runs as soon as it is opened, on stored
answers and local models; a server is asked only under a limit that a person gives, which holds
for as long as the screen is open. No tool is run: what is not recorded, a person writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive

from arc_tui.experiments.dialogs import allowed
from arc_tui.experiments.request import FreeRunRequest
from arc_tui.experiments.runner import BackgroundRun, JobFinished, JobProgressed
from arc_tui.features.free.run import FreeRunEstimate, estimate_cost, run_free_replays
from arc_tui.features.free.state import EMPTY, FreeState, left_of, price
from arc_tui.features.free.stub_box import StubBox
from arc_tui.features.free.view import FreeRow, FreeView
from arc_tui.features.free.widgets import FreeFoot, FreeHead, FreePath, row_page, stop_page
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.document import document_text
from arc_tui.ui.key_bar import KeyBar
from arc_tui.ui.key_names import with_keys
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from arc_tui.ui.screen import ArcScreen
from replay import kept
from replay.budget import Limits
from replay.edit.changes import Edit
from replay.errors import ArcError, OfflineMiss
from replay.free.recorded_results import Stub
from replay.models.choose import DEMO
from replay.store.handle import Store
from taxonomy.judgements.schema import open_ledger

ALLOW, LEAVE = "take it, marked as stale", "leave it: the run stops there"
STALE_WORDS = (
    "The calls that may write were others before this moment than in the recording, so what was"
    " recorded then may not be what the tool would say. Only reads are answered so; a write never"
    " is."
)


class FreeScreen(ArcScreen):
    """One free run of one trace."""

    CSS_PATH = "screen.tcss"
    HELP = "a free run"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        Binding("s,f6", "stub", "stub", id="free.stub",
                tooltip="Write what a call that nothing answers would have got, or change that"),
        Binding("d", "forget", "forget stub", id="free.forget",
                tooltip="Take the stub away that answered the call under the cursor"),
        Binding("r,f5", "run", "run again", id="free.run",
                tooltip="Run again from the same step; what is answered already is kept"),
        Binding("A", "stale", "allow stale", id="free.stale",
                tooltip="Answer reads with what was recorded at another moment, or no longer"),
        Binding("m,f3", "model", "model", id="free.model",
                tooltip="Choose the model that acts"),
        Binding("x", "stop", "stop", id="free.stop",
                tooltip="Ask nothing more; what was answered is kept"),
        Binding("y", "copy", "copy", id="free.copy",
                tooltip="Copy what is shown in full as text"),
        Binding("tab,shift+tab", "pane", "other pane", id="free.pane",
                tooltip="Between the path and the answer in full"),
        Binding("escape", "back", "back", id="free.back",
                tooltip="Stop what runs, else back to the path, then to where you came from"),
    ]  # fmt: skip

    state: reactive[FreeState] = reactive(EMPTY, repaint=False)

    path_rows = query_one(FreePath)
    page = query_one("#answer", Page)

    class StubsChanged(Message):
        """A stub was kept, or forgotten."""

    def __init__(
        self, path: Path, trace: str, step: int, edit: Edit | None, model: str | None
    ) -> None:
        """`model` acts unless the edit names another one."""
        super().__init__(path)
        model = (edit.model if edit is not None else None) or model
        self._request = FreeRunRequest(trace=trace, start=step, edit=edit, model=model)
        self._going: BackgroundRun[FreeRunRequest, FreeView] | None = None
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
        self._start()

    def on_unmount(self) -> None:
        if self._going is not None:
            self._going.stop()

    def _move(self, **changes: Any) -> None:
        """The state with some of it changed."""
        self.state = structs.replace(self.state, **changes)

    # --- running

    def _start(self, **changes: Any) -> None:
        """Run with another wish, at first on what is there already."""
        self._request = structs.replace(self._request, **changes)
        self._ask(self._request)

    def _ask(self, request: FreeRunRequest) -> None:
        self.state = FreeState(at="asking", request=request)
        self._going = BackgroundRun(self, run_free_replays, request)

    def on_job_progressed(self, event: JobProgressed[FreeView]) -> None:
        self._move(view=event.view)

    def on_job_finished(self, event: JobFinished) -> None:
        self._going = None
        request, view = self.state.request, self.state.view
        if request.live:
            passing = view.stop is not None and view.stop.passing
            self._left = None if passing else left_of(request.limits, view.spent)
        if isinstance(event.trouble, OfflineMiss):
            self._go_live(event.trouble)
        elif event.trouble is not None:
            self.show_error(event.trouble)
        else:
            self._move(at="stopped" if event.stopped else "done")

    def show_error(self, error: ArcError) -> None:
        """What goes wrong stands where the sentence would."""
        self._move(at="failed", trouble=error)

    def _go_live(self, miss: OfflineMiss) -> None:
        """Go on asking a server: under what is left of a limit, else under one that is given."""
        self.show_error(
            OfflineMiss(miss.message, "‹free.run› runs again, and asks what that may cost")
        )
        if self._left is not None:
            self._ask(structs.replace(self._request, live=True, limits=self._left))
        else:
            self.run_worker(self._permit(), group="permit", exclusive=True, exit_on_error=False)

    async def _permit(self) -> None:
        limits = await allowed(self.app, price(await asyncio.to_thread(self._estimate)))
        if limits is not None:
            self._ask(structs.replace(self._request, live=True, limits=limits))

    def _estimate(self) -> FreeRunEstimate:
        with open_ledger(self.path) as store:
            return estimate_cost(store, self._request)

    def action_run(self) -> None:
        self._start()

    def action_stop(self) -> None:
        if self._going is not None:
            self._going.stop()
            self._move(at="stopping")

    # --- what the tape does not hold

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
        self.ask(lambda store: change(store, trace), lambda _: self.StubsChanged(), group="stubs")

    def on_free_screen_stubs_changed(self) -> None:
        self._start()

    def action_stale(self) -> None:
        if self._request.allow_stale:
            self._start(allow_stale=False)
            return
        choices = [Option(ALLOW, "the run goes on"), Option(LEAVE, "")]
        box = AskBox("an answer of another moment?", STALE_WORDS, choices=choices)
        self.app.push_screen(box, self._allow)

    def _allow(self, answer: str | None) -> None:
        if answer == ALLOW:
            self._start(allow_stale=True)

    def action_model(self) -> None:
        choices = [Option(DEMO, "rule-based, on this machine, free")]
        box = AskBox("which model acts?", hint="or another model's name", choices=choices)
        self.app.push_screen(box, self._act_by)

    def _act_by(self, model: str | None) -> None:
        if model is not None:
            self._start(model=model)

    # --- what is shown

    def watch_state(self, before: FreeState, state: FreeState) -> None:
        if before.at != state.at or before.view is not state.view:
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
        del parameters
        running = self.state.running
        match action:
            case "stop":
                return running
            case "run" | "model":
                return not running
            case "stub":
                return not running and (self.state.missed or self._stub_here) is not None
            case "forget":
                return not running and self._stub_here is not None
            case "stale":
                return self.state.can_allow_stale
            case _:
                return True

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
        self.say(f"{self.page.border_title} copied as text, {len(text)} characters")

    def action_back(self) -> None:
        if self.state.at == "asking":
            self.action_stop()
        elif self.focused is self.page:
            self._go_to(self.path_rows)
        else:
            self.dismiss()


def _title(row: FreeRow | None, state: FreeState) -> str:
    """What is shown in full."""
    if row is None:
        return "the end of the run" if state.view.stop is not None else ""
    return f"step {row.step}" if row.step is not None else f"answer {row.index}"
