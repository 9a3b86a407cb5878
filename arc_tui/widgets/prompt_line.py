"""A line to type a few words into: the filter of a list, the find of a trace."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input, Static

from arc_tui import format


class PromptLine(Horizontal):
    """Hidden until `open`; enter keeps what was typed, escape takes it back.

    While a `refusal` stands beside it, enter keeps the line.
    """

    HELP = "the line you type in"

    BINDINGS = [
        Binding("escape", "cancel", "clear", id="prompt.cancel",
                tooltip="Close this line and forget what was typed"),
    ]  # fmt: skip

    line = query_one(Input)

    refusal: reactive[str] = reactive("", init=False)
    """Why what is typed cannot be read, "" where it can."""

    class Changed(Message):
        """The words are others now."""

        def __init__(self, prompt: PromptLine, words: str) -> None:
            super().__init__()
            self.prompt = prompt
            self.words = words

        @property
        def control(self) -> PromptLine:
            return self.prompt

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, PromptLine.Changed) and message.prompt is self.prompt

    class Closed(Message):
        """Typing is over; `words` is "" where it was taken back."""

        def __init__(self, prompt: PromptLine, words: str) -> None:
            super().__init__()
            self.prompt = prompt
            self.words = words

        @property
        def control(self) -> PromptLine:
            return self.prompt

    def __init__(self, label: str, hint: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._label = label
        self._hint = hint

    def compose(self) -> ComposeResult:
        yield Static(self._label, markup=False)
        yield Input(placeholder=self._hint, compact=True, select_on_focus=False)
        yield Static(id="refusal", markup=False)

    def on_mount(self) -> None:
        self.display = False

    def watch_refusal(self) -> None:
        self.query_one("#refusal", Static).update(format.one_line(self.refusal))

    def open(self) -> None:
        """Show the line and type into it."""
        self.display = True
        self.line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(self, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not self.refusal:
            self._close()

    def action_cancel(self) -> None:
        self.line.value = ""
        self._close()

    def _close(self) -> None:
        self.display = False
        self.post_message(self.Closed(self, self.line.value))
