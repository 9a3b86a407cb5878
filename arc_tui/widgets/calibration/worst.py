"""Where labels and findings part: a list, worst first, each a key away from its run."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.calibration.stage import Apart
from arc_tui.widgets.calibration.ink import Line, folded
from arc_tui.widgets.cells import fit
from arc_tui.widgets.rows import RowList

ABOUT = 6
STEP = 4
OFF = 5
MOST_RUN, MOST_LABELLED = 28, 24
GAP = "  "
LABEL = 10


class CalibrationWorst(RowList):
    """Disagreements, one a line, under a head that names the columns."""

    HELP = "the disagreements"
    HEAD = 1
    INKS = {"about": "$primary", "quiet": "$quiet"}

    BINDINGS = [
        Binding("enter", "open", "open", id="calibration.open",
                tooltip="Open this run at this step"),
    ]  # fmt: skip

    rows: reactive[tuple[Apart, ...]] = reactive((), repaint=False)

    class Opened(Message):
        """A run is to be looked at; `step` None: nobody said which one."""

        def __init__(self, trace: str, step: int | None) -> None:
            super().__init__()
            self.trace = trace
            self.step = step

    @property
    def row_count(self) -> int:
        return len(self.rows)

    @property
    def row(self) -> Apart | None:
        """The one under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def watch_rows(self) -> None:
        self.cursor = 0
        self.rows_changed()
        self.post_message(self.Moved(self))

    def draw_head(self, line: int, width: int) -> Text:
        del line
        return self._line("about", "run", "step", "labelled", "found", "off", width)

    def draw(self, index: int, width: int) -> Text:
        said, run = self.rows[index].said, self.rows[index].run
        step = format.UNKNOWN if said.step is None else str(said.step)
        labelled, found = format.one_line(said.labelled), format.one_line(said.found)
        return self._line(said.about, format.one_line(run), step, labelled, found, off(said.off),
                          width)  # fmt: skip

    def _line(
        self, about: str, run: str, step: str, labelled: str, found: str, far: str, width: int
    ) -> Text:
        spare = width - ABOUT - STEP - OFF - 5 * len(GAP)
        wide_run, wide_labelled = min(MOST_RUN, spare // 3), min(MOST_LABELLED, spare // 4)
        rest = spare - wide_run - wide_labelled
        quiet = self.ink("quiet")
        return Text.assemble(
            (fit(about, ABOUT) + GAP, self.ink("about")),
            fit(run, wide_run) + GAP,
            (fit(step, STEP, right=True) + GAP, quiet),
            fit(labelled, wide_labelled) + GAP,
            fit(found, rest) + GAP,
            (fit(far, OFF, right=True), quiet),
        )

    def action_open(self) -> None:
        row = self.row
        if row is not None:
            self.post_message(self.Opened(row.said.trace, row.said.step))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.row_at(event.y - self.gutter.top) is not None:
            self.action_open()


def off(distance: float | None) -> str:
    """How far apart: whole steps, or the difference of two scores."""
    if distance is None:
        return format.UNKNOWN
    return f"{distance:.0f}" if distance == int(distance) else f"{distance:.2f}"


def in_full(apart: Apart | None, width: int) -> list[Line]:
    """All that is known of one disagreement."""
    if apart is None:
        return []
    said = apart.said
    step = "" if said.step is None else f" · step {said.step}"
    strength = f" ({said.strength})" if said.strength and said.strength != said.by else ""
    by = format.one_line(f"{said.by or 'nobody named'}{strength}")
    lines = folded(format.one_line(apart.run) + step, width, "strong", "run", LABEL)
    lines += folded(f"{format.one_line(said.labelled)} · by {by}", width, "", "labelled", LABEL)
    lines += folded(format.one_line(said.found), width, "", "found", LABEL)
    if said.note:
        lines += folded(format.one_line(said.note), width, "", "note", LABEL)
    return lines
