"""The parts of the calibration screen: its head, the names of its pages, a page of figures, and the
list of disagreements, worst first, each a key away from its run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.features.calibration.tables import Line, folded_table, text
from arc_tui.features.calibration.view import NamedDisagreement
from arc_tui.navigation import OpenTrace
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.format import fit
from arc_tui.ui.keys import key_of
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import SummaryLines, TabLine, fold_sentence

PAGES = ("Break point", "Classes", "Scores", "Disagreements", "What it means")
BREAK, CLASSES, SCORES, WORST, NOTES = range(len(PAGES))


class CalibrationHead(SummaryLines):
    """The sentence in bold, what it rests on under it."""

    STYLES = {"sentence": "bold", "basis": "$quiet"}

    sentence: reactive[str] = reactive("", layout=True)
    basis: reactive[str] = reactive("", layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        bold = self.style_of("sentence")
        quiet = self.style_of("basis")
        lines = [Text(line, bold) for line in fold_sentence(self.sentence, width)]
        if self.basis:
            lines.append(Text(fit(self.basis, width), quiet))
        return lines


class CalibrationTabs(TabLine):
    """The names of the pages with their digits, the one in front in brackets."""

    STYLES = {"tab": "$quiet", "front": "bold $primary"}

    worst: reactive[int] = reactive(0)
    """How many disagreements there are."""

    @override
    def names(self) -> Iterator[str]:
        for index, name in enumerate(PAGES):
            many = f" {self.worst}" if index == WORST and self.worst else ""
            words = f"{key_of(self.screen, f'calibration.page_{index + 1}')} {name}{many}"
            yield f"[{words}]" if index == self.tab else f" {words} "


Drawing = Callable[[int, int], list[Line]]
"""The lines of a page for a width and a height in cells."""


class CalibrationPage(RowList):
    """Draws what it is given, anew for every size."""

    HELP = "a page of figures"
    STYLES = {
        "title": "bold $primary",
        "quiet": "$quiet",
        "faint": "$faint",
        "strong": "bold",
        "good": "$good",
        "warn": "$warning",
        "bad": "bold $bad",
    }

    drawing: reactive[Drawing | None] = reactive(None, repaint=False, always_update=True)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Line] = []

    @property
    def row_count(self) -> int:
        return len(self._lines)

    @property
    def has_cursor(self) -> bool:
        return False

    @property
    def text(self) -> str:
        """All of it as plain text."""
        return "\n".join(map(text, self._lines))

    def watch_drawing(self) -> None:
        self.rows_changed()
        self.scroll_to(y=0, animate=False)

    def rows_changed(self) -> None:
        drawing, width = self.drawing, self.row_width
        self._lines = drawing(width, self.page_rows) if drawing is not None and width > 0 else []
        super().rows_changed()

    @override
    def draw(self, index: int, width: int) -> Text:
        line = Text()
        for words, style in self._lines[index]:
            line.append(words, self.style_of(style) if style else None)
        line.truncate(width, overflow="ellipsis")
        return line

    def show_cursor(self) -> None:
        """There is none."""

    def action_move(self, rows: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False)

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(self.page_rows - 1, 1))

    def action_first(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_last(self) -> None:
        self.scroll_to(y=self.row_count, animate=False)


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
    STYLES = {"about": "$primary", "quiet": "$quiet"}

    BINDINGS = [
        bind("enter", "open_row", id="calibration.open", tooltip="Open this run at this step"),
    ]  # fmt: skip

    rows: reactive[tuple[NamedDisagreement, ...]] = reactive((), repaint=False)

    @property
    def row_count(self) -> int:
        return len(self.rows)

    @property
    def row(self) -> NamedDisagreement | None:
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
        found, run = self.rows[index].disagreement, self.rows[index].run
        step = format.UNKNOWN if found.step is None else str(found.step)
        labelled, other = format.one_line(found.labelled), format.one_line(found.found)
        return self._line(found.about, format.one_line(run), step, labelled, other, off(found.off),
                          width)  # fmt: skip

    def _line(
        self, about: str, run: str, step: str, labelled: str, found: str, far: str, width: int
    ) -> Text:
        spare = width - ABOUT - STEP - OFF - 5 * len(GAP)
        wide_run, wide_labelled = min(MOST_RUN, spare // 3), min(MOST_LABELLED, spare // 4)
        rest = spare - wide_run - wide_labelled
        quiet = self.style_of("quiet")
        return Text.assemble(
            (fit(about, ABOUT) + GAP, self.style_of("about")),
            fit(run, wide_run) + GAP,
            (fit(step, STEP, right=True) + GAP, quiet),
            fit(labelled, wide_labelled) + GAP,
            fit(found, rest) + GAP,
            (fit(far, OFF, right=True), quiet),
        )

    def action_open_row(self) -> None:
        row = self.row
        if row is not None:
            self.post_message(OpenTrace(row.disagreement.trace, row.disagreement.step))


def off(distance: float | None) -> str:
    """How far apart: whole steps, or the difference of two scores."""
    if distance is None:
        return format.UNKNOWN
    return f"{distance:.0f}" if distance == int(distance) else f"{distance:.2f}"


def in_full(row: NamedDisagreement | None, width: int) -> list[Line]:
    """All that is known of one disagreement."""
    if row is None:
        return []
    each = row.disagreement
    step = "" if each.step is None else f" · step {each.step}"
    strength = f" ({each.strength})" if each.strength and each.strength != each.by else ""
    by = format.one_line(f"{each.by or 'nobody named'}{strength}")
    labelled = f"{format.one_line(each.labelled)} · by {by}"
    lines = folded_table(format.one_line(row.run) + step, width, "strong", "run", LABEL)
    lines += folded_table(labelled, width, "", "labelled", LABEL)
    lines += folded_table(format.one_line(each.found), width, "", "found", LABEL)
    if each.note:
        lines += folded_table(format.one_line(each.note), width, "", "note", LABEL)
    return lines
