"""OTLP's binary encoding: one message, or many with their lengths before them, record by record."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

from replay.errors import BadTrace
from replay.formats.genai import records
from replay.formats.genai.records import SERVER, Event, Log, RawSpan, Record, ended, named
from replay.formats.otlp import json
from replay.formats.otlp.json import loose, to_keep, untyped
from replay.formats.source import HEAD_BYTES, MAX_DOCUMENT_BYTES, MAX_LINE_BYTES, Source, Tally
from replay.trace import Json, Status

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
    from opentelemetry.proto.trace.v1.trace_pb2 import Span


_ZSTD = b"\x28\xb5\x2f\xfd"
_LONGEST_VARINT = 10
_MOST_RATIO = 1_000
"""How often its size a message may unpack to; spans come to a fiftieth of that."""


# --- which framing


def _big(stream: IO[bytes]) -> int | None:
    return _fixed(stream, "big")


def _little(stream: IO[bytes]) -> int | None:
    return _fixed(stream, "little")


def _fixed(stream: IO[bytes], order: Literal["big", "little"]) -> int | None:
    data = stream.read(4)
    if data and len(data) < 4:
        raise Broken(EARLY)
    return int.from_bytes(data, order) if data else None


def _delimited(stream: IO[bytes]) -> int | None:
    data = b""
    while not data or data[-1] >= 0x80:
        byte = stream.read(1)
        if not byte:
            if data:
                raise Broken(EARLY)
            return None
        data += byte
        if len(data) > _LONGEST_VARINT:
            raise Broken("a number is truncated")
    return varint(data, 0)[0]


Framing: TypeAlias = Callable[[IO[bytes]], "int | None"]
"""Reads the length of the next message, None where there is none."""

_FRAMINGS: tuple[Framing, ...] = (_big, _little, _delimited)


def looks_like(head: bytes) -> bool:
    """Is this the beginning of OTLP in protobuf, with lengths or without?"""
    return _bare(head, cut=len(head) >= HEAD_BYTES) or _framing(head) is not None


def _framing(head: bytes) -> Framing | None:
    """The framing whose first message the head begins with."""
    for framing in _FRAMINGS:
        stream = io.BytesIO(head)
        try:
            length = framing(stream)
        except Broken:
            continue
        if not length or length > MAX_LINE_BYTES:
            continue
        first = stream.read(length)
        if len(first) < 4:
            continue
        cut = len(first) < length
        if cut and len(head) < HEAD_BYTES:
            continue
        if first.startswith((_ZSTD, b'{"resource')) or _bare(first, cut=cut):
            return framing
    return None


def _bare(data: bytes, *, cut: bool) -> bool:
    """Does a message begin here: a list of resources that hold lists of scopes?

    `cut` data ends in its middle. A text never looks so: after its line break it would need
    lengths that fit into each other.
    """
    try:
        tag, resource, end = field_at(data, 0, cut=cut)
        cut = end > len(data)
        scopes = [inside for tag, inside in _listing(resource, cut=cut) if tag == SCOPES]
        if tag != LIST or not (scopes or cut):
            return False
        return all([*_listing(scope, cut=cut)] for scope in scopes)
    except Broken:
        return False


def _listing(data: bytes, *, cut: bool) -> Iterator[tuple[int, bytes]]:
    """The fields of a resource or a scope, which have no others than these three."""
    for tag, inside in fields(data, cut=cut):
        if tag not in (LIST, SCOPES, URL):
            raise Broken("another field")
        yield tag, inside


# --- messages


def messages(source: Source, tally: Tally) -> Iterator[tuple[list[Record], int]]:
    """The records of a file, resource by resource, and their bytes.

    What cannot be read is a problem, what came before stays good; BadTrace where nothing did.
    """
    _require_classes(source)
    good = 0
    try:
        for data in _messages(source):
            for records, size in _records(data, tally):
                good += bool(records)
                yield records, size
    except (Broken, BadTrace) as broken:
        if not good:
            raise BadTrace(source.display, "", f"is not readable OTLP: {broken}") from broken
        tally.problem("after the last whole message", str(broken))


def _require_classes(source: Source) -> None:
    try:
        import opentelemetry.proto.trace.v1.trace_pb2  # noqa: F401
    except ModuleNotFoundError as error:
        why = "is OTLP in protobuf, and the package that reads it is not installed"
        raise BadTrace(source.display, "", why, "Try: pip install opentelemetry-proto") from error


def _messages(source: Source) -> Iterator[bytes]:
    """Message by message; one without a length is handed on a field at a time."""
    head = source.head.data
    framing = None if _bare(head, cut=len(head) >= HEAD_BYTES) else _framing(head)
    with source.open() as stream:
        try:
            if framing is None:
                yield from _unframed(stream)
                return
            while (length := framing(stream)) is not None:
                data = _exactly(stream, length)
                yield _decompressed(data) if data.startswith(_ZSTD) else data
        except (OSError, EOFError, ValueError) as error:
            raise Broken(f"is truncated: {error}") from error


def _unframed(stream: IO[bytes]) -> Iterator[bytes]:
    """The fields of the one message: each of its list makes a message of its own."""
    while tag := stream.read(1):
        length = _delimited(stream)
        if tag[0] != LIST or length is None:
            raise Broken("the rest is not a resource")
        yield tag + written_varint(length) + _exactly(stream, length)


def written_varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    if length > MAX_DOCUMENT_BYTES:
        raise Broken(f"a message is longer than {MAX_DOCUMENT_BYTES >> 20} MiB")
    data = stream.read(length)
    if len(data) < length:
        raise Broken(EARLY)
    return data


def _decompressed(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    most = min(MAX_LINE_BYTES, _MOST_RATIO * len(data))
    try:
        found: bytes = zstd.ZstdDecompressor().decompress(data, max_length=most + 1)
    except (zstd.ZstdError, EOFError) as error:
        raise Broken(f"a message cannot be decompressed: {error}") from error
    if len(found) > most:
        if most == MAX_LINE_BYTES:
            raise Broken(f"a message is longer than {MAX_LINE_BYTES >> 20} MiB")
        raise Broken(f"a message decompresses to more than {_MOST_RATIO} times its size")
    return found


def _records(data: bytes, tally: Tally) -> Iterator[tuple[list[Record], int]]:
    """The records of one message; one that is JSON is what a compressing collector writes."""
    if data.startswith(b"{"):
        yield list(untyped(loose(data, "", "a message"), "a message", tally)), len(data)
        return
    for tag, resource in fields(data):
        if tag == LIST:
            yield list(in_resource(resource, tally)), len(resource)


LIST, SCOPES, URL = 0x0A, 0x12, 0x1A
"""Tags: a request is a list of resources; a resource holds itself, its scopes and an address."""

EARLY = "it is truncated"

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
    raise Broken("a number is truncated")


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
        raise Broken("a field has an unknown wire type")
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
        return to_keep(_attributes(Resource.FromString(data).attributes))
    except DecodeError as error:
        raise Broken(f"a resource cannot be read: {error}") from error


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


def _span(data: bytes, about: dict[str, Json], tally: Tally) -> Iterator[RawSpan]:
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


def _raw(span: Span, about: dict[str, Json]) -> RawSpan | None:
    trace, name = _id(span.trace_id), _id(span.span_id)
    if trace is None or name is None:
        return None
    start, end = records.nanos(span.start_time_unix_nano), records.nanos(span.end_time_unix_nano)
    return RawSpan(
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
            Event(each.name, _attributes(each.attributes), records.nanos(each.time_unix_nano))
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
        time = records.nanos(record.time_unix_nano) or records.nanos(record.observed_time_unix_nano)
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
    return json.real(held) if kind == "double_value" else held
