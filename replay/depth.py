"""Is a value nested deeper than those who read it, by recursion, can bear?

Foreign values are held against the one bound as they are decoded, so that nobody after that has to
ask: what is read from a file, and what is read from a text inside of it.
"""

from __future__ import annotations

import msgspec

from replay.trace import Json

MAX_DEPTH = 200
"""Several times what any real file has; readers use up to four frames a level, of a thousand."""

_HOLDERS = frozenset({dict, list})

TOO_DEEP = "is nested too deeply to be read"


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
    return data.count(b"[") + data.count(b"{") > MAX_DEPTH


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
    return value
