"""The first lines of a bisection: the verdict or how far it is, and what bounds it."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.views.bisect.stage import EMPTY, BisectStage
from arc_tui.widgets.bound import keyed
from arc_tui.widgets.cells import fit
from arc_tui.widgets.few_lines import TALL, FewLines, folded, noticed


class BisectHead(FewLines):
    """The sentence in bold, what it does not say, the notices, what counts as bad."""

    INKS = {
        "title": "$quiet",
        "first": "bold",
        "trouble": "bold $bad",
        "notice": "$warning",
        "bounds": "$quiet",
    }

    stage: reactive[BisectStage] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        stage, said = self.stage, partial(keyed, self.screen)
        first, *more = map(said, stage.lines)
        bounds = said(" ".join(stage.bounds))
        lines = [
            ("title", folded(stage.title, width)[:1]),
            ("first" if stage.trouble is None else "trouble", folded(first, width)),
            *(("", folded(each, width)) for each in more),
            ("bounds", folded(bounds, width) if bounds else []),
            ("notice", noticed(map(said, stage.notices), width)),
            ("bounds", self._bad(width)),
        ]
        return self.inked(lines)

    def _bad(self, width: int) -> list[str]:
        """What counts as bad; once that was read, in a low terminal, on one line."""
        if not self.stage.bad:
            return []
        low = self.stage.at != "ready" and self.app.size.height < TALL
        return [fit(self.stage.bad, width).rstrip()] if low else folded(self.stage.bad, width)
