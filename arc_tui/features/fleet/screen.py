"""The screen of a trace store: its runs, as far as it tells them. One that is not here is pulled
when it is opened.

The store is asked when a query is complete, not while it is typed: every question costs it a scan.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from threading import Event

from msgspec import Struct, structs
from rich.text import Text
from textual.app import ComposeResult
from textual.getters import query_one
from textual.message import Message
from textual.worker import Worker, get_current_worker
from typing_extensions import override

from arc_tui.features.fleet.run import (
    FleetRequest,
    FleetView,
    Listed,
    check_query,
    find_local,
    list_older,
    list_open,
    open_fleet,
    pull_listed,
    read_window,
    window_of,
)
from arc_tui.features.fleet.text import (
    headline,
    nothing_found,
    pull_summary,
    refusal,
    time_named,
    title,
)
from arc_tui.features.fleet.widgets import FleetNotes, FleetTable, PullBar, ask_apart
from arc_tui.importing import ImportReport, Progress
from arc_tui.navigation import ChooseSource, OpenTrace
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.dialogs import AskBox, Option, PromptLine
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.screen import ArcScreen
from arc_tui.ui.styles import Headline
from replay.errors import ArcError, StoreUnusable
from replay.fleet.connection import Bounds
from replay.fleet.dialect import Dialect
from replay.store.handle import Store
from taxonomy.fleet.listing import FleetRun
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.language import BadQuery, Or, parse

PAGE = 100
"""Runs that are listed at first, and that come when older ones are asked for."""

SINCE = "7d"

WINDOWS = (
    Option("1h", "begun in the last hour"),
    Option("1d", "in the last day"),
    Option(SINCE, "in the last seven days"),
    Option("30d", "in the last thirty days"),
    Option("90d", "in the last ninety days"),
)


class Asked(Struct, frozen=True, kw_only=True):
    """What a person wants to see of a store: `words` are a query, `since` and `until` moments as
    they are written, "" is now."""

    words: str = ""
    failed_only: bool = False
    since: str = SINCE
    until: str = ""
    limit: int = PAGE

    @property
    def query(self) -> str:
        """The whole of it as one query. Raises BadQuery."""
        if not self.failed_only:
            return self.words
        words = f"({self.words})" if isinstance(parse(self.words), Or) else self.words
        return f"{words} outcome:failed".strip()


class Answer(Struct, frozen=True, kw_only=True):
    """The runs of a store, what it is, and how long it took; `older` than those that are listed."""

    view: FleetView
    older: bool
    dialect: Dialect
    seconds: float


class FleetScreen(ArcScreen):
    """The runs of one trace store, the newest first."""

    CSS_PATH = "screen.tcss"
    HELP = "runs of a trace store"

    BINDINGS = [
        bind("/", "filter", id="fleet.filter", label="filter",
             tooltip="List only the runs that match a query; enter asks the store"),
        bind("f", "failed", id="fleet.failed", label="failed only",
             tooltip="List failed runs only, or all again"),
        bind("v", "window", id="fleet.view", label="time",
             tooltip="Choose when the runs began that are listed"),
        bind("space", "mark", id="fleet.mark", label="select",
             tooltip="Select this run to be pulled with others, or no more"),
        bind("r", "pull", id="fleet.pull", label="pull", only="r",
             tooltip="Copy the selected runs into the database here, else the one at the cursor"),
        bind("x", "stop", id="fleet.stop", tooltip="Stop the pull; what was pulled stays"),
        bind("^f", "source", id="fleet.source",
             tooltip="List the runs of this database, or those of another trace store"),
        bind("^r", "refresh", id="fleet.refresh", show=False, tooltip="Ask the store again"),
        bind("esc", "back", id="fleet.back",
             tooltip="Stop what is under way, then clear the filter, then back to the runs here"),
    ]  # fmt: skip

    head = query_one(Headline)
    notes = query_one(FleetNotes)
    table = query_one(FleetTable)
    prompt = query_one(PromptLine)
    bar = query_one(PullBar)

    class Loaded(Message):
        """The store answered, or why it did not."""

        def __init__(self, found: Answer | ArcError) -> None:
            super().__init__()
            self.found = found

    class Located(Message):
        """What is here of the runs that are listed was looked up; that of `opens`, "" for none, is
        to be opened."""

        def __init__(self, runs: tuple[Listed, ...], opens: str) -> None:
            super().__init__()
            self.runs = runs
            self.opens = opens

    class Pulling(Message):
        """A pull stands somewhere else."""

        def __init__(self, progress: Progress) -> None:
            super().__init__()
            self.progress = progress

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, FleetScreen.Pulling)

    class Pulled(Message):
        """A pull is over: what came of it, why it failed, or None where it was stopped."""

        def __init__(self, found: ImportReport | ArcError | None) -> None:
            super().__init__()
            self.found = found

    def __init__(self, path: Path, fleet: str) -> None:
        super().__init__(path)
        self.fleet = fleet
        self.asked = Asked()
        self.view: FleetView | None = None
        self.bounds = Bounds()
        self._dialect: Dialect | None = None
        self._pull: Worker[None] | None = None
        self._opens = ""
        self._stop = Event()
        self._left = Event()

    def compose(self) -> ComposeResult:
        yield Headline(id="head")
        yield FleetNotes()
        yield FleetTable(id="runs")
        yield PullBar()
        yield PromptLine("filter ", 'outcome:failed tool:search errors>2 "said"')
        yield KeyBar()

    def on_mount(self) -> None:
        self.bar.display = False
        self.bar.fleet = self.fleet
        self.head.left = headline(self.fleet, None, 0)
        self.table.focus()
        self.load()

    def on_unmount(self) -> None:
        self._left.set()

    def on_screen_resume(self) -> None:
        """Runs may have been pulled, or deleted, meanwhile."""
        if self.view is not None:
            self._locate()

    # --- what is listed

    def load(self, *, older: bool = False) -> None:
        """Ask the store, or for what is older than the runs that are listed."""
        asked = self.asked
        given = read_window(asked.since, asked.until)
        window = window_of(asked.query, given)
        shown = self.table.runs if older else ()
        named = (
            time_named(asked.since, asked.until) if window == given else ""
        )  # else the query says it
        self.table.border_title = title(self.fleet, named, asked.query)
        self.head.right = Text("asking … ")
        if self.view is None:
            self.table.nothing = f"Asking {self.fleet}. {self.key_of('fleet.back')} cancel"
        fleet, path, bounds = self.fleet, self.path, self.bounds
        request = FleetRequest(
            fleet=fleet,
            query=asked.query,
            window=window if not older or self.view is None else self.view.window,
            bounds=bounds,
            limit=PAGE if older else asked.limit,
        )

        def ask_store() -> Answer:
            started = time.monotonic()
            with open_ledger(path) as store, open_fleet(fleet, bounds) as opened:
                if shown:
                    view = list_older(store, opened, request, shown)
                else:
                    view = list_open(store, opened, request)
            seconds = time.monotonic() - started
            return Answer(view=view, older=older, dialect=opened.dialect, seconds=seconds)

        def read(_: Store) -> Answer | ArcError:
            worker = get_current_worker()
            try:
                return ask_apart(ask_store, lambda: worker.is_cancelled)
            except StoreUnusable:  # of the database here: the base says so
                raise
            except ArcError as error:
                return error

        self.ask(read, self.Loaded, group="load")

    async def on_fleet_screen_loaded(self, event: Loaded) -> None:
        self.head.right = Text()
        match event.found:
            case Answer() as found:
                self._show(found)
            case BadQuery() as refused:
                await self._refuse(refused)
            case error:
                self._say_trouble(error)
        self.refresh_bindings()

    def _show(self, found: Answer) -> None:
        view = found.view
        if found.older:
            view = structs.replace(view, runs=(*self.table.runs, *view.runs))
            self.asked = structs.replace(self.asked, limit=len(view.runs))
        self.view = view
        self._dialect = found.dialect
        self.notes.trouble, self.notes.notes = "", view.notes
        self.prompt.refusal = ""
        self.head.left = headline(self.fleet, view, found.seconds)
        self.table.runs, self.table.older = view.runs, view.more
        self.table.marked &= {each.run.trace for each in view.runs}
        keys = f"{self.key_of('fleet.view')}   another time"
        if view.query:
            keys += f"\n{self.key_of('fleet.back')}   all runs of this time"
        self.table.nothing = f"{nothing_found(view)}\n\n{keys}"

    async def _refuse(self, refused: BadQuery) -> None:
        """The words stay to be mended, and so does what was listed."""
        if self.view is None:
            self.table.nothing = ""
        await self.prompt.open()
        self.prompt.refusal = refusal(refused)

    def _say_trouble(self, error: ArcError) -> None:
        """What was listed stays."""
        if self.view is not None:
            self.notes.trouble = refusal(error)
            return
        again, other = self.key_of("fleet.refresh"), self.key_of("fleet.source")
        said = "\n".join(format.plain(f"{error.message}\n{error.hint}").strip().split("\n"))
        self.table.nothing = f"{said}\n\n{again}   ask again\n{other}   list other runs"

    @override
    def after_stop(self) -> None:
        self.head.right = Text()
        if self.view is None:
            super().after_stop()
        else:
            self.notes.trouble = f"{self.fleet} was not asked to the end: this is the list before."

    def _change(self, asked: Asked) -> None:
        if asked != self.asked:
            self.asked = asked
            self.load()

    async def action_filter(self) -> None:
        await self.prompt.open()

    def on_prompt_line_changed(self, event: PromptLine.Changed) -> None:
        """Say where it cannot be read, or asked, while it is typed."""
        try:
            check_query(event.words, self._dialect, read_window(self.asked.since, self.asked.until))
        except BadQuery as refused:
            self.prompt.refusal = refusal(refused)
        else:
            self.prompt.refusal = ""

    def on_prompt_line_closed(self, event: PromptLine.Closed) -> None:
        self.table.focus()
        self._change(structs.replace(self.asked, words=event.words.strip(), limit=PAGE))

    def action_failed(self) -> None:
        failed_only = not self.asked.failed_only
        self._change(structs.replace(self.asked, failed_only=failed_only, limit=PAGE))

    def action_window(self) -> None:
        self._ask_window("")

    def _ask_window(self, why: str, typed: str = "") -> None:
        box = AskBox("runs that began", why, answer=typed, choices=WINDOWS,
                     hint="or since when, and until when: 12h, 2026-11-01 2026-11-08")  # fmt: skip
        self.app.push_screen(box, self._take_window)

    def _take_window(self, typed: str | None) -> None:
        if typed is None:
            return
        since, _, until = " ".join(typed.split()).partition(" ")
        try:
            read_window(since, until)
        except ArcError as error:
            self._ask_window(refusal(error), typed)
        else:
            self._change(structs.replace(self.asked, since=since, until=until, limit=PAGE))

    def action_refresh(self) -> None:
        self.load()

    # --- what is here

    def _locate(self, opens: str = "") -> None:
        runs = [each.run for each in self.table.runs]
        self.ask(
            lambda store: find_local(store, runs),
            lambda found: self.Located(found, opens),
            group="local",
        )

    def on_fleet_screen_located(self, event: Located) -> None:
        known = {each.run.trace: each for each in event.runs}
        self.table.runs = tuple(known.get(each.run.trace, each) for each in self.table.runs)
        opened = known.get(event.opens)
        if opened is None or not self.is_current:
            return
        if opened.local is None:
            nothing = f"{self.fleet} has nothing of this run that can be pulled."
            self.notes.trouble = self.notes.trouble or nothing
        else:
            self.post_message(OpenTrace(opened.local))

    def on_fleet_table_opened(self, event: FleetTable.Opened) -> None:
        each = event.run
        if each is None:
            self.load(older=True)
        elif each.local is not None and not each.missing_spans:
            self.post_message(OpenTrace(each.local))
        elif self._pull is None:
            self._start_pull([each.run], opens=each.run.trace)
        else:
            self.say("Runs are being pulled already.")

    # --- pulling

    def action_mark(self) -> None:
        self.table.toggle_mark()

    def action_pull(self) -> None:
        """Those that are selected, else the one under the cursor."""
        marked, at = self.table.marked, self.table.at
        chosen = [each for each in self.table.runs if each.run.trace in marked]
        chosen = chosen or ([at] if at is not None else [])
        lacking = [each.run for each in chosen if each.missing_spans]
        if lacking:
            self._start_pull(lacking)
        else:
            self.say(f"Here already. {self.key_of('fleet.open')} opens a run.")

    def _start_pull(self, runs: Sequence[FleetRun], opens: str = "") -> None:
        """Pull these runs, then open the one of `opens`."""
        self.notes.trouble, self._opens = "", opens
        bar = self.bar
        bar.done, bar.total, bar.diagnoses, bar.stopping = 0, len(runs), False, False
        bar.display = True
        self._stop = Event()
        self._pull = self.run_worker(
            lambda: self._pull_runs(runs), group="pull", thread=True, exit_on_error=False
        )
        self.refresh_bindings()

    def _pull_runs(self, runs: Sequence[FleetRun]) -> None:
        stop = self._stop

        def copy() -> ImportReport | None:
            with (
                open_ledger(self.path) as store,
                closing(pull_listed(store, self.fleet, self.bounds, runs)) as going,
            ):
                for event in going:
                    if isinstance(event, ImportReport):
                        return event
                    self.post_message(self.Pulling(event))
                    if stop.is_set():
                        break
            return None

        try:
            self.post_message(self.Pulled(ask_apart(copy, self._left.is_set)))
        except ArcError as error:
            self.post_message(self.Pulled(error))

    def on_fleet_screen_pulling(self, event: Pulling) -> None:
        now = event.progress
        self.bar.diagnoses = now.diagnoses
        self.bar.done, self.bar.total = now.traces, now.total

    def on_fleet_screen_pulled(self, event: Pulled) -> None:
        self._pull = None
        self.bar.display = False
        found, opens = event.found, ""
        if isinstance(found, ImportReport):
            opens = self._opens
            for error in found.errors[:1]:
                self.notes.trouble = format.one_line(error)
                self.say(error, severity="error")
            if not opens:
                self.table.marked = frozenset()
                self.say(pull_summary(found))
        else:
            stopped = "The pull was stopped. Runs that were pulled by then are here."
            self.notes.trouble = refusal(found) if isinstance(found, ArcError) else stopped
        self._locate(opens)
        self.refresh_bindings()

    @property
    @override
    def has_job(self) -> bool:
        return self._pull is not None

    def action_stop(self) -> None:
        self._stop.set()
        self.bar.stopping = True

    # --- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "stop":
            return self.has_job
        if action == "source":
            return not self.has_job
        if action in {"mark", "pull"}:
            return (self.table.at is not None and not self.has_job) or None
        return super().check_action(action, parameters)

    def on_row_list_moved(self) -> None:
        self.refresh_bindings()

    def action_source(self) -> None:
        self.post_message(ChooseSource())

    def action_back(self) -> None:
        if self.has_job:
            self.action_stop()
        elif self.view is not None and "load" in self._questions:
            self.stop_reading()
        elif self.asked.words or self.asked.failed_only:
            self.prompt.words = ""
            self._change(structs.replace(self.asked, words="", failed_only=False, limit=PAGE))
        else:
            self.dismiss()
