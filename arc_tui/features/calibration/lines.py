"""Lines of a calibration page as values: words with the names of their styles, tables that fit.
Pure.

A widget gives the names their colours; nothing here means anything by colour alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from rich.cells import cell_len

from arc_tui.ui.format import fit, one_line, wrap
from arc_tui.ui.tables import Table

Word: TypeAlias = tuple[str, str]
"""Some text and the name of its style, "" for none."""

Line: TypeAlias = tuple[Word, ...]

KeyedWords: TypeAlias = Callable[[str], str]
"""Words with the keys in them that they name by ids."""

BLANK: Line = ()
GAP = 2

ROOMY = 100
"""Cells from which on columns stand apart by more than one."""


class Column(Struct, frozen=True, kw_only=True):
    """A column of a table. Where there is no room the one with the highest `spare` goes first,
    and one of 0 never."""

    title: str
    right: bool = False
    spare: int = 0
    style: str = ""
    most: int = 1000


def text(line: Line) -> str:
    """The line without its styles."""
    return "".join(words for words, _ in line).rstrip()


def width_of(line: Line) -> int:
    return sum(cell_len(words) for words, _ in line)


def title(words: str) -> Line:
    return ((words, "title"),)


def folded_table(
    words: str, width: int, style: str = "quiet", label: str = "", room: int = 0
) -> list[Line]:
    """Words over as many lines as they need, a label of `room` cells before the first."""
    return [
        ((fit(label if place == 0 else "", room), "strong"), (words[start:end], style))
        for place, (start, end) in enumerate(wrap(words, width - room))
    ]


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[Line]:
    """A head and its rows, without the columns there is no room for."""
    wide = [
        min(max(cell_len(cell) for cell in (column.title, *cells)), column.most)
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True)
    ] if rows else [cell_len(column.title) for column in columns]  # fmt: skip
    gap = GAP if width >= ROOMY else 1
    kept = _kept(columns, wide, width, gap)

    def line(cells: Sequence[str], head: bool) -> Line:
        return tuple(
            (fit(cells[at], wide[at], right=columns[at].right) + " " * gap,
             "quiet" if head else columns[at].style)
            for at in kept
        )  # fmt: skip

    head = [column.title for column in columns]
    return [line(head, True), *(line(row, False) for row in rows)]


def _kept(columns: Sequence[Column], wide: Sequence[int], width: int, gap: int) -> list[int]:
    kept = list(range(len(columns)))
    while sum(wide[at] + gap for at in kept) - gap > width:
        last = max(kept, key=lambda at: columns[at].spare)
        if not columns[last].spare:
            break
        kept.remove(last)
    return kept


def shown(found: Table, width: int) -> list[Line]:
    """A table of text with its title and notes; the last columns go first where there is no
    room."""
    lines = [title(found.title)]
    if found.rows:
        columns = [
            Column(title=name, spare=place, most=40, style="" if place else "strong")
            for place, name in enumerate(found.columns)
        ]
        lines += table(columns, [list(map(one_line, row)) for row in found.rows], width)
    for note in found.notes:
        lines += folded_table(one_line(note), min(width, 110))
    return lines


def side_by_side(
    left: Sequence[Line], right: Sequence[Line], width: int, gap: int = 4
) -> list[Line]:
    """Two blocks next to each other where the width allows, else one below the other."""
    wide = max(map(width_of, left), default=0)
    if wide + gap + max(map(width_of, right), default=0) > width:
        return [*left, *((BLANK, *right) if left and right else right)]
    found: list[Line] = []
    for at in range(max(len(left), len(right))):
        one = left[at] if at < len(left) else BLANK
        other = right[at] if at < len(right) else BLANK
        found.append((*one, (" " * (wide - width_of(one) + gap), ""), *other) if other else one)
    return found
