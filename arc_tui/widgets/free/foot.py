"""The last lines of a free run: how far it is while it runs, then its figures; in any case, what
it cannot say."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui import format
from arc_tui.views.free.stage import EMPTY, FreeStage
from arc_tui.views.free.view import FreeView
from arc_tui.views.free.words import UNCHECKED
from arc_tui.widgets.bound import stops
from arc_tui.widgets.cells import spread
from arc_tui.widgets.few_lines import FewLines
from arc_tui.widgets.replay.foot import DIGITS, packed


class FreeFoot(FewLines):
    """Progress or figures, and the sentence that stands under every free run."""

    INKS = {"figures": "$quiet", "unchecked": "italic $quiet"}

    stage: reactive[FreeStage] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        figures = self.ink("figures")
        unchecked = self.ink("unchecked")
        if self.stage.running:
            ends = stops(self.screen, "free.back", stopping=self.stage.at == "stopping")
            lines = [spread(Text(progress(self.stage)), Text(ends), width)]
        else:
            lines = [Text(line, figures) for line in packed(_figures(self.stage), width)]
        return [*lines, Text(UNCHECKED, unchecked)]


def progress(stage: FreeStage) -> str:
    """How far a run is."""
    view = stage.view
    if not view.limit:
        return "starting"
    return f"{len(view.rows)} of at most {format.count(view.limit, 'answer')} · {_spent(stage)}"


def _figures(stage: FreeStage) -> Iterator[str]:
    """What it was answered with, the model, fidelity at worst, calls, money, digest."""
    view = stage.view
    if view.ranks:
        yield ", ".join(f"{number} {rank}" for rank, number in view.ranks.items())
    if view.model:
        yield f"{format.one_line(view.model)}{_place(view)}"
    if view.edit is not None:
        yield f"edit {format.cut(format.one_line(view.edit), 40)}"
    if view.fidelity is not None:
        masked = f", {view.masked} masked" if view.masked else ""
        yield f"fidelity {view.fidelity.value}{masked}"
    if view.rows:
        yield _spent(stage)
    if view.digest is not None:
        algorithm, _, digits = view.digest.rpartition(":")
        yield f"{algorithm}:{digits[:DIGITS]}"


def _spent(stage: FreeStage) -> str:
    spent, limits = stage.view.spent, stage.wanted.limits
    asked = f"{spent.asked}" if limits.calls is None else f"{spent.asked} of {limits.calls}"
    allowed = "" if limits.usd is None else f" of {format.usd(limits.usd)}"
    money = format.usd(spent.usd, complete=spent.complete)
    return f"{asked} asked, {spent.kept} kept, {money}{allowed} spent"


def _place(view: FreeView) -> str:
    return f" at {format.one_line(view.server)}" if view.server else ""
