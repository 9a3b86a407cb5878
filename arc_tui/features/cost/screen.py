"""The money screen: what a run spent, how much of it was likely wasted, and where.

Costs at the left, dearest first, the one under the cursor in full at the right. The run is read
once; a what-if for another model asks nobody, it only reckons.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive

from arc_tui.features.cost.text import CostRows, build_cost_rows
from arc_tui.features.cost.view import Where, build_cost
from arc_tui.features.cost.widgets import CostFoot, CostHead, CostList, cost_page
from arc_tui.navigation import ReturnToTrace
from arc_tui.ui.dialogs import AskBox
from arc_tui.ui.document import document_text
from arc_tui.ui.key_bar import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.page import LinkedPage
from arc_tui.ui.screen import ArcScreen
from taxonomy.stats.routing import WhatIf

ROUTE_WORDS = (
    "What would the same tokens have cost at another model's price? Cost only: another model"
    " counts other tokens, answers otherwise, and may not solve the task: resolution must be"
    " re-measured."
)


_WHERE: dict[str, Where] = {"": "all", "all": "all", "short": "short", "read-only": "read-only"}


class CostScreen(ArcScreen):
    """The money of one run."""

    CSS_PATH = "cost.tcss"
    HELP = "the money of a run"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        Binding("o", "route", "other model", id="money.route",
                tooltip="What the same tokens would have cost at another model's price"),
        Binding("y", "copy", "copy", id="money.copy",
                tooltip="Copy what is shown in full as text"),
        Binding("tab,shift+tab", "pane", "other pane", id="money.pane",
                tooltip="Between the costs and the one in full"),
        Binding("escape", "back", "back", id="money.back",
                tooltip="Back to the costs, then to the run"),
    ]  # fmt: skip

    found: reactive[CostRows | None] = reactive(None, repaint=False)
    routed: reactive[WhatIf | None] = reactive(None, repaint=False)

    costs = query_one(CostList)
    page = query_one("#cost", LinkedPage)

    class Loaded(Message):
        """The run was read."""

        def __init__(self, found: CostRows) -> None:
            super().__init__()
            self.found = found

    class Routed(Message):
        """A what-if was reckoned."""

        def __init__(self, route: WhatIf | None) -> None:
            super().__init__()
            self.route = route

    def __init__(self, path: Path, trace: str) -> None:
        super().__init__(path)
        self.trace = trace

    def compose(self) -> ComposeResult:
        yield CostHead().data_bind(CostScreen.found, route=CostScreen.routed)
        with Container(id="money"):
            yield CostList(id="costs").data_bind(CostScreen.found)
            yield LinkedPage(id="cost")
        yield CostFoot().data_bind(CostScreen.found)
        yield KeyBar()

    def on_mount(self) -> None:
        self.costs.focus()
        self.ask(lambda store: build_cost_rows(store, self.trace), self.Loaded, group="money")

    def on_cost_screen_loaded(self, event: Loaded) -> None:
        self.found = event.found

    def on_cost_screen_routed(self, event: Routed) -> None:
        self.routed = event.route

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.costs:
            row = self.costs.row
            self.page.document = () if row is None else cost_page(row)

    def on_cost_list_chosen(self, event: CostList.Chosen) -> None:
        self.post_message(ReturnToTrace(self.trace, event.step))

    def on_linked_page_followed(self, event: LinkedPage.Followed) -> None:
        self.post_message(ReturnToTrace(self.trace, event.step))

    def action_route(self) -> None:
        hint = f"a model's name, and then perhaps one of: {', '.join(get_args(Where))}"
        self.app.push_screen(AskBox("other model?", ROUTE_WORDS, hint=hint), self._route)

    def _route(self, answer: str | None) -> None:
        if answer is None:
            return
        model, _, rest = answer.partition(" ")
        where: Where | None = _WHERE.get(rest.strip())
        if where is None:
            self.say(f"after the model's name: {', '.join(get_args(Where))}", severity="warning")
            return
        self.ask(
            lambda store: build_cost(store, self.trace, model, where).route,
            self.Routed,
            group="route",
        )

    def action_pane(self) -> None:
        pane = self.costs if self.focused is self.page else self.page
        pane.focus()

    def action_copy(self) -> None:
        text = document_text(self.page.document)
        self.app.copy_to_clipboard(text)
        self.say(f"copied as text, {len(text)} characters")

    def action_back(self) -> None:
        if self.focused is self.page:
            self.costs.focus()
        else:
            self.dismiss()
