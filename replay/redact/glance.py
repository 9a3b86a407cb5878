"""One look at a text that tells which rules can find nothing in it.

Three views: the text in lower case; its long words (a key is one, prose has few), in lower case;
and the shapes of its numbers (every digit as `0`, every capital as `A`, gaps as `-`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from replay.redact.rule import Rule

LONG = 19
"""Every key that is looked for in words has at least so many characters."""

_WORDS = bytes(
    each if (chr(each).isalnum() and each < 128) or chr(each) in "_-.~" else 32
    for each in range(256)
).lower()
_SHAPES = bytes(
    48 if 48 <= each <= 57 else 65 if 65 <= each <= 90 else 45 if each in (32, 45) else 97
    for each in range(256)
)


class Glance:
    """Which of some rules could find something in a text."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._all = tuple(rules)
        self._always = [at for at, rule in enumerate(self._all) if not rule.hints]
        self._words = self._hints(lambda rule: rule.words)
        self._shapes = [
            (hint.encode(), places) for hint, places in self._hints(lambda rule: rule.digits)
        ]
        self._text = self._hints(lambda rule: not rule.words and not rule.digits)

    def _hints(self, of: Callable[[Rule], bool]) -> list[tuple[str, list[int]]]:
        found: dict[str, list[int]] = {}
        for at, rule in enumerate(self._all):
            for hint in rule.hints if of(rule) else ():
                found.setdefault(hint, []).append(at)
        return list(found.items())

    def rules(self, encoded: bytes, lower: str) -> list[Rule]:
        """Those rules, in the order in which they were given."""
        found = set(self._always)
        long = b" ".join([word for word in encoded.translate(_WORDS).split() if len(word) >= LONG])
        if long:
            words = f" {long.decode('ascii')}"
            for hint, places in self._words:
                if hint in words:
                    found.update(places)
        shapes = encoded.translate(_SHAPES)
        for shape, places in self._shapes:
            if shape in shapes:
                found.update(places)
        for hint, places in self._text:
            if hint in lower:
                found.update(places)
        return [self._all[at] for at in sorted(found)]
