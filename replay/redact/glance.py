"""One look at a text that tells which rules can find nothing in it.

Three views: the text in lower case; its long words (a key is one, prose has few), in lower case;
and the shapes of its numbers (every digit as `0`, every capital as `A`, gaps as `-`). To look for
one character is many times quicker than for a text, so what has a rare one in it is looked for only
where that one stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from replay.redact.rule import Rule

LONG = 19
"""Every key that is looked for in words has at least so many characters."""

WRAPPED = 24
"""So many characters of base64 has a text of a key's length at least."""

_WORDS = bytes(
    each if (chr(each).isalnum() and each < 128) or chr(each) in "_-.~" else 32
    for each in range(256)
).lower()
_SHAPES = bytes(
    48 if 48 <= each <= 57 else 65 if 65 <= each <= 90 else 45 if each in (32, 45) else 97
    for each in range(256)
)
_RUNS = bytes(48 if 48 <= each <= 57 or 65 <= each <= 90 else 97 for each in range(256))
_GAPS = b" -"
_RARE = "%<@/=~-_."

Hints = list[tuple[str, list[tuple[str, list[int]]]]]
"""Characters, each with the hints it stands in, and these with the places of their rules."""


class Glance:
    """Which of some rules could find something in a text."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._all = tuple(rules)
        self._wrapped = [at for at, rule in enumerate(self._all) if rule.wrapped]
        self._always = [
            at for at, rule in enumerate(self._all) if not rule.hints and not rule.wrapped
        ]
        self._words = self._hints(lambda rule: rule.words)
        shapes = self._hints(lambda rule: rule.digits > 0)
        self._run = b"0" * min((rule.digits for rule in self._all if rule.digits), default=0)
        self._shapes = [(hint.encode(), at) for _, each in shapes for hint, at in each]
        self._text = self._hints(lambda rule: not rule.words and not rule.digits)

    def _hints(self, of: Callable[[Rule], bool]) -> Hints:
        found: dict[str, list[int]] = {}
        for at, rule in enumerate(self._all):
            for hint in rule.hints if of(rule) else ():
                found.setdefault(hint, []).append(at)
        hints: dict[str, list[tuple[str, list[int]]]] = {}
        for hint, places in found.items():
            rare = next((char for char in _RARE if char in hint), "")
            hints.setdefault(rare, []).append((hint, places))
        return list(hints.items())

    def rules(self, encoded: bytes, lower: str) -> list[Rule]:
        """Those rules, in the order in which they were given."""
        found = [*self._always, *_standing(self._text, lower)]
        if len(encoded) >= LONG:
            words = encoded.translate(_WORDS).split()
            long = [word for word in words if len(word) >= LONG]
            if long:
                found += _standing(self._words, f" {b' '.join(long).decode('ascii')}")
                if self._wrapped and any(map(_may_be_wrapped, long)):
                    found += self._wrapped
        if len(encoded) >= len(self._run) and self._run in encoded.translate(_RUNS, _GAPS):
            shapes = encoded.translate(_SHAPES)
            for shape, places in self._shapes:
                if shape in shapes:
                    found += places
        return [self._all[at] for at in sorted(set(found))] if found else []


def _may_be_wrapped(word: bytes) -> bool:
    """Could a long word be base64 of ASCII? Every fourth character of that is a letter."""
    return word[:WRAPPED:4].isalpha() and word[:WRAPPED].isalnum() and len(word) >= WRAPPED


def _standing(hints: Hints, text: str) -> list[int]:
    """The places of rules of which a hint stands in a text."""
    found: list[int] = []
    for rare, listed in hints:
        if rare in text:
            for hint, places in listed:
                if hint in text:
                    found += places
    return found
