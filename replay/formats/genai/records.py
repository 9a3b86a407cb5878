"""Spans and log records as they were read, whichever way they were written, and where they wait.

Spans of traces that are still being read are held in memory up to a budget, then in a temporary
file.
"""

from __future__ import annotations

from functools import cached_property
from typing import IO, Any, TypeAlias

import msgspec
from msgspec import Struct

from replay import files
from replay.formats.genai.values import grown
from replay.trace import Json, Status

SERVER = 2
"""The kind of a span that answers a call from elsewhere."""


class Event(Struct):
    """Something that happened during a span, or a log record that tells of it."""

    name: str
    attributes: dict[str, Json] = {}
    time_ns: int | None = None


class RawSpan(Struct, kw_only=True):
    """A span; `cut` says that attributes of it were dropped."""

    trace: str
    id: str
    parent: str | None = None
    name: str = ""
    kind: int = 0
    start_ns: int | None = None
    end_ns: int | None = None
    status: Status = "unset"
    message: str | None = None
    attributes: dict[str, Json] = {}
    events: list[Event] = []
    cut: bool = False
    resource: dict[str, Json] = {}
    logged: bool = False
    """Known only from log records: they give its end, not its beginning."""


class Log(Struct, kw_only=True):
    """A log record that is an event; `trace` and `span` are those it was written in."""

    event: Event
    trace: str | None = None
    span: str | None = None
    resource: dict[str, Json] = {}


def ended(start: int | None, end: int | None) -> int | None:
    """The end of a span; one before its start is that of a process that died."""
    return None if end is None or (start is not None and end < start) else end


def named(
    name: str | None, attributes: dict[str, Any], body: Json, time_ns: int | None
) -> Event | None:
    """The event that a record tells of: by its field, by an attribute, or by a body that is a
    name alone; a body that is an object adds to the attributes."""
    if not name:
        given = attributes.get("event.name")
        name = given if isinstance(given, str) else None
    if isinstance(body, str) and body.startswith("claude_code."):
        name = body
    if not name:
        return None
    return Event(name, {**attributes, **body} if isinstance(body, dict) else attributes, time_ns)


class Raw(Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """A span of any export. `attributes` are flat, `tree` grows them."""

    trace: str
    id: str
    parent: str | None = None
    name: str = ""
    kind: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    status: Status = "unset"
    message: str | None = None
    attributes: dict[str, Json] = {}
    events: tuple[dict[str, Json], ...] = ()
    logs: tuple[dict[str, Json], ...] = ()
    annotations: tuple[dict[str, Json], ...] = ()

    @cached_property
    def tree(self) -> dict[str, Json]:
        """The attributes as objects and lists."""
        return grown(self.attributes)


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
