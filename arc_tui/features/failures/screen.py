"""The failures screen: a bar a class with its owner, and the runs behind the bar under the cursor;
or, in their place, the layers of the eval pyramid of two groups of runs.

The bars own the place: what a class is and its runs follow their cursor. Counting is done in a
worker, again whenever the screen comes back into view, because tags may have been given
meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import structs
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.config import find_playbook, read_owners
from arc_tui.features.failures.widgets import FailureBars, FailureCard, FailureRuns, layers_page
from arc_tui.navigation import OpenClassify, OpenEditTest, OpenRuns, OpenSuggestions
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.document import Block
from arc_tui.ui.group_choice import GroupChoice, GroupsFound
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from arc_tui.ui.screen import ArcScreen, ViewSwitch
from arc_tui.ui.styles import Headline
from arc_tui.views.failures import (
    EMPTY,
    NOT_HERE,
    BarRow,
    BehindBar,
    FailuresRequest,
    FailuresView,
    agreement,
    build_behind,
    build_failures,
    can_be_paged,
    card,
    chosen_bar,
    is_here,
    pull_hint,
    sentence,
    source_line,
)
from arc_tui.views.groups import group_queries
from arc_tui.views.layers import LayersRequest, LayersView, build_layers
from arc_tui.views.runs import held_out_text
from replay.errors import ArcError
from replay.store.handle import Store
from taxonomy.failures import BYS, By, RunBehind
from taxonomy.owners import NOBODY, Owners
from taxonomy.playbook import NO_PLAYBOOK, BadPlaybook, Playbook
from taxonomy.query.listing import PAGE

NO_FAILURES = "no failed runs here"

WHAT_NOW = """a run counts as failed where its source or its grader says so

{back:<15}   goes back; {queue} there reviews ✓! runs
arc import PATH   imports more runs; a result.json or a
                  reward.txt beside one gives its outcome"""

MARKS = "failed runs: █ tagged ▒ suggested ░ not named"

OfBar: TypeAlias = OpenRuns | OpenEditTest | OpenSuggestions | OpenClassify
"""Opens a screen on the runs behind a bar."""

READING = "Reading the runs of both groups"
GROUPS = ("before: the runs to compare with", "after: the runs that are compared")

_OF_BARS = {"classify", "list", "suggest", "try"}
"""Actions on the bar under the cursor."""

SPLITS: tuple[By | None, ...] = (None, *BYS)


class FailuresScreen(ArcScreen):
    """Why the runs of a database fail."""

    CSS_PATH = "failures.tcss"
    HELP = "failures"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]

    BINDINGS = [
        bind("v", "view_menu", id="failures.view",
             tooltip="Change the view: split, source, every class, agreement, layers, held-out"),
        bind("L", "list", id="failures.list",
             tooltip="Show only the runs of this bar in the list of runs"),
        bind("e", "try", id="failures.try", label="test an edit",
             tooltip="Test an edit on every run of this bar, and on healthy steps"),
        bind("^e", "suggest", id="failures.suggest", show=False,
             tooltip="Suggest edits for the runs of this bar, and test them"),
        bind("U", "classify", id="failures.classify", show=False,
             tooltip="Let a judge suggest a class for every run of this bar"),
        *pane_keys("failures", "Switch between the bars and the runs of one"),
        bind("^r", "refresh", id="failures.refresh",
             tooltip="Read the database and the owners again"),
        bind("esc", "back", id="failures.back",
             tooltip="Back to the bars, then to where you came from"),
    ]  # fmt: skip

    view: reactive[FailuresView] = reactive(EMPTY, repaint=False)
    shows_layers: reactive[bool] = reactive(False, repaint=False)

    bars = query_one(FailureBars)
    runs = query_one(FailureRuns)
    pyramid = query_one("#pyramid", Page)

    class Loaded(Message):
        """The failures were counted by these owners and this playbook, without one where `problem`
        is in its way."""

        def __init__(
            self, view: FailuresView, owners: Owners, playbook: Playbook,
            problem: BadPlaybook | None,
        ) -> None:  # fmt: skip
            super().__init__()
            self.view = view
            self.owners = owners
            self.playbook = playbook
            self.problem = problem

    class RunsRead(Message):
        """The runs behind a bar were read, or the first of them."""

        def __init__(self, behind: BehindBar, *, is_whole: bool = True) -> None:
            super().__init__()
            self.behind = behind
            self.is_whole = is_whole

    class LayersLoaded(Message):
        """The layers of two groups, or why there are none."""

        def __init__(self, found: LayersView | ArcError) -> None:
            super().__init__()
            self.found = found

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._request = FailuresRequest()
        self._owners, self._playbook = NOBODY, NO_PLAYBOOK
        self._reading = False
        """Are the runs behind the bar being read?"""
        self._to_open: type[OfBar] | None = None
        """The screen that is wanted on the runs behind the bar, once they were read."""
        self._groups = GroupChoice(self, GROUPS, group_queries)

    def compose(self) -> ComposeResult:
        yield Headline(id="head")
        with Container(id="failures"):
            with Vertical(id="classes"):
                yield FailureBars(id="bars")
                yield FailureCard(id="agreement")
            with Vertical(id="behind"):
                yield FailureCard(id="card")
                yield FailureRuns(id="runs")
        yield Page(id="pyramid")
        yield KeyBar()

    def on_mount(self) -> None:
        self.bars.border_title = MARKS
        self.query_one("#agreement").border_title = "agreement"
        self.pyramid.border_title = "layers of the eval pyramid"
        self.add_class("-no-bar")
        self.bars.focus()
        self.load()

    def on_screen_resume(self) -> None:
        if self.view is not EMPTY:
            self.load()

    def load(self) -> None:
        """Count as it is asked now."""
        if self.shows_layers:
            self._load_layers()
        request = self._request

        def count(store: Store) -> tuple[FailuresView, Owners, Playbook, BadPlaybook | None]:
            playbook, problem = NO_PLAYBOOK, None
            try:
                playbook = find_playbook()
            except BadPlaybook as error:
                problem = error
            owners = read_owners(playbook=playbook)
            view = build_failures(store, request, owners, playbook, with_runs=False)
            return view, owners, playbook, problem

        self.ask(count, lambda found: self.Loaded(*found), group="load")

    def on_failures_screen_loaded(self, event: Loaded) -> None:
        self._owners, self._playbook = event.owners, event.playbook
        self.view = event.view
        if event.problem is not None:
            self.show_error(event.problem)

    def watch_view(self, view: FailuresView) -> None:
        if not self.is_mounted:
            return
        head = self.query_one("#head", Headline)
        shows = self.key_of("failures.view")
        held = f"{held_out_text(view.held_out)} ({shows})" if view.held_out.runs else ""
        source = source_line(view.scan) if view.scan is not None else ""
        how = ", ".join(filter(None, [source, chosen_bar(view), held]))
        head.left = Text.assemble((f"failures {how}", "bold"), f"  {sentence(view)}")
        head.right = Text(format.one_line(view.database) if view.scan is None else "")
        self.query_one("#agreement", FailureCard).labelled = agreement(view.agreement)
        back, queue = self.key_of("failures.back"), self.key_of("runs.queue", "T")
        self.bars.nothing = "" if view is EMPTY else NO_FAILURES
        self.runs.nothing = (
            "" if view is EMPTY or view.rows else WHAT_NOW.format(back=back, queue=queue)
        )
        self.bars.bars = view.rows
        self.refresh_bindings()

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.bars:
            self._show(self.bars.bar)

    def _show(self, bar: BarRow | None) -> None:
        """The bar under the cursor, and the runs behind it, which are read now."""
        self._to_open = None
        self.runs.bar = bar
        self._reading = bar is not None
        if bar is not None:
            request, owners, playbook = self.view.request, self._owners, self._playbook
            page_first = (
                self.runs.behind.label != bar.label
                and bar.count > PAGE
                and can_be_paged(request, bar)
            )

            def read(store: Store) -> BehindBar:
                if page_first:
                    page = build_behind(store, request, bar, owners, playbook, limit=PAGE)
                    self.post_message(self.RunsRead(page, is_whole=False))
                return build_behind(store, request, bar, owners, playbook)

            self.ask(read, self.RunsRead, group="behind")
        self.set_class(bar is None, "-no-bar")
        label = format.one_line(bar.label) if bar is not None else ""
        self.query_one("#card").border_title = Text(label)
        self.query_one("#card", FailureCard).labelled = (
            card(self.view, bar) if bar is not None else ()
        )
        count = format.count(bar.count, "run") if bar is not None else ""
        away = f" · {NOT_HERE} not here" if self.view.scan is not None else ""
        self.runs.border_title = f"{count} behind it{away}" if bar is not None else ""

    def on_failures_screen_runs_read(self, event: RunsRead) -> None:
        self._reading = self._reading and not event.is_whole
        self.runs.behind = event.behind
        self._open_wanted()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        if action == "held_out":
            return bool(self.view.held_out.runs)
        if action == "source":
            return bool(self.view.fleets) and not self.shows_layers
        if action == "layers" and self.view.scan is not None:
            return False
        if action == "groups":
            return self.shows_layers
        if self.shows_layers and action in {*_OF_BARS, "pane", "agreement", "every", "split"}:
            return False
        return bool(self.view.rows) if action in {*_OF_BARS, "pane"} else True

    @override
    def view_switches(self) -> Sequence[ViewSwitch]:
        return (
            ViewSwitch("split(1)", "split", "by tool, model, variant, task, week, owner, or none"),
            ViewSwitch("split(-1)", "previous split", "split the bars as before"),
            ViewSwitch("every", "every class", "every class of a run, or the first class only"),
            ViewSwitch("agreement", "agreement", "where person, judge and rule agree"),
            ViewSwitch("held_out", "held-out", "count the runs of held-out tasks, or not"),
            ViewSwitch("layers", "layers", "layers of the eval pyramid, or the bars"),
            ViewSwitch("groups", "other groups", "two other groups of runs to compare"),
            ViewSwitch("source", "source", "the runs here, or those a scan of a trace store found"),
        )

    def action_split(self, by: int) -> None:
        at = SPLITS.index(self._request.by)
        self._count(structs.replace(self._request, by=SPLITS[(at + by) % len(SPLITS)]))

    def action_every(self) -> None:
        self._count(structs.replace(self._request, every=not self._request.every))

    def action_held_out(self) -> None:
        shown = not self._request.with_held_out
        self._count(structs.replace(self._request, with_held_out=shown))

    def action_source(self) -> None:
        """The runs here, then those of each trace store that was scanned."""
        sources = (None, *self.view.fleets)
        at = sources.index(self._request.fleet) if self._request.fleet in sources else 0
        self._count(structs.replace(self._request, fleet=sources[(at + 1) % len(sources)]))

    def _count(self, request: FailuresRequest) -> None:
        self._request = request
        self.load()

    def action_refresh(self) -> None:
        self.load()

    def action_agreement(self) -> None:
        """It hides in a narrow terminal until it is asked for, else the other way."""
        self.toggle_class("-toggled")

    # --- the layers

    def action_layers(self) -> None:
        """Put the layers in place of the bars, or the bars back."""
        self.shows_layers = not self.shows_layers

    def watch_shows_layers(self, shown: bool) -> None:
        if not self.is_mounted:
            return
        self.set_class(shown, "-layers")
        (self.pyramid if shown else self.bars).focus()
        if shown:
            self._load_layers()
        self.refresh_bindings()

    def _load_layers(self) -> None:
        if not self.pyramid.document:
            self.pyramid.document = (Block(text=READING, style="quiet"),)
        before, after = (query or None for query in self._groups.queries)
        request = LayersRequest(
            before=before, after=after, with_held_out=self._request.with_held_out
        )

        def build(store: Store) -> LayersView | ArcError:
            try:
                return build_layers(store, request)
            except ArcError as error:
                return error

        self.ask(build, self.LayersLoaded, group="layers")

    def on_failures_screen_layers_loaded(self, event: LayersLoaded) -> None:
        found = event.found
        if isinstance(found, ArcError):
            said = filter(None, (found.message, found.hint))
            self.pyramid.document = tuple(Block(text=format.plain(each)) for each in said)
        else:
            self.pyramid.document = layers_page(found)

    def action_groups(self) -> None:
        self._groups.look()

    def on_groups_found(self, event: GroupsFound) -> None:
        if self.is_current:
            self._groups.offer(event.groups, lambda made: self._load_layers() if made else None)

    def action_list(self) -> None:
        self._open_runs_of_bar(OpenRuns)

    def action_try(self) -> None:
        self._open_runs_of_bar(OpenEditTest)

    def action_suggest(self) -> None:
        self._open_runs_of_bar(OpenSuggestions)

    def action_classify(self) -> None:
        self._open_runs_of_bar(OpenClassify)

    def _open_runs_of_bar(self, request: type[OfBar]) -> None:
        """Open a screen on the runs behind the bar."""
        self._to_open = request
        self._open_wanted()

    def _open_wanted(self) -> None:
        bar = self.bars.bar
        if self._to_open is None or bar is None or self._reading:
            return
        request, self._to_open = self._to_open, None
        runs = self.runs.behind.runs
        traces = tuple(dict.fromkeys(run.preferred for run in runs if is_here(run)))
        if runs and not traces:
            self._tell_to_pull(runs[0], "none of these runs is here")
        else:
            self.post_message(request(bar.label, traces))

    def on_failure_runs_not_here(self, event: FailureRuns.NotHere) -> None:
        self._tell_to_pull(event.run, "this run is not here")

    def _tell_to_pull(self, run: RunBehind, what: str) -> None:
        self.say(f"{what}: it is in the trace store\n{pull_hint(run)}")

    def on_failure_bars_chosen(self) -> None:
        self.runs.focus()

    def action_pane(self) -> None:
        (self.bars if self.focused is self.runs else self.runs).focus()

    def action_back(self) -> None:
        if self.shows_layers:
            self.shows_layers = False
        elif self.focused is self.runs:
            self.bars.focus()
        else:
            self.dismiss()
