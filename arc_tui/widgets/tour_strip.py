"""One line that says what to press next on the tour."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive

from arc_tui.widgets.cells import spread
from arc_tui.widgets.ink import Inked


class TourStrip(Inked):
    """The stop, the key and its words at the left; how the tour ends at the right."""

    ALLOW_SELECT = False
    INKS = {"stop": "$quiet", "key": "bold $primary", "quiet": "$quiet"}

    stop: reactive[str] = reactive("")
    key: reactive[str] = reactive("")
    words: reactive[str] = reactive("")
    end: reactive[str] = reactive("")

    def render(self) -> Text:
        left = Text.assemble(
            (f"{self.stop}  ", self.ink("stop")), (self.key, self.ink("key")), f" {self.words}"
        )
        return spread(left, Text(self.end, self.ink("quiet")), self.content_size.width)
