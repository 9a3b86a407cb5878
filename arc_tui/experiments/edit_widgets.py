"""The edit on screen: which text of the request, that text in an editor, and the diff of all
changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from msgspec import Struct
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static, TextArea
from textual.widgets.text_area import Document, EditHistory, Selection

from arc_tui.experiments.edits import (
    EMPTY,
    Draft,
    Target,
    also_words,
    diff_of,
    diff_page,
    edit_of,
    trouble_page,
)
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, choice
from arc_tui.ui.format import fit
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from replay.errors import BadEdit

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
        bind("f1", "app.help", id="editor.help", tooltip="The keys of this editor"),
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


LABEL = 26
"""The widest label; a longer one is cut with `…`."""


class TargetList(RowList):
    """The texts that can be edited, one a line; the one under the cursor is in the editor."""

    HELP = "the texts to edit"
    STYLES = {"edited": "bold $warning", "about": "$quiet"}

    BINDINGS = [
        bind("h", "move(-1)", id="targets.before", show=False, tooltip="Edit the previous text"),
        bind("l", "move(1)", id="targets.next", show=False, tooltip="Edit the next text"),
        bind("enter", "choose", id="targets.choose", label="edit it", tooltip="Go to the editor"),
        *(
            choice(digit, f"pick({digit - 1})", f"text {digit}", id=f"targets.{digit}",
                   tooltip=f"Edit text {digit} of the list")
            for digit in range(1, 10)
        ),
    ]  # fmt: skip

    draft: reactive[Draft] = reactive(EMPTY, repaint=False)
    edited: reactive[frozenset[str]] = reactive(frozenset())

    class Chosen(Message):
        """The text under the cursor is to be edited."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._label = 0

    @property
    def row_count(self) -> int:
        return len(self.draft.targets)

    def watch_draft(self, draft: Draft) -> None:
        self._label = min(max((len(each.label) for each in draft.targets), default=0), LABEL)
        self.rows_changed()
        self.refresh(layout=True)

    def draw(self, index: int, width: int) -> Text:
        target = self.draft.targets[index]
        about = fit(format.one_line(target.about), width - self._label - 4)
        return Text.assemble(
            ("● " if target.label in self.edited else "  ", self.style_of("edited")),
            fit(format.one_line(target.label), self._label),
            (f"  {about}", self.style_of("about")),
        )

    def action_pick(self, place: int) -> None:
        self.cursor = place

    def action_choose(self) -> None:
        self.post_message(self.Chosen())


class Opened(Struct, frozen=True, eq=False):
    """The target in the editor, with its texts as an editor gives them back."""

    target: Target
    recorded: str
    shown: str


class EditPane(Vertical):
    """The list over the editor, or over the diff while that is `diffed`."""

    draft: reactive[Draft] = reactive(EMPTY, repaint=False)
    diffed: reactive[bool] = reactive(False, repaint=False)
    has_arms: reactive[bool] = reactive(False, repaint=False)
    """Are there arms beside what is edited here?"""

    targets = query_one(TargetList)
    area = query_one(PromptArea)
    page = query_one(Page)

    class Edited(Message):
        """A text says something else."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._texts: dict[str, str] = {}
        self._open: Opened | None = None

    def compose(self) -> ComposeResult:
        yield TargetList(id="targets").data_bind(EditPane.draft)
        yield Static(id="also", markup=False)
        yield PromptArea(id="area")
        yield Page(id="diff")

    @property
    def texts(self) -> dict[str, str]:
        """The texts that are others than the draft shows, by the label of their target."""
        self._keep()
        return dict(self._texts)

    @property
    def text(self) -> str:
        """What stands in the editor."""
        return self.area.text

    def put(self, text: str) -> None:
        """Another text into the editor, which can undo it."""
        self.area.put(text)

    def show(self, draft: Draft, folded: Mapping[str, str]) -> None:
        """Another draft. What was typed stays, but for the texts that were `folded` into it and
        those that say what it shows."""
        self._keep()
        shown = {target.label: target.shown for target in draft.targets}
        self._texts = {
            label: text
            for label, text in self._texts.items()
            if text not in (folded.get(label), shown.get(label))
        }
        self.draft = draft

    def watch_draft(self, draft: Draft) -> None:
        if not self.is_mounted:
            return
        also = self.query_one("#also", Static)
        also.update(Text("\n".join(f"also: {words}" for words in also_words(draft.also))))
        also.display = bool(draft.also)
        self._show_target()

    def watch_diffed(self, diffed: bool) -> None:
        self.set_class(diffed, "-diff")
        if diffed:
            self._draw_diff()

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.targets:
            event.stop()
            self._show_target()

    def on_target_list_chosen(self, event: TargetList.Chosen) -> None:
        event.stop()
        self.diffed = False
        self.area.focus()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._keep()
        self._say()
        self.post_message(self.Edited())

    def _show_target(self) -> None:
        """The text under the list's cursor into the editor."""
        if not self.draft.targets:
            return
        target = self.draft.targets[min(self.targets.cursor, len(self.draft.targets) - 1)]
        before = self._open.target if self._open is not None else None
        if target is not before:
            text = self._text_of(target)
            self._open = Opened(target, as_edited(target.text), as_edited(target.shown))
            if before is not None and before.label == target.label:
                self.area.put(text)
            else:
                self.area.open(target.label, text)
        self._say()

    def _text_of(self, target: Target) -> str:
        return self._texts.get(target.label, target.shown)

    def _keep(self) -> None:
        """What stands in the editor, where that is another text than the draft shows."""
        if self._open is None:
            return
        target, text = self._open.target, self.area.text
        if text == self._open.shown:
            self._texts.pop(target.label, None)
        else:
            self._texts[target.label] = target.text if text == self._open.recorded else text

    def watch_has_arms(self) -> None:
        self._say()

    def _say(self) -> None:
        """Which texts are changed, and how."""
        changed = [each for each in self.draft.targets if self._text_of(each) != each.text]
        self.targets.edited = frozenset(target.label for target in changed)
        self.border_title = "edit"
        summary = _summary(changed, len(self.draft.also))
        unchanged = "no edit here: the other arms only" if self.has_arms else UNCHANGED
        self.border_subtitle = Text(summary or unchanged)
        if self.diffed:
            self._draw_diff()

    def _draw_diff(self) -> None:
        try:
            edit = edit_of(self.draft, self._texts, "")
            self.page.document = diff_page(diff_of(self.draft, edit))
        except BadEdit as error:
            self.page.document = trouble_page(error)


UNCHANGED = "unchanged: control arm only"


def _summary(changed: Iterable[Target], others: int) -> str:
    """What is changed, in a few words; "" where nothing is."""
    parts = [format.one_line(target.label) for target in changed]
    if others:
        parts.append(format.count(others, "other change"))
    return " + ".join(parts)
