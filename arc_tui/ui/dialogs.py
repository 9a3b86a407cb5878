"""Questions: one line for the answer, choices above it, or both; a line to type a few words into.

A question is asked until its answer can be read: nothing typed is lost over a slip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from arc_tui.ui import format
from arc_tui.ui.bindings import bind, choice
from arc_tui.ui.keys import key_of, write_keys
from arc_tui.ui.list import RowList
from replay.errors import ArcError


class Option(NamedTuple):
    """An answer to choose, the words beside it, and its name where the answer is none."""

    answer: str
    words: str
    name: str = ""


class Choices(RowList):
    """Answers to choose from, each with words beside it."""

    HELP = "the choices"

    BINDINGS = [
        bind("enter", "choose", id="ask.choose", label="choose", tooltip="Answer with this one"),
        *(
            choice(place, f"choose_at({place - 1})", f"answer {place}", id=f"ask.choice_{place}",
                   tooltip=f"Answer with number {place} of the list")
            for place in range(1, 10)
        ),
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

    def action_choose_at(self, place: int) -> None:
        """Answer with one by its number, where there are so many."""
        if place < len(self.choices):
            self.cursor = place
            self.action_choose()

    def on_click(self, event: events.Click) -> None:
        if self.row_at(event.y - self.gutter.top) is not None:
            self.action_choose()


class AskBox(ModalScreen[str | None]):
    """What is typed or chosen; None where it is left. Choices without a hint have no line."""

    CSS_PATH = "dialogs.tcss"
    HELP = "a question"

    BINDINGS = [
        bind("esc", "leave", id="ask.leave", show=False, tooltip="Close without an answer"),
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
                hint = write_keys(self, self._hint)
                yield Input(self._answer, placeholder=hint, compact=True)
            yield Static(Text("   ".join(self._keys(typed))), id="keys")

    def _keys(self, typed: bool) -> Iterator[str]:
        """What the keys do: a line is answered by enter, whatever key chooses above it."""
        line = key_of(self, "", "enter")
        chooses = key_of(self, "ask.choose", "enter") if self._choices else line
        yield f"{chooses} {'choose' if self._choices else 'accept'}"
        if typed and self._choices:
            yield "tab text field" + (f", {line} accept" if chooses != line else "")
        yield f"{key_of(self, 'ask.leave')} cancel"

    def on_mount(self) -> None:
        self.query_one("#ask").border_title = Text(format.one_line(self._title))

    def revise(self, choices: Sequence[Option]) -> None:
        """Say other words beside the same answers, once they are known."""
        shown = self.query_one(Choices)
        shown.choices = choices
        shown.refresh()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self.dismiss(event.value.strip())

    def on_choices_chosen(self, event: Choices.Chosen) -> None:
        self.dismiss(event.answer)

    def action_leave(self) -> None:
        self.dismiss(None)


class PromptInput(Input):
    """What is typed in a `PromptLine`; the bar says what enter does."""

    HELP = "the line you type in"

    BINDINGS = [
        bind("enter", "submit", id="prompt.keep", label="keep",
             tooltip="Close this line and keep what was typed"),
    ]  # fmt: skip


class PromptLine(Vertical):
    """Hidden, and empty, until `open`; enter keeps what was typed, escape takes it back.

    While a `refusal` stands under it, enter keeps the line open.
    """

    HELP = "the line you type in"

    BINDINGS = [
        bind("esc", "cancel", id="prompt.cancel", label="clear", only="escape",
             tooltip="Close this line and discard what was typed"),
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
        self._words = ""

    @property
    def words(self) -> str:
        """What is typed."""
        return self._words

    @words.setter
    def words(self, words: str) -> None:
        self._words = words
        if self.children:
            self.line.value = words

    def on_mount(self) -> None:
        self.display = False

    def watch_refusal(self) -> None:
        if self.children:
            refusal = self.query_one("#refusal", Static)
            refusal.display = bool(self.refusal)
            refusal.update(format.one_line(self.refusal))

    async def open(self) -> None:
        """Show the line and type into it."""
        self.display = True
        if not self.children:
            line = PromptInput(
                self._words, placeholder=self._hint, compact=True, select_on_focus=False
            )
            await self.mount(
                Horizontal(Static(self._label, markup=False), line),
                Static(id="refusal", markup=False),
            )
            self.watch_refusal()
        self.line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._words = event.value
        self.post_message(self.Changed(self, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not self.refusal:
            self._close()

    def action_cancel(self) -> None:
        self.words = ""
        self._close()

    def _close(self) -> None:
        self.display = False
        self.post_message(self.Closed(self, self.line.value))


T = TypeVar("T")


async def ask_until_read(
    app: App[None],
    title: str,
    read: Callable[[str], T],
    words: str = "",
    *,
    hint: str = "",
    answer: str = "",
) -> T | None:
    """What a person says, as `read` has it; None where they leave. From a worker.

    Where `read` raises an ArcError it is asked again, with that and with what was typed.
    """
    said = words
    while True:
        typed = await app.push_screen_wait(AskBox(title, said, answer=answer, hint=hint))
        if typed is None:
            return None
        try:
            return read(typed)
        except ArcError as error:
            said, answer = f"{error}\n\n{words}".rstrip(), typed
