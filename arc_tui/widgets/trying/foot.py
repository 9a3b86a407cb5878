"""The last line of a tried edit: how far it is, then who was asked and what that cost."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.trying.stage import EMPTY, TryStage
from arc_tui.views.trying.words import spent, whom
from arc_tui.widgets.bound import stops
from arc_tui.widgets.cells import spread
from arc_tui.widgets.ink import Inked
from arc_tui.widgets.replay.foot import BAR


class TryFoot(Inked):
    """Progress or figures."""

    ALLOW_SELECT = False
    INKS = {"done": "$primary", "left": "$line", "figures": "$quiet"}

    stage: reactive[TryStage] = reactive(EMPTY)

    def render(self) -> Text:
        stage, view = self.stage, self.stage.view
        if not stage.running:
            figures = " · ".join(filter(None, (whom(view), spent(view)))) if view.done else ""
            return spread(Text(figures, self.ink("figures")), Text(""), self.content_size.width)
        full = round(BAR * view.done / view.total) if view.total else 0
        allowed = _allowed(stage)
        line = Text.assemble(
            ("━" * full, self.ink("done")),
            ("─" * (BAR - full), self.ink("left")),
            f"  {view.done} of {format.count(view.total, 'step')} · {spent(view)}{allowed}",
        )
        ends = stops(self.screen, "try.stop", stopping=stage.at == "stopping")
        return spread(line, Text(ends), self.content_size.width)


def _allowed(stage: TryStage) -> str:
    """What may be spent in all."""
    limits = stage.wanted.limits
    if limits.usd is not None:
        return f" of {format.usd(limits.usd)}"
    return f" of {format.count(limits.calls, 'call')}" if limits.calls is not None else ""
