"""The first lines of a bisection: the verdict or how far it is, and what bounds it."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.views.bisect.stage import EMPTY, BisectStage
from arc_tui.widgets.cells import fit
from arc_tui.widgets.few_lines import TALL, FewLines, folded, noticed


class BisectHead(FewLines):
    """The sentence in bold, what it does not say, the notices, what counts as bad."""

    INK = "bisect-head"
    COMPONENT_CLASSES = {
        "bisect-head--title", "bisect-head--first", "bisect-head--trouble", "bisect-head--notice",
        "bisect-head--bounds",
    }  # fmt: skip

    stage: reactive[BisectStage] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        stage = self.stage
        first, *more = stage.lines
        bounds = " ".join(stage.bounds)
        said = [
            ("title", folded(stage.title, width)[:1]),
            ("first" if stage.trouble is None else "trouble", folded(first, width)),
            *(("", folded(each, width)) for each in more),
            ("bounds", folded(bounds, width) if bounds else []),
            ("notice", noticed(stage.notices, width)),
            ("bounds", self._bad(width)),
        ]
        return self.inked(said)

    def _bad(self, width: int) -> list[str]:
        """What counts as bad; once that was read, in a low terminal, on one line."""
        if not self.stage.bad:
            return []
        low = self.stage.at != "ready" and self.app.size.height < TALL
        return [fit(self.stage.bad, width).rstrip()] if low else folded(self.stage.bad, width)
