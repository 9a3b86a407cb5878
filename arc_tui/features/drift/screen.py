"""The drift screen: what differs between the environments of two groups of runs, and beside it how
often they passed and what cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text
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
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.comparison_screen import ComparisonHead, ComparisonScreen
from arc_tui.ui.document import Block, Document
from arc_tui.ui.format import fit
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import fold_sentence
from arc_tui.views.groups import group_queries
from replay.store.handle import Store

LEAST, MOST = 12, 40
"""Cells of what a difference is of; a longer name is cut with `…`."""


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


class DriftHead(ComparisonHead[DriftView]):
    """Which groups, and the verdict in bold."""

    STYLES = {"sentence": "bold", "quiet": "$quiet"}

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


class DriftScreen(ComparisonScreen[DriftView]):
    """The environments of two groups of runs."""

    CSS_PATH = "../../ui/comparison_screen.tcss"
    HELP = "environment drift"
    NAME = "drift"
    TITLES = ("A: the runs before, or of one kind", "B: the runs after, or of the other kind")

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

    def __init__(self, path: Path, first: str = "", second: str = "") -> None:
        """Without both queries a person is asked for them."""
        super().__init__(path, group_queries, (first, second))

    @override
    def head_and_list(self) -> tuple[DriftHead, DifferenceList]:
        head = DriftHead().data_bind(DriftScreen.view)
        return head, DifferenceList(id="rows").data_bind(DriftScreen.view)

    @override
    def build(self, store: Store, queries: tuple[str, str]) -> DriftView:
        return build_drift(store, DriftRequest(first=queries[0], second=queries[1]))

    @override
    def sides(self, queries: tuple[str, str]) -> str:
        return " against ".join(queries)

    @override
    def show_figures(self, view: DriftView) -> None:
        at = self.rows.cursor
        self.page.document = drift_page(view, view.rows[at] if at < len(view.rows) else None)

    @override
    def text(self, view: DriftView) -> tuple[str, str]:
        return plain_text(view), "the comparison copied"

    def on_row_list_moved(self) -> None:
        if self.view is not None:
            self.show_figures(self.view)

    def on_difference_list_chosen(self, event: DifferenceList.Chosen) -> None:
        row = event.row
        self.post_message(OpenRuns(f"{row.what}: {row.change}", row.traces))
