"""Settings and keys, a line each, and the themes to choose from."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from arc_tui import format
from arc_tui.widgets.cells import fit
from arc_tui.widgets.rows import RowList

GAP = 2

LEAST = 20
"""Cells that a column needs to be of use."""


class SettingList(RowList):
    """Rows of cells under a head: as wide as they need, the last one what is left. It is left out
    where that is too little to be read."""

    HELP = "the settings"
    HEAD = 1

    INKS = {"name": "$foreground", "set": "bold $primary", "quiet": "$quiet"}

    head: reactive[Sequence[str]] = reactive((), repaint=False)
    table: reactive[Sequence[Sequence[str]]] = reactive((), repaint=False)
    marked: reactive[frozenset[int]] = reactive(frozenset())
    """Rows that are not as they are by default."""

    @property
    def row_count(self) -> int:
        return len(self.table)

    @property
    def row(self) -> Sequence[str]:
        """The cells under the cursor, whole."""
        return self.table[self.cursor] if self.table else ()

    def watch_table(self) -> None:
        self.rows_changed()

    def draw(self, index: int, width: int) -> Text:
        first, *rest = self._cells(self.table[index], width)
        mark = "● " if index in self.marked else "  "
        style = "set" if index in self.marked else "name"
        line = Text.assemble(mark, (first, self.ink(style)))
        for cell in rest:
            line.append(" " * GAP + cell)
        return line

    def draw_head(self, line: int, width: int) -> Text:
        del line
        return Text("  " + (" " * GAP).join(self._cells(self.head, width)))

    def _cells(self, row: Sequence[str], width: int) -> list[str]:
        wide = self._widths(width - GAP)
        return [fit(format.one_line(text), cells) for text, cells in zip(row, wide, strict=False)]

    def _widths(self, width: int) -> list[int]:
        """Of the columns, as far as there is room: the widest but the last gives way."""
        columns = zip(self.head, *self.table, strict=True)
        needed = [max(map(len, column)) for column in columns]
        while len(needed) > 2 and _left(needed, width, give_way=True) < min(needed[-1], LEAST):
            needed.pop()
        fixed = needed[:-1]
        short = min(needed[-1], LEAST) - _left(needed, width)
        if short > 0:
            fixed[fixed.index(max(fixed))] = max(max(fixed) - short, LEAST)
        return [*fixed, max(_left([*fixed, 0], width), 0)]


def _left(needed: Sequence[int], width: int, *, give_way: bool = False) -> int:
    """Cells for the last column beside the others, of which the widest may `give_way`."""
    fixed = needed[:-1]
    spare = max(max(fixed) - LEAST, 0) if give_way else 0
    return width - sum(fixed) - GAP * len(fixed) + spare


class ThemeList(RowList):
    """Names of themes, the one that is in use marked."""

    HELP = "the themes"

    INKS = {"used": "bold $primary"}

    BINDINGS = [
        Binding("enter", "use", "use it", id="settings.theme",
                tooltip="Use the theme under the cursor until you leave arc"),
    ]  # fmt: skip

    names: reactive[Sequence[str]] = reactive((), repaint=False)
    used: reactive[str] = reactive("")

    class Chosen(Message):
        """A theme is to be used."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    @property
    def row_count(self) -> int:
        return len(self.names)

    @property
    def name_here(self) -> str:
        """The theme under the cursor."""
        return self.names[self.cursor]

    def watch_names(self) -> None:
        self.rows_changed()

    def draw(self, index: int, width: int) -> Text:
        name = self.names[index]
        if name == self.used:
            return Text(fit(f"● {name}", width), self.ink("used"))
        return Text(fit(f"  {name}", width))

    def action_use(self) -> None:
        self.post_message(self.Chosen(self.name_here))

    def on_click(self, event: events.Click) -> None:
        if self.row_at(event.y - self.gutter.top) is not None:
            self.action_use()
