"""Rules that a person wrote: which patterns are taken, and why others are not.

Python's `re` cannot be given a time limit, and some take one that doubles with each
character. So a pattern that repeats what is itself of no fixed width, or a choice, is refused, and
one whose repeats stand side by side without an end. What is left meets pieces of at most `PIECE`
characters, line by line: what it takes is bounded for each. Pieces overlap, so that a match of at
most `OVERLAP` characters is found wherever it stands.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from replay.errors import ArcError
from replay.redact.rule import Rule, Span

PIECE = 1_000
"""Characters that a pattern of a person meets at once."""

OVERLAP = 250
"""Characters that a piece and the next have in common."""

WAYS = 100_000
"""Ways that the repeats of one pattern may share out what they match between them."""

_REPEATS = (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT)


class BadPattern(ArcError):
    """A pattern that cannot be used."""


class OwnRule(Rule, frozen=True):
    """A rule that meets a text in pieces."""

    def finds(self, text: str) -> bool:
        return next(self.found(text), None) is not None

    def found(self, text: str) -> Iterator[Span]:
        group = "secret" if "secret" in self.pattern.groupindex else 0
        for line in re.finditer(r"[^\n]+", text):
            at, last = line.start(), line.start()
            while at < line.end():
                stop = min(at + PIECE, line.end())
                following = stop if stop == line.end() else stop - OVERLAP
                for match in self.pattern.finditer(text, at, stop):
                    if match.end() == stop < line.end() and match.start() > following:
                        break  # it may go on: the next piece has all of it
                    start, end = match.span(group)
                    if last <= start < end:
                        yield start, end
                        last = end
                    following = max(following, match.end())
                at = following


def rule(name: str, pattern: str) -> Rule:
    """A rule of that name for a pattern; its group `secret` is what is masked, else all of it.

    Raises BadPattern.
    """
    if not re.fullmatch(r"[a-z0-9_]+", name):
        raise BadPattern(f"{name!r} is no name of a rule", "small letters, digits and _ only")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parsed, compiled = parser.parse(pattern), re.compile(pattern)
    except (re.error, RecursionError, OverflowError, FutureWarning, DeprecationWarning) as error:
        raise BadPattern(f"{name} is no pattern: {error}") from error
    if parsed.getwidth()[0] == 0:
        raise BadPattern(f"{name} matches where nothing stands", "let it begin with what is there")
    if _ways(name, parsed) > WAYS:
        raise BadPattern(
            f"{name} repeats too much side by side",
            "give repeats an end: {0,8} for *, {1,64} for +",
        )
    return OwnRule(name, (), compiled)


def rules(patterns: Mapping[str, str]) -> tuple[Rule, ...]:
    """A rule for each pattern by its name. Raises BadPattern."""
    return tuple(rule(name, pattern) for name, pattern in patterns.items())


def _ways(name: str, parsed: Any) -> int:
    """In how many ways its repeats can share out a piece, at most. Raises BadPattern where one
    repeats what varies."""
    ways = 1
    for kind, about in parsed:
        if kind in _REPEATS:
            least, most, body = about
            narrow, wide = body.getwidth()
            if most > 1 and (narrow != wide or _chooses(body)):
                raise BadPattern(
                    f"{name} repeats a choice, or what has no fixed width: that may take for ever",
                    "repeat a single character or class",
                )
            ways *= min(most, PIECE) - min(least, PIECE) + 1
            ways *= _ways(name, body)
        else:
            for each in _inside(about):
                ways *= _ways(name, each)
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
