"""Where did this value come from? The values of a step's calls, the first span that held each."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.getters import query_one
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.widgets import Static

from arc_tui import format
from arc_tui.views.trace.grounds import Grounds, ValueRow
from arc_tui.widgets.bound import key_of
from arc_tui.widgets.cells import fit
from arc_tui.widgets.rows import RowList
from replay.trace import Json


class ValueList(RowList):
    """A value a line with what is known of its origin in short."""

    HELP = "values of the step's calls"
    INKS = {"path": "$primary", "nowhere": "$bad", "place": "$quiet"}

    values: reactive[tuple[ValueRow, ...]] = reactive((), repaint=False)

    @property
    def row_count(self) -> int:
        return len(self.values)

    def watch_values(self) -> None:
        self.rows_changed()

    def draw(self, index: int, width: int) -> Text:
        row = self.values[index]
        path = Text(fit(format.one_line(row.path), 24) + "  ", self.ink("path"))
        line = Text.assemble(path, fit(format.one_line(str(row.value)), max(width // 3, 12)), "  ")
        if row.known == "nowhere":
            line.append(f"✗ {row.where}", self.ink("nowhere"))
        else:
            line.append(format.one_line(row.where), self.ink("place"))
        line.truncate(width, overflow="ellipsis")
        return line


class OriginsBox(ModalScreen[int | None]):
    """The values of a step; enter goes to the step that first held the one under the cursor."""

    CSS_PATH = "origins_box.tcss"
    HELP = "where from"

    BINDINGS = [
        Binding("enter", "jump", "go there", id="origins.jump",
                tooltip="Go to the step that first showed the value"),
        Binding("escape,p", "leave", "close", id="origins.leave",
                tooltip="Back to where you were"),
    ]  # fmt: skip

    rows = query_one(ValueList)
    said = query_one("#origin", Static)

    def __init__(self, view: Grounds, at: Json | None) -> None:
        super().__init__()
        self._view = view
        self._at = at

    def compose(self) -> ComposeResult:
        with Vertical(id="origins"):
            yield ValueList()
            yield Static(id="origin", markup=False)
            jump, leave = key_of(self, "origins.jump"), key_of(self, "origins.leave")
            yield Static(f"{jump} goes there · {leave} closes", id="hint", markup=False)

    def on_mount(self) -> None:
        self.query_one("#origins").border_title = f"where from: the calls of step {self._view.step}"
        self.rows.values = self._view.values
        values = [row.value for row in self._view.values]
        self.rows.cursor = values.index(self._at) if self._at in values else 0
        self._say()

    def on_row_list_moved(self, _: RowList.Moved) -> None:
        self._say()

    def _say(self) -> None:
        row = self._view.values[self.rows.cursor]
        text = Text(f"{format.one_line(str(row.value))}\n", "bold")
        where = format.one_line(row.where)
        if row.known != "shown":
            text = Text.assemble(text, f"before step {self._view.step}: {where}")
        else:
            text = Text.assemble(text, f"first in {where} ({row.how})\n",
                                 (format.plain(row.text), "dim"))  # fmt: skip
        self.said.update(text)

    def action_jump(self) -> None:
        """A prompt or the user's first words are shown by step 0."""
        row = self._view.values[self.rows.cursor]
        if row.known == "shown":
            self.dismiss(row.step or 0)

    def action_leave(self) -> None:
        self.dismiss(None)
