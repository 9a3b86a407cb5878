"""One line that says where you are: something at the left, something at the right."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui.widgets.cells import spread


class Headline(Widget):
    """Two texts at the ends of a line; the right one gives way where there is no room."""

    ALLOW_SELECT = False
    left: reactive[Text] = reactive(Text())
    right: reactive[Text] = reactive(Text())

    def render(self) -> Text:
        return spread(self.left, self.right, self.content_size.width)
