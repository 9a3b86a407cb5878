"""A row of a comparison in full, as a document: what differs word by word. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.compare.pair import PairView, Part
from arc_tui.widgets.document import INDENT, Block, Document, Item, value

BLANK = Block(text="")
_STYLES = {"new": "good", "gone": "error", "place": "role", "same": "quiet"}


def pair_page(pair: PairView) -> Document:
    """What both said, called and got: only in A red with −, only in B green with +."""
    items: list[Item] = []
    if pair.row is not None and pair.row.what:
        items.append(Block(text=pair.row.what, style="candidate"))
    for place, part in enumerate(pair.parts):
        if items:
            items.append(BLANK)
        items.extend(_part(part, place))
    return tuple(items) or (Block(text="neither says, calls or got anything", style="quiet"),)


def _part(part: Part, place: int) -> Iterator[Item]:
    title = format.one_line(part.title)
    if part.diff is not None:
        yield Block(text=title, style="head", aside="− A   + B")
        for line in part.diff:
            yield Block(text=line.text, style=_STYLES[line.kind], strong=line.words, indent=INDENT)
        return
    if part.same:
        yield Block(text=title, style="head", aside="the same")
        yield value(part.a or "", key=f"same {place}", style="quiet")
        return
    both = part.a is not None and part.b is not None
    aside = "too long to be held against each other" if both else ""
    yield Block(text=title, style="head", aside=aside)
    for letter, text in (("A", part.a), ("B", part.b)):
        if text is not None:
            yield Block(text=letter if both else f"only {letter}", style="role", indent=INDENT)
            yield value(text, key=f"{letter} {place}", indent=2 * INDENT)
