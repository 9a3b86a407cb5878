"""The bisect screen: which prompt version, or which part of an edit, broke a run?

The stage is all that is drawn. Nothing is asked before a person says so, and of a server only
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

from arc_tui.experiments.runner import Ended, Going, Moved
from arc_tui.features.bisect.candidates import Ground, Way
from arc_tui.features.bisect.dialogs import BisectChoosing, is_search
from arc_tui.features.bisect.plan import Wanted
from arc_tui.features.bisect.run import bisecting
from arc_tui.features.bisect.state import (
    EMPTY,
    BisectStage,
    Prospect,
    asking_price,
    build_prospect,
    here,
)
from arc_tui.features.bisect.versions import merged
from arc_tui.features.bisect.view import BisectView
from arc_tui.features.bisect.widgets import BisectFoot, BisectHead, BisectList, bisect_page
from arc_tui.ui.dialogs import allowed
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

    stage: reactive[BisectStage] = reactive(EMPTY, repaint=False)

    versions = query_one(BisectList)
    behind = query_one(Page)

    class Foreseen(Message):
        """What is to be searched, and what asking would come to."""

        def __init__(self, prospect: Prospect) -> None:
            super().__init__()
            self.prospect = prospect

    def __init__(self, path: Path, trace: str, step: int, edit: Edit | None = None) -> None:
        super().__init__(path, trace, step, edit)
        self._going: Going[BisectView] | None = None
        self._missed = False
        self._unsaid = False

    def compose(self) -> ComposeResult:
        yield BisectHead().data_bind(BisectScreen.stage)
        with Container(id="body"):
            yield BisectList(id="versions").data_bind(BisectScreen.stage)
            yield Page(id="behind")
        yield BisectFoot().data_bind(BisectScreen.stage)
        yield KeyBar()

    def on_mount(self) -> None:
        self.versions.focus()
        self.look(self._step)

    def on_unmount(self) -> None:
        if self._going is not None:
            self._going.stop()

    def _move(self, **changes: Any) -> None:
        """The stage with some of it changed."""
        self.stage = structs.replace(self.stage, **changes)

    # --- what is wanted

    @property
    def here(self) -> BisectStage:
        return self.stage

    def on_bisect_choosing_grounded(self, event: BisectChoosing.Grounded) -> None:
        """At first what is searched is asked; later, the same is searched at another step."""
        ground, first = event.ground, self.stage.ground is None
        if not first and is_search(self._wanted):
            self.settle(self.stage.way, self._wanted, ground)
            return
        self._move(ground=ground)
        if not ground.steps:
            self.tell(ArcError("this run has no model call that could be asked again"))
        elif first and self._edit is not None and ground.ways:
            self.took(ground.ways[0])
        elif first:
            self._move(at="open")
            self.action_choose()

    def wish(self, way: str, wanted: Wanted, ground: Ground) -> None:
        self._wanted, self._unsaid = wanted, False
        self.stage = BisectStage(wanted=wanted, way=way, ground=ground)
        self.ask(lambda store: build_prospect(store, wanted), self.Foreseen, group="prospect")

    def show(self, way: Way) -> None:
        wanted = structs.replace(self._wanted, sources=(), old=None, new=None, fix=None)
        self._wanted = wanted
        kept = way.kept or self.stage.view
        self.stage = BisectStage(wanted=wanted, at="done", ground=self.stage.ground, view=kept)

    def on_bisect_screen_foreseen(self, event: Foreseen) -> None:
        self._move(at="ready", prospect=event.prospect, view=event.prospect.view, trouble=None)

    def later(self) -> Wanted | None:
        row, sources = self.versions.row, self.stage.wanted.sources
        if row is None or len(sources) < 2:
            return None
        distinct = merged(sources).sources
        names = [each.name for each in distinct]
        at = names.index(row.name) if row.name in names else 0
        if not 0 < at < len(names) - 1:
            return None
        return structs.replace(self._wanted, sources=distinct[at:])

    def tell(self, error: ArcError) -> None:
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
        if self.stage.running:
            return
        if self._unsaid:
            self.action_expect()
        elif self.stage.prospect is not None:
            self.run_worker(self._submit(), group="submit", exclusive=True, exit_on_error=False)
        elif self.stage.at != "loading":
            self.action_choose()

    async def _submit(self) -> None:
        prospect, wanted = self.stage.prospect, self._wanted
        assert prospect is not None
        if not prospect.local and (self._missed or not prospect.outlook.settled):
            self._missed = False
            limits = await allowed(self.app, asking_price(prospect.outlook))
            if limits is not None:
                wanted = structs.replace(wanted, live=True, limits=limits)
        self._start(wanted)

    def _start(self, wanted: Wanted) -> None:
        self._move(at="asking", wanted=wanted, trouble=None)
        self._going = Going(
            self,
            lambda store, hold: bisecting(store, wanted, hold=hold),
            group="bisect",
        )

    def on_moved(self, event: Moved[BisectView]) -> None:
        self._move(view=event.view)

    def on_ended(self, event: Ended) -> None:
        self._going = None
        if event.trouble is not None:
            self.tell(event.trouble)
        elif event.stopped and self.stage.view.status == "going":
            self._move(at="stopped")
        else:
            self._move(at="done")

    def action_stop(self) -> None:
        if self._going is not None:
            self._going.stop()
            self._move(at="stopping")

    # --- what is shown

    def watch_stage(self, before: BisectStage, stage: BisectStage) -> None:
        if before.at != stage.at or before.view is not stage.view:
            self.refresh_bindings()

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.versions:
            page = bisect_page(self.stage, self.versions.row)
            self.behind.document = with_keys(self, page)
            self.refresh_bindings()

    def on_bisect_list_chosen(self) -> None:
        self.behind.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        match action:
            case "stop":
                return self.stage.running
            case "run" | "choose" | "model" | "most":
                return not self.stage.running
            case "expect" | "whole":
                return not self.stage.running and is_search(self._wanted)
            case "step":
                ground = self.stage.ground
                return not self.stage.running and ground is not None and ground.steps > 0
            case "from_here":
                return not self.stage.running and self.later() is not None
            case "copy":
                return bool(self.stage.view.samples)
            case _:
                return True

    def action_turn(self) -> None:
        (self.versions if self.focused is self.behind else self.behind).focus()

    def action_copy(self) -> None:
        from arc_tui.features.bisect.text import bisect_markdown

        text = bisect_markdown(self.stage.view)
        self.app.copy_to_clipboard(text)
        self.say(f"what was found copied as Markdown, {len(text)} characters")

    def action_back(self) -> None:
        if self.stage.at == "asking":
            self.action_stop()
        elif self.focused is self.behind:
            self.versions.focus()
        else:
            self.dismiss()
