"""The first lines of a bisection: the verdict or how far it is, and what bounds it."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui.views.bisect.stage import EMPTY, BisectStage
from arc_tui.widgets.cells import fit
from arc_tui.widgets.replay.head import MOST, TALL, folded


class BisectHead(Widget):
    """The sentence in bold, what it does not say, the notices, what counts as bad."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {
        "bisect-head--title", "bisect-head--first", "bisect-head--trouble", "bisect-head--notice",
        "bisect-head--bounds",
    }  # fmt: skip

    stage: reactive[BisectStage] = reactive(EMPTY, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Text]:
        stage = self.stage
        first, *more = stage.lines
        notices = [line for said in stage.notices for line in folded(f"! {said}", width)]
        bounds = " ".join(stage.bounds)
        said = [
            ("title", folded(stage.title, width)[:1]),
            ("first" if stage.trouble is None else "trouble", folded(first, width)),
            *(("", folded(each, width)) for each in more),
            ("bounds", folded(bounds, width) if bounds else []),
            ("notice", notices[:MOST]),
            ("bounds", self._bad(width)),
        ]
        return [Text(line, self._ink(name)) for name, lines in said for line in lines]

    def _bad(self, width: int) -> list[str]:
        """What counts as bad; once that was read, in a low terminal, on one line."""
        if not self.stage.bad:
            return []
        low = self.stage.at != "ready" and self.app.size.height < TALL
        return [fit(self.stage.bad, width).rstrip()] if low else folded(self.stage.bad, width)

    def _ink(self, name: str) -> Style | str:
        return self.get_component_rich_style(f"bisect-head--{name}", partial=True) if name else ""
