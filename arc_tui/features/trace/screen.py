"""The trace screen: lanes over steps, the tree of spans, one step in full, tags.

The tree owns the place: it says which step its cursor shows, lanes and detail follow. A step is
loaded in a worker; while one key is held only the last step asked for is shown. What only the
whole run can tell of a step follows when its reasons are looked at.

The keys of the trace screen, in the order in which the bar and the help show them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.reactive import reactive
from textual.worker import Worker
from typing_extensions import override

from arc_tui.features.trace.actions import WHY, Leaving, Looking
from arc_tui.features.trace.detail import NAMES, Detail, Tabs, TraceHead
from arc_tui.features.trace.lanes import Lanes, has_times, zooms
from arc_tui.features.trace.queue import Walking
from arc_tui.features.trace.span_tree import SpanTree
from arc_tui.ui.dialogs import PromptLine
from arc_tui.ui.key_bar import KeyBar
from arc_tui.ui.page import PlacedPage
from arc_tui.ui.screen import Watching
from arc_tui.views import step as steps
from arc_tui.views import trace as traces
from arc_tui.views.step import StepView, build_step
from arc_tui.views.trace import TraceView, build_beginning, build_trace
from replay.store.handle import Store
from replay.store.rows import StepRow

if TYPE_CHECKING:
    from arc_tui.views.queue import Visit


STEP = Binding.Group("step", compact=True)
CANDIDATE = Binding.Group("candidate", compact=True)
ERROR = Binding.Group("error", compact=True)
AGAIN = Binding.Group("again", compact=True)

JUMPS = [
    Binding("J", "step(1)", "next step", id="trace.step_next", group=STEP,
            tooltip="Go to the next step"),
    Binding("K", "step(-1)", "step before", id="trace.step_before", group=STEP,
            tooltip="Go to the step before"),
    Binding("c", "candidate(1)", "next candidate", id="trace.candidate_next", group=CANDIDATE,
            tooltip="Go to the likeliest candidate, then to the next likeliest"),
    Binding("C", "candidate(-1)", "candidate before", id="trace.candidate_before",
            group=CANDIDATE, tooltip="Go to the candidate before"),
    Binding("x", "error(1)", "next error", id="trace.error_next", group=ERROR,
            tooltip="Go to the next step with an error"),
    Binding("X", "error(-1)", "error before", id="trace.error_before", group=ERROR,
            tooltip="Go to the error before"),
    Binding("w", "peer(1)", "same tool", id="trace.peer_next", show=False,
            tooltip="Go to the next step with the same tool as this one"),
    Binding("W", "peer(-1)", "same tool before", id="trace.peer_before", show=False,
            tooltip="Go to the step before with the same tool"),
    Binding("greater_than_sign", "sibling(1)", "next sibling", id="trace.sibling_next",
            show=False, key_display=">", tooltip="Go to the next row of the same parent"),
    Binding("less_than_sign", "sibling(-1)", "sibling before", id="trace.sibling_before",
            show=False, key_display="<", tooltip="Go to the row before of the same parent"),
    Binding("colon", "number", "step number", id="trace.number", show=False, key_display=":",
            tooltip="Go to a step by its number, or by how many steps: 12, +5, -5"),
    Binding("m", "mark", "mark", id="trace.mark", show=False,
            tooltip="Mark the step, until you leave the run; or take the mark away"),
    Binding("apostrophe", "marked", "to the mark", id="trace.marked", show=False, key_display="'",
            tooltip="Go to the next step that you marked"),
    Binding("ctrl+o,backspace", "return", "where you were", id="trace.return", show=False,
            tooltip="Back to the step where you were before the last jump"),
]  # fmt: skip

WAYS = [
    Binding("t", "tag", "tag", id="trace.tag",
            tooltip="Say what kind of failure this step is: one more letter"),
    Binding("e", "edit", "edit", id="trace.edit",
            tooltip="Edit what the agent was told, and ask the model again"),
    Binding("r", "replay", "replay", id="trace.replay",
            tooltip="Ask the model again at every step"),
    Binding("b", "bisect", "bisect", id="trace.bisect",
            tooltip="Find the prompt version, or the part of an edit, that makes it go wrong"),
]  # fmt: skip

FINDS = [
    Binding("slash", "find", "find", id="trace.find", key_display="/",
            tooltip="Find a text in labels and in everything said in this run"),
    Binding("f", "filter", "filter", id="trace.filter",
            tooltip='Show only some steps of the tree: tool:bash is:error "no such file"'),
    Binding("n", "found(1)", "find again", id="trace.found_next", group=AGAIN,
            tooltip="Go to the next step that says it, or in the detail to the next line"),
    Binding("N", "found(-1)", "find back", id="trace.found_before", group=AGAIN,
            tooltip="Go to the step before that says it, or to the line before"),
    Binding("A", "everywhere", "in all runs", id="trace.everywhere",
            tooltip="List all runs in which somebody says what was found"),
]  # fmt: skip

ASKS = [
    Binding("v", "compare", "compare", id="trace.compare",
            tooltip="Compare with the marked run, else with another trial or a replay"),
    Binding("B", "bisect_steps", "which step", id="trace.bisect_steps",
            tooltip="Find the step at which belief left the world, and test a fix there"),
    Binding("P", "probes", "probe", id="trace.probes",
            tooltip="Tell two causes of the failure apart by one change, asked again"),
    Binding("p", "origins", "where from", id="trace.origins",
            tooltip="Where the values of this step's calls came from"),
]  # fmt: skip

LOOKS = [
    Binding("z", "zoom(1)", "zoom", id="trace.zoom",
            tooltip="Show fewer steps beside this one in the lanes, in the end all again"),
    Binding("Z", "zoom(-1)", "zoom out", id="trace.zoom_out", show=False,
            tooltip="Show more steps beside this one in the lanes"),
    Binding("a", "axis", "time axis", id="trace.axis",
            tooltip="Draw the lanes over time, as far as times are known, or over steps"),
    Binding("S", "whose(1)", "whose score", id="trace.whose",
            tooltip="Show the scores of each source alone, or the best of all again"),
    Binding("M", "money", "money", id="trace.money",
            tooltip="Where the money of this run went, and what of it brought nothing"),
    Binding("y", "copy", "copy", id="trace.copy",
            tooltip="Copy the step as Markdown"),
    Binding("Y", "copy_part", "copy a part", id="trace.copy_part", show=False,
            tooltip="Copy the value under the cursor, a call as JSON, a command, a result"),
    Binding("O", "open", "in a pager", id="trace.open", show=False,
            tooltip="Open the step or a part of it in $PAGER"),
    Binding("E", "view", "in an editor", id="trace.view", show=False,
            tooltip="Look at what is under the cursor, or the step, in $EDITOR; nothing is kept"),
    Binding("F", "free", "free replay", id="trace.free",
            tooltip="Let the agent run on by itself from this step; the tape answers"),
    Binding("u", "undo", "undo tag", id="trace.undo", show=False,
            tooltip="Take back the tag given last"),
    Binding("full_stop", "repeat", "repeat tag", id="trace.repeat", show=False,
            key_display=".", tooltip="Give this step the tag given last"),
]  # fmt: skip

TABS = [
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
            tooltip="Back to the tree, to all of it, then to the list of runs"),
]  # fmt: skip

KEYS: list[BindingType] = [*JUMPS, *WAYS, *FINDS, *ASKS, *LOOKS, *TABS]


DRAWN_S = 0.05
"""The beginning of a long run is drawn before the rest is read, which would hold it up."""

FILTER_HINT = 'tool:bash is:error tag:loop "said" -is:repeat'


class TraceScreen(Watching, Looking, Leaving, Walking):
    """One run, from its shape down to the words of one step."""

    CSS_PATH = "screen.tcss"
    HELP = "a run"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = KEYS

    view: reactive[TraceView] = reactive(traces.EMPTY_TRACE, repaint=False)
    step: reactive[int] = reactive(0, repaint=False, init=False)
    detail: reactive[StepView] = reactive(steps.EMPTY, repaint=False)
    zoom: reactive[int] = reactive(0, repaint=False)
    timed: reactive[bool] = reactive(False, repaint=False)
    whose: reactive[int] = reactive(0, repaint=False)

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

    def __init__(
        self, path: Path, trace: str, at: int | None = None, visit: Visit | None = None
    ) -> None:
        """Opens at step `at`, else at the first candidate, else at the start.

        With a `visit` it is one of the runs of the tagging queue.
        """
        super().__init__(path, trace)
        self.visit = visit
        self._more = False
        self._at = at

    def compose(self) -> ComposeResult:
        yield TraceHead().data_bind(TraceScreen.view)
        yield Lanes(id="lanes").data_bind(
            TraceScreen.view,
            TraceScreen.step,
            TraceScreen.zoom,
            TraceScreen.timed,
            TraceScreen.whose,
            TraceScreen.marks,
        )
        with Container(id="body"):
            yield SpanTree(id="spans").data_bind(
                TraceScreen.view, TraceScreen.found, TraceScreen.marks, TraceScreen.sifted
            )
            yield Detail(id="detail").data_bind(
                TraceScreen.view, TraceScreen.tab, TraceScreen.wanted, step=TraceScreen.detail
            )
        yield PromptLine("find ", "a text in labels, messages, calls and results", id="find-line")
        yield PromptLine("filter ", FILTER_HINT, id="filter-line")
        yield PromptLine("step ", "12, or +5 or -5 from here", id="number-line")
        yield KeyBar()

    def on_mount(self) -> None:
        self.entitle()
        self.spans.focus()
        self.ask(
            lambda store: build_beginning(store, self.trace, self._at), self.Loaded, group="trace"
        )

    def on_trace_screen_loaded(self, event: Loaded) -> None:
        """A run with a candidate opens at the first, the reasons in front; of a long one the rest
        follows."""
        view = self.view = self.shown(event.view)
        self.refresh_bindings()
        opens_at = view.opens_at if self._at is None else self._at
        self.tab = WHY if view.marked else NAMES.index("Response")
        self.call_later(self.spans.go_to, opens_at)
        if view.partial:
            self._more = True
            self.set_timer(DRAWN_S, self._read_on)

    def on_changed(self) -> None:
        if self.view is not traces.EMPTY_TRACE:
            self._read_all()

    def _read_on(self) -> None:
        self._more = False
        self.hold_keys(self._read_all())

    @property
    @override
    def awaits(self) -> bool:
        return super().awaits or self._more

    def _read_all(self) -> Worker[None]:
        def read(store: Store) -> TraceView:
            return build_trace(store, self.trace, drawn=True)

        return self.ask(read, self.Grown, group="trace")

    def on_trace_screen_grown(self, event: Grown) -> None:
        """More of the run is there: it fills in, and the cursor stays on its row."""
        if event.view.run == self._whole.run and not self._whole.partial:
            return
        self.view = self.shown(event.view)
        self.forget_grounds()
        self.refresh_bindings()
        self._load_step()
        if self.sifted is not None:
            self.sift()

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
            self.reveal()
            self._look_deeper()

    def on_placed_page_followed(self, event: PlacedPage.Followed) -> None:
        self.go_to(event.step)

    def on_lanes_picked(self, event: Lanes.Picked) -> None:
        self.go_to(event.step)

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
            case "everywhere":
                return self.has_words or None
            case "marked":
                return bool(self.marks) or None
            case "return":
                return self.can_return or None
            case "axis":
                return has_times(self.view.steps) or None
            case _:
                return super().check_action(action, parameters)

    def action_tab(self, tab: int) -> None:
        self.tab = tab

    def action_turn(self, pages: int) -> None:
        self.tab = (self.tab + pages) % len(NAMES)

    def action_zoom(self, direction: int) -> None:
        levels = zooms(len(self.view.steps))
        self.zoom = levels[(levels.index(self.zoom) + direction) % len(levels)]

    def action_axis(self) -> None:
        self.timed = not self.timed

    def action_whose(self, direction: int) -> None:
        self.whose = (self.whose + direction) % (len(self.view.scorers) + 1)

    def action_back(self) -> None:
        """Out of the detail, then out of the filter, then out of the run."""
        if self.focused is not self.spans:
            self.spans.focus()
        elif self.sifted is not None:
            self.lift()
        else:
            self.dismiss()
