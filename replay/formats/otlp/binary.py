"""The records of one resource in protobuf.

A resource is taken apart by hand down to its spans, so that no more than one of them is decoded at
a time; a span is decoded by the protocol's own classes, which are imported when one is met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from replay.formats.intake import Tally
from replay.formats.otlp import wire
from replay.formats.otlp.held import Record
from replay.formats.otlp.records import KEPT, SERVER, Event, Log, Raw, ended, named
from replay.trace import Json, Status

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

LIST, SCOPES, URL = 0x0A, 0x12, 0x1A
"""Tags: a request is a list of resources; a resource holds itself, its scopes and an address."""

EARLY = "it ends too early"

_SPAN = b"\x0a\x10"
"""How a span begins: with an id of sixteen bytes. A metric begins with a name."""
_RECORD = (0x09, 0x59, 0x10, 0x1A, 0x2A, 0x32, 0x4A)
"""Tags a log record begins with."""

_STATUS: dict[int, Status] = {1: "ok", 2: "error"}


class Broken(Exception):
    """Bytes that are no message; the reason in words."""


# --- taking apart


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place after it."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise Broken("a number does not end")


def field_at(data: bytes, at: int, *, cut: bool = False) -> tuple[int, bytes, int]:
    """(tag, bytes, the place after it) of one field; those of a number are empty.

    `cut` allows for data that ends in the middle of the field.
    """
    tag, at = varint(data, at)
    kind = tag & 7
    if kind == 2:
        length, at = varint(data, at)
        end = at + length
    elif kind == 0:
        _, at = varint(data, at)
        return tag, b"", at
    elif kind in (1, 5):
        end = at + (8 if kind == 1 else 4)
    else:
        raise Broken("a field is of no kind that protobuf has")
    if tag >> 3 == 0 or (end > len(data) and not cut):
        raise Broken(EARLY)
    return tag, data[at:end], end


def fields(data: bytes, *, cut: bool = False) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        tag, value, at = field_at(data, at, cut=cut)
        yield tag, value


# --- records


def in_resource(data: bytes, tally: Tally) -> Iterator[Record]:
    """The spans and events of one resource. Raises Broken where its bytes are no message."""
    about: dict[str, Json] = {}
    for tag, inside in fields(data):
        if tag == LIST:
            about = _about(inside)
        elif tag == SCOPES:
            yield from _in_scope(inside, about, tally)


def _about(data: bytes) -> dict[str, Json]:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource

    try:
        found = _attributes(Resource.FromString(data).attributes)
    except DecodeError as error:
        raise Broken(f"a resource cannot be read: {error}") from error
    return {name: found[name] for name in KEPT if name in found}


def _in_scope(data: bytes, about: dict[str, Json], tally: Tally) -> Iterator[Record]:
    for tag, record in fields(data):
        if tag != SCOPES or not record:
            continue
        if record.startswith(_SPAN):
            yield from _span(record, about, tally)
        elif record[0] in _RECORD:
            yield from _log(record, about, tally)
        else:
            tally.counts["metrics"] += 1


def _span(data: bytes, about: dict[str, Json], tally: Tally) -> Iterator[Raw]:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    try:
        span: Span = Span.FromString(data)
        if not span.start_time_unix_nano:
            tally.counts["metrics"] += 1  # a metric with a name of sixteen letters
            return
        made = _raw(span, about)
    except (DecodeError, RecursionError) as error:
        tally.problem("a span", f"cannot be read: {error}")
        return
    if made is None:
        tally.problem("a message", "a span has no id")
    else:
        yield made


def _raw(span: Span, about: dict[str, Json]) -> Raw | None:
    trace, name = _id(span.trace_id), _id(span.span_id)
    if trace is None or name is None:
        return None
    start, end = wire.nanos(span.start_time_unix_nano), wire.nanos(span.end_time_unix_nano)
    return Raw(
        trace=trace,
        id=name,
        parent=_id(span.parent_span_id),
        name=span.name,
        kind=SERVER if span.kind == SERVER else 0,
        start_ns=start,
        end_ns=ended(start, end),
        status=_STATUS.get(span.status.code, "unset"),
        message=span.status.message or None,
        attributes=_attributes(span.attributes),
        events=[
            Event(each.name, _attributes(each.attributes), wire.nanos(each.time_unix_nano))
            for each in span.events
        ],
        cut=span.dropped_attributes_count > 0,
        resource=about,
    )


def _log(data: bytes, about: dict[str, Json], tally: Tally) -> Iterator[Log]:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

    tally.counts["log_records"] += 1
    try:
        record: LogRecord = LogRecord.FromString(data)
        body = _plain(record.body)
        time = wire.nanos(record.time_unix_nano) or wire.nanos(record.observed_time_unix_nano)
        event = named(record.event_name, _attributes(record.attributes), body, time)
    except (DecodeError, RecursionError) as error:
        tally.problem("a log record", f"cannot be read: {error}")
        return
    if event is not None:
        trace, span = _id(record.trace_id), _id(record.span_id)
        yield Log(event=event, trace=trace, span=span, resource=about)


def _id(name: bytes) -> str | None:
    """An id in hex; one of zeros alone is none."""
    return name.hex() if name.strip(b"\0") else None


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for pair in pairs:
        text = pair.value.string_value
        value = text or _plain(pair.value)
        if value is not None:
            found[pair.key] = value
    return found


def _plain(value: AnyValue) -> Json:
    """The value that a typed one holds; bytes as text, None for nothing."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    held = getattr(value, kind)
    if kind == "array_value":
        return [_plain(each) for each in held.values]
    if kind == "kvlist_value":
        return _attributes(held.values)
    if kind == "bytes_value":
        return bytes(held).decode("utf-8", "replace")
    return wire.real(held) if kind == "double_value" else held
