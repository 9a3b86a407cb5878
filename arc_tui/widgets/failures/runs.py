"""The runs behind a bar: who says so, what each run is called, at which step, and why."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui import format
from arc_tui.views.failures.view import EMPTY, BarRow, FailuresView
from arc_tui.views.failures.words import told
from arc_tui.widgets.cells import fit
from arc_tui.widgets.rows import RowList
from taxonomy.pareto import RunBehind

MOST = {"run": 26, "step": 5, "by": 18, "owner": 14}
"""The columns before the last and their widest cells; a longer text is cut with `…`."""
MEASURED = 500
ROOM = 64
"""In a narrower list only the mark says whose word it is, and only the bar whose run."""


class FailureRuns(RowList):
    """Failed runs, one a line: `█` tagged, `▒` suggested, `░` a hint that counts nowhere."""

    HELP = "the runs behind a bar"
    HEAD = 1
    INKS = {"tagged": "$primary", "suggested": "$primary", "quiet": "$quiet"}

    BINDINGS = [
        Binding("enter", "open", "open", id="failures.open",
                tooltip="Open the run under the cursor at the step it is counted for"),
    ]  # fmt: skip

    view: reactive[FailuresView] = reactive(EMPTY, repaint=False)
    bar: reactive[BarRow | None] = reactive(None, repaint=False)

    class Opened(Message):
        """A run is to be opened, at a step where one is named."""

        def __init__(self, trace: str, step: int | None) -> None:
            super().__init__()
            self.trace = trace
            self.step = step

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._widths: dict[str, int] = {}

    @property
    def runs(self) -> tuple[RunBehind, ...]:
        return self.bar.runs if self.bar is not None else ()

    @property
    def row_count(self) -> int:
        return len(self.runs)

    @property
    def has_cursor(self) -> bool:
        return self.has_focus

    def watch_bar(self, old: BarRow | None, new: BarRow | None) -> None:
        """Another bar begins at its first run; the same one, read again, stays where it was."""
        self._widths = self._measured()
        self.rows_changed()
        if old is None or new is None or old.label != new.label:
            self.cursor = 0
            self.scroll_to(y=0, animate=False)

    def on_focus(self) -> None:
        self.refresh_row(self.cursor)

    def on_blur(self) -> None:
        self.refresh_row(self.cursor)

    def _measured(self) -> dict[str, int]:
        """The columns before the last one with their widths; owners only where there are several.

        Runs far down are not looked at: a longer text there is cut.
        """
        several = self.bar is not None and self.bar.bar is not None and self.bar.bar.owners > 1
        cells = [self._cells(run) for run in self.runs[:MEASURED]]
        return {
            name: min(max([cell_len(name), *(cell_len(each[name]) for each in cells)]), most)
            for name, most in MOST.items()
            if several or name != "owner"
        }

    def _cells(self, run: RunBehind) -> dict[str, str]:
        """The texts of a run by column."""
        return {
            "run": self.view.name(run),
            "step": format.number(run.step),
            "by": told(run),
            "owner": format.one_line(run.owner) or format.UNKNOWN,
            "why": format.one_line(run.why) or format.UNKNOWN,
        }

    @override
    def draw_head(self, line: int, width: int) -> Text:
        return self._line(Text("   "), {name: name for name in (*MOST, "why")}, width)

    @override
    def draw(self, index: int, width: int) -> Text:
        run = self.runs[index]
        style = "tagged" if run.accepted else "suggested" if run.source else "quiet"
        mark = "█" if run.accepted else "▒" if run.source else "░"
        start = Text.assemble((f" {mark} ", self.ink(style)))
        return self._line(start, self._cells(run), width)

    def _line(self, line: Text, cells: dict[str, str], width: int) -> Text:
        quiet = self.ink("quiet")
        for name, room in self._widths.items():
            if width >= ROOM or name in ("run", "step"):
                text = fit(cells[name], room, right=name == "step")
                line.append(text + "  ", quiet if name in ("by", "owner") else "")
        return line.append(fit(cells["why"], width - line.cell_len).rstrip())

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.row_at(event.y - self.gutter.top) is not None:
            self.action_open()

    def action_open(self) -> None:
        if self.cursor < len(self.runs):
            run = self.runs[self.cursor]
            self.post_message(self.Opened(run.trace, run.step))
