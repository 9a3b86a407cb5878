"""The first lines of a comparison: where the two part, who they are, how their figures differ."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui import format
from arc_tui.views.compare.side import Who
from arc_tui.views.compare.view import CompareView
from arc_tui.views.compare.words import NOTE, facts, figures
from arc_tui.widgets.cells import fit
from arc_tui.widgets.few_lines import TALL, FewLines, folded
from arc_tui.widgets.replay.foot import packed

MOST_FIGURES, FEWEST_FIGURES = 3, 2
"""Lines of figures, and in a terminal that is not `TALL`."""


class CompareHead(FewLines):
    """The sentence in bold, a line each for A and B, the figures."""

    INKS = {"sentence": "bold", "letter": "bold $primary", "quiet": "$quiet"}

    view: reactive[CompareView | None] = reactive(None, layout=True)
    waiting: reactive[str] = reactive("", layout=True)
    """What is said while there is nothing to show."""

    @override
    def lines(self, width: int) -> list[Text]:
        view = self.view
        if view is None:
            return [Text(self.waiting)]
        said = [Text(line, self.ink("sentence")) for line in folded(view.sentence, width)]
        who = [self._who("A", view.a, width), self._who("B", view.b, width)]
        counted = packed([NOTE, *figures(view), *map(format.one_line, view.lacks)], width)
        most = MOST_FIGURES if self.app.size.height >= TALL else FEWEST_FIGURES
        if len(counted) > most:
            counted[most - 1 :] = [f"{fit(counted[most - 1], width - 2).rstrip()} …"]
        return [*said, *who, *(Text(line, self.ink("quiet")) for line in counted)]

    def _who(self, letter: str, who: Who, width: int) -> Text:
        line = Text.assemble((f"{letter} ", self.ink("letter")))
        named = format.one_line(who.name)
        told = " · ".join([named, *facts(who), (who.digest or who.trace).rpartition(":")[2][:8]])
        return line.append(fit(told, width - line.cell_len).rstrip())
