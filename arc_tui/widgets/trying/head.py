"""The first lines of a tried edit: the rates, what they mean, and what stands against them."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui.views.trying.stage import EMPTY, TryStage
from arc_tui.widgets.replay.head import MOST, TALL, folded


class TryHead(Widget):
    """The first line in bold, the sentence, the notices; in a tall terminal, the rules too."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {
        "try-head--title", "try-head--first", "try-head--trouble", "try-head--notice",
        "try-head--basis",
    }  # fmt: skip

    stage: reactive[TryStage] = reactive(EMPTY, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Text]:
        stage = self.stage
        first, *more = stage.lines
        troubled = stage.trouble is not None
        notices = [line for said in stage.notices for line in folded(f"! {said}", width)]
        basis = stage.basis if self.app.size.height >= TALL else ()
        said = [
            ("title", folded(stage.title, width)),
            ("trouble" if troubled else "first", folded(first, width)),
            *(("", folded(each, width)) for each in more),
            ("notice", notices[:MOST]),
            *(("basis", folded(each, width)) for each in basis),
        ]
        return [Text(line, self._ink(name)) for name, lines in said for line in lines]

    def _ink(self, name: str) -> Style | str:
        return self.get_component_rich_style(f"try-head--{name}", partial=True) if name else ""
