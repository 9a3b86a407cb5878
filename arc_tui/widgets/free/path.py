"""The path of a free run: an answer a row, what its calls got, and why it is over."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.free.stage import EMPTY, FreeStage
from arc_tui.views.free.view import MARKS, FreeRow, FreeStop, FreeView, Got, did_words, got_words
from arc_tui.widgets.cells import fit
from arc_tui.widgets.rows import RowList

MARK = 9
STEP = 5
GAP = 2
MOST_GOT = 26
"""Cells that what was answered takes at most."""

GOT = "was answered"
STOPPED, ENDED = "■ stopped", "● ended"


class FreePath(RowList):
    """The answers of a run; where it is over, a last row that says why."""

    HELP = "the path"
    HEAD = 1
    INKS = {
        "same": "$quiet",
        "left": "bold $warning",
        "unclear": "bold $secondary",
        "own": "$primary",
        "stopped": "bold $bad",
        "ended": "bold $good",
        "number": "$quiet",
        "quiet": "$quiet",
        "unanswered": "$bad",
    }

    BINDINGS = [
        Binding("enter", "choose", "in full", id="free.full", tooltip="Show this answer in full"),
    ]  # fmt: skip

    stage: reactive[FreeStage] = reactive(EMPTY, repaint=False)

    class Chosen(Message):
        """The row under the cursor is to be read in full."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.border_title = "what it did"
        self._got_width = 0

    @property
    def view(self) -> FreeView:
        return self.stage.view

    @property
    def row_count(self) -> int:
        return len(self.view.rows) + (self.view.stop is not None)

    @property
    def row(self) -> FreeRow | None:
        """The answer under the cursor, None on the last row of a run that is over."""
        rows = self.view.rows
        return rows[self.cursor] if self.cursor < len(rows) else None

    def watch_stage(self, before: FreeStage, stage: FreeStage) -> None:
        """Follow the run: to its newest answer, and to why it is over."""
        if before.view is stage.view:
            return
        self._got_width = min(_widest(stage.view), MOST_GOT)
        self.rows_changed()
        self.cursor = self.row_count - 1
        self.post_message(self.Moved(self))

    def draw_head(self, line: int, width: int) -> Text:
        del line
        did = self._did_width(width)
        got = GOT if self._got_width else ""
        return Text(f"{' ' * MARK} {fit('step', STEP)}{fit('did', did)}{' ' * GAP}{got}")

    def draw(self, index: int, width: int) -> Text:
        rows, stop = self.view.rows, self.view.stop
        if index < len(rows):
            return self._draw_row(rows[index], width)
        return self._draw_stop(stop, width) if stop is not None else Text()

    def _draw_row(self, row: FreeRow, width: int) -> Text:
        step = str(row.step) if row.step is not None else format.UNKNOWN
        got = _got(row)
        unanswered = any(each.text is None for each in row.got)
        return Text.assemble(
            (fit(MARKS[row.mark], MARK), self.ink(row.mark)),
            (f" {step:>3}  ", self.ink("number")),
            fit(did_words(row), self._did_width(width)) + " " * GAP,
            (
                fit(got, self._got_width),
                self.ink("unanswered" if unanswered else "quiet"),
            ),
        )

    def _draw_stop(self, stop: FreeStop, width: int) -> Text:
        ended = stop.status == "finished"
        mark, ink = (ENDED, "ended") if ended else (STOPPED, "stopped")
        return Text.assemble(
            (fit(mark, MARK), self.ink(ink)),
            " " * (STEP + 1),
            fit(format.one_line(stop.sentence), width - MARK - STEP - 1),
        )

    def _did_width(self, width: int) -> int:
        return max(width - MARK - STEP - 1 - GAP - self._got_width, 8)

    def action_choose(self) -> None:
        self.post_message(self.Chosen())

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.row_at(event.y - self.gutter.top) is not None:
            self.action_choose()


def _got(row: FreeRow) -> str:
    """What all calls of an answer got: of several that got the same, how many."""
    said = [_rank(each, row.step) for each in row.got]
    if len(set(said)) <= 1:
        times = f"{len(said)} × " if len(said) > 1 else ""
        return f"{times}{said[0]}" if said else ""
    return " + ".join(said)


def _rank(got: Got, here: int | None) -> str:
    """The rank of what a call got, and the step it is from where that is another one."""
    if got.text is None:
        return got_words(got)
    place = f" of {got.step}" if got.step not in (None, here) else ""
    return f"{got.rank}{place}{', error' if got.is_error else ''}"


def _widest(view: FreeView) -> int:
    """Cells of what was answered, 0 where nothing was called."""
    widest = max((cell_len(_got(row)) for row in view.rows), default=0)
    return max(widest, len(GOT)) if widest else 0
