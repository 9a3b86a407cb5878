"""How words stand out: inks by name, each a look in the roles of the theme.

Textual's own way, a component class for a look, styles a node for each look of each widget whenever
the widget is styled, drawn or not: most of what opening a screen cost. Here a look is resolved when
it is first drawn under a theme.

A look is written as "bold $good" or "$foreground on $cursor"; what stands after a bar is its look
where the colours are the terminal's own, or none: a ground tells nothing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rich.style import Style
from textual.widget import Widget

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
