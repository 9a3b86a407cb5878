"""The texts of a request that can be edited, one a line."""

from __future__ import annotations

from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.replay.draft import EMPTY, Draft
from arc_tui.widgets.cells import fit
from arc_tui.widgets.rows import RowList

LABEL = 26
"""The widest label; a longer one is cut with `…`."""


class TargetList(RowList):
    """The texts that can be edited, one a line; the one under the cursor is in the editor."""

    HELP = "the texts to edit"
    INKS = {"edited": "bold $warning", "about": "$quiet"}

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
            ("● " if target.label in self.edited else "  ", self.ink("edited")),
            fit(format.one_line(target.label), self._label),
            (f"  {about}", self.ink("about")),
        )

    def action_pick(self, place: int) -> None:
        self.cursor = place

    def action_choose(self) -> None:
        self.post_message(self.Chosen())
