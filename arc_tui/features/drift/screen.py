"""The drift screen: what differs between the environments of two groups of runs, and beside it how
often they passed and what cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.features.drift.text import (
    HEAD,
    basis,
    cells,
    notes,
    plain_text,
    probe_lines,
    rates,
    sentence,
    sides,
    unseen_lines,
)
from arc_tui.features.drift.view import DriftRequest, DriftRow, DriftView, build_drift
from arc_tui.navigation import OpenRuns
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.document import Block, Document
from arc_tui.ui.format import fit
from arc_tui.ui.group_choice import GroupChoice, GroupsFound, Refused, refusal
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from arc_tui.ui.screen import ArcScreen
from arc_tui.ui.styles import SummaryLines, fold_sentence
from arc_tui.views.groups import group_queries
from replay.errors import ArcError
from replay.store.handle import Store

LEAST, MOST = 12, 40
"""Cells of what a difference is of; a longer name is cut with `…`."""

TITLES = ("A: the runs before, or of one kind", "B: the runs after, or of the other kind")


class DifferenceList(RowList):
    """A row a difference."""

    HELP = "the differences"
    HEAD = 1
    STYLES = {"held": "", "few": "$quiet"}

    BINDINGS = [
        bind("enter", "open_row", id="drift.open", label="its runs",
             tooltip="List the runs that show the difference under the cursor"),
    ]  # fmt: skip

    view: reactive[DriftView | None] = reactive(None, repaint=False)

    class Chosen(Message):
        """The runs of a difference are wanted."""

        def __init__(self, row: DriftRow) -> None:
            super().__init__()
            self.row = row

    @property
    def rows(self) -> tuple[DriftRow, ...]:
        return self.view.rows if self.view is not None else ()

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def watch_view(self) -> None:
        if self.view is not None:
            self.nothing = "No differences."
        self.rows_changed()

    def draw_head(self, line: int, width: int) -> Text:
        del line
        return Text(self._line(HEAD, width))

    @override
    def draw(self, index: int, width: int) -> Text:
        row = self.rows[index]
        return Text(self._line(cells(row), width), self.style_of("held" if row.held else "few"))

    def _line(self, words: tuple[str, ...], width: int) -> str:
        table = [HEAD, *map(cells, self.rows)]
        widths = [max(cell_len(row[at]) for row in table) for at in range(len(HEAD))]
        name = min(widths[0], MOST, max(width // 3, LEAST))
        middle = max(width - name - sum(widths[2:]) - 2 * len(HEAD), LEAST)
        return fit(
            "  ".join(map(fit, words, (name, middle, *widths[2:]))),
            width,
        )

    def action_open_row(self) -> None:
        if self.cursor < self.row_count:
            self.post_message(self.Chosen(self.rows[self.cursor]))


class DriftHead(SummaryLines):
    """Which groups, and the verdict in bold."""

    STYLES = {"sentence": "bold", "quiet": "$quiet"}

    view: reactive[DriftView | None] = reactive(None, layout=True)
    waiting: reactive[str] = reactive("", layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        if self.view is None:
            said = self.waiting.split("\n")
            return self.styled_lines(("quiet", fold_sentence(line, width)) for line in said)
        named = [("quiet", fold_sentence(line, width)) for line in sides(self.view)]
        return self.styled_lines([("sentence", fold_sentence(sentence(self.view), width)), *named])


def drift_page(view: DriftView, row: DriftRow | None = None) -> Document:
    """The change under the cursor in full, pass rates, the model, and what cannot be told."""
    return tuple(_blocks(view, row))


def _blocks(view: DriftView, row: DriftRow | None) -> Iterator[Block]:
    if row is not None:
        yield Block(text=row.what, style="head")
        yield Block(text=row.change)
    yield Block(text="pass rates", style="head")
    for name, first, second, change in rates(view):
        yield Block(text=name)
        yield Block(text=first, label="A", indent=2)
        yield Block(text=second, label="B", indent=2)
        yield Block(text=change, label="B − A", indent=2)
    for title, lines in (
        ("notes", notes(view)),
        ("the model", probe_lines(view)),
        ("what cannot be told", unseen_lines(view)),
        ("how it is decided", basis(view)),
    ):
        said = tuple(lines)
        if said:
            yield Block(text=title, style="head")
            yield from (Block(text=line) for line in said)


class DriftScreen(ArcScreen):
    """The environments of two groups of runs."""

    CSS_PATH = "screen.tcss"
    HELP = "environment drift"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        bind("o", "choose", id="drift.choose", label="other runs", only="o",
             tooltip="Choose two other groups of runs, by variant or by query"),
        *pane_keys("drift", "Switch between the differences and the figures"),
        bind("y", "copy", id="drift.copy", tooltip="Copy all that is said here"),
        bind("^r", "refresh", id="drift.refresh", show=False, tooltip="Read the database again"),
        bind("esc", "back", id="drift.back",
             tooltip="Back to the differences, then to where you came from"),
    ]  # fmt: skip

    view: reactive[DriftView | None] = reactive(None, repaint=False)

    head = query_one(DriftHead)
    differences = query_one(DifferenceList)
    page = query_one("#figures", Page)

    class Loaded(Message):
        """Both groups were read, or why they cannot be compared."""

        def __init__(self, found: DriftView | Refused) -> None:
            super().__init__()
            self.found = found

    def __init__(self, path: Path, first: str = "", second: str = "") -> None:
        """Without both queries a person is asked for them."""
        super().__init__(path)
        self._groups = GroupChoice(self, TITLES, group_queries, (first, second))

    def compose(self) -> ComposeResult:
        yield DriftHead().data_bind(DriftScreen.view)
        with Container(id="drift"):
            yield DifferenceList(id="differences").data_bind(DriftScreen.view)
            yield Page(id="figures")
        yield KeyBar()

    def on_mount(self) -> None:
        self.differences.focus()
        if self._groups.is_made:
            self._compare()
        else:
            self.action_choose()

    def action_choose(self) -> None:
        """Offer the groups there are, once they are known."""
        if self.view is None:
            self._wait("Finding groups of runs")
        self._groups.look()

    def on_groups_found(self, event: GroupsFound) -> None:
        if self.is_current:
            if self.view is None:
                self.head.waiting = "No runs chosen yet."
            self._groups.offer(event.groups, self._take_groups)

    def _take_groups(self, made: bool) -> None:
        if made:
            self._compare()
        elif not self._groups.is_made:
            self.dismiss()

    def _compare(self) -> None:
        self._wait("Comparing")
        first, second = self._groups.queries
        request = DriftRequest(first=first, second=second)

        def build(store: Store) -> DriftView | Refused:
            try:
                return build_drift(store, request)
            except ArcError as error:
                return refusal(error)

        self.ask(build, self.Loaded, group="drift")

    def on_drift_screen_loaded(self, event: Loaded) -> None:
        found = event.found
        self.view = None if isinstance(found, Refused) else found
        if isinstance(found, Refused):
            first, second = map(format.one_line, self._groups.queries)
            self.head.waiting = f"{first} against {second}\n{found.why}"
            self.differences.nothing = f"No answer.\n\n{self.key_of('drift.choose')}   other runs"
            self.differences.rows_changed()
        else:
            self._show_figures()
        self.set_class(isinstance(found, Refused), "-refused")
        self.refresh_bindings()

    def _wait(self, words: str) -> None:
        self.head.waiting = f"{words} · {self.key_of('drift.back')} cancel"

    def on_row_list_moved(self) -> None:
        self._show_figures()

    def _show_figures(self) -> None:
        if self.view is not None:
            at = self.differences.cursor
            row = self.view.rows[at] if at < len(self.view.rows) else None
            self.page.document = drift_page(self.view, row)

    def on_difference_list_chosen(self, event: DifferenceList.Chosen) -> None:
        row = event.row
        self.post_message(OpenRuns(f"{row.what}: {row.change}", row.traces))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return self.view is not None if action in {"copy", "pane"} else True

    def action_refresh(self) -> None:
        if self._groups.is_made:
            self._compare()

    def action_pane(self) -> None:
        (self.differences if self.focused is self.page else self.page).focus()

    def action_copy(self) -> None:
        assert self.view is not None
        text = plain_text(self.view)
        self.app.copy_to_clipboard(text)
        self.say(f"the comparison copied, {len(text)} characters")

    def action_back(self) -> None:
        if self.focused is self.page:
            self.differences.focus()
        else:
            self.dismiss()
