"""One page of a step's detail: a document drawn a line at a time, folds opened by enter."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.widgets import document
from arc_tui.widgets.cells import fit
from arc_tui.widgets.document import EMPTY, LABEL, Block, Document, Fold, Row
from arc_tui.widgets.rows import RowList
from arc_tui.widgets.trace.json_ink import tokens
from replay.trace import Json


class Page(RowList):
    """A document with a cursor. What was opened stays open from step to step."""

    HELP = "the detail of a step"
    COMPONENT_CLASSES = {
        "page--head", "page--quiet", "page--role", "page--error", "page--new", "page--candidate",
        "page--good", "page--key", "page--string", "page--number", "page--word", "page--fold",
    }  # fmt: skip

    BINDINGS = [
        Binding("enter,space", "unfold", "unfold", id="page.unfold", show=False,
                tooltip="Show all of a long value, or fold it again"),
    ]  # fmt: skip

    document: reactive[Document] = reactive(EMPTY, repaint=False)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: list[Row] = []
        self._opened: set[str] = set()
        self._width = 0

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def has_cursor(self) -> bool:
        return self.has_focus

    @property
    def value(self) -> Json | None:
        """The JSON scalar on the line of the cursor."""
        return document.value_at(self._rows[self.cursor]) if self._rows else None

    def watch_document(self) -> None:
        self._lay_out()
        self.cursor = 0
        self.scroll_to(y=0, animate=False)

    def rows_changed(self) -> None:
        if self.row_width != self._width:
            self._lay_out()
        else:
            super().rows_changed()

    def _lay_out(self) -> None:
        self._width = self.row_width
        self._rows = document.lay_out(self.document, self._width, self._opened)
        super().rows_changed()

    def on_focus(self) -> None:
        self.refresh_row(self.cursor)

    def on_blur(self) -> None:
        self.refresh_row(self.cursor)

    @override
    def draw(self, index: int, width: int) -> Text:
        row = self._rows[index]
        match row.item:
            case Fold(key=key, line=line, style=style):
                arrow = "▾ " if key in self._opened else "▸ "
                return Text.assemble((arrow, self.ink("page--fold")), (line, self._style(style)))
            case Block() as block:
                return self._draw_block(block, row)

    def _draw_block(self, block: Block, row: Row) -> Text:
        line = Text.assemble((block.mark, self.ink("page--new")), " " * block.indent)
        if row.rest:
            return line.append(document.rest_line(row), self.ink("page--fold"))
        if block.label:
            label = block.label if row.first else ""
            line.append(fit(label, LABEL - 2) + "  ", self.ink("page--quiet"))
        text = Text(document.row_text(row), self._style(block.style))
        if block.json:
            for start, end, kind in tokens(block.text, row.start, row.end):
                text.stylize(self.ink(f"page--{kind}"), start - row.start, end - row.start)
        if row.end > len(block.text):
            quiet = self.ink("page--quiet") + Style(bold=False)
            text.stylize(quiet, max(len(block.text) - row.start, 0))
        return line.append_text(text)

    def _style(self, name: str) -> Style:
        return self.ink(f"page--{name}") if name else Style.null()

    def action_unfold(self) -> None:
        """Open or close the fold on the cursor's row."""
        key = self._rows[self.cursor].key if self._rows else ""
        if key:
            self._opened ^= {key}
            self._lay_out()
            self.cursor = next(
                (i for i, row in enumerate(self._rows) if row.key == key and i >= self.cursor),
                self.cursor,
            )

    def on_click(self, event: events.Click) -> None:
        index = self.row_at(event.y - self.gutter.top)
        if index is not None and (
            self._rows[index].rest or isinstance(self._rows[index].item, Fold)
        ):
            self.cursor = index
            self.action_unfold()
