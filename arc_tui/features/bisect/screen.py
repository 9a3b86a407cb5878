"""The bisect screen: the prompt version, or the hunk of an edit, that broke a run.

No call is made before the user starts the search, and to a server only within a limit given for it.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs
from textual.app import ComposeResult
from textual.containers import Container
from textual.getters import query_one
from textual.reactive import reactive

from arc_tui.experiments import expectation
from arc_tui.experiments.runner import JobFinished
from arc_tui.experiments.screen import ExperimentScreen, model_key, run_key, stop_key
from arc_tui.features.bisect.plan import BisectRequest
from arc_tui.features.bisect.run import run_bisection
from arc_tui.features.bisect.state import (
    EMPTY,
    BisectCost,
    BisectOptions,
    BisectState,
    Way,
    build_cost,
    build_options,
    here,
    spanned,
)
from arc_tui.features.bisect.versions import merged
from arc_tui.features.bisect.view import bisect_markdown
from arc_tui.features.bisect.widgets import (
    BisectFoot,
    BisectHead,
    BisectList,
    ExpectationDialog,
    WayDialog,
    bisect_page,
)
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.dialogs import AskBox
from arc_tui.ui.keys import KeyBar, with_keys
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from replay.bisection.rounds import Settings
from replay.edit.changes import Edit
from replay.errors import ArcError, OfflineMiss
from replay.predicate import BadPredicate
from taxonomy.detectors import NothingExpected

MAX_SAMPLES = 200
"""Answers before a search of the screen gives up, until a person says otherwise."""

LIMIT_OF_SAMPLES = 10_000


class BisectScreen(ExperimentScreen[BisectState]):
    """One search over versions."""

    CSS_PATH = "screen.tcss"
    HELP = "bisect edit"
    AT_REST = frozenset(
        {"run", "choose", "model", "max_samples", "expect", "whole", "step", "from_here"}
    )
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (150, "-wide")]

    BINDINGS = [
        run_key("bisect", "Call the model, round by round, until the first bad version is known"),
        stop_key("bisect"),
        bind("o", "choose", id="bisect.choose", label="versions",
             tooltip="Choose what to bisect: versions, the changes of an edit, a range of git"),
        bind("w", "expect", id="bisect.expect",
             tooltip="Set what a good response does, instead of what a rule found"),
        bind("R", "from_here", id="bisect.from_here",
             tooltip="Leave out the versions before the one under the cursor"),
        bind("y", "copy", id="bisect.copy", tooltip="Copy the result as Markdown"),
        bind("M", "step", id="bisect.step", tooltip="Choose the step at which versions are tested"),
        bind("F", "whole", id="bisect.whole", label="free replays",
             tooltip="Judge whole free replays instead of one response, or one response again"),
        bind("s", "max_samples", id="bisect.max_samples", label="max samples",
             tooltip="Choose after how many samples to stop"),
        model_key("bisect"),
        *pane_keys("bisect", "Switch between the versions and what explains them", "turn"),
        bind("esc", "back", id="bisect.back", tooltip="Back to the versions, then to the run"),
    ]  # fmt: skip

    state: reactive[BisectState] = reactive(EMPTY, repaint=False)
    request: BisectRequest

    versions = query_one(BisectList)
    behind = query_one(Page)

    def __init__(self, path: Path, trace: str, step: int, edit: Edit | None = None) -> None:
        """An `edit` is what is searched, if it can be; else a person is asked."""
        super().__init__(
            path, BisectRequest(trace=trace, settings=Settings(max_samples=MAX_SAMPLES))
        )
        self._step = step
        self._edit = edit
        self._expectations = ExpectationDialog(self)
        self._ways = WayDialog(self)
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
        self._look(self._step)

    # --- what is searched

    def _look(self, at: int, *, exactly: bool = False) -> None:
        """Read what is known of the run at a step."""
        trace, edit = self.request.trace, self._edit
        self.read(
            lambda store: build_options(store, trace, at, edit, exactly=exactly),
            self._take_options,
            group="options",
        )

    def _take_options(self, options: BisectOptions) -> None:
        """At first what is searched is asked; later, the same is searched at another step."""
        first = self.state.options is None
        if not first and self.request.is_search:
            self._settle(self.state.way, self.request, options)
            return
        self.change(options=options)
        if not options.steps:
            self.show_error(ArcError("this run has no model call to replay"))
        elif first and self._edit is not None and options.ways:
            self._take_way(options.ways[0])
        elif first:
            self.change(phase="idle")
            self.action_choose()

    def action_choose(self) -> None:
        self._ways.ask(self.state.options, self._take_way)

    def _take_way(self, way: Way) -> None:
        """Search a way, after what is expected was asked where nothing tells."""
        if way.kept is not None:
            nothing = structs.replace(self.request, sources=(), old=None, new=None, fix=None)
            self.request = nothing
            self.state = BisectState(
                request=nothing, phase="done", options=self.state.options, view=way.kept
            )
            return
        request = structs.replace(
            self.request, sources=way.sources, old=way.old, new=way.new, fix=way.fix
        )
        self._settle(way.name, request)

    def action_from_here(self) -> None:
        """Leave out the versions before the one under the cursor."""
        later = self._later()
        if later is not None:
            self._settle(spanned(later.sources), later)

    def _later(self) -> BisectRequest | None:
        """The search from the version under the cursor on, None where that is none."""
        row, sources = self.versions.row, self.state.request.sources
        if row is None or len(sources) < 2:
            return None
        distinct = merged(sources).sources
        names = [each.name for each in distinct]
        at = names.index(row.name) if row.name in names else 0
        if not 0 < at < len(names) - 1:
            return None
        return structs.replace(self.request, sources=distinct[at:])

    # --- how it is asked

    def _settle(
        self, way: str, request: BisectRequest, options: BisectOptions | None = None
    ) -> None:
        """Ask it at the step of the options, or of whole runs; ask first what is expected, where
        that is open."""
        options = options or self.state.options
        assert options is not None
        request = structs.replace(request, at=None if request.is_whole else options.step)
        if _is_open(request, options):
            self._ask_expected(way, request, options)
        else:
            self._estimate(way, request, options)

    def _ask_expected(self, way: str, request: BisectRequest, options: BisectOptions) -> None:
        self._expectations.ask(
            options, request, lambda expected: self._settle(way, expected, options)
        )

    def _estimate(self, way: str, request: BisectRequest, options: BisectOptions) -> None:
        self.request, self._unsaid = request, False
        self.state = BisectState(request=request, way=way, options=options)
        self.read(lambda store: build_cost(store, request), self._show_estimate, group="estimate")

    def _show_estimate(self, cost: BisectCost) -> None:
        self.change(phase="idle", cost=cost, view=cost.view, trouble=None)

    def action_expect(self) -> None:
        if self.state.options is not None:
            self._ask_expected(self.state.way, self.request, self.state.options)

    def action_step(self) -> None:
        options = self.state.options
        assert options is not None
        words = f"now: {'none' if options.step is None else f'step {options.step}'}"
        box = AskBox("step", words, hint=f"a number from 0 to {options.steps - 1}")
        self.app.push_screen(box, lambda typed: self._take_step(typed, options.steps))

    def _take_step(self, typed: str | None, steps: int) -> None:
        if typed is None:
            return
        if typed.isdecimal() and int(typed) < steps:
            self._look(int(typed), exactly=True)
        else:
            self.say(f"'{typed}' is not a step of this run", severity="error")

    def action_whole(self) -> None:
        """Judge whole free runs, or one answer again."""
        request = structs.replace(self.request, free=not self.request.free)
        if request.free or request.expect not in (None, expectation.RULE):
            request = structs.replace(request, expect=None, judge=None)
        self._settle(self.state.way, request)

    def action_max_samples(self) -> None:
        words = f"now: {format.count(self.request.settings.max_samples, 'sample')}"
        box = AskBox("sample limit", words, hint="a number, such as 200")
        self.app.push_screen(box, self._take_most)

    def _take_most(self, typed: str | None) -> None:
        if typed is None:
            return
        if not typed.isdecimal() or not 2 <= int(typed) <= LIMIT_OF_SAMPLES:
            self.say(f"'{typed}' is not a number from 2 to {LIMIT_OF_SAMPLES}", severity="error")
            return
        self.change_request(settings=structs.replace(self.request.settings, max_samples=int(typed)))

    @property
    def recorded_model(self) -> str | None:
        return self.state.options.model if self.state.options is not None else None

    def request_changed(self) -> None:
        """The same search, asked another way; of none, what the next one is asked with."""
        if self.request.is_search:
            self._settle(self.state.way, self.request)

    def show_error(self, error: ArcError) -> None:
        """What goes wrong stands where the verdict would, with the key that helps."""
        self._missed = isinstance(error, OfflineMiss)
        self._unsaid = isinstance(error, (NothingExpected, BadPredicate))
        hint = here(error.hint)
        if self._missed:
            hint = "‹bisect.run› run, with a limit"
        elif self._unsaid:
            hint = "‹bisect.expect› set what a good answer does"
        self.change(phase="failed", trouble=ArcError(error.message, hint))

    # --- the run

    def action_run(self) -> None:
        """Ask, after what it may cost was asked of the person."""
        if self.state.running:
            return
        if self._unsaid:
            self.action_expect()
        elif self.state.cost is not None:
            self.submit(self._submit(self.state.cost))
        elif self.state.phase != "estimating":
            self.action_choose()

    async def _submit(self, cost: BisectCost) -> None:
        request = await self.ask_permission(self.request, cost)
        self.change(phase="running", request=request, trouble=None)
        self.start(run_bisection, request)

    def show_end(self, event: JobFinished) -> None:
        super().show_end(event)
        if self.state.phase == "stopped" and self.state.view.status != "going":
            self.change(phase="done")

    # --- what is shown

    def watch_state(self, before: BisectState, state: BisectState) -> None:
        if before.phase != state.phase or before.view is not state.view:
            self.refresh_bindings()

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.versions:
            page = bisect_page(self.state, self.versions.row)
            self.behind.document = with_keys(self, page)
            self.refresh_bindings()

    def on_bisect_list_chosen(self) -> None:
        self.behind.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        options = self.state.options
        match action:
            case "expect" | "whole" if not self.request.is_search:
                return False
            case "step" if options is None or not options.steps:
                return False
            case "from_here" if self._later() is None:
                return False
            case "copy":
                return bool(self.state.view.samples)
            case _:
                return super().check_action(action, parameters)

    def action_turn(self) -> None:
        (self.versions if self.focused is self.behind else self.behind).focus()

    def action_copy(self) -> None:
        text = bisect_markdown(self.state.view)
        self.app.copy_to_clipboard(text)
        self.say(f"result copied as Markdown: {format.count(len(text), 'character')}")

    def leave(self) -> None:
        if self.focused is self.behind:
            self.versions.focus()
        else:
            super().leave()


def _is_open(request: BisectRequest, options: BisectOptions) -> bool:
    """Must a person say first what is expected?"""
    if request.is_whole:
        return request.expect in (None, expectation.RULE, expectation.JUDGE)
    return request.expect in (None, expectation.RULE) and options.by is None
