"""A span with what is known of it before its trace is put together."""

from __future__ import annotations

from typing import NamedTuple

from replay.formats.fields import word
from replay.formats.otlp.kinds import Kind, kind_of
from replay.formats.otlp.names import Sorted, Thing, sort_out
from replay.formats.otlp.records import Raw
from replay.trace import Json


class Known(NamedTuple):
    """A span, its kind, and its attributes by what they are."""

    raw: Raw
    kind: Kind
    given: Sorted

    def of(self, thing: Thing) -> Json:
        """The value of one thing, None where the span does not say."""
        return self.given.of.get(thing)

    def word(self, thing: Thing) -> str | None:
        """The same as text."""
        value = self.given.of.get(thing)
        return value if type(value) is str and value else word(value)


def known_of(raw: Raw) -> Known:
    return Known(raw, kind_of(raw), sort_out(raw.attributes))
