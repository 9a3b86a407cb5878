"""A row of the money screen in full, as a document. Pure."""

from __future__ import annotations

from arc_tui import format
from arc_tui.views.money.rows import Fact, MoneyRow
from arc_tui.widgets.document import INDENT, Block, Document, Item, value
from arc_tui.widgets.placed import Placed

RESULT = 1200
"""Characters of what a call returned that are shown before it is opened."""


def money_page(row: MoneyRow) -> Document:
    """What cost, and everything known of it."""
    title = Block(text=f"{row.kind} at step {row.step}", style="head", aside=row.amount)
    return (title, *(item for place, fact in enumerate(row.facts) for item in _fact(fact, place)))


def _fact(fact: Fact, place: int) -> tuple[Item, ...]:
    label = format.one_line(fact.label)
    if fact.long and ("\n" in fact.text or len(fact.text) > RESULT):
        head = Block(text=label, style="role")
        given = value(fact.text, key=f"money {place}", indent=INDENT)
        return (head, given)
    return (Placed(goes=fact.step, text=format.plain(fact.text), label=label),)
