"""The last line of a replay: how far it is while it runs, then what it came to in figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import cell_len
from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.replay.stage import EMPTY, Stage
from arc_tui.views.replay.view import ReplayView
from arc_tui.widgets.bound import stops
from arc_tui.widgets.cells import spread
from arc_tui.widgets.ink import Inked
from replay.budget import Limits

BAR = 20
BETWEEN = " · "
DIGITS = 12
"""Shown of the digest; `arc replay` prints all of it."""


class ReplayFoot(Inked):
    """Progress or figures; the figures take a second line where one is too short."""

    ALLOW_SELECT = False
    INKS = {"done": "$primary", "left": "$faint", "figures": "$quiet"}

    stage: reactive[Stage] = reactive(EMPTY, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return (
            1
            if self.stage.running
            else max(len(packed(figures(self.stage.view, self.stage.limits), width)), 1)
        )

    def render(self) -> Text:
        if self.stage.running:
            return self._progress()
        lines = packed(figures(self.stage.view, self.stage.limits), self.content_size.width)
        return Text("\n".join(lines), self.ink("figures"))

    def _progress(self) -> Text:
        view = self.stage.view
        total = view.total or len(self.stage.draft.rows)
        full = round(BAR * view.done / total) if total else 0
        line = Text.assemble(
            ("━" * full, self.ink("done")),
            ("─" * (BAR - full), self.ink("left")),
            f"  {_progress(view, total)} · {', '.join(asked(view, self.stage.limits))}",
        )
        ends = stops(self.screen, "replay.back", stopping=self.stage.at == "stopping")
        return spread(line, Text(ends), self.content_size.width)


def _progress(view: ReplayView, total: int) -> str:
    """How many steps are known; once all are, some may still be open."""
    if view.done == total and total:
        return "more samples where it is open"
    return f"{view.done} of {format.count(total, 'step')}"


def figures(view: ReplayView, limits: Limits) -> Iterator[str]:
    """Collateral, the models, fidelity at worst, calls, money, digest: what there is of them."""
    counted = view.verdict.collateral
    if counted is not None:
        yield f"fixed {counted.fixed}"
        yield f"broke {counted.broke}"
        yield f"changed {counted.changed}"
        yield f"same {counted.same}"
        if counted.unclear:
            yield f"unclear {counted.unclear}"
    if view.model:
        yield f"{format.one_line(view.model)}{_place(view)}"
    if view.verdict.weakest is not None:
        masked = f", {view.verdict.masked} masked" if view.verdict.masked else ""
        yield f"fidelity {view.verdict.weakest.value}{masked}"
    if view.done:
        yield ", ".join(asked(view, limits))
    if view.digest is not None:
        algorithm, _, digits = view.digest.rpartition(":")
        yield f"{algorithm}:{digits[:DIGITS]}"


def packed(parts: Iterable[str], width: int) -> list[str]:
    """Parts on as few lines as they need."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + len(BETWEEN) + cell_len(part) <= width:
            lines[-1] += BETWEEN + part
        else:
            lines.append(part)
    return lines


def _place(view: ReplayView) -> str:
    """Where it was asked, and who else was."""
    server = f" at {format.one_line(view.server)}" if view.server else ""
    other = view.verdict.edited_model
    return f"{server}, the edit of {format.one_line(other)}" if other is not None else server


def asked(view: ReplayView, limits: Limits) -> tuple[str, str, str]:
    """How many answers were asked for and how many were there, and what was spent, each of what
    was allowed."""
    calls = f"{view.asked}" if limits.calls is None else f"{view.asked} of {limits.calls}"
    spent = format.usd(view.spent_usd, complete=view.spent_complete)
    allowed = "" if limits.usd is None else f" of {format.usd(limits.usd)}"
    return f"{calls} asked", f"{view.kept} kept", f"{spent}{allowed} spent"
