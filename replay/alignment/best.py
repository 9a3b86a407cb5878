"""The pairs of two rows of deeds that are worth most together, in the order of both.

A global alignment (Needleman and Wunsch, 1970) with gaps that cost nothing: what is in one run
alone stands alone. Of several that are worth the same always the same one is taken, whichever run
is named first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replay.alignment import cuts
from replay.alignment.cuts import Piece
from replay.alignment.deed import Deed, worth

MOST_CELLS = 400_000
"""Pairs that are weighed for one piece; a longer one is cut before (`replay.alignment.cuts`)."""

_PAIR, _SKIP_FIRST, _SKIP_SECOND = 0, 1, 2


class Pair(NamedTuple):
    """Places in both runs that stand in one row."""

    first: int
    second: int


def pairs(first: Sequence[Deed], second: Sequence[Deed]) -> list[Pair]:
    """The best pairs, ascending in both. A second or two for two thousand steps a side."""
    if [each.order for each in first] > [each.order for each in second]:
        return [Pair(mine, other) for other, mine in _pairs(second, first)]
    return _pairs(first, second)


def _pairs(first: Sequence[Deed], second: Sequence[Deed]) -> list[Pair]:
    found: list[Pair] = []
    for piece in cuts.pieces(first, second, MOST_CELLS):
        if piece.equal:
            found.extend(map(Pair, range(*piece.first), range(*piece.second)))
        else:
            found.extend(_best(first, second, piece))
    return found


def _best(first: Sequence[Deed], second: Sequence[Deed], piece: Piece) -> list[Pair]:
    """The best pairs of one piece. Takes a byte for each pair that is weighed."""
    (top, bottom), (start, end) = piece.first, piece.second
    columns = end - start
    weigh = _Weights(second[start:end])
    above = [0] * (columns + 1)
    ways: list[bytearray] = []
    for place in range(top, bottom):
        row, way = [0], bytearray(columns)
        left = 0
        worths = weigh.row(first[place])
        for column in range(columns):
            met, up = above[column] + worths[column], above[column + 1]
            if met >= up and met >= left:
                left = met
            elif up >= left:
                left = up
                way[column] = _SKIP_FIRST
            else:
                way[column] = _SKIP_SECOND
            row.append(left)
        above = row
        ways.append(way)
    return _walked(ways, columns, top, start)


def _walked(ways: Sequence[bytearray], columns: int, top: int, start: int) -> list[Pair]:
    """The pairs on the way back from the end."""
    found: list[Pair] = []
    row, column = len(ways) - 1, columns - 1
    while row >= 0 and column >= 0:
        way = ways[row][column]
        if way == _PAIR:
            found.append(Pair(top + row, start + column))
        row -= way != _SKIP_SECOND
        column -= way != _SKIP_FIRST
    found.reverse()
    return found


class _Weights:
    """What each deed is worth beside each of some others; equal ones are weighed once."""

    def __init__(self, others: Sequence[Deed]) -> None:
        self._kinds = list(dict.fromkeys(others))
        number = {each: place for place, each in enumerate(self._kinds)}
        self._places = [number[each] for each in others]
        self._rows: dict[Deed, list[int]] = {}

    def row(self, deed: Deed) -> list[int]:
        found = self._rows.get(deed)
        if found is None:
            by_kind = [worth(deed, each) for each in self._kinds]
            found = self._rows[deed] = [by_kind[place] for place in self._places]
        return found
