"""The first lines of a probe: how the failure shows, or what a probe came to; then what stands
against it."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.views.probing.stage import EMPTY, ProbeStage
from arc_tui.widgets.bound import keyed
from arc_tui.widgets.few_lines import FewLines, folded, noticed


class ProbeHead(FewLines):
    """The sentence in bold, the notices under it."""

    INKS = {"first": "bold", "trouble": "bold $bad", "notice": "$warning"}

    stage: reactive[ProbeStage] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        stage, said = self.stage, partial(keyed, self.screen)
        style = "trouble" if stage.trouble is not None else "first"
        lines = [
            (style, folded(said(stage.first), width)),
            ("notice", noticed(map(said, stage.notices), width)),
        ]
        return self.inked(lines)
