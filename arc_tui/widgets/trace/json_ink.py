"""Which parts of a line of JSON are keys, strings, numbers and words? Pure, a line at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))'
    r'|(?P<string>"(?:[^"\\]|\\.)*"?)'
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"|(?P<word>true|false|null)"
)
_REST_OF_STRING = re.compile(r'(?:[^"\\]|\\.)*"?')
_OVER = re.compile(r",?(?:\n|\Z)")

FAR = 4000
"""Characters of a line that only a string has: with a member a line, nothing else is so long."""


def tokens(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """(start, end, kind) of what is worth a colour between two places of a JSON text.

    A line that begins inside a string that was wrapped goes on as a string.
    """
    at = start
    if inside_string(text, start):
        rest = _REST_OF_STRING.match(text, start, end)
        at = rest.end() if rest else start
        yield start, at, "string"
    for found in _TOKEN.finditer(text, at, end):
        yield found.start(), found.end(), found.lastgroup or ""


def inside_string(text: str, place: int) -> bool:
    """Does a place stand inside a string? Counts the quotes since the line began, where it has
    not begun too far from there."""
    near = max(place - FAR, 0)
    line = text.rfind("\n", near, place) + 1
    if near and not line:
        return _OVER.match(text, place) is None
    quotes = text.count('"', line, place) - text.count('\\"', line, place)
    return quotes % 2 == 1
