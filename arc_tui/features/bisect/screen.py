"""The bisect screen: which prompt version, or which part of an edit, broke a run?

The state is all that is drawn. Nothing is asked before a person says so, and of a server only
under a limit given for that one search.
"""

from __future__ import annotations

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
from arc_tui.experiments.runner import BackgroundRun, JobFinished, JobProgressed
from arc_tui.features.bisect.candidates import Ground, Way
from arc_tui.features.bisect.dialogs import BisectChoosing, is_search
from arc_tui.features.bisect.plan import BisectRequest
from arc_tui.features.bisect.run import run_bisection
from arc_tui.features.bisect.state import (
    EMPTY,
    BisectState,
    Prospect,
    asking_price,
    build_prospect,
    here,
)
from arc_tui.features.bisect.versions import merged
from arc_tui.features.bisect.view import BisectView
from arc_tui.features.bisect.widgets import BisectFoot, BisectHead, BisectList, bisect_page
from arc_tui.ui.key_bar import KeyBar
from arc_tui.ui.key_names import with_keys
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from replay.edit.changes import Edit
from replay.errors import ArcError, OfflineMiss
from replay.predicate import BadPredicate
from taxonomy.expectations import NothingExpected


class BisectScreen(BisectChoosing):
    """One search over versions."""

    CSS_PATH = "screen.tcss"
    HELP = "a bisection"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (150, "-wide")]

    BINDINGS = [
        Binding("r,f5", "run", "ask the model", id="bisect.run",
                tooltip="Ask the model, a round at a time, until it is plain which version it is"),
        Binding("x", "stop", "stop", id="bisect.stop",
                tooltip="Ask nothing more; what was answered is kept"),
        Binding("e,f7", "choose", "versions", id="bisect.choose",
                tooltip="Choose what is searched: versions, the parts of an edit, a range of git"),
        Binding("w", "expect", "expectation", id="bisect.expect",
                tooltip="Say what a good answer does, instead of what a rule found"),
        Binding("f", "from_here", "from here", id="bisect.from_here",
                tooltip="Leave out the versions before the one under the cursor"),
        Binding("y", "copy", "copy", id="bisect.copy",
                tooltip="Copy what was found as Markdown"),
        Binding("a", "step", "at step", id="bisect.step",
                tooltip="Choose the step at which the versions are asked"),
        Binding("F", "whole", "whole runs", id="bisect.whole",
                tooltip="Judge whole free runs instead of one answer, or one answer again"),
        Binding("s,f6", "most", "at most", id="bisect.most",
                tooltip="Choose after how many answers to give up"),
        Binding("m,f3", "model", "model", id="bisect.model",
                tooltip="Choose the model to ask"),
        Binding("tab,shift+tab", "turn", "turn", id="bisect.turn", show=False,
                tooltip="To what stands behind the versions, and back"),
        Binding("escape", "back", "back", id="bisect.back",
                tooltip="Stop what runs, else back to the versions, then to the run"),
    ]  # fmt: skip

    state: reactive[BisectState] = reactive(EMPTY, repaint=False)

    versions = query_one(BisectList)
    behind = query_one(Page)

    class Foreseen(Message):
        """What is to be searched, and what asking would come to."""

        def __init__(self, prospect: Prospect) -> None:
            super().__init__()
            self.prospect = prospect

    def __init__(self, path: Path, trace: str, step: int, edit: Edit | None = None) -> None:
        super().__init__(path, trace, step, edit)
        self._going: BackgroundRun[BisectRequest, BisectView] | None = None
        self._missed = False
        self._unsaid = False

    def compose(self) -> ComposeResult:
        yield BisectHead().data_bind(BisectScreen.state)
        with Container(id="body"):
            yield BisectList(id="versions").data_bind(BisectScreen.state)
            yield Page(id="behind")
        yield BisectFoot().data_bind(BisectScreen.state)
        yield KeyBar()

    def on_mount(self) -> None:
        self.versions.focus()
        self.look(self._step)

    def on_unmount(self) -> None:
        if self._going is not None:
            self._going.stop()

    def _move(self, **changes: Any) -> None:
        """The state with some of it changed."""
        self.state = structs.replace(self.state, **changes)

    # --- what is wanted

    @property
    def here(self) -> BisectState:
        return self.state

    def on_bisect_choosing_grounded(self, event: BisectChoosing.Grounded) -> None:
        """At first what is searched is asked; later, the same is searched at another step."""
        ground, first = event.ground, self.state.ground is None
        if not first and is_search(self._request):
            self.settle(self.state.way, self._request, ground)
            return
        self._move(ground=ground)
        if not ground.steps:
            self.show_error(ArcError("this run has no model call that could be asked again"))
        elif first and self._edit is not None and ground.ways:
            self.took(ground.ways[0])
        elif first:
            self._move(at="open")
            self.action_choose()

    def wish(self, way: str, request: BisectRequest, ground: Ground) -> None:
        self._request, self._unsaid = request, False
        self.state = BisectState(request=request, way=way, ground=ground)
        self.ask(lambda store: build_prospect(store, request), self.Foreseen, group="prospect")

    def show(self, way: Way) -> None:
        request = structs.replace(self._request, sources=(), old=None, new=None, fix=None)
        self._request = request
        kept = way.kept or self.state.view
        self.state = BisectState(request=request, at="done", ground=self.state.ground, view=kept)

    def on_bisect_screen_foreseen(self, event: Foreseen) -> None:
        self._move(at="ready", prospect=event.prospect, view=event.prospect.view, trouble=None)

    def later(self) -> BisectRequest | None:
        row, sources = self.versions.row, self.state.request.sources
        if row is None or len(sources) < 2:
            return None
        distinct = merged(sources).sources
        names = [each.name for each in distinct]
        at = names.index(row.name) if row.name in names else 0
        if not 0 < at < len(names) - 1:
            return None
        return structs.replace(self._request, sources=distinct[at:])

    def show_error(self, error: ArcError) -> None:
        """What goes wrong stands where the verdict would, with the key that helps."""
        self._missed = isinstance(error, OfflineMiss)
        self._unsaid = isinstance(error, (NothingExpected, BadPredicate))
        hint = here(error.hint)
        if self._missed:
            hint = "ask again (‹bisect.run›), and say what it may cost"
        elif self._unsaid:
            hint = "‹bisect.expect› says what a good answer does"
        self._move(at="failed", trouble=ArcError(error.message, hint))

    # --- asking

    def action_run(self) -> None:
        """Ask, after what it may cost was asked of the person."""
        if self.state.running:
            return
        if self._unsaid:
            self.action_expect()
        elif self.state.prospect is not None:
            self.run_worker(self._submit(), group="submit", exclusive=True, exit_on_error=False)
        elif self.state.at != "loading":
            self.action_choose()

    async def _submit(self) -> None:
        prospect, request = self.state.prospect, self._request
        assert prospect is not None
        if not prospect.local and (self._missed or not prospect.estimate.settled):
            self._missed = False
            limits = await allowed(self.app, asking_price(prospect.estimate))
            if limits is not None:
                request = structs.replace(request, live=True, limits=limits)
        self._start(request)

    def _start(self, request: BisectRequest) -> None:
        self._move(at="asking", request=request, trouble=None)
        self._going = BackgroundRun(self, run_bisection, request)

    def on_job_progressed(self, event: JobProgressed[BisectView]) -> None:
        self._move(view=event.view)

    def on_job_finished(self, event: JobFinished) -> None:
        self._going = None
        if event.trouble is not None:
            self.show_error(event.trouble)
        elif event.stopped and self.state.view.status == "going":
            self._move(at="stopped")
        else:
            self._move(at="done")

    def action_stop(self) -> None:
        if self._going is not None:
            self._going.stop()
            self._move(at="stopping")

    # --- what is shown

    def watch_state(self, before: BisectState, state: BisectState) -> None:
        if before.at != state.at or before.view is not state.view:
            self.refresh_bindings()

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.versions:
            page = bisect_page(self.state, self.versions.row)
            self.behind.document = with_keys(self, page)
            self.refresh_bindings()

    def on_bisect_list_chosen(self) -> None:
        self.behind.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        match action:
            case "stop":
                return self.state.running
            case "run" | "choose" | "model" | "most":
                return not self.state.running
            case "expect" | "whole":
                return not self.state.running and is_search(self._request)
            case "step":
                ground = self.state.ground
                return not self.state.running and ground is not None and ground.steps > 0
            case "from_here":
                return not self.state.running and self.later() is not None
            case "copy":
                return bool(self.state.view.samples)
            case _:
                return True

    def action_turn(self) -> None:
        (self.versions if self.focused is self.behind else self.behind).focus()

    def action_copy(self) -> None:
        from arc_tui.features.bisect.text import bisect_markdown

        text = bisect_markdown(self.state.view)
        self.app.copy_to_clipboard(text)
        self.say(f"what was found copied as Markdown, {len(text)} characters")

    def action_back(self) -> None:
        if self.state.at == "asking":
            self.action_stop()
        elif self.focused is self.behind:
            self.versions.focus()
        else:
            self.dismiss()
