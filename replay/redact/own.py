"""Rules that a person wrote: which patterns are taken, and why others are not.

One that may take for ever is refused (`replay.patterns`), and one whose repeats stand side by side
without an end. What is left meets pieces of at most `PIECE` characters, line by line: what it takes
is bounded for each. Pieces overlap, so that a match of at most `OVERLAP` characters is found
wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from replay.errors import ArcError
from replay.patterns import Pattern, Unusable
from replay.redact.rule import Rule, Span

PIECE = 1_000
"""Characters that a pattern of a person meets at once."""

OVERLAP = 250
"""Characters that a piece and the next have in common."""

WAYS = 100_000
"""Ways that the repeats and choices of one pattern may share out a piece between them."""


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
        found = Pattern(pattern)
    except Unusable as error:
        raise BadPattern(f"{name} {error}", error.hint) from error
    if found.narrowest == 0:
        raise BadPattern(f"{name} matches where nothing stands", "let it begin with what is there")
    if found.ways(PIECE) > WAYS:
        raise BadPattern(
            f"{name} repeats too much side by side",
            "give repeats an end: {0,8} for *, {1,64} for +",
        )
    return OwnRule(name, (), found.compiled)


def rules(patterns: Mapping[str, str]) -> tuple[Rule, ...]:
    """A rule for each pattern by its name. Raises BadPattern."""
    return tuple(rule(name, pattern) for name, pattern in patterns.items())
