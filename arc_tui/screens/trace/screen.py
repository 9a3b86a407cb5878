"""The trace screen: lanes over steps, the tree of spans, one step in full, tags.

The tree owns the place: it says which step its cursor shows, lanes and detail follow. A step is
loaded in a worker; while one key is held only the last step asked for is shown. What only the whole
run can tell of a step follows when its reasons are looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.screens.probing.probed import Probed
from arc_tui.screens.trace.leaving import Leaving
from arc_tui.screens.trace.walking import Walking
from arc_tui.screens.watching import Watching
from arc_tui.views.trace import step as steps
from arc_tui.views.trace import view as traces
from arc_tui.views.trace.step import StepView, build_step
from arc_tui.views.trace.view import TraceView, build_trace
from arc_tui.widgets.key_bar import KeyBar
from arc_tui.widgets.placed_page import PlacedPage
from arc_tui.widgets.prompt_line import PromptLine
from arc_tui.widgets.trace.detail import NAMES, Detail, Tabs
from arc_tui.widgets.trace.head import TraceHead
from arc_tui.widgets.trace.lanes import Lanes
from arc_tui.widgets.trace.span_tree import SpanTree
from replay.store.rows import StepRow

if TYPE_CHECKING:
    from arc_tui.views.runs.queue import Visit
    from arc_tui.views.trace.grounds import Grounds
    from arc_tui.views.trace.origins import Ground
    from replay.store import Store

STEP = Binding.Group("step", compact=True)
CANDIDATE = Binding.Group("candidate", compact=True)
ERROR = Binding.Group("error", compact=True)
AGAIN = Binding.Group("again", compact=True)

WHY = NAMES.index("Why")


class TraceScreen(Watching, Probed, Leaving, Walking):
    """One run, from its shape down to the words of one step."""

    HELP = "a run"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        Binding("J", "step(1)", "next step", id="trace.step_next", group=STEP,
                tooltip="Go to the next step"),
        Binding("K", "step(-1)", "step before", id="trace.step_before", group=STEP,
                tooltip="Go to the step before"),
        Binding("c", "candidate(1)", "next candidate", id="trace.candidate_next", group=CANDIDATE,
                tooltip="Go to the next step that may be the break"),
        Binding("C", "candidate(-1)", "candidate before", id="trace.candidate_before",
                group=CANDIDATE, tooltip="Go to the candidate before"),
        Binding("x", "error(1)", "next error", id="trace.error_next", group=ERROR,
                tooltip="Go to the next step with an error"),
        Binding("X", "error(-1)", "error before", id="trace.error_before", group=ERROR,
                tooltip="Go to the error before"),
        Binding("t", "tag", "tag", id="trace.tag",
                tooltip="Say what kind of failure this step is: one more letter"),
        Binding("e", "edit", "edit", id="trace.edit",
                tooltip="Edit what the agent was told, and ask the model again"),
        Binding("r", "replay", "replay", id="trace.replay",
                tooltip="Ask the model again at every step"),
        Binding("b", "bisect", "bisect", id="trace.bisect",
                tooltip="Find the prompt version, or the part of an edit, that makes it go wrong"),
        Binding("B", "bisect_steps", "which step", id="trace.bisect_steps",
                tooltip="Find the step at which belief left the world, and test a fix there"),
        Binding("P", "probes", "probe", id="trace.probes",
                tooltip="Tell two causes of the failure apart by one change, asked again"),
        Binding("p", "origins", "where from", id="trace.origins",
                tooltip="Where the values of this step's calls came from"),
        Binding("slash", "find", "find", id="trace.find", key_display="/",
                tooltip="Find a text in labels and in everything said in this run"),
        Binding("n", "found(1)", "find again", id="trace.found_next", group=AGAIN,
                tooltip="Go to the next step that says it"),
        Binding("N", "found(-1)", "find back", id="trace.found_before", group=AGAIN,
                tooltip="Go to the step before that says it"),
        Binding("z", "zoom", "zoom", id="trace.zoom",
                tooltip="Show only the fifteen steps on either side in the lanes, or all again"),
        Binding("S", "whose(1)", "whose score", id="trace.whose",
                tooltip="Show the scores of each source alone, or the best of all again"),
        Binding("M", "money", "money", id="trace.money",
                tooltip="Where the money of this run went, and what of it brought nothing"),
        Binding("y", "copy", "copy", id="trace.copy",
                tooltip="Copy the step as Markdown"),
        Binding("F", "free", "free replay", id="trace.free",
                tooltip="Let the agent run on by itself from this step; the tape answers"),
        Binding("u", "undo", "undo tag", id="trace.undo", show=False,
                tooltip="Take back the tag given last"),
        Binding("full_stop", "repeat", "repeat tag", id="trace.repeat", show=False,
                key_display=".", tooltip="Give this step the tag given last"),
        *(
            Binding(str(place), f"tab({place - 1})", name.lower(), id=f"trace.tab_{place}",
                    show=False, tooltip=f"Show {name} of the step")
            for place, name in enumerate(NAMES, 1)
        ),
        Binding("tab", "turn(1)", "next tab", id="trace.tab_next", show=False,
                tooltip="Show the next page of the step"),
        Binding("shift+tab", "turn(-1)", "tab before", id="trace.tab_before", show=False,
                tooltip="Show the page of the step before"),
        Binding("escape", "back", "back", id="trace.back",
                tooltip="Back to the tree, then to the list of runs"),
    ]  # fmt: skip

    view: reactive[TraceView] = reactive(traces.EMPTY, repaint=False)
    step: reactive[int] = reactive(0, repaint=False)
    detail: reactive[StepView] = reactive(steps.EMPTY, repaint=False)
    tab: reactive[int] = reactive(0, repaint=False)
    zoom: reactive[bool] = reactive(False, repaint=False)
    whose: reactive[int] = reactive(0, repaint=False)

    page = query_one(PlacedPage)

    class Loaded(Message):
        """The trace was read."""

        def __init__(self, view: TraceView) -> None:
            super().__init__()
            self.view = view

    class Grown(Message):
        """The trace was read again, after something was written."""

        def __init__(self, view: TraceView) -> None:
            super().__init__()
            self.view = view

    class StepLoaded(Message):
        """A step was read."""

        def __init__(self, detail: StepView) -> None:
            super().__init__()
            self.detail = detail

    class GroundsKnown(Message):
        """What a step rests on was found; `asked`: a person wants to see where values came from."""

        def __init__(self, grounds: Grounds, *, asked: bool) -> None:
            super().__init__()
            self.grounds = grounds
            self.asked = asked

    def __init__(
        self, path: Path, trace: str, at: int | None = None, visit: Visit | None = None
    ) -> None:
        """Opens at step `at`, else at the first candidate of a failed run, else at the start.

        With a `visit` it is one of the runs of the tagging queue.
        """
        super().__init__(path, trace)
        self.visit = visit
        self._at = at
        self._ground: Ground | None = None

    def compose(self) -> ComposeResult:
        yield TraceHead().data_bind(TraceScreen.view)
        yield Lanes(id="lanes").data_bind(
            TraceScreen.view, TraceScreen.step, TraceScreen.zoom, TraceScreen.whose
        )
        with Container(id="body"):
            yield SpanTree(id="spans").data_bind(TraceScreen.view, TraceScreen.found)
            yield Detail(id="detail").data_bind(
                TraceScreen.view, TraceScreen.tab, step=TraceScreen.detail
            )
        yield PromptLine("find ", "a text in labels, messages, calls and results")
        yield KeyBar()

    def on_mount(self) -> None:
        self.spans.border_title = "spans"
        self.spans.focus()
        self.ask(lambda store: build_trace(store, self.trace), self.Loaded, group="trace")

    def on_trace_screen_loaded(self, event: Loaded) -> None:
        """A failed run opens at its first candidate with the reasons in front."""
        view = self.view = self.shown(event.view)
        self.refresh_bindings()
        opens_at = view.marked[0] if view.run.outcome == "failed" and view.marked else 0
        opens_at = self._at if self._at is not None else opens_at
        self.tab = WHY if view.marked else NAMES.index("Response")
        self.call_later(self.spans.go_to, opens_at)

    def on_changed(self) -> None:
        if self.view is not traces.EMPTY:
            self.ask(lambda store: build_trace(store, self.trace), self.Grown, group="trace")

    def on_trace_screen_grown(self, event: Grown) -> None:
        """More of the run is there: it fills in, and the cursor stays on its row."""
        if event.view.run == self._whole.run:
            return
        self.view = self.shown(event.view)
        self._ground = None
        self.refresh_bindings()
        self._load_step()

    def on_span_tree_step_shown(self, event: SpanTree.StepShown) -> None:
        self.step = event.step
        self._load_step()

    def _load_step(self) -> None:
        step = min(self.spans.step, len(self.view.steps) - 1)
        if step < 0:
            return
        rows, said, blind = self.view.steps, self.view.diagnosis, self.view.blind
        self.ask(
            lambda store: build_step(store, self.trace, step, rows=rows, said=said, blind=blind),
            self.StepLoaded,
            group="step",
        )

    def on_trace_screen_step_loaded(self, event: StepLoaded) -> None:
        if event.detail.row.step == self.spans.step:
            self.detail = event.detail
            self._look_deeper()

    def watch_tab(self) -> None:
        self._look_deeper()

    @override
    def _look_deeper(self) -> None:
        """Ask what the step rests on, where its reasons are looked at and it is not known."""
        if self.tab != WHY or self.detail is steps.EMPTY or self.view.blind:
            return
        if self.detail.grounds is None:
            self._find_grounds(asked=False)
        self.look_for_probes()

    def _find_grounds(self, *, asked: bool) -> None:
        step = self.spans.step

        def find(store: Store) -> Grounds:
            from arc_tui.views.trace.origins import (
                Ground,  # reads the whole run: not for a first frame
            )

            if self._ground is None:
                self._ground = Ground(store, self.trace)
            return self._ground.under(step)

        self.ask(
            find,
            lambda found: self.GroundsKnown(found, asked=asked),
            group="asked grounds" if asked else "grounds",
        )

    def on_trace_screen_grounds_known(self, event: GroundsKnown) -> None:
        if event.asked:
            self._show_origins(event.grounds)
        elif event.grounds.step == self.detail.row.step:
            self.detail = structs.replace(self.detail, grounds=event.grounds)

    def on_placed_page_followed(self, event: PlacedPage.Followed) -> None:
        self.spans.go_to(event.step)

    def on_lanes_picked(self, event: Lanes.Picked) -> None:
        self.spans.go_to(event.step)

    def on_tabs_picked(self, event: Tabs.Picked) -> None:
        self.tab = event.tab

    def on_span_tree_chosen(self) -> None:
        self.page.focus()

    def on_tagging_tagged(self, event: Walking.Tagged) -> None:
        self.view = structs.replace(self.view, tags=event.tags)
        self.refresh_bindings()

    def step_here(self) -> StepRow | None:
        return self.view.steps[self.spans.step] if self.view.steps else None

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What there is nothing to do with now is neither offered nor done."""
        match action:
            case "candidate":
                return bool(self.view.marked) or None
            case "error":
                return bool(self.view.errors) or None
            case "undo":
                return self.can_undo or None
            case "repeat":
                return self.can_repeat or None
            case "whose":
                return len(self.view.scorers) > 1 or None
            case _:
                return super().check_action(action, parameters)

    def action_step(self, direction: int) -> None:
        self.spans.go_to(self.spans.step + direction)

    def action_candidate(self, direction: int) -> None:
        self.spans.go_to_next(self.view.marked, direction)

    def action_error(self, direction: int) -> None:
        self.spans.go_to_next(self.view.errors, direction)

    def action_tab(self, tab: int) -> None:
        self.tab = tab

    def action_turn(self, pages: int) -> None:
        self.tab = (self.tab + pages) % len(NAMES)

    def action_zoom(self) -> None:
        self.zoom = not self.zoom

    def action_whose(self, direction: int) -> None:
        self.whose = (self.whose + direction) % (len(self.view.scorers) + 1)

    def action_back(self) -> None:
        if self.focused is not self.spans:
            self.spans.focus()
        else:
            self.dismiss()

    def action_origins(self) -> None:
        self._find_grounds(asked=True)

    def _show_origins(self, grounds: Grounds) -> None:
        from arc_tui.widgets.trace.origins_box import OriginsBox

        if not grounds.values:
            self.say(f"step {grounds.step} calls nothing with a value")
            return
        self.app.push_screen(OriginsBox(grounds, self.page.value), self.go_to)

    def go_to(self, step: int | None) -> None:
        """Show a step; None stays where it is."""
        if step is not None:
            self.spans.go_to(step)

    def action_copy(self) -> None:
        from arc_tui.views.trace.markdown import step_markdown

        if self.detail is not steps.EMPTY:
            text = step_markdown(self.detail)
            self.app.copy_to_clipboard(text)
            self.say(f"step {self.detail.row.step} copied as Markdown, {len(text)} characters")
