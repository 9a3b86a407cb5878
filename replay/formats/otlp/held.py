"""A span with what is known of it before its trace is put together, and where it waits until then.

Spans of traces that are still being read are held in memory up to a budget, then in a temporary
file.
"""

from __future__ import annotations

from typing import IO, NamedTuple, TypeAlias

import msgspec

from replay import files
from replay.formats.common import word
from replay.formats.otlp.names import Kind, Sorted, Thing, kind_of, sort_out
from replay.formats.otlp.records import Log, RawSpan
from replay.trace import Json

Record: TypeAlias = RawSpan | Log

BUDGET_BYTES = 48 * 1024 * 1024


class _Page(msgspec.Struct, array_like=True):
    """What one trace had in memory when it was moved to the file."""

    spans: list[RawSpan]
    logs: list[Log]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Page).decode


class Held:
    """Records by the trace they belong to, in the order they were added."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._size = 0
        self._pages: dict[str, _Page] = {}
        self._sizes: dict[str, int] = {}
        self._filed: dict[str, list[tuple[int, int]]] = {}
        self._file: IO[bytes] | None = None

    def add(self, trace: str, record: Record, size: int) -> None:
        """Keep a record; `size` is roughly its bytes in the source."""
        page = self._pages.get(trace)
        if page is None:
            page = self._pages[trace] = _Page([], [])
            self._filed.setdefault(trace, [])
        if isinstance(record, RawSpan):
            page.spans.append(record)
        else:
            page.logs.append(record)
        self._sizes[trace] = self._sizes.get(trace, 0) + size
        self._size += size
        if self._size > self._budget:
            self._move()

    def traces(self) -> list[str]:
        """The traces held, in the order of their first records."""
        return list(self._filed)

    def take(self, trace: str) -> tuple[list[RawSpan], list[Log]]:
        """The spans and log records of a trace, which is then no longer held."""
        spans: list[RawSpan] = []
        logs: list[Log] = []
        for start, size in self._filed.pop(trace, ()):
            assert self._file is not None
            self._file.seek(start)
            page = _decode(self._file.read(size))
            spans += page.spans
            logs += page.logs
        last = self._pages.pop(trace, None)
        self._size -= self._sizes.pop(trace, 0)
        if last is not None:
            spans += last.spans
            logs += last.logs
        return spans, logs

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _move(self) -> None:
        """All that is in memory to the file."""
        if self._file is None:
            self._file = files.unlinked()
        start = self._file.seek(0, 2)
        for trace, page in self._pages.items():
            written = self._file.write(_encode(page))
            self._filed[trace].append((start, written))
            start += written
        self._pages.clear()
        self._sizes.clear()
        self._size = 0


class Known(NamedTuple):
    """A span, its kind, and its attributes by what they are."""

    raw: RawSpan
    kind: Kind
    given: Sorted

    def of(self, thing: Thing) -> Json:
        """The value of one thing, None where the span does not say."""
        return self.given.of.get(thing)

    def word(self, thing: Thing) -> str | None:
        """The same as text."""
        value = self.given.of.get(thing)
        return value if type(value) is str and value else word(value)


def known_of(raw: RawSpan) -> Known:
    return Known(raw, kind_of(raw), sort_out(raw.attributes))
