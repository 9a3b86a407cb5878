"""The compare screen: two runs, or a run and a replay of one, beside each other by what each step
did.

The list owns the place: what is shown in full follows its cursor, read in a worker. Whoever
comes without another run is asked for one first: the other trials of the task, then the replays.
"""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive

from arc_tui.features.compare.pair import (
    EMPTY,
    PairView,
    build_pair,
    compare_markdown,
    known_pair,
    pair_markdown,
    prompts_pair,
)
from arc_tui.features.compare.run import NONE, Siblings, build_compare, build_siblings
from arc_tui.features.compare.view import CompareRow, CompareView
from arc_tui.features.compare.widgets import CompareHead, CompareList, pair_page
from arc_tui.navigation import OpenTrace
from arc_tui.ui.bindings import bind, choice, pane_keys
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from arc_tui.ui.screen import ArcScreen

STEP = Binding.Group("step", compact=True)

LOOKING = "Finding runs to compare with"
READING = "Comparing"
CHOOSE = "No second run chosen yet."


class CompareScreen(ArcScreen):
    """A at the left, B at the right."""

    CSS_PATH = "compare.tcss"
    HELP = "two runs compared"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        choice(1, "open('a')", "open A", id="compare.open_a", show=True,
               tooltip="Open this step of A in its run"),
        choice(2, "open('b')", "open B", id="compare.open_b", show=True,
               tooltip="Open this step of B in its run"),
        bind("J", "step(1)", id="compare.step_next", group=STEP, show=False,
             tooltip="Go to the next step of A or B, from the one in full too"),
        bind("K", "step(-1)", id="compare.step_before", group=STEP, show=False,
             tooltip="Go to the previous step of A or B, from the one in full too"),
        bind("f", "fold", id="compare.fold", label="fold same",
             tooltip="Fold the steps that are the same, or show them too"),
        bind("o", "other", id="compare.other", label="other run", only="o",
             tooltip="Compare with another trial of the task, a replay, or a run you name"),
        *pane_keys("compare", "Switch between the rows and the one in full, word by word",
                   label="in full"),
        bind("y", "copy", id="compare.copy",
             tooltip="Copy the comparison as Markdown, or the row where that is in front"),
        bind("esc", "back", id="compare.back",
             tooltip="Back to the rows, then to where you came from"),
    ]  # fmt: skip

    view: reactive[CompareView | None] = reactive(None, repaint=False)
    pair: reactive[PairView] = reactive(EMPTY, repaint=False)
    every: reactive[bool] = reactive(False, repaint=False)

    head = query_one(CompareHead)
    rows = query_one(CompareList)
    page = query_one("#pair", Page)

    class Loaded(Message):
        """Both were read."""

        def __init__(self, view: CompareView) -> None:
            super().__init__()
            self.view = view

    class PairRead(Message):
        """A row was read in full."""

        def __init__(self, pair: PairView) -> None:
            super().__init__()
            self.pair = pair

    class SiblingsFound(Message):
        """What the run can be compared with was looked for."""

        def __init__(self, siblings: Siblings) -> None:
            super().__init__()
            self.siblings = siblings

    def __init__(self, path: Path, a: str, b: str | None = None) -> None:
        """`b` None asks a person for it."""
        super().__init__(path)
        self.a = a
        self.b = b

    def compose(self) -> ComposeResult:
        yield CompareHead().data_bind(CompareScreen.view)
        with Vertical(id="compared"):
            yield CompareList(id="rows").data_bind(CompareScreen.view, CompareScreen.every)
            yield Page(id="pair")
        yield KeyBar()

    def on_mount(self) -> None:
        self.rows.focus()
        if self.b is None:
            self.action_other()
        else:
            self._compare(self.b)

    def _compare(self, b: str) -> None:
        self.b = b
        self._wait(READING)
        a = self.a
        self.ask(lambda store: build_compare(store, a, b), self.Loaded, group="compare")

    def on_compare_screen_loaded(self, event: Loaded) -> None:
        self.view = event.view
        self.refresh_bindings()

    def _wait(self, words: str) -> None:
        self.head.waiting = f"{words} · {self.key_of('compare.back')} cancel"

    # --- with whom

    def action_other(self) -> None:
        """Offer what it can be compared with, once that is known."""
        if self.view is None:
            self._wait(LOOKING)
        looking = self.ask(
            lambda store: build_siblings(store, self.a), self.SiblingsFound, group="siblings"
        )
        self.hold_keys(looking)

    def on_compare_screen_siblings_found(self, event: SiblingsFound) -> None:
        if not self.is_current:
            return
        found = event.siblings
        if self.view is None:
            self.head.waiting = CHOOSE
        box = AskBox(
            f"compare {found.called} with",
            "" if found.choices else NONE.format(mark=self.key_of("runs.mark", "space")),
            hint="or a run id, a task/trial, or the digest of a replay",
            choices=[Option(each.name, each.about, each.called) for each in found.choices],
        )
        self.app.push_screen(box, self._named)

    def _named(self, name: str | None) -> None:
        if name is not None:
            self._compare(name)
        elif self.view is None:
            self.dismiss()

    # --- a row in full

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        view, line = self.view, self.rows.line
        if event.rows is not self.rows or view is None or line is None:
            return
        if line.kind == "known":
            self.pair = known_pair(view)
        elif line.kind == "prompts":
            self.pair = prompts_pair(view.prompts)
        elif line.kind == "row":
            row = view.rows[line.first]
            if row is not self.pair.row:
                self.ask(lambda store: build_pair(store, view, row), self.PairRead, group="pair")

    def on_compare_screen_pair_read(self, event: PairRead) -> None:
        if event.pair.row is self.rows.row:
            self.pair = event.pair

    def watch_pair(self, pair: PairView) -> None:
        if pair is not EMPTY:
            self.page.border_title = Text(pair.title)
            self.page.document = pair_page(pair)

    # --- what can be done

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        if action in {"open", "fold", "copy", "pane", "step"}:
            return self.view is not None or None
        return True

    def on_compare_list_chosen(self, event: CompareList.Chosen) -> None:
        row = event.row
        if row is None:
            self.page.focus()
        elif row.a is None or row.b is None:
            self.action_open("a" if row.b is None else "b")
        elif self.rows.side != "both":
            self.action_open(self.rows.side)
        else:
            choices = [Option("a", row.action_a, f"A step {row.a}"),
                       Option("b", row.action_b, f"B step {row.b}")]  # fmt: skip
            self.app.push_screen(AskBox("Open which run?", choices=choices), self._opened)

    def _opened(self, side: str | None) -> None:
        if side is not None:
            self.action_open(side)

    def action_open(self, side: str) -> None:
        view, row = self.view, self.rows.row
        if view is None or row is None:
            self.say("No step in this row.")
            return
        who, step = (view.a, row.a) if side == "a" else (view.b, row.b)
        if step is None:
            self.say(f"{side.upper()} has no step in this row.")
        elif not self._recorded(row, side):
            self.say("This step exists only in the free replay. No run to open.")
        else:
            self.post_message(OpenTrace(who.trace, step))

    def _recorded(self, row: CompareRow, side: str) -> bool:
        """Is the step one of a recorded run?"""
        assert self.view is not None
        who, step = (self.view.a, row.a) if side == "a" else (self.view.b, row.b)
        return who.kind != "free" or (step is not None and step < who.start)

    def action_step(self, direction: int) -> None:
        self.rows.next_step(direction)

    def action_fold(self) -> None:
        self.every = not self.every

    def action_pane(self) -> None:
        (self.rows if self.focused is self.page else self.page).focus()

    def action_copy(self) -> None:
        if self.view is None:
            return
        full = self.focused is self.page
        text = pair_markdown(self.pair) if full else compare_markdown(self.view)
        self.app.copy_to_clipboard(text)
        what = "the row" if full else "the comparison"
        self.say(f"{what} copied as Markdown, {len(text)} characters")

    def action_back(self) -> None:
        if self.focused is self.page:
            self.rows.focus()
        else:
            self.dismiss()
