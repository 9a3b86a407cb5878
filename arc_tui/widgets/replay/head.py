"""The first lines of a replay: its verdict as a sentence, and what stands against it."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.views.replay.stage import EMPTY, Stage
from arc_tui.widgets.bound import keyed
from arc_tui.widgets.few_lines import TALL, FewLines, folded, noticed


class ReplayHead(FewLines):
    """The sentence in bold, what it rests on, the notices under it."""

    INKS = {"sentence": "bold", "trouble": "bold $bad", "basis": "$quiet", "notice": "$warning"}

    stage: reactive[Stage] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        style = "trouble" if self.stage.trouble is not None else "sentence"
        basis = folded("; ".join(self._basis), width) if self._basis else []
        said = partial(keyed, self.screen, typing=True)
        lines = [
            (style, folded(said(self.stage.sentence), width)),
            ("basis", basis),
            ("notice", noticed(map(said, self.stage.notices), width)),
        ]
        return self.inked(lines)

    @property
    def _basis(self) -> tuple[str, ...]:
        """What the sentence rests on, where there is a place for it."""
        return self.stage.basis if self.app.size.height >= TALL else ()
