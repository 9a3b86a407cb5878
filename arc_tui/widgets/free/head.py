"""The first lines of a free run: what it came to as a sentence, and what is to be known of it."""

from __future__ import annotations

from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui.views.free.stage import EMPTY, FreeStage
from arc_tui.widgets.replay.head import MOST, folded


class FreeHead(Widget):
    """The sentence in bold, the notices under it."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"free-head--sentence", "free-head--trouble", "free-head--notice"}

    stage: reactive[FreeStage] = reactive(EMPTY, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Text]:
        troubled = self.stage.trouble is not None and not self.stage.running
        sentence = "trouble" if troubled else "sentence"
        notices = [line for said in self.stage.notices for line in folded(f"! {said}", width)]
        said = [(sentence, folded(self.stage.sentence, width)), ("notice", notices[:MOST])]
        return [
            Text(line, self.get_component_rich_style(f"free-head--{name}", partial=True))
            for name, lines in said
            for line in lines
        ]
