"""Texts of the recording in an editor; whatever stands in one, the terminal only ever shows it."""

from __future__ import annotations

from dataclasses import replace

from msgspec import Struct
from rich.text import Text
from textual.binding import Binding
from textual.widgets import TextArea
from textual.widgets.text_area import Document, EditHistory, Selection

from arc_tui import format

TAKEN = ("select_line", "select_all")
"""What an editor does with keys (f6, f7) that mean something else on the screen; shift and the
arrows select as well."""


class Left(Struct, frozen=True, eq=False):
    """How a text was left: what it said, what can be undone, where the cursor was."""

    text: str
    history: EditHistory
    selection: Selection


class PromptArea(TextArea):
    """Plain text, wrapped. One text is open at a time; each can be undone on its own."""

    HELP = "the editor"

    BINDINGS = [
        Binding("f1", "app.help", "help", id="editor.help",
                tooltip="What the keys do here, where letters are typed"),
    ]  # fmt: skip

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, tab_behavior="focus", highlight_cursor_line=False, compact=True)
        self._name: str | None = None
        self._left: dict[str, Left] = {}

    def open(self, name: str, text: str) -> None:
        """Edit the text of that name, and keep what can be undone in the one that was open."""
        if self._name is not None:
            self._left[self._name] = Left(self.text, self.history, self.selection)
        self._name = name
        self.history = replace(self.history)  # another one: loading clears what is there
        self.load_text(text)
        left = self._left.get(name)
        if left is not None and left.text == self.text:
            self.history, self.selection = left.history, left.selection

    def put(self, text: str) -> None:
        """Another text in the place of this one, which can be undone."""
        if as_edited(text) != self.text:
            self.replace(text, (0, 0), self.document.end)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is not done here leaves its key to the screen."""
        return action not in TAKEN and super().check_action(action, parameters)

    def get_line(self, line_index: int) -> Text:
        """A line with every character the terminal would obey made visible, one for one."""
        parts = self.document.get_line(line_index).split("\t")
        return Text("\t".join(map(format.plain, parts)), end="", no_wrap=True)


def as_edited(text: str) -> str:
    """The text as an editor gives it back: line ends of several kinds are made one."""
    return Document(text).text
