"""Text in terminal cells: cut, padded, spread and wrapped by what a terminal shows, not by length.

Pure; a wide character counts two. Everything here expects text that went through `format.plain`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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


def wrap(text: str, width: int) -> list[tuple[int, int]]:
    """The text as (start, end) slices of at most `width` cells, broken at its own line breaks,
    then at spaces, then anywhere. An empty text is one empty line."""
    width = max(width, 1)
    rows: list[tuple[int, int]] = []
    at = 0
    for line in text.split("\n"):
        end = at + len(line)
        narrow = line.isascii()
        if len(line) <= width and (narrow or cell_len(line) <= width):
            rows.append((at, end))
        elif narrow:
            _wrap_narrow(text, at, end, width, rows)
        else:
            _wrap_wide(text, at, end, width, rows)
        at = end + 1
    return rows


def _wrap_narrow(text: str, at: int, end: int, width: int, rows: list[tuple[int, int]]) -> None:
    while end - at > width:
        space = text.rfind(" ", at + 1, at + width + 1)
        stop = space if space > 0 else at + width
        rows.append((at, stop))
        at = stop + 1 if space > 0 else stop
    rows.append((at, end))


def _wrap_wide(text: str, at: int, end: int, width: int, rows: list[tuple[int, int]]) -> None:
    """Letters of one size are taken as many at a time as the row has room for."""
    start, used, space = at, 0, -1
    for place, stop, size in _runs(text, at, end):
        while place < stop:
            fitting = _fitting(stop - place, size, width - used)
            if not fitting:
                if place > start:
                    cut = space if space > start else place
                    rows.append((start, cut))
                    start = cut + 1 if cut == space else cut
                    used = cell_len(text[start:place])
                fitting = 1
            space = max(space, text.rfind(" ", place, place + fitting))
            used += fitting * size
            place += fitting
    rows.append((start, end))


def _fitting(letters: int, size: int, room: int) -> int:
    """How many of so many letters of a size have room."""
    if size == 0:
        return letters if room >= 0 else 0
    return min(letters, max(room, 0) // size)


def _runs(text: str, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Stretches of letters of one size: (start, end, cells of a letter)."""
    by_size: dict[int, list[str]] = {}
    for letter in set(text[at:end]):
        by_size.setdefault(get_character_cell_size(letter), []).append(letter)
    if not by_size:
        return
    sizes = [*by_size]
    classes = (f"([{re.escape(''.join(letters))}]+)" for letters in by_size.values())
    for found in re.compile("|".join(classes)).finditer(text, at, end):
        assert found.lastindex is not None
        yield found.start(), found.end(), sizes[found.lastindex - 1]
