"""Where are the records of a file: on its lines, in one document, or in a stream of events?

A log is gone through twice, first to see what continues what, then to tell it: a line is never
held longer than it is looked at. A document and a stream are held whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from replay.depth import TOO_DEEP
from replay.errors import BadTrace
from replay.formats.anthropic_log import stream
from replay.formats.fields import word
from replay.formats.intake import Head, Source, decode
from replay.trace import Json

_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Records:
    """The records of a source, as often as they are gone through: (number from 1, JSON bytes).

    `by_line` says that the numbers are lines of the file.
    """

    def __init__(self, source: Source, held: list[bytes] | None = None) -> None:
        self._source, self._held = source, held
        self.by_line = held is None

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return self._source.lines() if self._held is None else enumerate(self._held, 1)

    def where(self, number: int) -> str:
        return f"{'line' if self.by_line else 'record'} {number}"


def records(source: Source) -> Records:
    """The records of a source. Raises BadTrace where a document or a stream cannot be read."""
    head = source.head
    if is_event_stream(head):
        events = stream.of_text(source.read().decode("utf-8", "replace"))
        return Records(source, _streamed(events))
    first = first_value(head)
    if isinstance(first, dict) and word(first.get("type")) in stream.EVENTS:
        lines = (value(line) for _, line in source.lines())
        return Records(source, _streamed(line for line in lines if isinstance(line, dict)))
    if isinstance(first, list) or (first is None and _is_document(head)):
        return Records(source, _document(source))
    return Records(source)


def is_event_stream(head: Head) -> bool:
    """Is this the text of a stream of the Messages API?"""
    return stream.is_stream(head.data[:1024].decode("utf-8", "replace")) and head.has(
        rb'data:\s*\{[^\n]*"type"\s*:\s*"message_start"'
    )


def first_value(head: Head) -> Json:
    """The JSON value that the first line is, None where it is none (or goes on behind the head)."""
    lines = head.lines()
    return value(lines[0]) if lines else None


def value(line: bytes) -> Json:
    """The JSON value of a line, None where it is none; of one nested too deeply no more is known
    than that it is one."""
    try:
        return decode(line, "", "")
    except BadTrace as error:
        return {} if error.why == TOO_DEEP else None


def _is_document(head: Head) -> bool:
    """A list, or an object whose first line is only its beginning."""
    return head.starts(b"[") or (head.starts(b"{") and len(head.lines()) > 1)


def _document(source: Source) -> list[bytes]:
    data = source.read()
    try:
        return [bytes(each) for each in _split(data)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = decode(data, source.display, "")
        whole = value if isinstance(value, list) else [value]
        return [_encoded(each, source, at) for at, each in enumerate(whole, 1)]


def _encoded(value: Json, source: Source, at: int) -> bytes:
    try:
        return msgspec.json.encode(value)
    except RecursionError as error:
        where = f"record {at}"
        raise BadTrace(source.display, where, TOO_DEEP) from error


def _streamed(events: Iterator[dict[str, Json]]) -> list[bytes]:
    """A record a message: what came of it, without the request that nobody kept."""
    return [msgspec.json.encode({"events": own}) for own in stream.messages(events)]
