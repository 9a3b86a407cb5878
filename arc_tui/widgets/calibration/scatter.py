"""A source's scores over people's, drawn in cells: 0..1 across and up, the diagonal, the bands.

Pure. A point is a quarter of a cell; where several share a cell their number stands there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from arc_tui.widgets.calibration.ink import Line, Word
from taxonomy.calibration.gate import BAND_EDGES, Pair

QUARTERS = {(0, 0): "▘", (1, 0): "▝", (0, 1): "▖", (1, 1): "▗"}
"""By its place in the cell: (right half, lower half)."""

MANY = "#"
"""Stands for ten points and more in a cell."""

AXIS = 5
"""Cells left of the picture."""

LEGEND = f"▘ one point · 2–9 so many in a cell · {MANY} ten or more · ∙ the same score"


def scatter(pairs: Sequence[Pair], columns: int, rows: int) -> list[Line]:
    """The picture with its axes: `columns` × `rows` cells and two rows more."""
    cells = _cells(pairs, columns, rows)
    marks = {_down(edge, rows) // 2: f"{edge:.2f}"[1:] for edge in BAND_EDGES}
    marks |= {0: "1", rows - 1: "0"}
    lines: list[Line] = []
    for row in range(rows):
        label = marks.get(row, "")
        axis = f"{label:>{AXIS - 2}} {'┤' if label else '│'}"
        lines.append(((axis, "quiet"), *_joined(cells[row])))
    return [*lines, *_foot(columns)]


def _cells(pairs: Sequence[Pair], columns: int, rows: int) -> list[list[Word]]:
    cells: list[list[Word]] = [[(" ", "")] * columns for _ in range(rows)]
    for edge in BAND_EDGES:
        for row in range(rows):
            cells[row][_across(edge, columns) // 2] = ("┊", "faint")
        for column in range(columns):
            across = cells[_down(edge, rows) // 2][column][0]
            cells[_down(edge, rows) // 2][column] = ("┼" if across == "┊" else "┈", "faint")
    for column in range(columns):
        same = (2 * column + 0.5) / (2 * columns - 1)
        cells[_down(same, rows) // 2][column] = ("∙", "quiet")
    groups: dict[tuple[int, int], list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[_down(pair.other, rows) // 2, _across(pair.human, columns) // 2].append(pair)
    for (row, column), group in groups.items():
        cells[row][column] = (_mark(group, columns, rows), _ink(group))
    return cells


def _mark(group: Sequence[Pair], columns: int, rows: int) -> str:
    if len(group) > 1:
        return str(len(group)) if len(group) < 10 else MANY
    [pair] = group
    return QUARTERS[_across(pair.human, columns) % 2, _down(pair.other, rows) % 2]


def _ink(group: Sequence[Pair]) -> str:
    """By how many bands the farthest of them is off."""
    off = max(abs(_band(pair.human) - _band(pair.other)) for pair in group)
    return ("good", "warn", "bad")[min(off, 2)]


def _band(score: float) -> int:
    return sum(score >= edge for edge in BAND_EDGES)


def _across(value: float, columns: int) -> int:
    """The half cell of a value, from the left."""
    return round(value * (2 * columns - 1))


def _down(value: float, rows: int) -> int:
    """The half cell of a value, from the top."""
    return round((1 - value) * (2 * rows - 1))


def _joined(cells: Sequence[Word]) -> list[Word]:
    """Neighbours of one ink as one word."""
    found: list[Word] = []
    for words, ink in cells:
        if found and found[-1][1] == ink:
            found[-1] = (found[-1][0] + words, ink)
        else:
            found.append((words, ink))
    return found


def _foot(columns: int) -> list[Line]:
    line, names = ["─"] * columns, [" "] * (columns + 4)
    for edge in BAND_EDGES:
        at = _across(edge, columns) // 2
        line[at] = "┴"
        names[at - 1 : at + 2] = f"{edge:.2f}"[1:]
    names[0], names[columns - 1] = "0", "1"
    ends = " " * (AXIS - 1)
    words = "".join(names).rstrip()
    return [((f"{ends}└{''.join(line)}", "quiet"),), ((f"{ends} {words}", "quiet"),)]
