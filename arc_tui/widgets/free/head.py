"""The first lines of a free run: what it came to as a sentence, and what is to be known of it."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.views.free.stage import EMPTY, FreeStage
from arc_tui.widgets.bound import keyed
from arc_tui.widgets.few_lines import FewLines, folded, noticed


class FreeHead(FewLines):
    """The sentence in bold, the notices under it."""

    INKS = {"sentence": "bold", "trouble": "bold $bad", "notice": "$warning"}

    stage: reactive[FreeStage] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        troubled = self.stage.trouble is not None and not self.stage.running
        sentence = "trouble" if troubled else "sentence"
        said = partial(keyed, self.screen)
        lines = [
            (sentence, folded(said(self.stage.sentence), width)),
            ("notice", noticed(map(said, self.stage.notices), width)),
        ]
        return self.inked(lines)
