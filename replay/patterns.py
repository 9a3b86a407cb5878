"""Regular expressions that somebody else wrote: which are taken, and how long one may take.

Python's `re` cannot be given a time limit, and some patterns take one that doubles with each
character. So one that repeats what is itself of no fixed width, or a choice, is refused. What is
left takes at most as many steps as its repeats and choices have ways to share out the text; a text
for which those are too many is not searched.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

STEPS = 10**10
"""Ways that one text may be shared out in, at most: seconds, as measured."""

FOREIGN_STEPS = 10**8
"""The same for a pattern of somebody else's file, which comes with texts of its own."""

_REPEATS = (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT)


class Unusable(ValueError):
    """Why a pattern is not taken, as the end of a sentence about it; `hint` says what would be."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


class TooLong(ValueError):
    """A text that the pattern might take too long for."""


class Pattern:
    """A pattern that ends. Raises Unusable."""

    def __init__(self, pattern: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self._parsed, self.compiled = parser.parse(pattern), re.compile(pattern)
        except (
            re.error,
            RecursionError,
            OverflowError,
            FutureWarning,
            DeprecationWarning,
        ) as error:
            raise Unusable(f"is not a regular expression: {error}") from error
        self.ways(1)

    @property
    def narrowest(self) -> int:
        """Characters that it matches at least."""
        return int(self._parsed.getwidth()[0])

    def ways(self, length: int) -> int:
        """In how many ways its repeats and choices can share out a text of some length, at most."""
        return _ways(self._parsed, length)

    def search(self, text: str, steps: int = STEPS) -> re.Match[str] | None:
        """Raises TooLong."""
        if (len(text) + 1) * self.ways(len(text)) > steps:
            raise TooLong
        return self.compiled.search(text)

    def fullmatch(self, text: str, steps: int = STEPS) -> re.Match[str] | None:
        """Raises TooLong."""
        if self.ways(len(text)) > steps:
            raise TooLong
        return self.compiled.fullmatch(text)


def _ways(parsed: Any, length: int) -> int:
    """Raises Unusable where a repeat repeats what varies."""
    ways = 1
    for kind, about in parsed:
        if kind in _REPEATS:
            least, most, body = about
            narrow, wide = body.getwidth()
            if most > 1 and (narrow != wide or _chooses(body)):
                raise Unusable(
                    "repeats a choice or a part of variable width: matching may never end",
                    "Try: repeat a single character or class",
                )
            ways *= min(most, length) - min(least, length) + 1
            ways *= _ways(body, length)
        elif kind is kinds.BRANCH:
            ways *= sum(_ways(each, length) for each in _inside(about))
        else:
            for each in _inside(about):
                ways *= _ways(each, length)
    return ways


def _chooses(parsed: Any) -> bool:
    return any(
        kind is kinds.BRANCH or any(_chooses(each) for each in _inside(about))
        for kind, about in parsed
    )


def _inside(about: Any) -> Iterator[Any]:
    """The patterns that stand in an element."""
    if isinstance(about, parser.SubPattern):
        yield about
    elif isinstance(about, (tuple, list)):
        for each in about:
            yield from _inside(each)
