"""How often each class of failure happens: bars over failed runs, each run counted once."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual import events
from textual.containers import VerticalScroll
from textual.reactive import reactive
from textual.widgets import Static

from arc_tui import format
from arc_tui.views.failures.view import NOT_AGENTS
from arc_tui.views.runs.view import EMPTY
from arc_tui.widgets.cells import fit
from arc_tui.widgets.ink import Inked
from taxonomy.pareto import UNTAGGED, Bar, Pareto

LABEL = 20
"""The widest label at a usual width of the panel; a longer one is cut with `…`."""


class ParetoPanel(VerticalScroll, Inked, can_focus=False):
    """The Pareto: full blocks for tags, hatched ones for suggestions nobody accepted yet."""

    ALLOW_SELECT = False
    INKS = {"tagged": "$primary", "suggested": "$primary", "apart": "$secondary", "quiet": "$quiet"}

    pareto: reactive[Pareto] = reactive(EMPTY.pareto, repaint=False)

    def on_mount(self) -> None:
        self.mount(Static(markup=False))
        self.border_title = "failures"
        self.app.theme_changed_signal.subscribe(self, lambda _: self._redraw())
        self._redraw()

    def watch_pareto(self) -> None:
        self._redraw()

    def on_resize(self, _: events.Resize) -> None:
        self._redraw()

    def _redraw(self) -> None:
        for drawn in self.query(Static):
            drawn.update(Text("\n").join(self.lines(self.scrollable_content_region.width)))

    def lines(self, width: int) -> list[Text]:
        """The panel's lines at a width."""
        counted = self.pareto
        quiet = self.ink("quiet")
        if not counted.failed:
            return [Text("no failed runs", quiet)]
        bars = counted.all_bars
        most = max([bar.count for bar in bars] + [counted.untagged])
        label = min(max([len(bar.label) for bar in bars] + [len(UNTAGGED)]), LABEL)
        room = width - label - len(str(most)) - 3
        lines = [self._bar(bar, most, label, room, "tagged") for bar in counted.bars]
        if counted.apart:
            lines += [Text(), Text(NOT_AGENTS, quiet)]
            lines += [self._bar(bar, most, label, room, "apart") for bar in counted.apart]
        if counted.untagged:
            blocks = "░" * len(format.bar(counted.untagged / most, room))
            lines.append(_line(UNTAGGED, label, (blocks, quiet), counted.untagged))
        lines += [Text(), Text("█ tagged  ▒ suggested by a rule", quiet)]
        if counted.unknown:
            lines.append(Text(f"{counted.unknown} of unknown outcome left out", quiet))
        return lines

    def _bar(self, bar: Bar, most: int, label: int, room: int, style: str) -> Text:
        whole = len(format.bar(bar.count / most, room))
        tagged = min(len(format.bar(bar.tagged / most, room)), whole)
        line = _line(bar.label, label, ("█" * tagged, self.ink(style)), None)
        line.append("▒" * (whole - tagged), self.ink("suggested"))
        return line.append(f" {bar.count}")


def _line(label: str, width: int, blocks: tuple[str, Style], runs: int | None) -> Text:
    line = Text(fit(format.one_line(label), width) + "  ").append(*blocks)
    return line if runs is None else line.append(f" {runs}")
