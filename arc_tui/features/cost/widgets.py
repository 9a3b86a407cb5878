"""What cost much and what brought nothing, as drawn: a row a line, its cost first."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.features.cost.text import CostRow, CostRows, Fact, route_lines, sentence, used_count
from arc_tui.ui import format
from arc_tui.ui.document import INDENT, Block, Document, Item, StepLink, value
from arc_tui.ui.format import fit, packed
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import SummaryLines, folded
from taxonomy.stats.routing import WhatIf

AMOUNT, KIND, STEP = 10, 11, 4


class CostList(RowList):
    """The rows by cost."""

    HELP = "the costs"
    HEAD = 1
    STYLES = {"waste": "$warning", "quiet": "$quiet"}

    BINDINGS = [
        Binding("enter", "open_row", "go to step", id="money.go",
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
        self.nothing = "" if self.found is None else "no step has a known size or cost"
        self.rows_changed()
        self.post_message(self.Moved(self))

    def draw_head(self, line: int, width: int) -> Text:
        del line
        head = f"{fit('cost', AMOUNT, right=True)}  {fit('kind', KIND)}  {fit('step', STEP)}  what"
        return Text(fit(head, width))

    def draw(self, index: int, width: int) -> Text:
        assert self.found is not None
        row = self.found.rows[index]
        waste = "quiet" if row.kind == "dear step" else "waste"
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
    """The cost, else the tokens; the bounds of a part are said in full beside."""
    if row.usd is not None:
        shown = row.amount.split(" for ")[0]
    else:
        shown = f"{format.tokens(row.tokens)} tok" if row.tokens else format.UNKNOWN
    return fit(shown, AMOUNT, right=True)


class CostHead(SummaryLines):
    """The sentence in bold; under it what the run would have cost at another model's price."""

    STYLES = {"sentence": "bold", "route": "$primary"}

    found: reactive[CostRows | None] = reactive(None, layout=True)
    route: reactive[WhatIf | None] = reactive(None, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        if self.found is None:
            return [Text("reading the run")]
        bold = self.style_of("sentence")
        quiet = self.style_of("route")
        lines = [Text(line, bold) for line in folded(sentence(self.found.view), width)]
        if self.route is not None:
            what_if = f"at {self.route.model}: {'; '.join(route_lines(self.route))}"
            lines += [Text(line, quiet) for line in folded(what_if, width)]
        return lines


class CostFoot(SummaryLines):
    """Facts that hold for all rows."""

    found: reactive[CostRows | None] = reactive(None, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        facts = packed(_facts(self.found), width) if self.found is not None else [""]
        return [Text(line) for line in facts]


def _facts(found: CostRows) -> Iterator[str]:
    spent = found.view.spending
    if not spent.cached:
        yield "no figures of the cache in the source"
    elif spent.cached < len(spent.steps):
        yield f"cache figures of {spent.cached} of {format.count(len(spent.steps), 'step')}"
    used = used_count(found.view)
    if used:
        yield f"{format.number(used)} re-sent and used: not listed"
    if found.rows:
        yield "rows overlap: they do not add up"


RESULT = 1200
"""Characters of what a call returned that are shown before it is opened."""


def cost_page(row: CostRow) -> Document:
    """What cost, and everything known of it."""
    title = Block(text=f"{row.kind} at step {row.step}", style="head", aside=row.amount)
    return (title, *(item for place, fact in enumerate(row.facts) for item in _fact(fact, place)))


def _fact(fact: Fact, place: int) -> tuple[Item, ...]:
    label = format.one_line(fact.label)
    if fact.long and ("\n" in fact.text or len(fact.text) > RESULT):
        head = Block(text=label, style="role")
        given = value(fact.text, key=f"money {place}", indent=INDENT)
        return (head, given)
    return (StepLink(step=fact.step, text=format.plain(fact.text), label=label),)
