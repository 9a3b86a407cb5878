"""The first lines of a tried edit: the rates, what they mean, and what stands against them."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.views.trying.stage import EMPTY, TryStage
from arc_tui.widgets.few_lines import TALL, FewLines, folded, noticed


class TryHead(FewLines):
    """The first line in bold, the sentence, the notices; in a tall terminal, the rules too."""

    INK = "try-head"
    COMPONENT_CLASSES = {
        "try-head--title", "try-head--first", "try-head--trouble", "try-head--notice",
        "try-head--basis",
    }  # fmt: skip

    stage: reactive[TryStage] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        stage = self.stage
        first, *more = stage.lines
        troubled = stage.trouble is not None
        basis = stage.basis if self.app.size.height >= TALL else ()
        said = [
            ("title", folded(stage.title, width)),
            ("trouble" if troubled else "first", folded(first, width)),
            *(("", folded(each, width)) for each in more),
            ("notice", noticed(stage.notices, width)),
            *(("basis", folded(each, width)) for each in basis),
        ]
        return self.inked(said)
