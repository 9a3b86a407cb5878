"""When sheets of styles are read and applied: most of what a screen costs to open.

Textual parses all sheets anew when the theme is set at the start, when a screen that has a sheet of
its own first comes, and when one is come back to; and it styles all of a screen once more when it
learns how wide it is. Here a sheet is parsed when its screen first comes, all of them where the
colours are others, and a screen knows its width before it is styled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from textual.app import App
from textual.screen import Screen
from typing_extensions import override

Dressed = TypeVar("Dressed", bound=Screen[Any])


class Sheets(App[None]):
    """An app whose screens bring their own sheets, as `CSS_PATH`."""

    _colours: dict[str, str] | None = None
    """What all was styled with."""

    @override
    def refresh_css(self, animate: bool = True) -> None:
        colours = self.get_css_variables()
        if colours == self._colours:
            return
        self._colours = colours
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(colours)

    @override
    def _load_screen_css(self, screen: Screen[Any]) -> None:
        self.stylesheet.apply(self.dressed(screen))

    def dressed(self, screen: Dressed) -> Dressed:
        """A screen that is not composed yet, with its sheets and with the class of its width."""
        paths = [Path(path).resolve() for path in screen.css_path]
        new = [path for path in paths if not self.stylesheet.has_source(str(path))]
        if new:
            self.stylesheet.read_all(new)
            self.stylesheet.parse()
        widths = sorted(screen.HORIZONTAL_BREAKPOINTS or (), reverse=True)
        name = next((name for width, name in widths if self.size.width >= width), None)
        screen.update_classes({each: each == name for _, each in widths}, update=False)
        return screen
