"""Which action of one run answers to which of another? The best pairs of two rows of actions.

A fingerprint is an action in a form that many can be held against many. What counts as the same is
what `replay.compare` counts as the same, under the same rules; of two numbers that a rule allows to
be near each other only that can tell. How like two others are is a rough figure and decides nothing
but which stand in one row. Long runs are cut, so that only steps that can meet are weighed against
each other.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import ceil
from typing import NamedTuple, TypeAlias
from zlib import crc32

from msgspec import Struct
from rapidfuzz.distance import LCSseq

from replay.action import Act, Action
from replay.compare import likeness
from replay.compare.actions import bare_words
from replay.compare.rules import PLAIN, Rules, arguments_of
from replay.trace import Json


class Terms(NamedTuple):
    """What is known of arguments: by tool, those whose schema gives a `default`, and the `rules` of
    a user."""

    defaults: Mapping[str, Mapping[str, Json]] = {}
    rules: Rules = PLAIN


BARE = Terms()

SAME = 1000
SAME_TOOLS, TOOLS_WORDS = 300, 400
BOTH_SPEAK, TEXT_WORDS = 200, 500
SOME_TOOLS, TOOLS_SHARE = 100, 300
BOTH_CUT = 100
UNLIKE = 1
"""What a pair of steps is worth, a step alone being worth nothing: the same action most, then the
same tools by how many words of their arguments are the same, then words by how many of them are.
Two steps that have nothing in common are worth a shared row and no more."""

_WORD = re.compile(r"\w+")
_BITS = 1024
_MOST_WORDS = 200
"""Different words of an action that are looked at, the same ones of the same action everywhere."""


class ActionFingerprint(Struct, frozen=True):
    """What a step did.

    `key` is equal for actions that are the same, None where comparing cannot tell. `tools` are
    those it calls, sorted; `words` has a bit set for each of its words.
    """

    key: str | None
    tools: tuple[str, ...]
    words: int

    @property
    def order(self) -> tuple[str, tuple[str, ...], int]:
        """Any order of deeds will do that is the same everywhere."""
        return self.key or "", self.tools, self.words


def fingerprint(action: Action, terms: Terms) -> ActionFingerprint:
    """The deed of an action."""
    if action.cut is not None:
        return ActionFingerprint(None, (), 0)
    tools = tuple(sorted(call.tool for call in action.calls))
    if not action.calls:
        return ActionFingerprint(
            "says " + " ".join(bare_words(action.text)), (), _bits(action.text)
        )
    calls = sorted(call_key(call, terms) for call in action.calls)
    return ActionFingerprint("calls " + "\n".join(calls), tools, _bits(" ".join(calls)))


def call_key(call: Act, terms: Terms) -> str:
    """Equal for calls that are the same."""
    arguments = call.arguments
    if isinstance(arguments, dict):
        arguments = {**terms.defaults.get(call.tool, {}), **arguments}
    place = arguments_of(call.tool, terms.rules)
    written = "" if call.raw is None or place.ignored else f" {call.raw.split()}"
    return f"{call.tool!r} {likeness.counted(arguments, place).text}{written}"


def _bits(text: str) -> int:
    found = 0
    for place in _sample(_WORD.findall(text.casefold())):
        found |= 1 << place % _BITS
    return found


def _sample(words: Iterable[str]) -> list[int]:
    """Digests of different words, the lowest where there are many: a choice that does not depend
    on where in a text they stand."""
    return sorted({crc32(word.encode("utf-8", "replace")) for word in words})[:_MOST_WORDS]


def worth(mine: ActionFingerprint, other: ActionFingerprint) -> int:
    """What it is worth to have the two in one row; the same either way round."""
    if mine.key is None or other.key is None:
        return BOTH_CUT if mine.key is other.key else UNLIKE
    if mine.key == other.key:
        return SAME
    if mine.tools == other.tools:
        least, more = _worth_of_words(mine)
        either = (mine.words | other.words).bit_count()
        return least + more * (mine.words & other.words).bit_count() // max(either, 1)
    if mine.tools and other.tools:
        return _shared_tools(mine.tools, other.tools)
    return UNLIKE


def _worth_of_words(action: ActionFingerprint) -> tuple[int, int]:
    """(what the same tools, or none, are worth, what all the same words add to that)."""
    return (SAME_TOOLS, TOOLS_WORDS) if action.tools else (BOTH_SPEAK, TEXT_WORDS)


def _shared_tools(mine: tuple[str, ...], other: tuple[str, ...]) -> int:
    left = list(other)
    shared = 0
    for tool in mine:
        if tool in left:
            left.remove(tool)
            shared += 1
    if not shared:
        return UNLIKE
    return _worth_of_shared(shared, len(mine) + len(other))


def _worth_of_shared(shared: int, calls: int) -> int:
    """What it is worth that so many of the calls of both are of the same tools."""
    return SOME_TOOLS + TOOLS_SHARE * 2 * shared // calls


MOST_CELLS = 400_000
"""Pairs that are weighed for one piece; a longer one is cut before."""

_PAIR, _SKIP_FIRST, _SKIP_SECOND = 0, 1, 2


class Pair(NamedTuple):
    """Places in both runs that stand in one row."""

    first: int
    second: int


def pairs(first: Sequence[ActionFingerprint], second: Sequence[ActionFingerprint]) -> list[Pair]:
    """The best pairs, ascending in both. Under half a second for two thousand steps a side."""
    if [each.order for each in first] > [each.order for each in second]:
        return [Pair(mine, other) for other, mine in _pairs(second, first)]
    return _pairs(first, second)


def _pairs(first: Sequence[ActionFingerprint], second: Sequence[ActionFingerprint]) -> list[Pair]:
    found: list[Pair] = []
    for piece in pieces(first, second, MOST_CELLS):
        if piece.equal:
            found.extend(map(Pair, range(*piece.first), range(*piece.second)))
        else:
            found.extend(_best(first, second, piece))
    return found


def _best(
    first: Sequence[ActionFingerprint], second: Sequence[ActionFingerprint], piece: Piece
) -> list[Pair]:
    """The best pairs of one piece. Takes a byte for each pair that is weighed."""
    (top, bottom), (start, end) = piece.first, piece.second
    columns = end - start
    weigh = _Weights(second[start:end])
    above = [0] * (columns + 1)
    ways: list[bytearray] = []
    for place in range(top, bottom):
        row, way = [0], bytearray(columns)
        left = 0
        cells = zip(above, islice(above, 1, None), weigh.row(first[place]), strict=False)
        for column, (before, up, more) in enumerate(cells):
            met = before + more
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


class _Group(NamedTuple):
    """Actions that call the same tools, or that are cut: where they stand among the kinds, and of
    each its key, words and how many; the tools as bits."""

    tools: tuple[str, ...]
    cut: bool
    places: slice
    kinds: list[tuple[str | None, int, int]]
    bits: int


class _Weights:
    """What each action is worth beside each of some others, as `worth` has it; equal ones are
    weighed once, and those that call the same tools together."""

    def __init__(self, others: Sequence[ActionFingerprint]) -> None:
        alike: dict[tuple[bool, tuple[str, ...]], list[ActionFingerprint]] = {}
        for each in dict.fromkeys(others):
            alike.setdefault((each.key is None, each.tools), []).append(each)
        self._bit_of: dict[tuple[str, int], int] = {}
        self._groups: dict[tuple[bool, tuple[str, ...]], _Group] = {}
        number: dict[ActionFingerprint, int] = {}
        for (cut, tools), group in alike.items():
            start = len(number)
            number.update((each, start + at) for at, each in enumerate(group))
            kinds = [(each.key, each.words, each.words.bit_count()) for each in group]
            places = slice(start, len(number))
            self._groups[cut, tools] = _Group(tools, cut, places, kinds, self._bits(tools))
        self._places = [number[each] for each in others]
        self._rows: dict[ActionFingerprint, list[int]] = {}
        self._by_tools: dict[tuple[bool, tuple[str, ...]], list[int]] = {}

    def row(self, action: ActionFingerprint) -> list[int]:
        found = self._rows.get(action)
        if found is None:
            called = action.key is None, action.tools
            if called not in self._by_tools:
                self._by_tools[called] = self._worths_of_tools(*called)
            by_kind, own = self._by_tools[called], self._groups.get(called)
            if own is not None and action.key is not None:
                by_kind = by_kind.copy()
                by_kind[own.places] = _worths(action, own)
            found = self._rows[action] = [by_kind[place] for place in self._places]
        return found

    def _bits(self, tools: tuple[str, ...]) -> int:
        """A bit for each call: the first of a tool has another than its second, so that two have as
        many bits in common as they share calls."""
        found, before, times = 0, "", 0
        for tool in tools:
            times = times + 1 if tool == before else 0
            before = tool
            found |= 1 << self._bit_of.setdefault((tool, times), len(self._bit_of))
        return found

    def _worths_of_tools(self, cut: bool, tools: tuple[str, ...]) -> list[int]:
        """The worth beside every kind, of which those with the same tools differ by their words."""
        found: list[int] = []
        bits, size = self._bits(tools), len(tools)
        for group in self._groups.values():
            if cut or group.cut:
                each = BOTH_CUT if cut is group.cut else UNLIKE
            elif shared := (bits & group.bits).bit_count():
                each = _worth_of_shared(shared, size + len(group.tools))
            else:
                each = UNLIKE
            found += [each] * len(group.kinds)
        return found


def _worths(action: ActionFingerprint, group: _Group) -> list[int]:
    """The worth of an action beside each of those that call the same tools."""
    least, more = _worth_of_words(action)
    key, words, size = action.key, action.words, action.words.bit_count()
    return [
        SAME
        if other == key
        else least + more * (shared := (words & theirs).bit_count()) // (size + many - shared or 1)
        for other, theirs, many in group.kinds
    ]


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


def pieces(
    first: Sequence[ActionFingerprint], second: Sequence[ActionFingerprint], most: int
) -> Iterator[Piece]:
    """The pieces in order, none that is to be weighed of more than `most` pairs."""
    whole = Piece((0, len(first)), (0, len(second)))
    for piece in _trimmed(first, second, whole):
        yield from _cut(first, second, piece, most, (_lone, _common))


def _trimmed(
    first: Sequence[ActionFingerprint], second: Sequence[ActionFingerprint], piece: Piece
) -> Iterator[Piece]:
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


def _equal(mine: ActionFingerprint, other: ActionFingerprint) -> bool:
    return mine.key is not None and mine.key == other.key


def _cut(
    first: Sequence[ActionFingerprint],
    second: Sequence[ActionFingerprint],
    piece: Piece,
    most: int,
    ways: Sequence[
        Callable[[Sequence[ActionFingerprint], Sequence[ActionFingerprint], Piece], Anchors]
    ],
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


def _lone(
    first: Sequence[ActionFingerprint], second: Sequence[ActionFingerprint], piece: Piece
) -> Anchors:
    """Actions that are in both parts once, as many as stand in the same order in both."""
    mine = Counter(each.key for each in first[slice(*piece.first)])
    at = _once(second, piece.second)
    met = [
        (row, at[key])
        for row in range(*piece.first)
        if (key := first[row].key) is not None and mine[key] == 1 and key in at
    ]
    return _ascending(met)


def _once(deeds: Sequence[ActionFingerprint], part: Range) -> dict[str, int]:
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


def _common(
    first: Sequence[ActionFingerprint], second: Sequence[ActionFingerprint], piece: Piece
) -> Anchors:
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
