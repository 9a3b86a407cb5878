"""What a text holds that neither a search of it nor its decoding shows.

JSON may write a letter as `\\u0073`, which no rule knows; and a name that stands twice in an object
loses the first of its values when it is decoded, while the text still has both. A terminal's codes
may stand within a key, an address may write its letters as `%73`, and a line may end within it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_PLAIN = r"\\{1,63}u00(2[b-fB-F]|3[0-9aA]|3[dD]|40|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aA])"
_ESCAPED = re.compile(_PLAIN)


def escaped(text: str) -> bool:
    """Does it write a letter, a digit or a mark of a key as a number?"""
    return "u00" in text and _ESCAPED.search(text) is not None


def unescaped(text: str) -> str:
    """The text with those as they are read."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


_KEY, _END = "[A-Za-z0-9_-]", "[A-Za-z0-9_.-]"
_CODES = re.compile(
    rf"(?<={_KEY})(?:(?:\x1b|\\{{1,63}}(?:u001[bB]|x1[bB]|033|e))\[[0-9;?]{{0,20}}[A-Za-z])"
    rf"{{1,9}}+(?={_KEY})"
)
"""What a terminal obeys, within a word."""

_PERCENT = re.compile("%(?:2[dDeE]|3[0-9]|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aA])")
"""Letters, digits, `-`, `.` and `_`, which no address has to write so."""
_ASCII = re.compile("%[2-7][0-9a-fA-F]")

_REST = rf"[ \t]{{0,20}}(?=(?P<rest>{_END}{{6,}}))"
_LINE = re.compile(rf"\n(?:(?<={_END}{{8}}\n)|(?<={_END}{{8}}\r\n)){_REST}")
_ESCAPED_LINE = re.compile(
    rf"\\n(?=[ \t]{{0,20}}{_END}{{6}})(?:(?<={_END}{{8}}\\n)|(?<={_END}{{8}}\\\\n)"
    rf"|(?<={_END}{{8}}\\{{4}}n)){_REST}"
)
"""The end of a line within what may be one word."""

_FULL = 60
"""A line with fewer characters did not end because it was full."""

_WHOLE = re.compile("(?:[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|(?:[0-9a-f]{8}){5,16})")
"""A hash or an id, which stands in a line of its own and ends no key."""


class View(NamedTuple):
    """A text as it is meant: without codes, with its letters, in one line. `before` and `after` are
    the places in it of what is written otherwise, `longer` by how much the text as written is
    longer after so many of them."""

    text: str
    before: list[int]
    after: list[int]
    longer: list[int]

    def written(self, start: int, end: int) -> tuple[int, int] | None:
        """Where a part of it stands in the text as written; None where it is written so."""
        first = start + self.longer[bisect_right(self.after, start)]
        last = end + self.longer[bisect_left(self.before, end)]
        return (first, last) if last - first != end - start else None


def views(text: str) -> Iterator[View]:
    """What else a text may mean, whatever the rule that looks."""
    if "\x1b" in text or _coded(text):
        yield _view(text, ((match.span(), "") for match in _CODES.finditer(text)))
    if "%" in text and _PERCENT.search(text) is not None:
        yield _view(text, ((m.span(), chr(int(m[0][1:], 16))) for m in _ASCII.finditer(text)))


def joined(text: str) -> View | None:
    """The text with its full lines joined where a key may go on; None where none may."""
    found = (*_LINE.finditer(text), *_ESCAPED_LINE.finditer(text))
    ends = sorted(match.span() for match in found if _goes_on(text, match))
    return _view(text, (((_mark(text, start), end), "") for start, end in ends)) if ends else None


def _mark(text: str, start: int) -> int:
    """Where the mark of a line's end begins, with the escapes before it."""
    while text[start - 1] in "\r\\":
        start -= 1
    return start


def otherwise(text: str) -> bool:
    """Can it mean something else? Cheap; False is sure."""
    return (
        ("\\" in text and (_coded(text) or _ESCAPED_LINE.search(text) is not None))
        or ("%" in text and _PERCENT.search(text) is not None)
        or ("\n" in text and _LINE.search(text) is not None)
        or ("\x1b" in text and _CODES.search(text) is not None)
    )


def _coded(text: str) -> bool:
    begun = "1b[" in text or "1B[" in text or "033[" in text or "\\e[" in text
    return begun and _CODES.search(text) is not None


def _goes_on(text: str, match: re.Match[str]) -> bool:
    rest = match["rest"]
    if _WHOLE.fullmatch(rest) or not re.search("[0-9]|.[A-Z]", rest):  # a word of prose is neither
        return False
    line = text[max(match.start() - _FULL, 0) : match.start()]
    return len(line) == _FULL and "\n" not in line and "\\n" not in line


def _view(text: str, cuts: Iterable[tuple[tuple[int, int], str]]) -> View:
    parts: list[str] = []
    view = View("", [], [], [0])
    at = place = 0
    for (start, end), meant in cuts:
        parts += (text[at:start], meant)
        place += start - at
        view.before.append(place)
        place += len(meant)
        view.after.append(place)
        view.longer.append(view.longer[-1] + end - start - len(meant))
        at = end
    return view._replace(text="".join([*parts, text[at:]]))


class _Again(str):
    """A name that stood in its object before: another one than that."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def every(text: str) -> Any:
    """What a JSON text says, with every value of a name that stands twice in an object; None where
    there is no such name, or where the text is no JSON."""
    again = False

    def kept(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal again
        found: dict[str, Any] = {}
        for name, value in pairs:
            again |= name in found
            found[_Again(name) if name in found else name] = value
        return found

    try:
        value = json.loads(text, object_pairs_hook=kept)
    except (ValueError, RecursionError):
        return None
    return value if again else None
