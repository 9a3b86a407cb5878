"""Is a value nested deeper than those who read it, by recursion, can bear, or a number larger?

Foreign values are held against the bounds as they are decoded, so that nobody after that has to
ask: what is read from a file, and what is read from a text inside of it.
"""

from __future__ import annotations

import re
import sys

import msgspec

from replay.trace import Json

MAX_DEPTH = 200
"""Several times what any real file has; readers use up to four frames a level, of a thousand."""

_HOLDERS = frozenset({dict, list})

TOO_DEEP = "is nested too deeply to be read"

MAX_DIGITS = 308
"""Whole numbers of so many digits a float can hold; of some thousands Python itself reads none."""

_MOST = int(sys.float_info.max)
_STRIDE = (MAX_DIGITS + 1) // 2
_TWO_DIGITS = re.compile(rb"\d(?=\d)")


def is_deep(value: Json) -> bool:
    """Is there something inside of so many objects and lists?"""
    level = [value] if type(value) in _HOLDERS else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [
            inner
            for each in level
            for inner in (each.values() if type(each) is dict else each)
            if type(inner) in _HOLDERS
        ]
    return bool(level)


def may_be_deep(data: bytes) -> bool:
    """Can JSON bytes hold a value that is? Cheap; True only means: look closer."""
    return len(data) > MAX_DEPTH and data.count(b"[") + data.count(b"{") > MAX_DEPTH


def may_be_huge(data: bytes) -> bool:
    """Can JSON bytes hold a whole number of more digits? Cheap; True only means: look closer.

    Of so many digits in a row two bytes that are looked at are neighbours, and all between them.
    """
    if len(data) <= MAX_DIGITS:
        return False
    return any(
        data[at.start() * _STRIDE : at.end() * _STRIDE].isdigit()
        for at in _TWO_DIGITS.finditer(data[::_STRIDE])
    )


def is_huge(number: float) -> bool:
    """Is it more than a float can hold, or no number?"""
    return not -_MOST <= number <= _MOST


def whole(digits: str) -> int | None:
    """The whole number that is written so, None where it is surely huge."""
    return int(digits) if len(digits) <= MAX_DIGITS + 2 else None


def without_huge(value: Json) -> Json:
    """The value with numbers that are huge or infinite as unknown (None)."""
    if isinstance(value, list):
        return [without_huge(entry) for entry in value]
    if isinstance(value, dict):
        return {name: without_huge(entry) for name, entry in value.items()}
    return None if type(value) in (int, float) and is_huge(value) else value


def from_text(text: str | bytes) -> Json:
    """The value of JSON that stands in a text. Raises msgspec.DecodeError, and nothing else, where
    it is none or nested too deeply."""
    try:
        data = text.encode() if isinstance(text, str) else text
        value = msgspec.json.decode(data)
    except (UnicodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error
    if may_be_deep(data) and is_deep(value):
        raise msgspec.DecodeError(TOO_DEEP)
    return without_huge(value) if may_be_huge(data) else value
