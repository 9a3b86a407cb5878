"""Where do the levels of a JSON text begin and end? For folding them. Pure.

The text is laid out with a member a line, so a line that ends with a bracket opens a level, and
the next line that is indented as much and begins with the other bracket closes it.
"""

from __future__ import annotations

from msgspec import Struct

_CLOSES = {"{": "}", "[": "]"}


class Level(Struct, frozen=True):
    """A level of a JSON text: where its first line starts and ends, and where its last one does.

    `lines` counts those in between, `closes` is its last line without its indent.
    """

    start: int
    end: int
    last_start: int
    last_end: int
    lines: int
    closes: str


def level_at(text: str, place: int) -> Level | None:
    """The level that the line at a place opens, None where it opens none."""
    start = text.rfind("\n", 0, place) + 1
    end = _line_end(text, start)
    closer = _CLOSES.get(text[end - 1 : end])
    if closer is None:
        return None
    last = text.find(f"\n{_indent(text, start)}{closer}", end)
    if last < 0:
        return None
    last_end = _line_end(text, last + 1)
    return Level(
        start,
        end,
        last + 1,
        last_end,
        text.count("\n", end, last),
        text[last + 1 : last_end].strip(),
    )


def level_around(text: str, place: int) -> Level | None:
    """The innermost level that the line at a place stands in, None at the top."""
    start = text.rfind("\n", 0, place) + 1
    indent = len(_indent(text, start))
    while start > 0 and indent > 0:
        start = text.rfind("\n", 0, start - 1) + 1
        if len(_indent(text, start)) < indent:
            return level_at(text, start)
    return None


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _indent(text: str, start: int) -> str:
    at = start
    while text[at : at + 1] == " ":
        at += 1
    return text[start:at]
