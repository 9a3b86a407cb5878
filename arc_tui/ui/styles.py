"""How text stands out: styles by name, each made of the roles of the theme; heads and feet of
screens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from typing_extensions import override

from arc_tui.ui import format
from arc_tui.ui.format import fit, spread, wrap

KEY_CAP = "bold $background on $primary | bold reverse"
FOUND = "$background on $warning | reverse"

_known: dict[tuple[str, bool, str], Style] = {}


class StyledWidget(Widget):
    """A widget that names its styles: each is written as Textual writes them, in the roles of the
    theme; after ` | ` as it is where the terminal's own colours are used."""

    STYLES: ClassVar[Mapping[str, str]] = {}

    def style_of(self, name: str) -> Style:
        """The style of that name; "" is the plain one."""
        return self.theme_style(self.STYLES[name]) if name else Style.null()

    def theme_style(self, written: str) -> Style:
        """A style under the theme of now."""
        app = self.app
        key = app.theme, app.native_ansi_color, written
        if key not in _known:
            coloured, _, plain = written.partition(" | ")
            chosen = plain if plain and app.native_ansi_color else coloured
            _known[key] = app.stylesheet.parse_style(chosen).rich_style
        return _known[key]


class Headline(Widget):
    """Two texts at the ends of a line; the right one gives way where there is no room. Where its
    height is `auto`, the left one goes on below."""

    ALLOW_SELECT = False
    left: reactive[Text] = reactive(Text(), layout=True)
    right: reactive[Text] = reactive(Text())

    @override
    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(self._folded(width))

    def render(self) -> Text:
        size = self.content_size
        if size.height > 1:
            return Text("\n").join(self._folded(size.width))
        return spread(self.left, self.right, size.width)

    def _folded(self, width: int) -> list[Text]:
        return list(self.left.wrap(self.app.console, max(width, 1)))


class TabLine(StyledWidget):
    """Pages by name on one line, the one in front marked. A subclass writes the names."""

    ALLOW_SELECT = False

    tab: reactive[int] = reactive(0)

    class Picked(Message):
        """A name was clicked."""

        def __init__(self, tab: int) -> None:
            super().__init__()
            self.tab = tab

    @property
    def lead(self) -> str:
        """What stands before the names."""
        return ""

    def names(self) -> Iterator[str]:
        """The names as they are written, in order."""
        raise NotImplementedError

    def render(self) -> Text:
        line = Text.assemble((self.lead, self.style_of("lead") if self.lead else ""))
        for index, name in enumerate(self.names()):
            line.append(name, self.style_of("front" if index == self.tab else "tab"))
        return line

    def on_click(self, event: Click) -> None:
        start = self.gutter.left + len(self.lead)
        for index, name in enumerate(self.names()):
            if start <= event.x < start + len(name):
                self.post_message(self.Picked(index))
            start += len(name)


MOST = 3
"""Lines that a sentence, or all notices together, may take."""

TALL = 30
"""Rows of a terminal from which on what a sentence rests on stands under it."""


class SummaryLines(StyledWidget):
    """As high as its lines, which a subclass makes."""

    ALLOW_SELECT = False

    @override
    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(self.lines(width))

    @override
    def render(self) -> Text:
        return Text("\n").join(self.lines(self.content_size.width))

    def lines(self, width: int) -> list[Text]:
        """What is shown in so many cells."""
        raise NotImplementedError

    def styled_lines(self, parts: Iterable[tuple[str, list[str]]]) -> list[Text]:
        """Lines by the name of their style."""
        return [Text(line, self.style_of(name)) for name, lines in parts for line in lines]


def fold_sentence(sentence: str, width: int) -> list[str]:
    """A sentence in at most MOST lines, `…` at the end of the last where it says more."""
    text = format.one_line(sentence)
    lines = [text[start:end] for start, end in wrap(text, width)]
    if len(lines) > MOST:
        lines[MOST - 1] = fit(" ".join(lines[MOST - 1 :]), width)
    return lines[:MOST]


def notice_lines(notices: Iterable[str], width: int) -> list[str]:
    """Notices, each marked, in at most MOST lines."""
    return [line for notice in notices for line in fold_sentence(f"! {notice}", width)][:MOST]


BAR = 20
"""Cells of a bar that says how far something is."""


def progress_bar(done: int, total: int, full: Style, left: Style, cells: int = BAR) -> Text:
    """How much of `total` is done, in so many cells; nothing where the total is not known."""
    reached = round(cells * done / total) if total else 0
    return Text.assemble(("━" * reached, full), ("─" * (cells - reached), left))
