"""What a text holds that neither a search of it nor its decoding shows.

JSON may write a letter as `\\u0073`, which no rule knows; and a name that stands twice in an object
loses the first of its values when it is decoded, while the text still has both.
"""

from __future__ import annotations

import json
import re
from typing import Any

_PLAIN = r"\\{1,63}u00(2[b-fB-F]|3[0-9aA]|3[dD]|40|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aA])"
_ESCAPED = re.compile(_PLAIN)


def escaped(text: str) -> bool:
    """Does it write a letter, a digit or a mark of a key as a number?"""
    return "u00" in text and _ESCAPED.search(text) is not None


def unescaped(text: str) -> str:
    """The text with those as they are read."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


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
