"""The rules, and how often each of them found something in which table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

import msgspec

from replay import canon
from replay.redact import PLACEHOLDER, Redactor
from replay.store.content import SHORT
from replay.trace import Json

OF_OURS = frozenset({"batch", "diagnosis", "replay", "setting"})
"""Tables whose texts refer by digests and ids of traces. A pattern of a person may well match in
one of those: they are no secret, and without them nothing is found again."""

_REFERENCE = re.compile(r"((?:sha256:)?\b[0-9a-f]{64}\b|\b[0-9a-f]{16}\b)")


class Masks:
    """Masks texts of tables under one redactor. `found` counts new placeholders by (table, rule).

    A text in which nothing is found comes back as it was, to the byte. `is_trace` tells the ids of
    traces from other texts.
    """

    def __init__(self, redactor: Redactor, is_trace: Callable[[str], bool]) -> None:
        self.found: Counter[tuple[str, str]] = Counter()
        self._redactor = redactor
        self._is_trace = is_trace
        self._short = lru_cache(4096)(redactor.text)
        self._short_clear = lru_cache(4096)(redactor.clear)

    def text(self, table: str, text: str) -> str:
        """A text, masked."""
        if table in OF_OURS:
            parts = _REFERENCE.split(text)
            return "".join(
                part if self._refers(part) else self._counted(table, part, self._text(part))
                for part in parts
            )
        return self._counted(table, text, self._text(text))

    def _text(self, text: str) -> str:
        return self._short(text) if len(text) <= SHORT else self._redactor.text(text)

    def _refers(self, text: str) -> bool:
        """Is it, as a whole, a digest or the id of a trace?"""
        if _REFERENCE.fullmatch(text) is None:
            return False
        return len(text) > _ID or self._is_trace(text)

    def json(self, table: str, encoded: str) -> str:
        """A JSON text, masked leaf by leaf. Raises msgspec.DecodeError where it is none."""
        raw = encoded.encode()
        clear = self._short_clear(raw) if len(raw) <= SHORT else self._redactor.clear(raw)
        if clear:
            return encoded
        value = msgspec.json.decode(raw)
        masked = self._redactor.value(value)
        if table in OF_OURS:
            masked = self._with_references(value, masked)
        if masked is value:
            return encoded
        return self._counted(table, encoded, canon.encode(masked).decode())

    def _with_references(self, before: Json, after: Json) -> Json:
        """What was masked, its references as they were; the same as before where that is all."""
        if before is after or (isinstance(before, str) and self._refers(before)):
            return before
        if isinstance(before, dict) and isinstance(after, dict):
            both = zip(before.items(), after.items(), strict=True)
            held = [
                (self._with_references(*names), self._with_references(*values))
                for names, values in (zip(*each, strict=True) for each in both)
            ]
            return before if held == list(before.items()) else dict(held)
        if isinstance(before, list) and isinstance(after, list):
            listed = [self._with_references(*pair) for pair in zip(before, after, strict=True)]
            return before if listed == before else listed
        return after

    def json_or_text(self, table: str, text: str) -> str:
        """A text that may be JSON."""
        try:
            return self.json(table, text)
        except msgspec.DecodeError:
            return self.text(table, text)

    def silently(self, text: str) -> str:
        """A text that is derived from others, masked and not counted."""
        return self._redactor.text(text)

    def _counted(self, table: str, before: str, after: str) -> str:
        if after != before:
            new = _rules(after) - _rules(before)
            self.found.update({(table, rule): many for rule, many in new.items()})
        return after


_ID = 16
"""Letters of the id of a trace."""


def _rules(text: str) -> Counter[str]:
    """How many placeholders of each rule stand in a text."""
    return Counter(mark.split(":")[1] for mark in PLACEHOLDER.findall(text))
