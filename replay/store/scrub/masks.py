"""The rules, and how often each of them found something in which table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache

import msgspec

from replay import canon
from replay.redact import PLACEHOLDER, Redactor, references
from replay.store.content import SHORT

OF_OURS = frozenset({"batch", "diagnosis", "replay", "setting"})
"""Tables whose texts refer by digests and ids of traces (`references`)."""


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
            return "".join(
                part
                if references.refers(part, self._is_trace)
                else self._counted(table, part, self._text(part))
                for part in references.REFERENCE.split(text)
            )
        return self._counted(table, text, self._text(text))

    def _text(self, text: str) -> str:
        return self._short(text) if len(text) <= SHORT else self._redactor.text(text)

    def json(self, table: str, encoded: str) -> str:
        """A JSON text, masked leaf by leaf. Raises msgspec.DecodeError where it is none."""
        raw = encoded.encode()
        clear = self._short_clear(raw) if len(raw) <= SHORT else self._redactor.clear(raw)
        if clear:
            return encoded
        value = msgspec.json.decode(raw)
        masked = self._redactor.value(value)
        if table in OF_OURS:
            masked = references.restored(value, masked, self._is_trace)
        if masked is value:
            return encoded
        return self._counted(table, encoded, canon.encode(masked).decode())

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


def _rules(text: str) -> Counter[str]:
    """How many placeholders of each rule stand in a text."""
    return Counter(mark.split(":")[1] for mark in PLACEHOLDER.findall(text))
