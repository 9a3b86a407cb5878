"""What cost much and what brought nothing: a row a line, its cost first."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.money.rows import MoneyRow, MoneyRows
from arc_tui.widgets.cells import fit
from arc_tui.widgets.rows import RowList

AMOUNT, KIND, STEP = 10, 11, 4


class MoneyList(RowList):
    """The rows by cost."""

    HELP = "the costs"
    HEAD = 1
    INKS = {"waste": "$warning", "quiet": "$quiet"}

    BINDINGS = [
        Binding("enter", "choose", "go to step", id="money.go",
                tooltip="Go to the step in the run"),
    ]  # fmt: skip

    found: reactive[MoneyRows | None] = reactive(None, repaint=False)

    class Chosen(Message):
        """The step of a row is to be shown in the run."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    @property
    def row_count(self) -> int:
        return len(self.found.rows) if self.found is not None else 0

    @property
    def row(self) -> MoneyRow | None:
        """The one under the cursor."""
        return self.found.rows[self.cursor] if self.found is not None and self.row_count else None

    def watch_found(self) -> None:
        self.nothing = "" if self.found is None else "no step has a known size or cost"
        self.rows_changed()
        self.post_message(self.Moved(self))

    def draw_head(self, line: int, width: int) -> Text:
        del line
        head = f"{fit('cost', AMOUNT, right=True)}  {fit('kind', KIND)}  {fit('step', STEP)}  what"
        return Text(fit(head, width))

    def draw(self, index: int, width: int) -> Text:
        assert self.found is not None
        row = self.found.rows[index]
        waste = "quiet" if row.kind == "dear step" else "waste"
        known = row.usd is not None
        line = Text.assemble(
            (_amount(row), self.ink("quiet") if not known else ""),
            "  ",
            (fit(row.kind, KIND), self.ink(waste)),
            f"  {row.step:>{STEP}}  ",
        )
        return line.append(fit(row.what, width - line.cell_len))

    def action_choose(self) -> None:
        if self.row is not None:
            self.post_message(self.Chosen(self.row.step))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.row_at(event.y - self.gutter.top) is not None:
            self.action_choose()


def _amount(row: MoneyRow) -> str:
    """The cost, else the tokens; the bounds of a part are said in full beside."""
    if row.usd is not None:
        shown = row.amount.split(" for ")[0]
    else:
        shown = f"{format.tokens(row.tokens)} tok" if row.tokens else format.UNKNOWN
    return fit(shown, AMOUNT, right=True)
