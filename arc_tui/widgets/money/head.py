"""The first lines over the money of a run: what was spent and likely wasted, and the what-if."""

from __future__ import annotations

from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui.views.money.rows import MoneyRows
from arc_tui.views.money.words import route_lines, sentence
from arc_tui.widgets.replay.head import folded
from taxonomy.routing import WhatIf


class MoneyHead(Widget):
    """The sentence in bold; under it what the run would have cost at another model's price."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"money-head--sentence", "money-head--route"}

    found: reactive[MoneyRows | None] = reactive(None, layout=True)
    route: reactive[WhatIf | None] = reactive(None, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Text]:
        if self.found is None:
            return [Text("reading the run")]
        bold = self.get_component_rich_style("money-head--sentence", partial=True)
        quiet = self.get_component_rich_style("money-head--route", partial=True)
        lines = [Text(line, bold) for line in folded(sentence(self.found.money), width)]
        if self.route is not None:
            said = f"at {self.route.model}: {'; '.join(route_lines(self.route))}"
            lines += [Text(line, quiet) for line in folded(said, width)]
        return lines
