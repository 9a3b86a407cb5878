"""The Pareto as a list: a bar a class, its count, its owner; the cursor chooses whose runs show."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui import format
from arc_tui.views.failures.view import BarRow
from arc_tui.views.failures.words import owner
from arc_tui.widgets.cells import fit
from arc_tui.widgets.rows import RowList

OWNER = 14
"""The widest owner; a longer one is cut with `…`."""
LEAST = 12
"""Cells that labels and bars keep in a narrow list."""


class FailureBars(RowList):
    """Full blocks are tagged by a person, hatched ones suggested, dotted ones nobody named."""

    HELP = "the classes of failure"
    INKS = {
        "tagged": "$primary",
        "suggested": "$primary",
        "apart": "$secondary",
        "quiet": "$quiet",
        "owner": "$secondary",
    }

    BINDINGS = [
        Binding("enter", "choose", "its runs", id="failures.choose",
                tooltip="Go to the runs behind the bar under the cursor"),
    ]  # fmt: skip

    bars: reactive[tuple[BarRow, ...]] = reactive((), repaint=False)

    class Chosen(Message):
        """The runs behind the bar under the cursor are wanted."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._label = self._owner = self._digits = 0
        self._most = 1

    @property
    def row_count(self) -> int:
        return len(self.bars)

    @property
    def bar(self) -> BarRow | None:
        """The bar under the cursor, None where there is none."""
        return self.bars[self.cursor] if self.cursor < len(self.bars) else None

    def watch_bars(self, old: tuple[BarRow, ...], new: tuple[BarRow, ...]) -> None:
        """Keep the cursor on its label where that is still there, else go to the top."""
        at = old[self.cursor].label if self.cursor < len(old) else ""
        self._label = max((cell_len(_label(row)) for row in new if row.count), default=0)
        self._owner = max((cell_len(_owner(row)) for row in new), default=0)
        self._most = max((row.count for row in new), default=1)
        self._digits = len(str(self._most))
        self.rows_changed()
        self.cursor = next((i for i, row in enumerate(new) if row.label == at), 0)
        self.post_message(self.Moved(self))

    @override
    def validate_cursor(self, cursor: int) -> int:
        """The heading of a part is no place to stand on: the cursor goes past it."""
        at = super().validate_cursor(cursor)
        if at < len(self.bars) and self.bars[at].of == "heading":
            at += -1 if 0 < at < self.cursor else 1
        return at

    @override
    def draw(self, index: int, width: int) -> Text:
        row = self.bars[index]
        if row.of == "heading":
            return Text(f" {row.label}", self.ink("quiet"))
        owners = min(self._owner, OWNER)
        left = width - self._digits - owners - (7 if owners else 5)
        label = min(self._label, max(left - LEAST, LEAST))
        room = max(left - label, 1)
        whole = len(format.bar(row.count / self._most, room))
        line = Text(f" {fit(_label(row), label)}  ")
        if row.of == "untagged":
            line.append("░" * whole, self.ink("quiet"))
        else:
            tagged = min(len(format.bar(row.tagged / self._most, room)), whole)
            strong = "apart" if row.of == "apart" else "tagged"
            line.append("█" * tagged, self.ink(strong))
            line.append("▒" * (whole - tagged), self.ink("suggested"))
        line.append(f"{' ' * (room - whole)} {row.count:>{self._digits}}")
        return line.append(f"  {fit(_owner(row), owners)}", self.ink("owner"))

    def action_choose(self) -> None:
        self.post_message(self.Chosen())


def _label(row: BarRow) -> str:
    return format.one_line(row.label)


def _owner(row: BarRow) -> str:
    return owner(row.bar) if row.bar is not None else ""
