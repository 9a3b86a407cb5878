"""The records of a file in their order, whichever of OTLP's encodings it has.

JSON Lines are read a line at a time, a document of many lines (or a line too long to hold) piece
by piece (`document`), protobuf message by message (`protobuf`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from replay.errors import BadTrace
from replay.formats.intake import Source, Tally
from replay.formats.otlp import document, protobuf, wire
from replay.formats.otlp.held import Record
from replay.formats.otlp.lenient import (
    UNREADABLE,
    heard,
    log_of,
    loose,
    resource,
    span_of,
    taken,
    untyped,
)
from replay.formats.otlp.records import kept
from replay.trace import Json

LINE_BYTES = 8 * 1024 * 1024
"""A longer line is not read at once, but span by span."""

RECORDS = 256
"""How many records of such a line are handed on together."""

_read = msgspec.json.Decoder(wire.Request[wire.KnownSpan, wire.KnownRecord]).decode
_read_outside = msgspec.json.Decoder(wire.Request[msgspec.Raw, msgspec.Raw]).decode
_read_span = msgspec.json.Decoder(wire.KnownSpan).decode
_read_record = msgspec.json.Decoder(wire.KnownRecord).decode
_S = TypeVar("_S")
_L = TypeVar("_L")


class Export(NamedTuple):
    """The records of one line or message; `place` is the line, None where there are no lines.
    `size` is their bytes in the source."""

    records: list[Record]
    place: int | None
    size: int


def exported(source: Source, tally: Tally) -> Iterator[Export]:
    """Everything a file holds. What cannot be read is a problem; a file of nothing else is bad."""
    if protobuf.looks_like(source.head.data):
        for records, size in protobuf.messages(source, tally):
            yield Export(records, None, size)
    elif by_line(source):
        yield from _lines(source, tally)
    else:
        yield from _pieces(source, tally)


def by_line(source: Source) -> bool:
    """Is the first line a request of its own?"""
    if protobuf.looks_like(source.head.data):
        return False
    with source.open() as stream:
        try:
            line = stream.readline(LINE_BYTES)
            while line and not line.strip():
                line = stream.readline(LINE_BYTES)
        except (OSError, EOFError, ValueError) as error:
            raise BadTrace(source.display, "start", f"cannot be read: {error}") from error
    try:
        msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"), type=dict[str, msgspec.Raw])
    except UNREADABLE:
        return False
    return True


def _lines(source: Source, tally: Tally) -> Iterator[Export]:
    good = 0
    first: BadTrace | None = None
    for number, line in source.lines():
        try:
            records = _line(line, source, f"line {number}", tally)
            size = len(line)
            while some := list(islice(records, RECORDS if size > LINE_BYTES else None)):
                yield Export(some, None, size)
                size = 0
        except BadTrace as error:
            first = first or error
            tally.problem(error.where, error.why)
            continue
        good += 1
        yield Export([], number, 0)
    if first is not None and not good:
        raise first


def _line(line: bytes, source: Source, where: str, tally: Tally) -> Iterator[Record]:
    """The records of one request. Raises BadTrace where the line is no JSON."""
    if len(line) <= LINE_BYTES:
        try:
            return _all(_read(line), where, tally)
        except UNREADABLE:
            pass
    try:
        return _one_by_one(_read_outside(line), where, tally)
    except UNREADABLE:
        return untyped(loose(line, source.display, where), where, tally)


def _all(
    request: wire.Request[wire.KnownSpan, wire.KnownRecord], where: str, tally: Tally
) -> Iterator[Record]:
    """The records of a request that is as the protocol says."""
    for span, about in _spans(request):
        made = taken(span, about, where, tally)
        if made is not None:
            yield made
    for record, about in _records(request, tally):
        told = heard(record, about, where, tally)
        if told is not None:
            yield told


def _one_by_one(
    request: wire.Request[msgspec.Raw, msgspec.Raw], where: str, tally: Tally
) -> Iterator[Record]:
    """The same of a long request, or of one whose spans may not be as the protocol says."""
    for data, about in _spans(request):
        try:
            made = taken(_read_span(data), about, where, tally)
        except UNREADABLE:
            yield from _odd(span_of, data, about, where, tally)
        else:
            yield from () if made is None else (made,)
    for data, about in _records(request, tally):
        try:
            told = heard(_read_record(data), about, where, tally)
        except UNREADABLE:
            yield from _odd(log_of, data, about, where, tally)
        else:
            yield from () if told is None else (told,)


def _odd(
    read: Callable[[Json, dict[str, Json], str, Tally], Iterator[Record]],
    data: msgspec.Raw,
    about: dict[str, Json],
    where: str,
    tally: Tally,
) -> Iterator[Record]:
    """The record of bytes that are not as the protocol says; a problem where they are no JSON."""
    try:
        value = loose(bytes(data), "", where)
    except BadTrace as error:
        tally.problem(where, f"a record {error.why}")
        return
    yield from read(value, about, where, tally)


def _spans(request: wire.Request[_S, _L]) -> Iterator[tuple[_S, dict[str, Json]]]:
    """Every span and what is kept of its resource."""
    for of_spans in request.resource_spans or ():
        about = kept(of_spans.resource)
        for in_scope in of_spans.scope_spans or ():
            for span in in_scope.spans or ():
                yield span, about


def _records(request: wire.Request[_S, _L], tally: Tally) -> Iterator[tuple[_L, dict[str, Json]]]:
    """Every log record and what is kept of its resource; metrics are counted and left."""
    if request.resource_metrics is not None:
        tally.counts["metrics_exports"] += 1
    for of_logs in request.resource_logs or ():
        about = kept(of_logs.resource)
        for in_scope in of_logs.scope_logs or ():
            for record in in_scope.log_records or ():
                yield record, about


def _pieces(source: Source, tally: Tally) -> Iterator[Export]:
    """A document too large to hold, or one of many lines."""
    about: dict[str, Json] = {}
    for name, value, size in document.pieces(source, tally):
        if name == "resource":
            about = resource(value, tally)
        elif name == "spans":
            yield Export(list(span_of(value, about, "the document", tally)), None, size)
        else:
            yield Export(list(log_of(value, about, "the document", tally)), None, size)
