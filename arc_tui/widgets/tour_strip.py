"""One line that says what to press next on the tour."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui.widgets.cells import spread


class TourStrip(Widget):
    """The stop, the key and its words at the left; how the tour ends at the right."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"tour-strip--stop", "tour-strip--key", "tour-strip--quiet"}

    stop: reactive[str] = reactive("")
    key: reactive[str] = reactive("")
    words: reactive[str] = reactive("")
    end: reactive[str] = reactive("")

    def render(self) -> Text:
        left = Text.assemble(
            (f"{self.stop}  ", self._ink("stop")), (self.key, self._ink("key")), f" {self.words}"
        )
        return spread(left, Text(self.end, self._ink("quiet")), self.content_size.width)

    def _ink(self, name: str) -> str:
        return str(self.get_component_rich_style(f"tour-strip--{name}", partial=True))
