"""The first lines of a probe: how the failure shows, or what a probe came to; then what stands
against it."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.views.probing.stage import EMPTY, ProbeStage
from arc_tui.widgets.few_lines import FewLines, folded, noticed


class ProbeHead(FewLines):
    """The sentence in bold, the notices under it."""

    INK = "probe-head"
    COMPONENT_CLASSES = {"probe-head--first", "probe-head--trouble", "probe-head--notice"}

    stage: reactive[ProbeStage] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        stage = self.stage
        style = "trouble" if stage.trouble is not None else "first"
        said = [(style, folded(stage.first, width)), ("notice", noticed(stage.notices, width))]
        return self.inked(said)
