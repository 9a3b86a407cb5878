"""A question with one line for the answer, choices above it, or both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.getters import query_one
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from arc_tui import format
from arc_tui.widgets.bound import key_of, keyed
from arc_tui.widgets.rows import RowList


class Option(NamedTuple):
    """An answer to choose, the words beside it, and its name where the answer is none."""

    answer: str
    words: str
    name: str = ""


class Choices(RowList):
    """Answers to choose from, each with words beside it."""

    HELP = "the choices"

    BINDINGS = [
        Binding("enter", "choose", "choose", id="ask.choose", tooltip="Answer with this one"),
    ]  # fmt: skip

    class Chosen(Message):
        """An answer was chosen."""

        def __init__(self, answer: str) -> None:
            super().__init__()
            self.answer = answer

    def __init__(self, choices: Sequence[Option], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.choices = choices

    @property
    def row_count(self) -> int:
        return len(self.choices)

    @property
    def answer(self) -> str:
        """The one under the cursor."""
        return self.choices[self.cursor].answer

    def draw(self, index: int, width: int) -> Text:
        answer, words, name = self.choices[index]
        line = Text.assemble((f" {format.one_line(name or answer)}", "bold"), f"  {words}")
        line.truncate(width, overflow="ellipsis")
        return line

    def action_choose(self) -> None:
        self.post_message(self.Chosen(self.answer))

    def on_click(self, event: events.Click) -> None:
        if self.row_at(event.y - self.gutter.top) is not None:
            self.action_choose()


class AskBox(ModalScreen[str | None]):
    """What is typed or chosen; None where it is left. Choices without a hint have no line."""

    CSS_PATH = "dialogs.tcss"
    HELP = "a question"

    BINDINGS = [
        Binding("escape", "leave", "leave", id="ask.leave", show=False,
                tooltip="Close without an answer"),
    ]  # fmt: skip

    line = query_one(Input)

    def __init__(
        self,
        title: str,
        words: str = "",
        *,
        answer: str = "",
        hint: str = "",
        choices: Sequence[Option] = (),
    ) -> None:
        super().__init__()
        self._title = title
        self._words = words
        self._answer = answer
        self._hint = hint
        self._choices = tuple(choices)

    def compose(self) -> ComposeResult:
        with Vertical(id="ask", classes="-choices" if self._choices else ""):
            if self._choices:
                yield Choices(self._choices)
            if self._words:
                yield Static(Text(format.plain(self._words)), id="words")
            typed = bool(self._hint) or not self._choices
            if typed:
                hint = keyed(self, self._hint)
                yield Input(self._answer, placeholder=hint, compact=True)
            yield Static(Text("   ".join(self._keys(typed))), id="keys")

    def _keys(self, typed: bool) -> Iterator[str]:
        """What the keys do: a line is answered by enter, whatever key chooses above it."""
        line = key_of(self, "", "enter")
        chooses = key_of(self, "ask.choose", "enter") if self._choices else line
        yield f"{chooses} answers"
        if typed and self._choices:
            yield "tab goes to the line" + (f", {line} answers it" if chooses != line else "")
        yield f"{key_of(self, 'ask.leave')} leaves"

    def on_mount(self) -> None:
        self.query_one("#ask").border_title = Text(format.one_line(self._title))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self.dismiss(event.value.strip())

    def on_choices_chosen(self, event: Choices.Chosen) -> None:
        self.dismiss(event.answer)

    def action_leave(self) -> None:
        self.dismiss(None)
