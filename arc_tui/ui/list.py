"""A long list with a cursor, drawn a line at a time: only what is visible is ever made.

Subclasses say how many rows there are and draw one; moving, scrolling, clicking and repainting
are the same in every list of the app, and cost the same at ten rows and at a million.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Self

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from typing_extensions import override

from arc_tui.ui.bindings import bind
from arc_tui.ui.styles import StyledWidget

CONSOLE = Console(color_system="truecolor", force_terminal=True)
"""Only resolves styles; nothing is printed to it."""

DRAWN_ROWS = 512
"""A few pages."""

ROW = Binding.Group("row", compact=True)

QUIET = "$quiet"
CURSOR = "on $cursor | reverse"
CURSOR_DIM = "on $cursor-dim | bold underline"


class RowList(ScrollView, StyledWidget, can_focus=True, inherit_bindings=False):
    """Rows with a cursor. `HEAD` lines stay above the rows and are drawn by `draw_head`."""

    ALLOW_SELECT = False
    HELP = "a list"
    HEAD = 0

    BINDINGS = [
        bind("j", "move(1)", id="row.next", group=ROW, tooltip="Move the cursor one row down"),
        bind("k", "move(-1)", id="row.before", group=ROW, tooltip="Move the cursor one row up"),
        bind("^d", "page(1)", id="row.page_down", show=False,
             tooltip="Move the cursor one page down"),
        bind("^u", "page(-1)", id="row.page_up", show=False,
             tooltip="Move the cursor one page up"),
        bind("g", "first", id="row.first", show=False, tooltip="Move the cursor to the first row"),
        bind("G", "last", id="row.last", show=False, tooltip="Move the cursor to the last row"),
    ]  # fmt: skip

    cursor: reactive[int] = reactive(0, repaint=False)
    nothing: reactive[str] = reactive("")
    """What stands where the rows would, if there are none."""

    virtual_size: reactive[Size] = reactive(Size(0, 0), repaint=False)
    """In Textual another size lays out the whole screen; what a list takes of that is the same."""

    _paper = Style.null()
    """What all lines of one repaint are drawn on."""

    _strips: LRUCache[int, Strip]
    """Rows as they were last drawn, by their number: what is scrolled is mostly drawn already."""

    _strips_for: object = None
    """The width and the look that they were drawn for."""

    class Moved(Message):
        """The cursor stands on another row."""

        def __init__(self, rows: RowList) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> RowList:
            return self.rows

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, RowList.Moved) and message.rows is self.rows

    def __init__(self, *, id: str | None = None) -> None:
        self._strips = LRUCache(DRAWN_ROWS)
        self._on_screen: dict[int, Strip] = {}
        """What stands on the screen, by the line of the widget."""
        super().__init__(id=id)

    @property
    def row_count(self) -> int:
        raise NotImplementedError

    def draw(self, index: int, width: int) -> Text:
        """Row `index` as one line of at most `width` cells."""
        raise NotImplementedError

    def draw_head(self, line: int, width: int) -> Text:
        """Line `line` of what stays above the rows."""
        raise NotImplementedError

    @property
    def row_width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def page_rows(self) -> int:
        """How many rows are visible."""
        return max(self.scrollable_content_region.height - self.HEAD, 1)

    def rows_changed(self) -> None:
        """To be called when the rows are others: sizes, cursor and picture follow."""
        self.measure()
        self.cursor = self.validate_cursor(self.cursor)
        self._strips.clear()
        self._refresh_changed()

    def _refresh_changed(self) -> None:
        """Draw anew the lines that are others than on the screen."""
        width, height = self.scrollable_content_region.size
        if not self._on_screen:  # all of it is drawn once there is room for it
            self.refresh()
            return
        changed = [y for y in range(height) if self._draw_line(y) != self._on_screen.get(y)]
        for _, run in groupby(enumerate(changed), lambda place: place[1] - place[0]):
            lines = [y for _, y in run]
            self.refresh(Region(0, lines[0], width, len(lines)))

    def measure(self) -> None:
        """What the scroll bar shows follows the number of rows."""
        self.virtual_size = Size(self.row_width, self.row_count + self.HEAD)

    def watch_virtual_size(self, size: Size) -> None:
        """Lay out anew where a scroll bar comes or goes; else only that follows."""
        if (size.height > self.container_size.height) != self.show_vertical_scrollbar:
            self.refresh(layout=True)
        elif self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = size.height
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    @override
    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """A row of very many moves the scroll bar by less than can be drawn."""
        bar = self.vertical_scrollbar if self.show_vertical_scrollbar else None
        if bar is None or self._thumb(old_value) != self._thumb(new_value):
            super().watch_scroll_y(old_value, new_value)
            return
        bar.set_reactive(ScrollBar.position, new_value)
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)

    def _thumb(self, top: float) -> int:
        """Where the scroll bar's thumb begins, in the eighths of a cell that Textual draws."""
        height, rows = self.vertical_scrollbar.size.height, self.virtual_size.height
        shown = self.scrollable_content_region.height
        room = height - max(1.0, shown * height / max(rows, 1))
        return int(8 * room * top / max(rows - shown, 1))

    def validate_cursor(self, cursor: int) -> int:
        return max(0, min(cursor, self.row_count - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        self.refresh_row(old)
        self.refresh_row(new)
        self.show_cursor()
        self.post_message(self.Moved(self))

    def refresh_row(self, index: int) -> None:
        self._strips.discard(index)
        self.refresh_line(index + self.HEAD)

    @override
    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """Draw anew; a region alone is what was scrolled or a row that says so itself."""
        if not regions:
            self._strips.clear()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def show_cursor(self) -> None:
        """Scroll as little as it takes to have the cursor in sight."""
        top = self.scroll_offset.y
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= top + self.page_rows:
            self.scroll_to(y=self.cursor - self.page_rows + 1, animate=False)

    @override
    def render_lines(self, crop: Region) -> list[Strip]:
        self._paper = self.rich_style
        made_for = self.row_width, self._paper, self.app.theme, self.app.native_ansi_color
        if made_for != self._strips_for:
            self._strips.clear()
            self._strips_for = made_for
        return super().render_lines(crop)

    @override
    def render_line(self, y: int) -> Strip:
        self._on_screen[y] = line = self._draw_line(y)
        return line

    def _draw_line(self, y: int) -> Strip:
        width = self.row_width
        if y < self.HEAD:
            return self._strip(self.draw_head(y, width), width, self.theme_style(QUIET))
        index = self.scroll_offset.y + y - self.HEAD
        if index >= self.row_count:
            return self._below(index, width)
        if index == self.cursor and self.has_cursor:
            style = self.theme_style(CURSOR if self.has_focus else CURSOR_DIM)
            return self._strip(self.draw(index, width), width, style)
        if index not in self._strips:
            self._strips[index] = self._strip(self.draw(index, width), width, Style.null())
        return self._strips[index]

    def _below(self, line: int, width: int) -> Strip:
        """A line below the rows: blank, or what is said where there are none."""
        lines = self.nothing.split("\n") if self.nothing and self.row_count == 0 else []
        if 0 < line <= len(lines):
            return self._strip(Text(f"  {lines[line - 1]}"), width, self.theme_style(QUIET))
        return Strip.blank(width, self._paper)

    @property
    def has_cursor(self) -> bool:
        """Is the cursor worth showing now?"""
        return True

    def _strip(self, line: Text, width: int, style: Style) -> Strip:
        return strip(line, width, self._paper + style)

    def row_at(self, y: int) -> int | None:
        """The row at a line of the widget, None where there is none."""
        index = self.scroll_offset.y + y - self.HEAD
        return index if y >= self.HEAD and index < self.row_count else None

    def on_resize(self) -> None:
        self.rows_changed()
        self.show_cursor()

    def on_click(self, event: events.Click) -> None:
        index = self.row_at(event.y - self.gutter.top)
        if index is not None:
            self.cursor = index
            if event.chain == 2:
                self.action_open_row()

    def action_open_row(self) -> None:
        """What a double click does to the row under the cursor; nothing unless a list says."""

    def action_move(self, rows: int) -> None:
        self.cursor += rows

    def action_page(self, pages: int) -> None:
        self.cursor += pages * max(self.page_rows - 1, 1)

    def action_first(self) -> None:
        self.cursor = 0

    def action_last(self) -> None:
        self.cursor = self.row_count - 1


def strip(line: Text, width: int, style: Style) -> Strip:
    """A line of text as a strip of exactly `width` cells on a style."""
    if any(one.end > other.start for one, other in pairwise(line.spans)):
        segments = list(Segment.apply_style(line.render(CONSOLE, end=""), style))
    else:
        segments = list(_side_by_side(line, style))
    size = line.cell_len
    if size > width:
        return Strip(segments, size).adjust_cell_length(width)
    if size < width:
        segments.append(Segment(" " * (width - size), style))
    return Strip(segments, width)


def _side_by_side(line: Text, style: Style) -> Iterator[Segment]:
    """The segments of a line whose spans do not overlap: what Rich makes of it, sooner."""
    text, at = line.plain, 0
    style = style + _style(line.style)
    for start, end, own in line.spans:
        if start > at:
            yield Segment(text[at:start], style)
        if end > start:
            yield Segment(text[start:end], style + _style(own))
        at = max(end, at)
    if at < len(text):
        yield Segment(text[at:], style)


def _style(style: str | Style) -> Style:
    return style if isinstance(style, Style) else CONSOLE.get_style(style)


class TextRows(RowList):
    """Rows that are lines of text as they are."""

    lines: reactive[Sequence[Text]] = reactive((), repaint=False)

    @property
    def row_count(self) -> int:
        return len(self.lines)

    def watch_lines(self) -> None:
        self.rows_changed()

    def draw(self, index: int, width: int) -> Text:
        line = self.lines[index].copy()
        line.truncate(width, overflow="ellipsis")
        return line
