"""Where in a file does each trace end? Asked before it is read, so that a trace is put together as
soon as it is whole, and only those in the middle of it are in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.formats.intake import Source
from replay.formats.otlp.wire import hexadecimal

_NAME = b'"traceId"'
_VALUE = re.compile(rb'\s*:\s*"([^"\\]{1,64})"')


class Ends:
    """The last line that names each trace, a line at a time.

    Lines are searched for the name of the field, not decoded; a text cannot look like it, for its
    quotes are escaped. A trace that is missed here stays until the end.
    """

    def __init__(self, source: Source) -> None:
        last: dict[str, int] = {}
        for number, line in source.lines():
            for trace in _named(line):
                last[trace] = number
        self._waiting = sorted(last.items(), key=lambda entry: entry[1], reverse=True)

    def reached(self, number: int) -> Iterator[str]:
        """The traces that no line after this one names."""
        while self._waiting and self._waiting[-1][1] <= number:
            yield self._waiting.pop()[0]


def _named(line: bytes) -> set[str]:
    found: set[bytes] = set()
    at = line.find(_NAME)
    while at >= 0:
        at += len(_NAME)
        value = _VALUE.match(line, at)
        if value is not None:
            found.add(value[1])
        at = line.find(_NAME, at)
    names = (hexadecimal(each.decode("ascii", "replace")) for each in found)
    return {name for name in names if name is not None}
