"""The first lines of a tried edit: the rates, what they mean, and what stands against them."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.views.trying.stage import EMPTY, TryStage
from arc_tui.widgets.bound import keyed
from arc_tui.widgets.few_lines import TALL, FewLines, folded, noticed


class TryHead(FewLines):
    """The first line in bold, the sentence, the notices; in a tall terminal, the rules too."""

    INKS = {
        "title": "$quiet",
        "first": "bold",
        "trouble": "bold $bad",
        "notice": "$warning",
        "basis": "$quiet",
    }

    stage: reactive[TryStage] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        stage, said = self.stage, partial(keyed, self.screen)
        first, *more = map(said, stage.lines)
        troubled = stage.trouble is not None
        basis = stage.basis if self.app.size.height >= TALL else ()
        lines = [
            ("title", folded(stage.title, width)),
            ("trouble" if troubled else "first", folded(first, width)),
            *(("", folded(each, width)) for each in more),
            ("notice", noticed(map(said, stage.notices), width)),
            *(("basis", folded(each, width)) for each in basis),
        ]
        return self.inked(lines)
