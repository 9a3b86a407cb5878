"""The first lines over the money of a run: what was spent and likely wasted, and the what-if."""

from __future__ import annotations

from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.views.money.rows import MoneyRows
from arc_tui.views.money.words import route_lines, sentence
from arc_tui.widgets.few_lines import FewLines, folded
from taxonomy.routing import WhatIf


class MoneyHead(FewLines):
    """The sentence in bold; under it what the run would have cost at another model's price."""

    INKS = {"sentence": "bold", "route": "$primary"}

    found: reactive[MoneyRows | None] = reactive(None, layout=True)
    route: reactive[WhatIf | None] = reactive(None, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        if self.found is None:
            return [Text("reading the run")]
        bold = self.ink("sentence")
        quiet = self.ink("route")
        lines = [Text(line, bold) for line in folded(sentence(self.found.money), width)]
        if self.route is not None:
            said = f"at {self.route.model}: {'; '.join(route_lines(self.route))}"
            lines += [Text(line, quiet) for line in folded(said, width)]
        return lines
