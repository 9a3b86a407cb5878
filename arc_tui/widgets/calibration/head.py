"""The first lines of a calibration: what it came to, what that rests on, the pages."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from typing_extensions import override

from arc_tui.widgets.cells import fit
from arc_tui.widgets.few_lines import FewLines, folded

PAGES = ("Break point", "Classes", "Scores", "Disagreements", "What it means")
BREAK, CLASSES, SCORES, WORST, NOTES = range(len(PAGES))


class CalibrationHead(FewLines):
    """The sentence in bold, what it rests on under it."""

    INK = "calibration-head"
    COMPONENT_CLASSES = {"calibration-head--sentence", "calibration-head--basis"}

    sentence: reactive[str] = reactive("", layout=True)
    basis: reactive[str] = reactive("", layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        bold = self.ink("sentence")
        quiet = self.ink("basis")
        lines = [Text(line, bold) for line in folded(self.sentence, width)]
        if self.basis:
            lines.append(Text(fit(self.basis, width), quiet))
        return lines


class CalibrationTabs(Widget):
    """The names of the pages with their digits on one line, the one in front marked."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"calibration-tabs--tab", "calibration-tabs--front"}

    tab: reactive[int] = reactive(0)
    worst: reactive[int] = reactive(0)
    """How many disagreements there are."""

    class Picked(Message):
        """A tab was clicked."""

        def __init__(self, tab: int) -> None:
            super().__init__()
            self.tab = tab

    def render(self) -> Text:
        front = self.get_component_rich_style("calibration-tabs--front", partial=True)
        behind = self.get_component_rich_style("calibration-tabs--tab", partial=True)
        line = Text()
        for index, _, shown in self._tabs():
            line.append(shown, front if index == self.tab else behind)
        return line

    def _tabs(self) -> Iterator[tuple[int, int, str]]:
        """(index, column, text) of each tab."""
        at = 0
        for index, name in enumerate(PAGES):
            many = f" {self.worst}" if index == WORST and self.worst else ""
            words = f"{index + 1} {name}{many}"
            shown = f"[{words}]" if index == self.tab else f" {words} "
            yield index, at, shown
            at += len(shown)

    def on_click(self, event: events.Click) -> None:
        for index, at, shown in self._tabs():
            if at <= event.x - self.gutter.left < at + len(shown):
                self.post_message(self.Picked(index))
