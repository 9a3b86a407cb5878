"""A text of the recording in an editor; whatever stands in it, the terminal only ever shows it."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import TextArea

from arc_tui import format


class PromptArea(TextArea):
    """Plain text, wrapped. `original` is what was opened; line ends other than `\\n` are not kept,
    so `edited` asks for other words and not for other bytes."""

    HELP = "the editor"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, tab_behavior="focus", highlight_cursor_line=False, compact=True)
        self._original = ""

    def open(self, original: str, now: str | None) -> None:
        """Edit a text; `now` is what it was edited to before."""
        self.load_text(original)
        self._original = self.text
        if now is not None:
            self.load_text(now)

    @property
    def edited(self) -> str | None:
        """The text where it is another one, else None."""
        text = self.text
        return None if text == self._original else text

    def get_line(self, line_index: int) -> Text:
        """A line with every character the terminal would obey made visible, one for one."""
        parts = self.document.get_line(line_index).split("\t")
        return Text("\t".join(map(format.plain, parts)), end="", no_wrap=True)
