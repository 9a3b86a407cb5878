"""A page of text: a document drawn a line at a time, folds opened by enter.

Lines of a page may be from a step that enter goes to. JSON is coloured a line at a time.
"""

from __future__ import annotations

import re
from asyncio import sleep
from bisect import bisect_right
from collections.abc import Iterator

from rich.style import Style
from rich.text import Text
from textual import events, work
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.ui import document
from arc_tui.ui.bindings import bind
from arc_tui.ui.document import (
    EMPTY,
    LABEL,
    Block,
    Document,
    Fold,
    LazyRows,
    Row,
    StepLink,
    hidden_beyond,
    hiding,
)
from arc_tui.ui.format import fit
from arc_tui.ui.keys import key_of
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import FOUND
from replay.trace import Json

ABOUT = 400
"""Characters beside a line in which what stands on it may begin or end."""


class Page(RowList):
    """A document with a cursor. What was opened stays open from step to step."""

    HELP = "the detail of a step"
    STYLES = {
        "head": "bold",
        "quiet": "$quiet",
        "role": "bold $primary",
        "error": "$bad",
        "new": "$good",
        "candidate": "bold $warning",
        "good": "$good",
        "key": "$primary",
        "string": "$foreground",
        "number": "$warning",
        "word": "$secondary",
        "fold": "$secondary",
        "strong": "bold underline",
        "found": FOUND,
    }

    BINDINGS = [
        bind("enter", "unfold", id="page.open", show=False,
             tooltip="Show all of a long value, fold a level of JSON, or the other way"),
        bind("h", "fold_here", id="page.fold", show=False,
             tooltip="Fold the value or the level of JSON under the cursor"),
        bind("l", "unfold_here", id="page.unfold", show=False,
             tooltip="Show all of the value or the level of JSON under the cursor"),
    ]  # fmt: skip

    document: reactive[Document] = reactive(EMPTY, repaint=False)
    search: reactive[re.Pattern[str] | None] = reactive(None)
    """What is looked for: marked wherever it stands."""

    class Opened(Message):
        """A fold was opened whose content may still have to be read."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows = LazyRows()
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

    @property
    def block(self) -> Block | None:
        """The text that the cursor stands in."""
        item = self._rows[self.cursor].item if self._rows else None
        return item if isinstance(item, Block) else None

    def shows(self, key: str) -> bool:
        """Does a fold of that key stand open on the page?"""
        return key in self._opened and any(item.key == key for item in self.document)

    def watch_document(self) -> None:
        self.cursor = 0
        self.scroll_to(y=0, animate=False)
        self._lay_out()

    def rows_changed(self) -> None:
        if self.row_width != self._width:
            self._lay_out()
        else:
            super().rows_changed()

    def _lay_out(self) -> None:
        """What is seen at once; the rest between keys."""
        self._width = self.row_width
        rows = document.lay_out(self.document, self._width, frozenset(self._opened))
        self._rows = LazyRows(rows)
        self._rows.reach(max(self.cursor, self.scroll_offset.y) + self.page_rows)
        super().rows_changed()
        if not self._rows.complete:
            self._lay_out_rest()

    @work(group="rows", exclusive=True)
    async def _lay_out_rest(self) -> None:
        while self._rows.more():
            await sleep(0)
        self.measure()

    @override
    def validate_cursor(self, cursor: int) -> int:
        """A row may be gone to before it is laid out."""
        self._rows.reach(cursor + 1)
        self.measure()
        return super().validate_cursor(cursor)

    @override
    def action_last(self) -> None:
        self._rows.all()
        super().action_last()

    def on_focus(self) -> None:
        self.refresh_row(self.cursor)

    def on_blur(self) -> None:
        self.refresh_row(self.cursor)

    @override
    def draw(self, index: int, width: int) -> Text:
        row = self._rows[index]
        match row.item:
            case Fold() as fold:
                return self._draw_fold(fold)
            case Block() as block:
                return self._draw_block(block, row)

    def reveal(self, *, folds: bool = False) -> bool:
        """Open what hides what is wanted, in `folds` too where nothing else says it; to the first
        line that says it. False where the page says it nowhere."""
        if self.search is None:
            return False
        hidden = hiding(self.document, self.search, self._opened, folds=folds)
        if hidden is None:
            return False
        if hidden:
            self._opened |= hidden
            self._lay_out()
            self.post_message(self.Opened())
        first = next(iter(self._saying()), None)
        if first is not None:
            self.cursor = first
        return first is not None

    def go_to_found(self, direction: int) -> bool:
        """To the next line that says what is wanted, or the one before; False where none does."""
        row = self._found_after() if direction > 0 else self._found_before()
        if row is None:
            return False
        self.cursor = row
        return True

    def _found_after(self) -> int | None:
        """The next row that says it; a long value below that hides one is opened for it."""
        here = self.cursor
        row = next((row for row in self._saying() if row > here), None)
        if row is not None or self.search is None:
            return row
        below = {id(each.item): each.item for each in self._rows.all()[here:]}.values()
        for item in below:
            if isinstance(item, Block) and hidden_beyond(item, self.search, self._opened):
                self._opened.add(item.key)
                self._lay_out()
                return next((row for row in self._saying() if row > here), None)
        return None

    def _found_before(self) -> int | None:
        before = None
        for row in self._saying():
            if row >= self.cursor:
                break
            before = row
        return before

    def _saying(self) -> Iterator[int]:
        """The rows on which something that is wanted begins."""
        if self.search is None:
            return
        rows = self._rows.all()
        at = 0
        while at < len(rows):
            item, first = rows[at].item, at
            while at < len(rows) and rows[at].item is item:
                at += 1
            if isinstance(item, Fold):
                continue
            own = [row.start for row in rows[first:at] if not row.rest]
            shown = rows[first + len(own) - 1].end
            last = -1
            for found in self.search.finditer(item.text, 0, shown):
                place = bisect_right(own, found.start()) - 1
                if place != last:
                    yield first + place
                last = place

    def _draw_fold(self, fold: Fold) -> Text:
        opened = fold.key in self._opened
        says = f" ({self._unfolds} unfolds)" if fold.says_key and not opened else ""
        arrow = "▾ " if opened else "▸ "
        return Text.assemble(
            (arrow, self.style_of("fold")), (fold.line + says, self._style(fold.style))
        )

    @property
    def _unfolds(self) -> str:
        """The key that does, as it is written."""
        return key_of(self.screen, "page.unfold", "l")

    def _draw_block(self, block: Block, row: Row) -> Text:
        line = Text.assemble((block.mark, self.style_of("new")), " " * block.indent)
        if row.rest:
            return line.append(document.rest_line(row, self._unfolds), self.style_of("fold"))
        if block.label:
            label = block.label if row.first else ""
            line.append(fit(label, LABEL - 2) + "  ", self.style_of("quiet"))
        text = Text(document.row_text(row), self._style(block.style))
        if block.json:
            for start, end, kind in tokens(block.text, row.start, row.end):
                text.stylize(self.style_of(kind), start - row.start, end - row.start)
        for start, end in block.strong:
            if start < row.end and end > row.start:
                strong = self.style_of("strong")
                text.stylize(strong, max(start - row.start, 0), end - row.start)
        if row.end > len(block.text):
            quiet = self.style_of("quiet") + Style(bold=False)
            text.stylize(quiet, max(len(block.text) - row.start, 0))
        for start, end in self._found_on(block, row):
            text.stylize(self.style_of("found"), max(start - row.start, 0), end - row.start)
        line.append_text(text)
        if row.level is not None:
            line.append(document.level_line(row.level), self.style_of("fold"))
        return line

    def _found_on(self, block: Block, row: Row) -> Iterator[tuple[int, int]]:
        """Where what is wanted stands on a row, what begins before it included."""
        if self.search is None:
            return
        for found in self.search.finditer(block.text, max(row.start - ABOUT, 0), row.end + ABOUT):
            if found.start() < row.end and found.end() > row.start:
                yield found.span()

    def _style(self, name: str) -> Style:
        return self.style_of(name) if name else Style.null()

    def action_fold_here(self) -> None:
        """Close the fold on the cursor's row, or the level of JSON around it."""
        if self._is_open_here:
            self.action_unfold()

    def action_unfold_here(self) -> None:
        """Open the fold on the cursor's row."""
        if self._is_open_here is False:
            self.action_unfold()

    @property
    def _is_open_here(self) -> bool | None:
        """Is what the cursor's row can fold open? None where it folds nothing."""
        if not self._rows:
            return None
        key, _ = document.fold_at(self._rows[self.cursor])
        if not key:
            return None
        return (key in self._opened) is not document.is_level(key)

    def action_unfold(self) -> None:
        """Open or close the fold on the cursor's row, or the level of JSON around it."""
        if not self._rows:
            return
        here = self._rows[self.cursor]
        key, start = document.fold_at(here)
        if not key:
            return
        self._opened ^= {key}
        self._lay_out()
        self.post_message(self.Opened())
        if key != here.key and start <= here.start:  # a level, which its first line stands for
            self.cursor = next(
                (at for at, row in enumerate(self._rows)
                 if row.item is here.item and row.start == start and not row.rest), self.cursor,
            )  # fmt: skip
            return
        self.cursor = next(
            (i for i, row in enumerate(self._rows) if row.key == key and i >= self.cursor),
            self.cursor,
        )

    def on_click(self, event: events.Click) -> None:
        index = self.row_at(event.y - self.gutter.top)
        if index is not None and (
            self._rows[index].rest
            or self._rows[index].level
            or isinstance(self._rows[index].item, Fold)
        ):
            self.cursor = index
            self.action_unfold()


class LinkedPage(Page):
    """A page whose lines lead to the steps they are from."""

    BINDINGS = [
        bind("enter", "follow", id="page.follow",
             tooltip="Go to the step that the line is from, or unfold a long value"),
    ]  # fmt: skip

    _offered = False

    class Followed(Message):
        """The step that a line is from is to be shown."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    @property
    def leads_to(self) -> int | None:
        """The other step that the cursor's row is from."""
        row = self._rows[self.cursor] if self._rows else None
        if row is None or row.rest or not isinstance(row.item, StepLink):
            return None
        return row.item.step

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offered where there is somewhere to go; enter unfolds all the same."""
        del parameters
        return None if action == "follow" and not self._leads else True

    @property
    def _leads(self) -> bool:
        return self.leads_to is not None or bool(self._rows and self._rows[self.cursor].key)

    def on_row_list_moved(self, _: RowList.Moved) -> None:
        self._offer()

    @override
    def _lay_out(self) -> None:
        super()._lay_out()
        self._offer()

    def _offer(self) -> None:
        """The key bar is drawn again only where what it offers is another thing."""
        if self._leads != self._offered:
            self._offered = self._leads
            self.refresh_bindings()

    def action_follow(self) -> None:
        step = self.leads_to
        if step is None:
            self.action_unfold()
        else:
            self.post_message(self.Followed(step))

    def show(self, document: Document, *, again: bool) -> None:
        """Show a document; `again`: of the same step, so that the place in it is kept."""
        cursor, top = self.cursor, self.scroll_offset.y
        self.document = document
        if again:
            self.cursor = cursor
            self.scroll_to(y=top, animate=False)


_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))'
    r'|(?P<string>"(?:[^"\\]|\\.)*"?)'
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"|(?P<word>true|false|null)"
)
_REST_OF_STRING = re.compile(r'(?:[^"\\]|\\.)*"?')
_OVER = re.compile(r",?(?:\n|\Z)")

FAR = 4000
"""Characters of a line that only a string has: with a member a line, nothing else is so long."""


def tokens(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """(start, end, kind) of what is worth a colour between two places of a JSON text.

    A line that begins inside a string that was wrapped goes on as a string.
    """
    at = start
    if inside_string(text, start):
        rest = _REST_OF_STRING.match(text, start, end)
        at = rest.end() if rest else start
        yield start, at, "string"
    for found in _TOKEN.finditer(text, at, end):
        yield found.start(), found.end(), found.lastgroup or ""


def inside_string(text: str, place: int) -> bool:
    """Does a place stand inside a string? Counts the quotes since the line began, where it has
    not begun too far from there."""
    near = max(place - FAR, 0)
    line = text.rfind("\n", near, place) + 1
    if near and not line:
        return _OVER.match(text, place) is None
    quotes = text.count('"', line, place) - text.count('\\"', line, place)
    return quotes % 2 == 1
