"""A page of figures: lines made for the size there is, scrolled without a cursor."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.widgets.calibration.ink import Line, text
from arc_tui.widgets.rows import RowList

Drawing = Callable[[int, int], list[Line]]
"""The lines of a page for a width and a height in cells."""


class CalibrationPage(RowList):
    """Draws what it is given, anew for every size."""

    HELP = "a page of figures"
    INKS = {
        "title": "bold $primary",
        "quiet": "$quiet",
        "faint": "$faint",
        "strong": "bold",
        "good": "$good",
        "warn": "$warning",
        "bad": "bold $bad",
    }

    drawing: reactive[Drawing | None] = reactive(None, repaint=False, always_update=True)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Line] = []

    @property
    def row_count(self) -> int:
        return len(self._lines)

    @property
    def has_cursor(self) -> bool:
        return False

    @property
    def text(self) -> str:
        """All of it as plain text."""
        return "\n".join(map(text, self._lines))

    def watch_drawing(self) -> None:
        self.rows_changed()
        self.scroll_to(y=0, animate=False)

    def rows_changed(self) -> None:
        drawing, width = self.drawing, self.row_width
        self._lines = drawing(width, self.page_rows) if drawing is not None and width > 0 else []
        super().rows_changed()

    @override
    def draw(self, index: int, width: int) -> Text:
        line = Text()
        for words, ink in self._lines[index]:
            line.append(words, self.ink(ink) if ink else None)
        line.truncate(width, overflow="ellipsis")
        return line

    def show_cursor(self) -> None:
        """There is none."""

    def action_move(self, rows: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False)

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(self.page_rows - 1, 1))

    def action_first(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_last(self) -> None:
        self.scroll_to(y=self.row_count, animate=False)
