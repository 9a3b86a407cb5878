"""The last line of a replay: how far it is while it runs, then what it came to in figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui import format
from arc_tui.views.replay import ReplayView
from arc_tui.views.stage import EMPTY, Stage
from arc_tui.widgets.cells import spread

BAR = 20
BETWEEN = " · "
DIGITS = 12
"""Shown of the digest; `arc replay` prints all of it."""


class ReplayFoot(Widget):
    """Progress or figures; the figures take a second line where one is too short."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"replay-foot--done", "replay-foot--left", "replay-foot--figures"}

    stage: reactive[Stage] = reactive(EMPTY, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return 1 if self.stage.running else max(len(packed(figures(self.stage.view), width)), 1)

    def render(self) -> Text:
        if self.stage.running:
            return self._progress()
        lines = packed(figures(self.stage.view), self.content_size.width)
        return Text("\n".join(lines), self._ink("figures"))

    def _progress(self) -> Text:
        view = self.stage.view
        total = view.total or len(self.stage.draft.rows)
        full = round(BAR * view.done / total) if total else 0
        line = Text.assemble(
            ("━" * full, self._ink("done")),
            ("━" * (BAR - full), self._ink("left")),
            f"  {view.done} of {format.count(total, 'step')} · {', '.join(asked(view))}",
        )
        ends = "stopping" if self.stage.at == "stopping" else "esc stops"
        return spread(line, Text(ends), self.content_size.width)

    def _ink(self, name: str) -> Style:
        return self.get_component_rich_style(f"replay-foot--{name}", partial=True)


def figures(view: ReplayView) -> Iterator[str]:
    """Collateral, the model, fidelity at worst, calls, money, digest: what there is of them."""
    counted = view.verdict.collateral
    if counted is not None:
        yield f"fixed {counted.fixed}"
        yield f"broke {counted.broke}"
        yield f"changed {counted.changed}"
        yield f"same {counted.same}"
        if counted.unclear:
            yield f"unclear {counted.unclear}"
    if view.model:
        yield format.one_line(view.model)
    if view.verdict.weakest is not None:
        yield f"fidelity {view.verdict.weakest.value}"
    if view.done:
        yield ", ".join(asked(view))
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


def asked(view: ReplayView) -> tuple[str, str, str]:
    """How many answers were asked for and how many were there, and what was spent."""
    spent = format.usd(view.spent_usd, complete=view.spent_complete)
    return f"{view.asked} asked", f"{view.kept} kept", f"{spent} spent"
