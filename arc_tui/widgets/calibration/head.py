"""The first lines of a calibration: what it came to, what that rests on, the pages."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual import events
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.widgets.bound import key_of
from arc_tui.widgets.cells import fit
from arc_tui.widgets.few_lines import FewLines, folded
from arc_tui.widgets.ink import Inked

PAGES = ("Break point", "Classes", "Scores", "Disagreements", "What it means")
BREAK, CLASSES, SCORES, WORST, NOTES = range(len(PAGES))


class CalibrationHead(FewLines):
    """The sentence in bold, what it rests on under it."""

    INKS = {"sentence": "bold", "basis": "$quiet"}

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


class CalibrationTabs(Inked):
    """The names of the pages with their digits on one line, the one in front marked."""

    ALLOW_SELECT = False
    INKS = {"tab": "$quiet", "front": "bold $primary"}

    tab: reactive[int] = reactive(0)
    worst: reactive[int] = reactive(0)
    """How many disagreements there are."""

    class Picked(Message):
        """A tab was clicked."""

        def __init__(self, tab: int) -> None:
            super().__init__()
            self.tab = tab

    def render(self) -> Text:
        front = self.ink("front")
        behind = self.ink("tab")
        line = Text()
        for index, _, shown in self._tabs():
            line.append(shown, front if index == self.tab else behind)
        return line

    def _tabs(self) -> Iterator[tuple[int, int, str]]:
        """(index, column, text) of each tab."""
        at = 0
        for index, name in enumerate(PAGES):
            many = f" {self.worst}" if index == WORST and self.worst else ""
            key = key_of(self.screen, f"calibration.page_{index + 1}")
            words = f"{key} {name}{many}"
            shown = f"[{words}]" if index == self.tab else f" {words} "
            yield index, at, shown
            at += len(shown)

    def on_click(self, event: events.Click) -> None:
        for index, at, shown in self._tabs():
            if at <= event.x - self.gutter.left < at + len(shown):
                self.post_message(self.Picked(index))
