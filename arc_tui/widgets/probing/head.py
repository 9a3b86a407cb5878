"""The first lines of a probe: how the failure shows, or what a probe came to; then what stands
against it."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui.views.probing.stage import EMPTY, ProbeStage
from arc_tui.widgets.replay.head import MOST, folded


class ProbeHead(Widget):
    """The sentence in bold, the notices under it."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"probe-head--first", "probe-head--trouble", "probe-head--notice"}

    stage: reactive[ProbeStage] = reactive(EMPTY, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Text]:
        stage = self.stage
        style = "trouble" if stage.trouble is not None else "first"
        notices = [line for said in stage.notices for line in folded(f"! {said}", width)]
        said = [(style, folded(stage.first, width)), ("notice", notices[:MOST])]
        return [Text(line, self._ink(name)) for name, lines in said for line in lines]

    def _ink(self, name: str) -> Style:
        return self.get_component_rich_style(f"probe-head--{name}", partial=True)
