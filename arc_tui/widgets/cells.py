"""Text in terminal cells: cut, padded, spread and wrapped by what a terminal shows, not by length.

Pure; a wide character counts two. Everything here expects text that went through `format.plain`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from rich.cells import cell_len, get_character_cell_size, set_cell_size
from rich.text import Text


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Text in exactly `width` cells: padded, or cut with `…`."""
    if width <= 0:
        return ""
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…"
    return " " * (width - size) + text if right else text + " " * (width - size)


def spread(left: Text, right: Text, width: int) -> Text:
    """`left` and `right` at the ends of a line; where both have no room, `right` goes first."""
    room = width - left.cell_len
    if right.cell_len + 2 <= room:
        return Text.assemble(left, " " * (room - right.cell_len), right)
    line = left.copy()
    line.truncate(max(width, 0), overflow="ellipsis")
    return line


def wrap(text: str, width: int, at: int = 0) -> Iterator[tuple[int, int]]:
    """The text from a place on as (start, end) slices of at most `width` cells, broken at its own
    line breaks, then at spaces, then anywhere. An empty text is one empty line.

    A long text is not read further than it is asked for.
    """
    width = max(width, 1)
    narrow = text.isascii()
    while at <= len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if narrow or text[at:end].isascii():
            yield from _wrap_narrow(text, at, end, width)
        elif end - at > width or cell_len(text[at:end]) > width:
            yield from _wrap_wide(text, at, end, width)
        else:
            yield at, end
        at = end + 1


def _wrap_narrow(text: str, at: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    while end - at > width:
        space = text.rfind(" ", at + 1, at + width + 1)
        stop = space if space > 0 else at + width
        yield at, stop
        at = stop + 1 if space > 0 else stop
    yield at, end


def _wrap_wide(text: str, at: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    """A row at a time: how far its letters reach is summed up ahead of it."""
    start, used, space = at, 0, -1
    place = at
    while place < end:
        letters = text[place : min(place + max(width - used, 0) + 1, end)]
        ahead = list(map(get_character_cell_size, letters))
        reached = list(accumulate(ahead, initial=used))
        fitting = max(bisect_right(reached, width) - 1, 0)
        here = place + fitting
        space = max(space, text.rfind(" ", place, here))
        used = reached[fitting]
        if fitting == len(ahead):
            place = here
            continue
        if here > start:
            stop = space if space > start else here
            yield start, stop
            start = stop + 1 if stop == space else stop
            used = cell_len(text[start:here])
        space = here if text[here] == " " else space
        used += ahead[fitting]
        place = here + 1
    yield start, end
