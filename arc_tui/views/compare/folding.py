"""Which rows of a comparison are shown, and which stand folded because nothing differs there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from arc_tui import format
from arc_tui.views.compare.view import CompareRow, CompareView
from arc_tui.views.compare.words import prompts_line

AROUND = 1
"""Rows beside a difference that are shown though they are the same."""

LEAST = 2
"""Rows the same that are folded; one alone is shown."""

Kind: TypeAlias = Literal["prompts", "row", "fold", "threads"]


class Line(Struct, frozen=True, eq=False, kw_only=True):
    """A line of the list: a `row` (its place), a fold over the rows `first` to `last`, a heading.

    `text` is what a fold, a heading or the line of prompts says.
    """

    kind: Kind
    first: int = 0
    last: int = 0
    text: str = ""


def lines(view: CompareView, *, every: bool = False, opened: Collection[int] = ()) -> list[Line]:
    """The lines in order. `every` folds nothing; `opened` are the first rows of open folds."""
    made: list[Line] = []
    told = prompts_line(view.prompts)
    if told:
        made.append(Line(kind="prompts", text=told))
    at = 0
    for stretch in _stretches(view.rows):
        made += _headed(view.rows, at, at + len(stretch))
        first, last = _hidden(stretch, at, len(view.rows))
        folded = not every and first not in opened and last - first + 1 >= LEAST
        for place, row in enumerate(stretch, at):
            if not folded or not first <= place <= last:
                made.append(Line(kind="row", first=place, last=place))
            elif place == first:
                made.append(
                    Line(kind="fold", first=first, last=last, text=_fold(view, first, last))
                )
            del row
        at += len(stretch)
    return made


def _stretches(rows: Sequence[CompareRow]) -> Iterator[list[CompareRow]]:
    """Neighbours of one thread that are the same together, and those that are not."""
    same: list[CompareRow] = []
    for row in rows:
        if same and (quiet(row) != quiet(same[-1]) or row.main != same[-1].main):
            yield same
            same = []
        same.append(row)
    if same:
        yield same


def quiet(row: CompareRow) -> bool:
    """Is there nothing to see? The same was done, and it brought the same as far as is known."""
    return row.mark == "same" and row.results is not False


def _hidden(stretch: Sequence[CompareRow], at: int, total: int) -> tuple[int, int]:
    """The rows of a stretch that need not be shown, as places; none where the second is less."""
    if not quiet(stretch[0]):
        return at, at - 1
    first = at if at == 0 else at + AROUND
    end = at + len(stretch)
    return first, (end if end == total else end - AROUND) - 1


def _headed(rows: Sequence[CompareRow], at: int, end: int) -> Iterator[Line]:
    """A heading where the steps of sub-agents begin."""
    if at < end and not rows[at].main and (at == 0 or rows[at - 1].main):
        yield Line(kind="threads", text="sub-agents")


def _fold(view: CompareView, first: int, last: int) -> str:
    a, b = view.rows[first], view.rows[last]
    number = format.count(last - first + 1, "step")
    return f"{number} the same: {a.a}–{b.a} of A, {a.b}–{b.b} of B"
