"""The steps of a run, a row each: what it did, and what the oracle says of it."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui import format
from arc_tui.views.steps.stage import EMPTY, StepsStage
from arc_tui.views.steps.view import StepRow
from arc_tui.widgets.cells import fit
from arc_tui.widgets.rows import RowList

MARK, STEP, MESSAGE, GAP = 1, 4, 7, "  "
AGREES = "nothing against it"


class StepsList(RowList):
    """Every step with the oracle's word; enter opens the run there."""

    HELP = "the steps"
    HEAD = 1
    INKS = {"decisive": "bold $warning", "bad": "$bad", "open": "$secondary", "quiet": "$quiet"}

    BINDINGS = [
        Binding("enter", "open", "open", id="steps.open",
                tooltip="Open the run at the step under the cursor"),
    ]  # fmt: skip

    stage: reactive[StepsStage] = reactive(EMPTY, repaint=False)

    class Opened(Message):
        """The run is to be opened at a step."""

        def __init__(self, trace: str, step: int) -> None:
            super().__init__()
            self.trace = trace
            self.step = step

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._widest = 0

    @property
    def rows(self) -> tuple[StepRow, ...]:
        return self.stage.view.rows

    @property
    def row(self) -> StepRow | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    @override
    def row_count(self) -> int:
        return len(self.rows)

    def watch_stage(self, before: StepsStage, stage: StepsStage) -> None:
        if before.view is stage.view:
            return
        phrases = (cell_len(_phrase(row)) for row in stage.view.rows)
        self._widest = max(phrases, default=0)
        self.rows_changed()

    def go_to(self, step: int) -> None:
        """Put the cursor on a step. The rows are the steps, in their order."""
        self.cursor = step

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line
        places = (fit("step", STEP, right=True), fit("message", MESSAGE, right=True))
        cells = (fit("", MARK), *places, fit("did", self._room(width)), "the oracle's word")
        return Text(f" {GAP.join(cells)}")

    @override
    def draw(self, index: int, width: int) -> Text:
        row = self.rows[index]
        message = format.UNKNOWN if row.message is None else str(row.message)
        places = (fit(str(row.step), STEP, right=True), fit(message, MESSAGE, right=True))
        line = Text.assemble(
            " ",
            (_mark(row), self.ink(_ink(row))),
            (f"{GAP}{GAP.join(places)}{GAP}", self.ink("quiet")),
            fit(format.one_line(row.did), self._room(width)) + GAP,
        )
        said = fit(_phrase(row), width - line.cell_len).rstrip()
        return line.append(said, self.ink(_ink(row)))

    def _room(self, width: int) -> int:
        """Cells of what a step did: half of the line, and what the oracle's words leave."""
        places = 1 + MARK + STEP + MESSAGE + 4 * len(GAP)
        left = max(width - places, 0)
        return max(left // 2, left - max(self._widest, len("the oracle's word")))

    def action_open(self) -> None:
        row = self.row
        if row is not None:
            self.post_message(self.Opened(self.stage.wanted.trace, row.step))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.row_at(event.y - self.gutter.top) is not None:
            self.action_open()


def _mark(row: StepRow) -> str:
    if row.decisive:
        return "◆"
    return {True: "✗", False: "✓", None: "?"}[row.bad] if row.asked else " "


def _phrase(row: StepRow) -> str:
    agrees = AGREES if row.asked and row.bad is False else ""
    return format.one_line(row.phrase) or agrees


def _ink(row: StepRow) -> str:
    if row.decisive:
        return "decisive"
    if row.bad is None:
        return "open" if row.asked else "quiet"
    return "bad" if row.bad else "quiet"
