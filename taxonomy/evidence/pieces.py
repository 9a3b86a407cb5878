"""Texts taken apart at the signs that no word holds, without a look at each letter in Python.

A pattern that never matches across such a sign finds in the pieces what it finds in the text, so
that a piece that was seen before need not be searched again.
"""

from __future__ import annotations

from collections.abc import Callable

_LONE = "surrogatepass"
"""Half a character is no UTF-8, and some sources hold one all the same."""


def splitter(signs: str) -> Callable[[str], list[str]]:
    """A function that splits a text at white space and at each of `signs`, which are ASCII."""
    table = bytes.maketrans(signs.encode("ascii"), b" " * len(signs))

    def split(text: str) -> list[str]:
        return text.encode("utf-8", _LONE).translate(table).decode("utf-8", _LONE).split()

    return split


def without_case(text: str) -> str:
    """A text in small letters, as `re.IGNORECASE` compares them to ASCII ones.

    What stands in small letters in a pattern can match only where it stands in this.
    """
    if text.isascii():
        return text.lower()
    return text.replace("İ", "i").lower().replace("ı", "i").replace("ſ", "s")
