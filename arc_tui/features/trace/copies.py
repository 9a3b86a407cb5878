"""What of a step can be taken elsewhere, to the clipboard or another program: a value, a text, a
call as JSON, a command.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct
from textual.app import App

from arc_tui.ui import format
from arc_tui.ui.page import LinkedPage
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.step import EMPTY, CallView, StepView, step_markdown
from replay.errors import ArcError
from replay.trace import Json

COMMANDS = ("command", "cmd", "script")
"""Arguments that hold what a shell is to run."""


class Copy(Struct, frozen=True, kw_only=True):
    """A part of a step: what it is, its text as recorded, and the kind of file it would be."""

    name: str
    text: str
    suffix: str = ".txt"


def copies_of(step: StepView, text: str | None, value: Json | None) -> list[Copy]:
    """What can be copied, what is nearest to the cursor first: `value` is the one on its line,
    `text` what stands there."""
    return [
        *_here(text, value),
        *_of_calls(step),
        Copy(name="the step as Markdown", text=step_markdown(step), suffix=".md"),
        Copy(name="the step as JSON", text=step.raw, suffix=".json"),
        Copy(
            name="the command that prints the step",
            text=f"arc show {shlex.quote(step.trace[:12])} {step.row.step}",
        ),
    ]


def _here(text: str | None, value: Json | None) -> Iterator[Copy]:
    if value is not None:
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        yield Copy(name="the value under the cursor", text=shown)
    if text:
        suffix = ".json" if text.startswith(("{", "[")) else ".txt"
        yield Copy(name="the text under the cursor", text=text, suffix=suffix)


def _of_calls(step: StepView) -> Iterator[Copy]:
    """Of each call its command, itself as JSON and its result."""
    with_results = [(each.call, each.result) for each in step.observations]
    without = [(call, None) for call in step.response.calls] if step.response else []
    for call, result in with_results or without:
        name = format.cut(format.one_line(call.name), 40)
        command = command_of(call)
        if command is not None:
            yield Copy(name=f"the command of {name}", text=command, suffix=".sh")
        yield Copy(name=f"the call of {name} as JSON", text=call_json(call), suffix=".json")
        if result is not None:
            yield Copy(name=f"the result of {name}", text=result)


def command_of(call: CallView) -> str | None:
    """What a shell is to run; None where the call runs none."""
    if not call.parsed:
        return None
    arguments = msgspec.json.decode(call.arguments)
    if not isinstance(arguments, dict):
        return None
    command = next((arguments[name] for name in COMMANDS if arguments.get(name)), None)
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return command.rstrip("\n") if isinstance(command, str) else None


def call_json(call: CallView) -> str:
    """The call with its name and arguments; what was sent and is no JSON stays a text."""
    arguments = msgspec.Raw(call.arguments.encode()) if call.parsed else call.arguments
    encoded = msgspec.json.encode({"name": call.name, "arguments": arguments})
    return msgspec.json.format(encoded, indent=2).decode()


class StepCopies:
    """Takes the step that a screen shows, or a part of it, elsewhere.

    Each method is given the step and, where the page has the focus, that page: then what stands
    under its cursor comes first.
    """

    def __init__(self, screen: ArcScreen) -> None:
        self._screen = screen

    def copy(self, step: StepView) -> None:
        """The whole step as Markdown to the clipboard."""
        if step is not EMPTY:
            text = step_markdown(step)
            self._to_clipboard(Copy(name=f"step {step.row.step} as Markdown", text=text))

    def copy_part(self, step: StepView, page: LinkedPage | None) -> None:
        """A part that a person chooses to the clipboard."""
        if step is not EMPTY:
            self._choose("Copy", _of(step, page), self._to_clipboard)

    def open_in_pager(self, step: StepView, page: LinkedPage | None) -> None:
        """A step is read from its beginning first, so that stands on top."""
        from arc_tui.ui.editor import page_in_terminal

        def show(copy: Copy) -> None:
            self._run(page_in_terminal, copy)

        if step is not EMPTY:
            found = sorted(_of(step, page), key=lambda copy: not copy.name.startswith("the step"))
            self._choose("Open in the pager", found, show)

    def view_in_editor(self, step: StepView, page: LinkedPage | None) -> None:
        """The text under the cursor, else the step; nothing is kept of what is typed."""
        from arc_tui.ui.editor import view_in_terminal

        if step is not EMPTY:
            here = _of(step, page)
            own = [copy for copy in here if copy.name == "the text under the cursor"]
            whole = [copy for copy in here if copy.suffix == ".md"]
            self._run(view_in_terminal, (own or whole)[0])

    def _choose(self, question: str, found: list[Copy], then: Callable[[Copy], None]) -> None:
        from arc_tui.ui.dialogs import AskBox, Option

        def take(answer: str | None) -> None:
            if answer is not None:
                then(found[int(answer)])

        options = [
            Option(str(place), format.cut(format.one_line(copy.text[:200]), 60), copy.name)
            for place, copy in enumerate(found)
        ]
        self._screen.app.push_screen(AskBox(question, choices=options), take)

    def _to_clipboard(self, copy: Copy) -> None:
        text, left_out = format.drop_controls(copy.text)
        self._screen.app.copy_to_clipboard(text)
        words = f"{copy.name} copied, {format.count(len(text), 'character')}"
        if left_out:
            lost = format.count(left_out, "character")
            words = f"{words}; {lost} left out: control characters"
        self._screen.say(words)

    def _run(self, program: Callable[[App[None], str, str], None], copy: Copy) -> None:
        """Give the terminal to a program that shows a text in which nothing is obeyed."""
        try:
            program(self._screen.app, format.plain(copy.text), copy.suffix)
        except ArcError as error:
            self._screen.show_error(error)


def _of(step: StepView, page: LinkedPage | None) -> list[Copy]:
    """What can be taken of a step; of the line under the cursor of `page` first."""
    if page is None:
        return copies_of(step, None, None)
    block = page.block
    return copies_of(step, block.text if block is not None else None, page.value)
