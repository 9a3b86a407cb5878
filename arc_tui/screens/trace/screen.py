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
from textual.containers import Container
from textual.message import Message
from textual.reactive import reactive
from textual.worker import Worker
from typing_extensions import override

from arc_tui.screens.trace.keys import KEYS
from arc_tui.screens.trace.leaving import Leaving
from arc_tui.screens.trace.looking import WHY, Looking
from arc_tui.screens.trace.walking import Walking
from arc_tui.screens.watching import Watching
from arc_tui.views.trace import step as steps
from arc_tui.views.trace import view as traces
from arc_tui.views.trace.step import StepView, build_step
from arc_tui.views.trace.view import TraceView, build_beginning, build_trace
from arc_tui.widgets.key_bar import KeyBar
from arc_tui.widgets.placed_page import PlacedPage
from arc_tui.widgets.prompt_line import PromptLine
from arc_tui.widgets.trace.binning import zooms
from arc_tui.widgets.trace.detail import NAMES, Detail, Tabs
from arc_tui.widgets.trace.head import TraceHead
from arc_tui.widgets.trace.lanes import Lanes
from arc_tui.widgets.trace.span_tree import SpanTree
from arc_tui.widgets.trace.timeline import has_times
from replay.store import Store
from replay.store.rows import StepRow

if TYPE_CHECKING:
    from arc_tui.views.runs.queue import Visit

DRAWN_S = 0.05
"""The beginning of a long run is drawn before the rest is read, which would hold it up."""

FILTER_HINT = 'tool:bash is:error tag:loop "said" -is:repeat'


class TraceScreen(Watching, Looking, Leaving, Walking):
    """One run, from its shape down to the words of one step."""

    CSS_PATH = "screen.tcss"
    HELP = "a run"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = KEYS

    view: reactive[TraceView] = reactive(traces.EMPTY, repaint=False)
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
        if self.view is not traces.EMPTY:
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
