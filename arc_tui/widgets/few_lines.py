"""What heads and feet of the screens are: a few lines, made for the width there is."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text
from textual.geometry import Size
from typing_extensions import override

from arc_tui import format
from arc_tui.widgets.cells import fit, wrap
from arc_tui.widgets.ink import Inked

MOST = 3
"""Lines that a sentence, or all notices together, may take."""

TALL = 30
"""Rows of a terminal from which on what a sentence rests on stands under it."""


class FewLines(Inked):
    """As high as its lines. A subclass says them."""

    ALLOW_SELECT = False

    @override
    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(self.lines(width))

    @override
    def render(self) -> Text:
        return Text("\n").join(self.lines(self.content_size.width))

    def lines(self, width: int) -> list[Text]:
        """What is shown in so many cells."""
        raise NotImplementedError

    def inked(self, said: Iterable[tuple[str, list[str]]]) -> list[Text]:
        """Lines by the name of their ink."""
        return [Text(line, self.ink(name)) for name, lines in said for line in lines]


def folded(said: str, width: int) -> list[str]:
    """A sentence in at most MOST lines, `…` at the end of the last where it says more."""
    text = format.one_line(said)
    lines = [text[start:end] for start, end in wrap(text, width)]
    if len(lines) > MOST:
        lines[MOST - 1] = fit(" ".join(lines[MOST - 1 :]), width)
    return lines[:MOST]


def noticed(notices: Iterable[str], width: int) -> list[str]:
    """Notices, each marked, in at most MOST lines."""
    return [line for said in notices for line in folded(f"! {said}", width)][:MOST]
