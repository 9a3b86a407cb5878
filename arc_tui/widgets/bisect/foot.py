"""The last line of a bisection: how far it is, then who was asked and what that cost."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.bisect.stage import EMPTY, BisectStage
from arc_tui.views.bisect.view import BisectView
from arc_tui.widgets.bound import stops
from arc_tui.widgets.cells import spread
from arc_tui.widgets.ink import Inked
from arc_tui.widgets.replay.foot import BAR, packed
from replay.budget import Limits

WIDE = 100
"""Cells from which on the bar is a long one."""


class BisectFoot(Inked):
    """Progress or figures."""

    ALLOW_SELECT = False
    INKS = {"done": "$primary", "left": "$line", "figures": "$quiet"}

    stage: reactive[BisectStage] = reactive(EMPTY)

    def render(self) -> Text:
        stage, view = self.stage, self.stage.view
        if not stage.running:
            first = packed(_figures(view), self._width)[:1]
            return Text("".join(first), self.ink("figures"))
        outlook = stage.prospect.outlook if stage.prospect is not None else None
        about = max(outlook.samples if outlook is not None else 0, view.samples, 1)
        room = BAR if self._width >= WIDE else BAR // 2
        full = round(room * view.samples / about)
        line = Text.assemble(
            ("━" * full, self.ink("done")),
            ("─" * (room - full), self.ink("left")),
            f"  {view.samples} of about {format.count(about, 'answer')}",
            f" · {_spent(view)}{_allowed(stage.wanted.limits)}",
        )
        ends = stops(self.screen, "bisect.stop", stopping=stage.at == "stopping")
        return spread(line, Text(ends), self._width)

    @property
    def _width(self) -> int:
        return self.content_size.width


def _figures(view: BisectView) -> Iterator[str]:
    """Who was asked, how often, for how much; what it rests on."""
    where = f" at {format.one_line(view.server)}" if view.server else ""
    if view.model:
        yield f"{format.one_line(view.model)}{where}"
    if view.samples:
        checks = f" + {view.checks} to check it" if view.checks else ""
        yield f"{format.count(view.samples, 'answer')}{checks}"
        yield _spent(view)
    if view.fidelity is not None:
        yield format.fidelity(view.fidelity, view.fidelity_reasons)


def _spent(view: BisectView) -> str:
    usd = format.usd(view.spent_usd, complete=view.spent_complete)
    return f"{view.asked} asked, {view.kept} kept, {usd} spent"


def _allowed(limits: Limits) -> str:
    """What may be spent in all."""
    if limits.usd is not None:
        return f" of {format.usd(limits.usd)}"
    return f" of {format.count(limits.calls, 'call')}" if limits.calls is not None else ""
