"""The edit: which text of the request, that text in an editor, and the diff of all changes."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import TextArea

from arc_tui import format
from arc_tui.views.draft import EMPTY, Draft, Target, edit_of
from arc_tui.widgets.cells import fit
from arc_tui.widgets.page import Page
from arc_tui.widgets.prompt_area import PromptArea
from arc_tui.widgets.rows import RowList
from arc_tui.widgets.step_pages import diff_page
from replay.edit import diff

LABEL = 26
"""The widest label; a longer one is cut with `…`."""


class TargetList(RowList):
    """The texts that can be edited, one a line; the one under the cursor is in the editor."""

    HELP = "the texts to edit"
    COMPONENT_CLASSES = {"target-list--edited", "target-list--about"}

    BINDINGS = [
        Binding("left", "move(-1)", "text before", id="targets.before", show=False,
                tooltip="Edit the text before"),
        Binding("right", "move(1)", "next text", id="targets.next", show=False,
                tooltip="Edit the next text"),
        Binding("enter", "choose", "edit it", id="targets.choose",
                tooltip="Go to the editor"),
        *(
            Binding(str(digit), f"pick({digit - 1})", f"text {digit}", id=f"targets.{digit}",
                    show=False, tooltip=f"Edit text {digit} of the list")
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
            ("● " if target.label in self.edited else "  ", self.ink("target-list--edited")),
            fit(format.one_line(target.label), self._label),
            (f"  {about}", self.ink("target-list--about")),
        )

    def action_pick(self, place: int) -> None:
        self.cursor = place

    def action_choose(self) -> None:
        self.post_message(self.Chosen())


class EditPane(Vertical):
    """The list over the editor, or over the diff while that is `diffed`."""

    draft: reactive[Draft] = reactive(EMPTY, repaint=False)
    diffed: reactive[bool] = reactive(False, repaint=False)

    targets = query_one(TargetList)
    area = query_one(PromptArea)
    page = query_one(Page)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._texts: dict[str, str] = {}
        self._open: Target | None = None

    def compose(self) -> ComposeResult:
        yield TargetList(id="targets").data_bind(EditPane.draft)
        yield PromptArea(id="area")
        yield Page(id="diff")

    @property
    def texts(self) -> dict[str, str]:
        """The texts that are others than recorded, by the label of their target."""
        self._keep()
        return dict(self._texts)

    @property
    def text(self) -> str:
        """What stands in the editor."""
        return self.area.text

    def put(self, text: str) -> None:
        """Another text into the editor, which can undo it."""
        self.area.replace(text, (0, 0), self.area.document.end)

    def watch_draft(self) -> None:
        """More may be known of the same trace; what was typed stays."""
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

    def _show_target(self) -> None:
        """The text under the list's cursor into the editor."""
        if not self.draft.targets or not self.is_mounted:
            return
        target = self.draft.targets[min(self.targets.cursor, len(self.draft.targets) - 1)]
        if target is not self._open:
            self._keep()
            self._open = target
            self.area.open(target.text, self._texts.get(target.label))
        self._say()

    def _keep(self) -> None:
        """What stands in the editor, where that is another text."""
        if self._open is None:
            return
        edited = self.area.edited
        if edited is None:
            self._texts.pop(self._open.label, None)
        else:
            self._texts[self._open.label] = edited

    def _say(self) -> None:
        """Which texts are changed, and how."""
        self.targets.edited = frozenset(self._texts)
        self.border_title = "edit"
        changed = " + ".join(map(format.one_line, self._texts))
        self.border_subtitle = Text(changed or "unchanged: control alone is asked")
        if self.diffed:
            self._draw_diff()

    def _draw_diff(self) -> None:
        edit = edit_of(self.draft, self._texts, "")
        lines = diff(edit, self.draft.request) if edit is not None else []
        self.page.document = diff_page(lines)
