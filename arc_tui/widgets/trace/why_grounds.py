"""What a step's values rest on and which goals it serves, in short. Pure.

A value that nothing had shown stands first; what is the model's own to choose is folded away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arc_tui import format
from arc_tui.views.trace.grounds import Grounds, Served, ValueRow
from arc_tui.widgets.document import INDENT, Block, Document, Fold, Item
from arc_tui.widgets.placed import Placed

SHOWN = 6
"""Values with a known origin that are shown before the others are folded."""

VALUE = 160
"""Characters of one value shown before it is opened."""


def value_blocks(grounds: Grounds) -> Iterator[Item]:
    """The values of the step's calls: from nowhere, then with their origins, then its own."""
    kinds = {row.known: [each for each in grounds.values if each.known == row.known]
             for row in grounds.values}  # fmt: skip
    lost = [*kinds.get("nowhere", ()), *kinds.get("unclear", ())]
    found, own = kinds.get("shown", []), kinds.get("own", [])
    if not (lost or found):
        return
    nowhere = sum(row.known == "nowhere" for row in lost)
    count = f"{nowhere} of {len(grounds.values)} from nowhere" if nowhere else ""
    yield Block(text="values in its calls", style="head", aside=count)
    yield from map(_value, lost)
    yield from map(_value, found[:SHOWN])
    yield from _folded(found[SHOWN:], "more that had been shown", grounds.step)
    yield from _folded(own, "its own to choose", grounds.step)


def _folded(rows: Sequence[ValueRow], what: str, step: int) -> Iterator[Item]:
    def inside() -> Document:
        return tuple(map(_value, rows))

    if rows:
        line = f"{format.count(len(rows), 'value')} {what}"
        yield Fold(key=f"values {what} {step}", line=line, inside=inside, says_key=True)


def _value(row: ValueRow) -> Placed:
    value, where = format.one_line(str(row.value)), format.one_line(row.where)
    mark, style = ("✗ ", "error") if row.known == "nowhere" else ("", "")
    return Placed(
        goes=row.step if row.known == "shown" else None,
        text=f"{mark}{format.one_line(row.path)}  {value}",
        style=style,
        aside=where,
        indent=INDENT,
        key=f"value {row.tool} {row.path}" if len(value) > VALUE else "",
        shown=VALUE,
    )


def goal_blocks(grounds: Grounds) -> Iterator[Item]:
    """The goals that cover the step."""
    if grounds.goals:
        yield Block(text="goals it serves", style="head")
    for goal in grounds.goals:
        yield Block(text=format.plain(goal.text), aside=" · ".join(_facts(goal)), indent=INDENT)


def _facts(goal: Served) -> Iterator[str]:
    yield f"weight {goal.weight}"
    if goal.owner:
        yield f"owner {format.one_line(goal.owner)}"
    yield format.one_line(goal.file)
    if goal.last:
        yield "its last step: this score is the goal's"
    if goal.hindsight is not False:
        late = "set after the run" if goal.hindsight else "not known whether set before the run"
        yield late
