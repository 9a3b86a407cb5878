"""The edit: which text of the request, that text in an editor, and the diff of all changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static, TextArea

from arc_tui import format
from arc_tui.views.replay.draft import EMPTY, Draft, diff_of, edit_of
from arc_tui.views.replay.targets import Target, also_words
from arc_tui.widgets.page import Page
from arc_tui.widgets.replay.pages import diff_page, trouble_page
from arc_tui.widgets.replay.prompt_area import PromptArea, as_edited
from arc_tui.widgets.replay.target_list import TargetList
from arc_tui.widgets.rows import RowList
from replay.errors import BadEdit


class Opened(Struct, frozen=True, eq=False):
    """The target in the editor, with its texts as an editor gives them back."""

    target: Target
    recorded: str
    shown: str


class EditPane(Vertical):
    """The list over the editor, or over the diff while that is `diffed`."""

    draft: reactive[Draft] = reactive(EMPTY, repaint=False)
    diffed: reactive[bool] = reactive(False, repaint=False)

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

    def _say(self) -> None:
        """Which texts are changed, and how."""
        changed = [each for each in self.draft.targets if self._text_of(each) != each.text]
        self.targets.edited = frozenset(target.label for target in changed)
        self.border_title = "edit"
        self.border_subtitle = Text(_said(changed, len(self.draft.also)))
        if self.diffed:
            self._draw_diff()

    def _draw_diff(self) -> None:
        try:
            edit = edit_of(self.draft, self._texts, "")
            self.page.document = diff_page(diff_of(self.draft, edit))
        except BadEdit as error:
            self.page.document = trouble_page(error)


def _said(changed: Iterable[Target], others: int) -> str:
    """What is changed, in a few words."""
    parts = [format.one_line(target.label) for target in changed]
    if others:
        parts.append(format.count(others, "other change"))
    return " + ".join(parts) or "unchanged: control alone is asked"
