"""The trace screen: lanes over steps, the tree of spans, one step in full, tags.

The tree owns the place: it says which step its cursor shows, lanes and detail follow. A step is
loaded in a worker; while one key is held only the last step asked for is shown. What only the
whole run can tell of a step follows when its reasons are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.features.trace.copies import StepCopies
from arc_tui.features.trace.detail import NAMES, Detail, Tabs, TraceHead
from arc_tui.features.trace.keys import KEYS, QUEUE_KEYS, QUEUE_ONLY, REVEALING, has_use
from arc_tui.features.trace.lanes import Lanes
from arc_tui.features.trace.origins import StepLookups
from arc_tui.features.trace.search import Finder, TreeFilter
from arc_tui.features.trace.span_tree import (
    Jumps,
    SpanTree,
    nearest,
    needs_rest,
    next_candidate,
    next_peer,
    next_step,
    number_hint,
    step_number,
)
from arc_tui.features.trace.step_reader import StepReader
from arc_tui.features.trace.tagging import ReviewQueue, Tagging
from arc_tui.navigation import (
    OpenBisect,
    OpenBisectSteps,
    OpenCalibration,
    OpenClassify,
    OpenCompare,
    OpenCost,
    OpenFailures,
    OpenFreeReplay,
    OpenProbes,
    OpenReplay,
    SearchRuns,
)
from arc_tui.ui.dialogs import PromptLine
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.page import LinkedPage
from arc_tui.ui.screen import ViewSwitch, Watching
from arc_tui.views.columns import run_name
from arc_tui.views.step import EMPTY, StepView
from arc_tui.views.step_pages import EARLIER
from arc_tui.views.trace import (
    EMPTY_TRACE,
    TraceView,
    build_beginning,
    build_trace,
    hide_judgements,
)
from replay.store.rows import StepRow

if TYPE_CHECKING:
    from arc_tui.views.queue import Visit

DRAWN_S = 0.05
"""The beginning of a long run is drawn before the rest is read, which would hold it up."""

FILTER_HINT = 'tool:bash is:error tag:loop "text" -is:repeat'

WHY, REQUEST, RESPONSE = map(NAMES.index, ("Why", "Request", "Response"))


class TraceScreen(Watching):
    """One run, from its shape down to the words of one step."""

    CSS_PATH = "screen.tcss"
    HELP = "a run"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [*QUEUE_KEYS, *KEYS]

    view: reactive[TraceView] = reactive(EMPTY_TRACE, repaint=False)
    step: reactive[int] = reactive(0, repaint=False, init=False)
    detail: reactive[StepView] = reactive(EMPTY, repaint=False)
    tab: reactive[int] = reactive(0, repaint=False)
    bookmarks: reactive[frozenset[int]] = reactive(frozenset(), repaint=False)
    filtered: reactive[frozenset[int] | None] = reactive(None, repaint=False)
    """The steps that match the filter of the tree; None where there is none."""

    found: reactive[frozenset[int]] = reactive(frozenset(), repaint=False)
    search: reactive[re.Pattern[str] | None] = reactive(None, repaint=False)

    lanes = query_one(Lanes)
    spans = query_one(SpanTree)
    page = query_one(LinkedPage)
    find_line = query_one("#find-line", PromptLine)
    filter_line = query_one("#filter-line", PromptLine)

    @dataclass
    class Loaded(Message):
        """The trace was read."""

        view: TraceView

    class Reloaded(Loaded):
        """The trace was read again, after something was written."""

    def __init__(
        self, path: Path, trace: str, at: int | None = None, visit: Visit | None = None
    ) -> None:
        """Opens at step `at`, else at the first candidate, else at the start.

        With a `visit` it is one of the runs of the review queue.
        """
        super().__init__(path)
        self.trace = trace
        self.queue = ReviewQueue(self, visit)
        self.tagging = Tagging(self, trace, self.queue)
        self.jumps = Jumps()
        self.tree_filter = TreeFilter(self, trace)
        self.finder = Finder(self, trace)
        self.reader = StepReader(self, trace)
        self.lookups = StepLookups(self, trace)
        self.copies = StepCopies(self)
        self._at = at
        self._whole = EMPTY_TRACE
        """The run with all that is said of it; `view` may hide that."""
        self._left_for = ""

    def compose(self) -> ComposeResult:
        if (queue_line := self.queue.line()) is not None:
            yield queue_line
        yield TraceHead().data_bind(TraceScreen.view)
        yield Lanes(id="lanes").data_bind(TraceScreen.view, TraceScreen.step, TraceScreen.bookmarks)
        with Container(id="body"):
            yield SpanTree(id="spans").data_bind(
                TraceScreen.view, TraceScreen.found, TraceScreen.bookmarks, TraceScreen.filtered
            )
            yield Detail(id="detail").data_bind(
                TraceScreen.view, TraceScreen.tab, TraceScreen.search, step=TraceScreen.detail
            )
        yield PromptLine("find ", "text in labels, messages, calls and results", id="find-line")
        yield PromptLine("filter ", FILTER_HINT, id="filter-line")
        yield KeyBar()

    def on_mount(self) -> None:
        self._entitle()
        self.spans.nothing = "Loading run…"
        self.spans.focus()
        self.ask(
            lambda store: build_beginning(store, self.trace, self._at), self.Loaded, group="trace"
        )
        if self.queue.has_others:
            self.queue.compare()

    def on_screen_resume(self) -> None:
        """In another screen a probe may have been run, the run tagged, or a judge asked."""
        left_for, self._left_for = self._left_for, ""
        if left_for == "probes":
            self.lookups.forget_probes()
            self._look_up()
        elif left_for == "judge":
            self._read_all()
        if self.view.run.run and not self.queue.hidden:
            self.tagging.read_tags()

    @property
    @override
    def awaits(self) -> bool:
        """A tag is kept before a key typed behind it may leave."""
        return super().awaits or self.tagging.is_writing

    @override
    def needs_rest(self, key: str) -> bool:
        """Of a long run that is still read, only what is there can be gone to."""
        return self.view.partial and "rest" in self._questions and needs_rest(self.spans, key)

    # --- what is read

    def on_trace_screen_loaded(self, event: Loaded) -> None:
        """A run with a candidate, or a suggestion, opens at the first, the reasons in front; of a
        long one the rest follows."""
        self._show(event.view)
        opens_at = self.view.opens_at if self._at is None else self._at
        self.tab = WHY if self.view.marked or self.view.judged else RESPONSE
        self.call_later(self.spans.go_to, opens_at)
        if self.view.partial:
            self._read_all(after_s=DRAWN_S)

    def _show(self, view: TraceView) -> None:
        """Show as much of the run as may be seen now."""
        self._whole = view
        self.view = hide_judgements(view) if self.queue.hidden else view
        self.refresh_bindings()

    def on_changed(self) -> None:
        self.reader.forget()
        if self.view is not EMPTY_TRACE:
            self._read_all()

    def _read_all(self, *, after_s: float = 0) -> None:
        self.ask(
            lambda store: build_trace(store, self.trace, drawn=True), self.Reloaded,
            group="rest", after_s=after_s,
        )  # fmt: skip

    def on_trace_screen_reloaded(self, event: Reloaded) -> None:
        """More of the run is there: it fills in, and the cursor stays on its row."""
        same = (event.view.run, event.view.judged) == (self._whole.run, self._whole.judged)
        if same and not self._whole.partial:
            return
        self._show(event.view)
        self.lookups.forget_run()
        self._load_step()
        if self.filtered is not None:
            self._apply_filter()

    def on_span_tree_step_shown(self, event: SpanTree.StepShown) -> None:
        self.step = event.step
        if self.detail is EMPTY:  # the rows are drawn before what one of them says is read
            self.call_after_refresh(self._load_step)
        else:
            self._load_step()

    def watch_step(self) -> None:
        self._entitle()

    def step_here(self) -> StepRow | None:
        """The step under the cursor."""
        return self.view.steps[self.spans.step] if self.view.steps else None

    def _load_step(self) -> None:
        step = min(self.spans.step, len(self.view.steps) - 1)
        if step < 0:
            return
        known = self.reader.show(self.view, step)
        if known is not None:
            self._show_step(known)

    def on_step_reader_loaded(self, event: StepReader.Loaded) -> None:
        if event.detail.row.step == self.spans.step:
            self._show_step(event.detail)
            self.reader.read_ahead()

    def on_step_reader_done(self) -> None:
        self.reader.go_on()

    def _show_step(self, detail: StepView) -> None:
        self.detail = detail
        self._show_text_found()
        self._look_up()

    def watch_tab(self) -> None:
        self._look_up()

    def _look_up(self) -> None:
        """Look up what is not read with the step, where that is to be seen."""
        if self.tab == WHY and not self.view.blind:
            self.detail = self.lookups.complete(self.detail)
        elif self.tab == REQUEST and self.detail.earlier is None and self.page.shows(EARLIER):
            self.lookups.find_earlier(self.detail)

    def on_page_opened(self) -> None:
        self._look_up()

    def on_step_lookups_earlier_found(self, event: StepLookups.EarlierFound) -> None:
        self.detail = self.lookups.with_earlier(self.detail, event.detail)

    def on_step_lookups_probes_found(self, event: StepLookups.ProbesFound) -> None:
        self.detail = self.lookups.with_probes(self.detail, event.probes)

    def on_step_lookups_origins_found(self, event: StepLookups.OriginsFound) -> None:
        if event.to_show:
            self.lookups.open_origins(event.origins, self.page.value, self.go_to)
        else:
            self.detail = self.lookups.with_origins(self.detail, event.origins)

    def action_origins(self) -> None:
        self.lookups.show_origins(self.spans.step)

    # --- from step to step

    def go_to(self, step: int | None) -> None:
        """Show a step; None stays where it is."""
        if step is None or step == self.spans.step:
            return
        self.jumps.leave(self.spans.step)
        self._go_to(step)
        self.refresh_bindings()

    def _go_to(self, step: int) -> None:
        hidden = self.filtered is not None and step not in self.filtered
        if hidden and step < len(self.view.steps):
            self._clear_filter()
            self.say(f"Step {step} does not match the filter. Filter cleared.")
        self.spans.go_to(step)

    def on_linked_page_followed(self, event: LinkedPage.Followed) -> None:
        self.go_to(event.step)

    def on_lanes_picked(self, event: Lanes.Picked) -> None:
        self.go_to(event.step)

    def action_step(self, direction: int) -> None:
        step = next_step(self.spans, direction)
        if step is not None:
            self.spans.go_to(step)

    def action_candidate(self, direction: int) -> None:
        self.go_to(next_candidate(self.spans, direction))

    def action_error(self, direction: int) -> None:
        self.go_to(nearest(self.spans, self.view.errors, direction))

    def action_peer(self, direction: int) -> None:
        """To a step with the tool of this row; from one without a tool, to another without."""
        peer, why_not = next_peer(self.spans, direction)
        self.go_to(peer)
        if why_not:
            self.say(why_not)

    def action_sibling(self, direction: int) -> None:
        self.spans.go_to_sibling(direction)

    def action_mark(self) -> None:
        if self.view.steps:
            self.bookmarks ^= {self.spans.step}
            self.refresh_bindings()

    def action_marked(self) -> None:
        self.go_to(nearest(self.spans, self.bookmarks, 1))

    def action_return(self) -> None:
        step = self.jumps.take_back()
        if step is not None:
            self._go_to(step)
            self.refresh_bindings()

    @override
    def find_step(self, typed: str) -> int | None:
        return step_number(typed, self.spans.step, len(self.view.steps))

    @override
    def step_hint(self) -> str:
        return number_hint(len(self.view.steps))

    @override
    def show_step(self, step: int) -> None:
        self.go_to(step)

    # --- the filter of the tree

    async def action_filter(self) -> None:
        await self.filter_line.open()

    @on(PromptLine.Changed, "#filter-line")
    def _filter_while_typed(self, event: PromptLine.Changed) -> None:
        self.tree_filter.typed = event.words
        self._apply_filter()

    @on(PromptLine.Closed, "#filter-line")
    def _filter_for_good(self, event: PromptLine.Closed) -> None:
        self.spans.focus()
        if event.words != self.tree_filter.typed:
            self.tree_filter.typed = event.words
            self._apply_filter()

    def _apply_filter(self) -> None:
        if self.tree_filter.apply(self.view, self.filter_line):
            self.filtered = None

    def on_tree_filter_matched(self, event: TreeFilter.Matched) -> None:
        if event.typed == self.tree_filter.typed:
            self.filtered = event.steps
            self._entitle()

    def watch_filtered(self) -> None:
        self._entitle()
        self.refresh_bindings()

    def _clear_filter(self) -> None:
        """Show the whole tree again."""
        self.tree_filter.clear(self.filter_line)
        self.filtered = None

    def _entitle(self) -> None:
        """Say over the tree which of it is shown, and what was looked for."""
        steps = self.filtered
        shown = "" if steps is None else self.tree_filter.title(steps, len(self.view.steps))
        self.spans.entitle(shown, self.finder.title(self.spans.step))

    # --- a text that is looked for

    async def action_find(self) -> None:
        await self.find_line.open()

    @on(PromptLine.Closed, "#find-line")
    def _find(self, event: PromptLine.Closed) -> None:
        self.spans.focus()
        self.finder.look_for(event.words, self.view.tree)
        self._take_found(self.finder.steps)
        self.refresh_bindings()

    def on_finder_found(self, event: Finder.Found) -> None:
        self._take_found(event.steps)
        if not event.steps:
            self.say(f"No match for '{self.finder.text}'.")
        elif self.spans.step in event.steps:
            self.finder.show_in(self.spans.step)
            self._show_text_found()
        else:
            self._go_to_found(1)

    def _take_found(self, steps: frozenset[int]) -> None:
        self.finder.steps = self.found = steps
        self.search = self.finder.pattern
        self._entitle()

    async def action_found(self, direction: int) -> None:
        """To the next step that says it; in the detail, first to the next line that does."""
        if not self.finder.text:
            await self.action_find()
        elif self.focused is not self.page or not self.page.go_to_found(direction):
            self._go_to_found(direction)

    def _go_to_found(self, direction: int) -> None:
        before = self.spans.step
        self.go_to(nearest(self.spans, self.found, direction))
        self.finder.show_in(self.spans.step)
        if self.spans.step == before:
            self._show_text_found()

    def _show_text_found(self) -> None:
        """Show where the step says what was looked for, once it was come to for that."""
        page = self.finder.page(self.view, self.detail, self.tab)
        if page is not None:
            self.tab = page.tab
            self.page.reveal(folds=page.folds)

    def action_everywhere(self) -> None:
        self.post_message(SearchRuns(self.finder.text))

    # --- tags and the review queue

    def on_tagging_tagged(self, event: Tagging.Tagged) -> None:
        self.view = structs.replace(self.view, tags=event.tags)
        self.refresh_bindings()
        if event.kept:
            self.queue.marks_kept()
        for words in event.said:
            self.say(words)

    def action_tag(self) -> None:
        row = self.step_here()
        if row is not None:
            self.tagging.open_picker(self.view, row)

    def action_repeat(self) -> None:
        if (row := self.step_here()) is not None:
            self.tagging.repeat(row)

    def action_undo(self) -> None:
        self.tagging.undo()

    def action_clear(self) -> None:
        self.tagging.mark_clean(self.view)

    def action_walk(self) -> None:
        self.queue.walk()

    def action_turn_blind(self) -> None:
        self.queue.turn_blind()

    def on_review_queue_revealed(self) -> None:
        """The blind mark is kept: show the run as it is, and what others say."""
        self._show(self._whole)
        self.tagging.read_tags()
        self._load_step()
        self.queue.compare()

    def on_review_queue_compared_read(self, event: ReviewQueue.ComparedRead) -> None:
        self.queue.show_compared(event.compared)

    # --- to other screens, the clipboard and other programs

    def action_edit(self) -> None:
        self.post_message(OpenReplay(self.trace, self.spans.step, edit=True))

    def action_replay(self) -> None:
        self.post_message(OpenReplay(self.trace, self.spans.step))

    def action_free(self) -> None:
        self.post_message(OpenFreeReplay(self.trace, self.spans.step))

    def action_bisect(self) -> None:
        self.post_message(OpenBisect(self.trace, self.spans.step))

    def action_bisect_steps(self) -> None:
        self.post_message(OpenBisectSteps(self.trace, self.spans.step))

    def action_probes(self) -> None:
        self._left_for = "probes"
        self.post_message(OpenProbes(self.trace, self.spans.step))

    def action_classify(self) -> None:
        self._left_for = "judge"
        self.post_message(OpenClassify(run_name(self.view.run, "/"), (self.trace,)))

    def action_compare(self) -> None:
        self.post_message(OpenCompare(self.trace))

    def action_money(self) -> None:
        self.post_message(OpenCost(self.trace))

    def action_failures(self) -> None:
        self.post_message(OpenFailures())

    def action_calibration(self) -> None:
        self.post_message(OpenCalibration())

    def action_copy(self) -> None:
        self.copies.copy(self.detail)

    def action_copy_part(self) -> None:
        self.copies.copy_part(self.detail, self._page_in_use)

    def action_open(self) -> None:
        self.copies.open_in_pager(self.detail, self._page_in_use)

    def action_view(self) -> None:
        self.copies.view_in_editor(self.detail, self._page_in_use)

    @property
    def _page_in_use(self) -> LinkedPage | None:
        """The page where it has the focus."""
        return self.page if self.focused is self.page else None

    # --- what is shown

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What there is nothing to do with now is neither offered nor done."""
        if action in QUEUE_ONLY:
            return self.queue.visit is not None
        if action in REVEALING and self.queue.hidden:
            return None
        useful = has_use(
            action, self.view, self.bookmarks,
            jumps=self.jumps, finder=self.finder, tagging=self.tagging,
        )  # fmt: skip
        return useful or None

    def on_tab_line_picked(self, event: Tabs.Picked) -> None:
        self.tab = event.tab

    def on_span_tree_chosen(self) -> None:
        self.page.focus()

    def action_tab(self, tab: int) -> None:
        self.tab = tab

    def action_turn(self, pages: int) -> None:
        self.tab = (self.tab + pages) % len(NAMES)

    @override
    def view_switches(self) -> Sequence[ViewSwitch]:
        return (
            ViewSwitch("axis", "time axis", "draw the lanes over time, or over steps"),
            ViewSwitch("whose(1)", "score source", "scores of one source, or the best of all"),
        )

    def action_zoom(self, direction: int) -> None:
        self.lanes.change_zoom(direction)

    def action_axis(self) -> None:
        self.lanes.timed = not self.lanes.timed

    def action_whose(self, direction: int) -> None:
        self.lanes.change_scorer(direction)

    def action_back(self) -> None:
        """Out of the detail, then out of the filter, then out of the run."""
        if self.focused is not self.spans:
            self.spans.focus()
        elif self.filtered is not None:
            self._clear_filter()
        else:
            self.dismiss()
