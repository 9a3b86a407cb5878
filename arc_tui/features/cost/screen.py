"""The cost screen: the cost of a run, how much of it was likely wasted, and where.

Costs at the left, most expensive first, the one under the cursor in full at the right. The run is
read once; a what-if for another model makes no call.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Container
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.features.cost.text import (
    CostRow,
    CostRows,
    Fact,
    build_cost_rows,
    resolved_lines,
    route_lines,
    sentence,
    used_count,
)
from arc_tui.features.cost.view import CostRequest, CostView, Where, build_cost, share_of
from arc_tui.navigation import ReturnToTrace
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.dialogs import AskBox
from arc_tui.ui.document import INDENT, Block, Document, Item, StepLink, document_text, value
from arc_tui.ui.format import fit, pack_lines
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.page import LinkedPage
from arc_tui.ui.screen import ArcScreen
from arc_tui.ui.styles import SummaryLines, fold_sentence

AMOUNT, KIND, STEP = 10, 14, 4


class CostList(RowList):
    """The rows by cost."""

    HELP = "the costs"
    HEAD = 1
    STYLES = {"waste": "$warning", "quiet": "$quiet"}

    BINDINGS = [
        bind("enter", "open_row", id="money.go", label="go to step",
             tooltip="Go to the step in the run"),
    ]  # fmt: skip

    found: reactive[CostRows | None] = reactive(None, repaint=False)

    class Chosen(Message):
        """The step of a row is to be shown in the run."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    @property
    def row_count(self) -> int:
        return len(self.found.rows) if self.found is not None else 0

    @property
    def row(self) -> CostRow | None:
        """The one under the cursor."""
        return self.found.rows[self.cursor] if self.found is not None and self.row_count else None

    def watch_found(self) -> None:
        self.nothing = "" if self.found is None else "No step has a recorded size or cost."
        self.rows_changed()
        self.post_message(self.Moved(self))

    def draw_head(self, line: int, width: int) -> Text:
        del line
        cells = (fit("cost", AMOUNT, right=True), fit("kind", KIND), fit("step", STEP), "detail")
        return Text(fit("  ".join(cells), width))

    def draw(self, index: int, width: int) -> Text:
        assert self.found is not None
        row = self.found.rows[index]
        waste = "quiet" if row.kind == "expensive step" else "waste"
        known = row.usd is not None
        line = Text.assemble(
            (_amount(row), self.style_of("quiet") if not known else ""),
            "  ",
            (fit(row.kind, KIND), self.style_of(waste)),
            f"  {row.step:>{STEP}}  ",
        )
        return line.append(fit(row.what, width - line.cell_len))

    def action_open_row(self) -> None:
        if self.row is not None:
            self.post_message(self.Chosen(self.row.step))


def _amount(row: CostRow) -> str:
    """The cost, else the tokens; the bounds of a part stand in full beside it."""
    if row.usd is not None:
        shown = row.amount.split(" for ")[0]
    else:
        shown = f"{format.tokens(row.tokens)} tok" if row.tokens else format.UNKNOWN
    return fit(shown, AMOUNT, right=True)


class CostHead(SummaryLines):
    """The sentence in bold; under it what the run would have cost at another model's price."""

    STYLES = {"sentence": "bold", "route": "$primary"}

    found: reactive[CostRows | None] = reactive(None, layout=True)
    routed: reactive[CostView | None] = reactive(None, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        if self.found is None:
            return [Text("Reading the run")]
        bold = self.style_of("sentence")
        quiet = self.style_of("route")
        lines = [Text(line, bold) for line in fold_sentence(sentence(self.found.view), width)]
        if self.routed is not None and self.routed.route is not None:
            route, compared = self.routed.route, self.routed.resolved
            said = [f"at {route.model}: {'; '.join(route_lines(route))}"]
            said += resolved_lines(compared) if compared is not None else []
            lines += [Text(line, quiet) for each in said for line in fold_sentence(each, width)]
        return lines


class CostFoot(SummaryLines):
    """Facts that hold for all rows."""

    found: reactive[CostRows | None] = reactive(None, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        facts = pack_lines(_facts(self.found), width) if self.found is not None else [""]
        return [Text(line) for line in facts]


def _facts(found: CostRows) -> Iterator[str]:
    spent = found.view.spending
    if not spent.cached:
        yield "cache reads not recorded"
    elif spent.cached < len(spent.steps):
        yield f"cache reads recorded for {spent.cached} of {format.count(len(spent.steps), 'step')}"
    used = used_count(found.view)
    if used:
        yield f"{format.number(used)} resent and used: not listed"
    if found.rows:
        yield "rows overlap: do not add them up"


RESULT = 1200
"""Characters of what a call returned that are shown before it is opened."""


def cost_page(row: CostRow) -> Document:
    """What cost, and everything known of it."""
    title = Block(text=f"step {row.step} · {row.kind}", style="head", aside=row.amount)
    return (title, *(item for place, fact in enumerate(row.facts) for item in _fact(fact, place)))


def _fact(fact: Fact, place: int) -> tuple[Item, ...]:
    label = format.one_line(fact.label)
    if fact.long and ("\n" in fact.text or len(fact.text) > RESULT):
        head = Block(text=label, style="role")
        given = value(fact.text, key=f"money {place}", indent=INDENT)
        return (head, given)
    return (StepLink(step=fact.step, text=format.plain(fact.text), label=label),)


ROUTE_WORDS = (
    "Estimate the cost of the same tokens at another model's prices. Cost only: another model"
    " counts tokens differently, acts differently and may not solve the task. What a resolved task"
    " would cost is known with the resolution of the routed agent: measure it."
)


_WHERE: dict[str, Where] = {"all": "all", "short": "short", "read-only": "read-only"}


class CostScreen(ArcScreen):
    """The cost of one run."""

    CSS_PATH = "cost.tcss"
    HELP = "the cost of a run"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]

    BINDINGS = [
        bind("m", "route", id="money.route", label="other model", only="m",
             tooltip="What the same tokens would have cost at another model's price"),
        bind("y", "copy", id="money.copy", tooltip="Copy what is shown in full as text"),
        *pane_keys("money", "Switch between the costs and the one in full"),
        bind("esc", "back", id="money.back", tooltip="Back to the costs, then to the run"),
    ]  # fmt: skip

    found: reactive[CostRows | None] = reactive(None, repaint=False)
    routed: reactive[CostView | None] = reactive(None, repaint=False)

    costs = query_one(CostList)
    page = query_one("#cost", LinkedPage)

    class Loaded(Message):
        """The run was read."""

        def __init__(self, found: CostRows) -> None:
            super().__init__()
            self.found = found

    class Routed(Message):
        """A what-if was estimated."""

        def __init__(self, view: CostView) -> None:
            super().__init__()
            self.view = view

    def __init__(self, path: Path, trace: str) -> None:
        super().__init__(path)
        self.trace = trace

    def compose(self) -> ComposeResult:
        yield CostHead().data_bind(CostScreen.found, CostScreen.routed)
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
        self.routed = event.view

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.costs:
            row = self.costs.row
            self.page.document = () if row is None else cost_page(row)

    def on_cost_list_chosen(self, event: CostList.Chosen) -> None:
        self.post_message(ReturnToTrace(self.trace, event.step))

    def on_linked_page_followed(self, event: LinkedPage.Followed) -> None:
        self.post_message(ReturnToTrace(self.trace, event.step))

    def action_route(self) -> None:
        hint = f"model, then optionally {', '.join(get_args(Where))}, and a resolution such as .6"
        self.app.push_screen(AskBox("Other model", ROUTE_WORDS, hint=hint), self._route)

    def _route(self, answer: str | None) -> None:
        if answer is None:
            return
        model, *rest = answer.split() or [""]
        where: Where = "all"
        resolution: float | None = None
        for word in rest:
            share = share_of(word)
            if word in _WHERE:
                where = _WHERE[word]
            elif share is not None:
                resolution = share
            else:
                known = ", ".join(get_args(Where))
                said = f"Unknown steps '{word}'. Known: {known}; or a resolution such as .6."
                self.say(said, severity="warning")
                return
        request = CostRequest(route=model, where=where, routed_resolution=resolution)
        self.ask(lambda store: build_cost(store, self.trace, request), self.Routed, group="route")

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
