"""The first lines of a replay: its verdict as a sentence, and what stands against it."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui import format
from arc_tui.views.replay.stage import EMPTY, Stage
from arc_tui.widgets.cells import fit, wrap

MOST = 3
"""Lines of the sentence, and of all that stands against it."""

TALL = 30
"""Rows of a terminal from which on what the sentence rests on has a place under it."""


class ReplayHead(Widget):
    """The sentence in bold, what it rests on, the notices under it."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {
        "replay-head--sentence", "replay-head--trouble", "replay-head--basis",
        "replay-head--notice",
    }  # fmt: skip

    stage: reactive[Stage] = reactive(EMPTY, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Text]:
        style = "trouble" if self.stage.trouble is not None else "sentence"
        sentence = self._ink(style), folded(self.stage.sentence, width)
        basis = folded("; ".join(self._basis), width) if self._basis else []
        notices = [line for said in self.stage.notices for line in folded(f"! {said}", width)]
        said = [sentence, (self._ink("basis"), basis), (self._ink("notice"), notices[:MOST])]
        return [Text(line, ink) for ink, lines in said for line in lines]

    @property
    def _basis(self) -> tuple[str, ...]:
        """What the sentence rests on, where there is a place for it."""
        return self.stage.basis if self.app.size.height >= TALL else ()

    def _ink(self, name: str) -> Style:
        return self.get_component_rich_style(f"replay-head--{name}", partial=True)


def folded(said: str, width: int) -> list[str]:
    """A sentence in at most MOST lines, `…` at the end of the last where it says more."""
    text = format.one_line(said)
    lines = [text[start:end] for start, end in wrap(text, width)]
    if len(lines) > MOST:
        lines[MOST - 1] = fit(" ".join(lines[MOST - 1 :]), width)
    return lines[:MOST]
