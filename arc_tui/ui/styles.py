"""How words stand out: styles by name, each a look in the roles of the theme; heads and feet of
screens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget
from typing_extensions import override

from arc_tui.ui import format
from arc_tui.ui.format import fit, spread, wrap

KEY_CAP = "bold $background on $primary | bold reverse"
FOUND = "$background on $warning | reverse"

_known: dict[tuple[str, bool, str], Style] = {}


class Inked(Widget):
    """A widget with inks."""

    INKS: ClassVar[Mapping[str, str]] = {}

    def ink(self, name: str) -> Style:
        """The ink of that name; "" is the plain one."""
        return self.look(self.INKS[name]) if name else Style.null()

    def look(self, look: str) -> Style:
        """A look under the theme of now."""
        app = self.app
        key = app.theme, app.native_ansi_color, look
        if key not in _known:
            coloured, _, plain = look.partition(" | ")
            words = plain if plain and app.native_ansi_color else coloured
            _known[key] = app.stylesheet.parse_style(words).rich_style
        return _known[key]


class Headline(Widget):
    """Two texts at the ends of a line; the right one gives way where there is no room."""

    ALLOW_SELECT = False
    left: reactive[Text] = reactive(Text())
    right: reactive[Text] = reactive(Text())

    def render(self) -> Text:
        return spread(self.left, self.right, self.content_size.width)


MOST = 3
"""Lines that a sentence, or all notices together, may take."""

TALL = 30
"""Rows of a terminal from which on what a sentence rests on stands under it."""


class FewLines(Inked):
    """As high as its lines. A subclass says them."""

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

    def inked(self, said: Iterable[tuple[str, list[str]]]) -> list[Text]:
        """Lines by the name of their ink."""
        return [Text(line, self.ink(name)) for name, lines in said for line in lines]


def folded(said: str, width: int) -> list[str]:
    """A sentence in at most MOST lines, `…` at the end of the last where it says more."""
    text = format.one_line(said)
    lines = [text[start:end] for start, end in wrap(text, width)]
    if len(lines) > MOST:
        lines[MOST - 1] = fit(" ".join(lines[MOST - 1 :]), width)
    return lines[:MOST]


def noticed(notices: Iterable[str], width: int) -> list[str]:
    """Notices, each marked, in at most MOST lines."""
    return [line for said in notices for line in folded(f"! {said}", width)][:MOST]


BAR = 20
"""Cells of a bar that says how far something is."""


def progress_bar(done: int, total: int, full: Style, left: Style, cells: int = BAR) -> Text:
    """How much of `total` is done, in so many cells; nothing where the total is not known."""
    reached = round(cells * done / total) if total else 0
    return Text.assemble(("━" * reached, full), ("─" * (cells - reached), left))
