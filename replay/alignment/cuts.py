"""Where are two long runs cut, so that only steps that can meet are weighed against each other?

What is equal at both ends is taken off first, which costs nothing: no better pairs are lost. Where
what is left is too long, it is cut where both runs did the same thing that neither did twice
(Cohen's patience diff), then where a longest common row of equal actions says so, and at last into
tiles along the diagonal, for two long runs that never did the same thing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import NamedTuple, TypeAlias

from rapidfuzz.distance import LCSseq

from replay.alignment.deed import Deed

Range: TypeAlias = tuple[int, int]
"""Places from the first up to the second, which is not among them."""


class Piece(NamedTuple):
    """Parts of both runs that stand beside each other; `equal` where they do so place by place."""

    first: Range
    second: Range
    equal: bool = False

    @property
    def cells(self) -> int:
        return (self.first[1] - self.first[0]) * (self.second[1] - self.second[0])


Anchors: TypeAlias = Sequence[tuple[int, int]]


def pieces(first: Sequence[Deed], second: Sequence[Deed], most: int) -> Iterator[Piece]:
    """The pieces in order, none that is to be weighed of more than `most` pairs."""
    whole = Piece((0, len(first)), (0, len(second)))
    for piece in _trimmed(first, second, whole):
        yield from _cut(first, second, piece, most, (_lone, _common))


def _trimmed(first: Sequence[Deed], second: Sequence[Deed], piece: Piece) -> Iterator[Piece]:
    """What is equal at the start, what is left, what is equal at the end."""
    (top, bottom), (start, end) = piece.first, piece.second
    length = min(bottom - top, end - start)
    ahead = 0
    while ahead < length and _equal(first[top + ahead], second[start + ahead]):
        ahead += 1
    behind = 0
    while behind < length - ahead and _equal(first[bottom - 1 - behind], second[end - 1 - behind]):
        behind += 1
    found = (
        Piece((top, top + ahead), (start, start + ahead), equal=True),
        Piece((top + ahead, bottom - behind), (start + ahead, end - behind)),
        Piece((bottom - behind, bottom), (end - behind, end), equal=True),
    )
    yield from (each for each in found if each.cells)


def _equal(mine: Deed, other: Deed) -> bool:
    return mine.key is not None and mine.key == other.key


def _cut(
    first: Sequence[Deed],
    second: Sequence[Deed],
    piece: Piece,
    most: int,
    ways: Sequence[Callable[[Sequence[Deed], Sequence[Deed], Piece], Anchors]],
) -> Iterator[Piece]:
    if piece.equal or piece.cells <= most:
        yield piece
    elif not ways:
        yield from _tiles(piece, most)
    else:
        anchors = ways[0](first, second, piece)
        for part in _between(piece, anchors):
            yield from _cut(first, second, part, most, ways[1:])


def _between(piece: Piece, anchors: Anchors) -> Iterator[Piece]:
    """The anchors as pieces of their own, and what lies between them."""
    mine, other = piece.first[0], piece.second[0]
    for row, column in anchors:
        gap = Piece((mine, row), (other, column))
        if gap.cells:
            yield gap
        yield Piece((row, row + 1), (column, column + 1), equal=True)
        mine, other = row + 1, column + 1
    rest = Piece((mine, piece.first[1]), (other, piece.second[1]))
    if rest.cells:
        yield rest


def _lone(first: Sequence[Deed], second: Sequence[Deed], piece: Piece) -> Anchors:
    """Actions that are in both parts once, as many as stand in the same order in both."""
    mine = Counter(each.key for each in first[slice(*piece.first)])
    at = _once(second, piece.second)
    met = [
        (row, at[key])
        for row in range(*piece.first)
        if (key := first[row].key) is not None and mine[key] == 1 and key in at
    ]
    return _ascending(met)


def _once(deeds: Sequence[Deed], part: Range) -> dict[str, int]:
    count = Counter(each.key for each in deeds[slice(*part)])
    return {
        key: place
        for place in range(*part)
        if (key := deeds[place].key) is not None and count[key] == 1
    }


def _ascending(met: Anchors) -> Anchors:
    """The longest choice of them whose second places ascend too."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int | None] = []
    for place, (_, column) in enumerate(met):
        length = bisect_left(ends, column)
        before.append(last[length - 1] if length else None)
        if length == len(ends):
            ends.append(column)
            last.append(place)
        else:
            ends[length], last[length] = column, place
    found = []
    at = last[-1] if last else None
    while at is not None:
        found.append(met[at])
        at = before[at]
    return found[::-1]


def _common(first: Sequence[Deed], second: Sequence[Deed], piece: Piece) -> Anchors:
    """A longest row of equal actions that both parts have."""
    (top, bottom), (start, end) = piece.first, piece.second
    mine = [each.key or f"first {place}" for place, each in enumerate(first[top:bottom])]
    other = [each.key or f"second {place}" for place, each in enumerate(second[start:end])]
    return [
        (top + block.a + place, start + block.b + place)
        for block in LCSseq.opcodes(mine, other).as_matching_blocks()
        for place in range(block.size)
    ]


def _tiles(piece: Piece, most: int) -> Iterator[Piece]:
    """Equal shares of both parts beside each other."""
    (top, bottom), (start, end) = piece.first, piece.second
    number = 1
    while ceil((bottom - top) / number) * ceil((end - start) / number) > most:
        number += 1
    rows = [top + (bottom - top) * place // number for place in range(number + 1)]
    columns = [start + (end - start) * place // number for place in range(number + 1)]
    for place in range(number):
        tile = Piece((rows[place], rows[place + 1]), (columns[place], columns[place + 1]))
        if tile.cells:
            yield tile
