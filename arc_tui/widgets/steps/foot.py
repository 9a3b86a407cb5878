"""The last line of the search for a step: how far it is, then what it went by and what it took."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.steps.stage import EMPTY, StepsStage
from arc_tui.views.steps.words import figures, spent
from arc_tui.widgets.bound import stops
from arc_tui.widgets.cells import spread
from arc_tui.widgets.ink import Inked
from arc_tui.widgets.replay.foot import BAR
from replay.budget import Limits


class StepsFoot(Inked):
    """Progress or figures."""

    ALLOW_SELECT = False
    INKS = {"done": "$primary", "left": "$line", "figures": "$quiet"}

    stage: reactive[StepsStage] = reactive(EMPTY)

    def render(self) -> Text:
        stage, width = self.stage, self.content_size.width
        if stage.running:
            ends = stops(self.screen, "steps.stop", stopping=stage.at == "stopping")
            return spread(self._progress(), Text(ends), width)
        said = figures(stage.view) if any(row.asked for row in stage.view.rows) else ""
        return spread(Text(said, self.ink("figures")), Text(), width)

    def _progress(self) -> Text:
        view = self.stage.view
        done, total = sum(row.asked for row in view.rows), len(view.rows)
        full = round(BAR * done / total) if total else 0
        allowed = _allowed(self.stage.wanted.limits)
        return Text.assemble(
            ("━" * full, self.ink("done")),
            ("─" * (BAR - full), self.ink("left")),
            f"  {done} of {format.count(total, 'step')} · {spent(view)}{allowed}",
        )


def _allowed(limits: Limits) -> str:
    """What may be spent in all."""
    if limits.usd is not None:
        return f" of {format.usd(limits.usd)}"
    return f" of {format.count(limits.calls, 'call')}" if limits.calls is not None else ""
