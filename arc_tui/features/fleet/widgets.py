"""The parts of the screen of a store: its runs, the progress of a pull, the choice of a source."""

from __future__ import annotations

from asyncio import CancelledError, to_thread
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from threading import Event, Thread
from typing import TypeVar

from rich.text import Text
from textual.app import App
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.features.fleet.run import Listed, open_fleet, stores_file
from arc_tui.features.fleet.text import (
    GAP,
    LOOKING,
    NO_FLEET,
    RUNS_HERE,
    Column,
    fit_columns,
    refusal,
)
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.format import spread
from arc_tui.ui.keys import key_of, stops
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import StyledWidget, SummaryLines, fold_sentence, progress_bar
from replay.errors import ArcError, Stopped
from replay.fleet.connection import Bounds
from replay.fleet.stores import FleetStore, read_stores

T = TypeVar("T")

LOOK_S = 0.05


def ask_apart(work: Callable[[], T], is_over: Callable[[], bool]) -> T:
    """What `work` returns or raises, in a thread that no end of the app waits for: a store that
    does not answer cannot be told to. Raises Stopped once nobody waits for it."""
    found: Future[T] = Future()

    def whole() -> None:
        try:
            found.set_result(work())
        except BaseException as error:
            found.set_exception(error)

    Thread(target=whole, name="arc-fleet", daemon=True).start()
    while not wait([found], LOOK_S).done:
        if is_over():
            raise Stopped("stopped")
    return found.result()


MARK = 4
MARKED = "»"


class FleetTable(RowList):
    """Runs of a store, one a line; below them, where older ones match too, a line that asks for
    these."""

    HELP = "the runs of a store"
    HEAD = 1
    STYLES = {
        "passed": "$good",
        "failed": "$bad",
        "unknown": "$quiet",
        "quiet": "$quiet",
        "marked": "bold $primary",
    }

    BINDINGS = [
        bind("enter", "open_row", id="fleet.open",
             tooltip="Open the run under the cursor; one that is not here is pulled first"),
    ]  # fmt: skip

    runs: reactive[tuple[Listed, ...]] = reactive((), repaint=False)
    older: reactive[bool] = reactive(False, repaint=False)
    marked: reactive[frozenset[str]] = reactive(frozenset())
    """The ids, in the store, of the runs that are to be pulled together."""

    class Opened(Message):
        """A run is to be opened; None: older runs are to be listed."""

        def __init__(self, run: Listed | None) -> None:
            super().__init__()
            self.run = run

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._columns: list[tuple[Column, int]] = []

    @property
    def row_count(self) -> int:
        return len(self.runs) + self.older

    @property
    def at(self) -> Listed | None:
        """The run under the cursor."""
        return self.runs[self.cursor] if self.cursor < len(self.runs) else None

    def watch_runs(self, old: tuple[Listed, ...], new: tuple[Listed, ...]) -> None:
        """Keep the cursor on its run where that is still there."""
        at = old[self.cursor].run.trace if self.cursor < len(old) else ""
        self.rows_changed()
        self.cursor = next(
            (place for place, each in enumerate(new) if each.run.trace == at), self.cursor
        )

    def watch_older(self) -> None:
        self.rows_changed()

    @override
    def rows_changed(self) -> None:
        self._columns = fit_columns(self.runs, self.row_width - MARK)
        super().rows_changed()

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line, width
        text = Text(" " * MARK)
        for column, cells in self._columns:
            text.append(column.cell(None, cells)).append(" " * GAP)
        return text

    def draw(self, index: int, width: int) -> Text:
        del width  # known by the columns
        if index == len(self.runs):
            return Text(f"{' ' * MARK}older runs match too · {key_of(self.screen, 'fleet.open')}"
                        " list more of them", self.style_of("quiet"))  # fmt: skip
        row = self.runs[index]
        outcome = row.run.outcome
        text = Text.assemble(
            (MARKED if row.run.trace in self.marked else " ", self.style_of("marked")),
            (f"{format.outcome_mark(outcome).plain:<{MARK - 1}}", self.style_of(outcome)),
        )
        for column, cells in self._columns:
            text.append(column.cell(row, cells)).append(" " * GAP)
        if row.local is None:
            text.stylize(self.style_of("quiet"), MARK)
        return text

    def action_open_row(self) -> None:
        if self.row_count:
            self.post_message(self.Opened(self.at))

    def toggle_mark(self) -> None:
        """Select the run under the cursor too, or no more."""
        if self.at is not None:
            self.marked = self.marked ^ {self.at.run.trace}


class FleetNotes(SummaryLines):
    """What the answer is not, and what went wrong since."""

    STYLES = {"trouble": "$warning", "quiet": "$quiet"}

    notes: reactive[tuple[str, ...]] = reactive((), layout=True)
    trouble: reactive[str] = reactive("", layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        said = [("trouble", fold_sentence(f"! {self.trouble}", width))] if self.trouble else []
        notes = [("quiet", fold_sentence(f"note: {note}", width)) for note in self.notes]
        return self.styled_lines([*said, *notes])


class PullBar(StyledWidget):
    """One line at the foot of the list, there only while runs are pulled."""

    ALLOW_SELECT = False
    STYLES = {"done": "$primary", "left": "$faint"}

    done: reactive[int] = reactive(0)
    total: reactive[int] = reactive(0)
    fleet: reactive[str] = reactive("")
    diagnoses: reactive[bool] = reactive(False)
    stopping: reactive[bool] = reactive(False)

    def render(self) -> Text:
        styles = self.style_of("done"), self.style_of("left")
        at = f"run {min(self.done + 1, self.total)} of {self.total}"
        what = f"  Analysing {at}" if self.diagnoses else f"  Pulling {at} · "
        line = progress_bar(self.done, self.total, *styles).append(what)
        ends = stops(self.screen, "fleet.stop", stopping=self.stopping)
        if not self.diagnoses:
            line.append(format.cut(self.fleet, self.size.width - line.cell_len - len(ends) - 2))
        return spread(line, Text(ends), self.size.width)


BRIEF = Bounds(seconds=5)
"""What it may take to find out what a store is."""


class SourceChoice:
    """Asks whose runs are to be listed. What each store is, or why nobody knows, is found out
    meanwhile."""

    def __init__(self) -> None:
        self._stores: dict[str, FleetStore] = {}
        self._over = Event()
        words = ""
        try:
            self._stores = read_stores(stores_file())
            words = "" if self._stores else NO_FLEET
        except ArcError as error:
            words = refusal(error)
        self._told = dict.fromkeys(sorted(self._stores), LOOKING)
        self._box = AskBox("list the runs of", words, choices=self._options())

    def ask(self, app: App[None], take: Callable[[str | None], Awaitable[None]]) -> None:
        """`take` gets "" for the runs here, the name of a store, or None where it is left."""

        def finish(name: str | None) -> Awaitable[None]:
            self._over.set()
            return take(name)

        app.push_screen(self._box, finish)
        for name in self._stores:
            app.run_worker(self._look(name), group=f"source {name}")

    def _options(self) -> list[Option]:
        wide = max(map(len, (RUNS_HERE, *self._told)))
        rows = [
            Option(name, f"{told} · {format.one_line(self._stores[name].url)}", f"{name:<{wide}}")
            for name, told in self._told.items()
        ]
        return [Option("", "those of this database", f"{RUNS_HERE:<{wide}}"), *rows]

    async def _look(self, name: str) -> None:
        try:
            self._told[name] = await to_thread(
                ask_apart, lambda: describe_store(name), self._over.is_set
            )
        except Stopped:  # the choice was made
            return
        except CancelledError:
            self._over.set()
            raise
        if not self._over.is_set():
            self._box.revise(self._options())


def describe_store(name: str) -> str:
    """The tables of a store, or why nobody knows them."""
    try:
        with open_fleet(name, BRIEF) as fleet:
            return fleet.dialect.title
    except ArcError as error:
        where, is_of_store, why = error.message.partition("): ")
        return format.one_line(why if is_of_store else where)
