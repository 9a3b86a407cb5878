"""A few labelled lines, as high as they need: what a class is, who agrees with whom."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.failures.words import Labelled
from arc_tui.widgets.cells import fit, wrap
from arc_tui.widgets.ink import Inked

LEAST = 10
"""Cells that the labels take at least."""


class FailureCard(Inked):
    """Labels in a column of their own, what they label wrapped beside it."""

    ALLOW_SELECT = False
    INKS = {"label": "$quiet"}

    said: reactive[tuple[Labelled, ...]] = reactive((), layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(list(self._lines(width)))

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> Iterator[Text]:
        column = max([len(label) for label, _ in self.said] + [LEAST]) + 2
        quiet = self.ink("label")
        for label, words in self.said:
            text = format.plain(words)
            for place, (start, end) in enumerate(wrap(text, width - column)):
                head = fit("" if place else label, column)
                yield Text.assemble((head, quiet), text[start:end])
