"""What kind of failure is it? One letter tags the step; what the rules suggest, enter accepts."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.geometry import Size
from textual.getters import query_one
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static
from typing_extensions import override

from arc_tui import format
from arc_tui.widgets.cells import fit
from arc_tui.widgets.why_page import class_name
from taxonomy.classes import CLASSES, SUB_LABELS, ClassEntry, FailureClass, Fault
from taxonomy.findings import Evidence, Finding

INDENT = 24
"""Cells of the letter and the name of a class."""


class Choice(Struct, frozen=True, kw_only=True):
    """What a person said of a step."""

    failure: FailureClass
    sub: str | None = None
    fault: Fault | None = None
    note: str | None = None
    evidence: tuple[Evidence, ...] = ()


class ClassRow(Widget):
    """A class with its letter, its definition and its first fix; a click chooses it."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"class-row--key", "class-row--name", "class-row--fix"}

    class Picked(Message):
        """The row was clicked."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, entry: ClassEntry) -> None:
        super().__init__()
        self._entry = entry

    def render(self) -> Text:
        entry, room = self._entry, self.content_size.width - INDENT
        line = Text.assemble(
            (f" {entry.key} ", self._ink("key")),
            (f" {entry.name.value:<{INDENT - 4}}", self._ink("name")),
            fit(entry.definition, room),
        )
        if entry.fix != format.UNKNOWN:
            fix = fit(f"fix: {entry.fix}", room)
            line.append(f"\n{' ' * INDENT}").append(fix, self._ink("fix"))
        return line

    @override
    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 1 if self._entry.fix == format.UNKNOWN else 2

    def _ink(self, name: str) -> Style:
        return self.get_component_rich_style(f"class-row--{name}", partial=True)

    def on_click(self, _: events.Click) -> None:
        self.post_message(self.Picked(self._entry.key))


class TagPicker(ModalScreen[Choice | None]):
    """The classes by letter, the suggestion at this step, a note."""

    HELP = "tag a step"

    BINDINGS = [
        *(
            Binding(entry.key, f"pick('{entry.key}')", entry.name.value, id=f"tag.{entry.key}",
                    show=False, tooltip=entry.definition)
            for entry in CLASSES
        ),
        Binding("enter", "accept", "accept the suggestion", id="tag.accept", show=False,
                tooltip="Tag the step with what the rules suggest, evidence included"),
        Binding("tab", "note", "write a note", id="tag.note", show=False,
                tooltip="Write a note to keep with the tag, then choose a letter"),
        Binding("escape", "leave", "no tag", id="tag.leave", show=False,
                tooltip="Close without a tag"),
    ]  # fmt: skip

    AUTO_FOCUS = ""
    note = query_one("#note", Input)
    sub = query_one("#sub", Input)

    def __init__(self, step: int, suggested: Finding | None) -> None:
        super().__init__()
        self._step = step
        self._suggested = suggested

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            if self._suggested is not None:
                yield Static(suggestion(self._suggested), id="suggestion", markup=False)
            for entry in CLASSES:
                yield ClassRow(entry)
            yield Input(placeholder="a note to keep with it (tab, then a letter)", id="note",
                        compact=True)  # fmt: skip
            yield Static(sub_labels(), id="labels", markup=False)
            yield Input(placeholder="a number, or your own words, then enter", id="sub",
                        compact=True)  # fmt: skip

    def on_mount(self) -> None:
        self.query_one("#picker").border_title = f"tag step {self._step}"
        self._ask_sub(False)

    def _ask_sub(self, asking: bool) -> None:
        self.set_class(asking, "-sub")

    def action_pick(self, key: str) -> None:
        entry = next(entry for entry in CLASSES if entry.key == key)
        if entry.name is FailureClass.OTHER:
            self._ask_sub(True)
            self.sub.focus()
        else:
            self.dismiss(Choice(failure=entry.name, note=self._note))

    def action_accept(self) -> None:
        found = self._suggested
        if found is not None:
            self.dismiss(
                Choice(
                    failure=found.failure,
                    sub=found.sub,
                    fault=found.fault,
                    note=self._note,
                    evidence=found.evidence,
                )
            )

    def action_note(self) -> None:
        self.note.focus()

    def action_leave(self) -> None:
        """Out of a line first, then out of the picker."""
        if self.focused is not None:
            self.set_focus(None)
            self._ask_sub(False)
        else:
            self.dismiss(None)

    @property
    def _note(self) -> str | None:
        return self.note.value.strip() or None

    def on_class_row_picked(self, event: ClassRow.Picked) -> None:
        self.action_pick(event.key)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input is self.note:
            self.set_focus(None)
        else:
            sub = sub_label(event.value)
            self.dismiss(Choice(failure=FailureClass.OTHER, sub=sub, note=self._note))


def sub_label(typed: str) -> str | None:
    """A starter label by its number, else the words themselves; None for nothing."""
    words = typed.strip()
    if words.isdecimal() and 1 <= int(words) <= len(SUB_LABELS):
        return SUB_LABELS[int(words) - 1]
    return words or None


def sub_labels() -> Text:
    return Text("   ".join(f"{place} {label}" for place, label in enumerate(SUB_LABELS, 1)))


def suggestion(found: Finding) -> Text:
    """The suggestion with its evidence, and the key that accepts it."""
    name = class_name(found.failure, found.sub)
    line = Text.assemble(("enter", "bold"), f"  {name}: {format.one_line(found.why)}")
    return Text("\n").join([line, *_evidence(found)])


def _evidence(found: Finding) -> Iterator[Text]:
    for each in found.evidence[:4]:
        place = f"  {format.one_line(each.place)}" if each.place else ""
        yield Text(f"       {format.one_line(each.role):<10} {format.one_line(each.text)}{place}")
    if len(found.evidence) > 4:
        yield Text(f"       … {len(found.evidence) - 4} more under Why")
