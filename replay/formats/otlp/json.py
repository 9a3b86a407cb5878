"""OTLP in JSON, read piece by piece, each value by itself where it is not as it should be.

Spans and records are read into typed values of the protocol's own shapes first, which costs a third
of reading objects. Types are as wide as exporters are lax: 64-bit numbers as text or number, enums
as number or name.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from replay.depth import TOO_DEEP, is_deep
from replay.errors import BadTrace
from replay.formats.common import listed, obj
from replay.formats.genai.records import (
    _LATEST,
    SERVER,
    Event,
    Log,
    Number,
    RawSpan,
    Record,
    ended,
    hexadecimal,
    named,
    nanos,
)
from replay.formats.source import Source, Tally, decode
from replay.pins import PIN_ATTRIBUTE
from replay.trace import GOLDEN, Json, Status

S = TypeVar("S")
L = TypeVar("L")


class Wire(Struct, rename="camel", gc=False):
    """A shape of the protocol; fields not named in it are ignored."""


class Values(Wire):
    values: list[AnyValue] | None = None


class Pairs(Wire):
    values: list[Pair] | None = None


class AnyValue(Wire):
    """At most one field holds something."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Number = None
    double_value: Number = None
    array_value: Values | None = None
    kvlist_value: Pairs | None = None
    bytes_value: str | None = None


class Pair(Wire):
    key: str = ""
    value: AnyValue | None = None


class WireEvent(Wire):
    name: str | None = None
    time_unix_nano: Number = None
    attributes: list[Pair] | None = None
    dropped_attributes_count: Number = None


class WireStatus(Wire):
    code: Number = None
    message: str | None = None


class Span(Wire):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    name: str | None = None
    kind: Number = None
    start_time_unix_nano: Number = None
    end_time_unix_nano: Number = None
    attributes: list[Pair] | None = None
    events: list[WireEvent] | None = None
    status: WireStatus | None = None
    links: Json = None
    flags: Number = None
    trace_state: str | None = None
    dropped_attributes_count: Number = None
    dropped_events_count: Number = None
    dropped_links_count: Number = None


class LogRecord(Wire):
    trace_id: str | None = None
    span_id: str | None = None
    event_name: str | None = None
    time_unix_nano: Number = None
    observed_time_unix_nano: Number = None
    body: AnyValue | None = None
    attributes: list[Pair] | None = None
    severity_number: Number = None
    severity_text: str | None = None
    flags: Number = None
    dropped_attributes_count: Number = None


class Scope(Wire):
    name: str | None = None
    version: str | None = None
    attributes: list[Pair] | None = None
    dropped_attributes_count: Number = None


class Resource(Wire):
    attributes: list[Pair] | None = None
    dropped_attributes_count: Number = None
    entity_refs: Json = None


class KnownSpan(Span, forbid_unknown_fields=True):
    """A span with no field but those above; one with more is read the slow way, and counted."""


class KnownRecord(LogRecord, forbid_unknown_fields=True):
    """A log record with no field but those above."""


class ScopeSpans(Wire, Generic[S], forbid_unknown_fields=True):
    spans: list[S] | None = None
    scope: Scope | None = None
    schema_url: str | None = None


class ScopeLogs(Wire, Generic[L], forbid_unknown_fields=True):
    log_records: list[L] | None = None
    scope: Scope | None = None
    schema_url: str | None = None


class ResourceSpans(Wire, Generic[S], forbid_unknown_fields=True):
    scope_spans: list[ScopeSpans[S]] | None = None
    resource: Resource | None = None
    schema_url: str | None = None


class ResourceLogs(Wire, Generic[L], forbid_unknown_fields=True):
    scope_logs: list[ScopeLogs[L]] | None = None
    resource: Resource | None = None
    schema_url: str | None = None


class Request(Wire, Generic[S, L], forbid_unknown_fields=True):
    """What stands on one line: the traces, the logs or the metrics of one export.

    Spans and records are read at once (`KnownSpan`, `KnownRecord`), or left as their bytes (`Raw`).
    """

    resource_spans: list[ResourceSpans[S]] | None = None
    resource_logs: list[ResourceLogs[L]] | None = None
    resource_metrics: Raw | None = None


def attributes(pairs: list[Pair] | None) -> dict[str, Json]:
    """The pairs as an object; those without a value are left out."""
    found: dict[str, Json] = {}
    for pair in pairs or ():
        value = pair.value
        if value is not None:
            text = value.string_value
            found[pair.key] = text if text is not None else plain(value)
    return found


def plain(value: AnyValue | None) -> Json:
    """The value that a typed one holds; bytes as their base64 text, None for nothing."""
    if value is None:
        return None
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        return integer(value.int_value)
    if value.bool_value is not None:
        return value.bool_value
    if value.array_value is not None:
        return [plain(each) for each in value.array_value.values or ()]
    if value.kvlist_value is not None:
        return attributes(value.kvlist_value.values)
    return value.bytes_value if value.double_value is None else real(value.double_value)


def integer(value: Number) -> Json:
    """A 64-bit integer; what is none stays the text it is."""
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 20:
            return value
        value = int(value)
    if isinstance(value, float):
        return real(value)
    if isinstance(value, int) and not -_LATEST <= value <= _LATEST:
        return str(value)
    return value


def real(value: Number) -> Json:
    """A number, None for infinities and what is none: JSON writes both as text."""
    try:
        number = float(value) if value is not None else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and number - number == 0 else None


_STATUS: dict[str, Status] = {
    "1": "ok", "2": "error", "STATUS_CODE_OK": "ok", "STATUS_CODE_ERROR": "error",
}  # fmt: skip
KEPT = (
    "service.name",
    "service.version",
    "deployment.environment.name",
    "deployment.environment",
    "session.id",
    GOLDEN,
)
"""Attributes of a resource that tell runs apart, beside those that pin them."""


def kept(resource: Resource | None) -> dict[str, Json]:
    """What of a resource is kept beside each of its spans."""
    if resource is None:
        return {}
    return to_keep(attributes(resource.attributes))


def to_keep(found: dict[str, Json]) -> dict[str, Json]:
    """What tells runs apart, of the attributes of a resource."""
    return {
        name: value
        for name, value in found.items()
        if name in KEPT or name.startswith(PIN_ATTRIBUTE)
    }


def raw_span(span: Span, resource: dict[str, Json]) -> RawSpan | None:
    """A span as it stands in JSON, None where it has no id."""
    trace, name = hexadecimal(span.trace_id), hexadecimal(span.span_id)
    if trace is None or name is None:
        return None
    start, end = nanos(span.start_time_unix_nano), nanos(span.end_time_unix_nano)
    status = span.status
    return RawSpan(
        trace=trace,
        id=name,
        parent=hexadecimal(span.parent_span_id),
        name=span.name or "",
        kind=SERVER if span.kind in (SERVER, "2", "SPAN_KIND_SERVER") else 0,
        start_ns=start,
        end_ns=ended(start, end),
        status=_STATUS.get(str(status.code), "unset") if status is not None else "unset",
        message=(status.message or None) if status is not None else None,
        attributes=attributes(span.attributes),
        events=[event(each) for each in span.events or ()],
        cut=span.dropped_attributes_count not in (None, 0, "0"),
        resource=resource,
    )


def event(given: WireEvent) -> Event:
    return Event(given.name or "", attributes(given.attributes), nanos(given.time_unix_nano))


def log(record: LogRecord, resource: dict[str, Json]) -> Log | None:
    """A log record, None where it is no event but words in a log."""
    body = plain(record.body)
    time = nanos(record.time_unix_nano) or nanos(record.observed_time_unix_nano)
    made = named(record.event_name, attributes(record.attributes), body, time)
    if made is None:
        return None
    return Log(
        event=made,
        trace=hexadecimal(record.trace_id),
        span=hexadecimal(record.span_id),
        resource=resource,
    )


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises where bytes are not what they should be."""

_W = TypeVar("_W", bound=Wire)


def loose(data: bytes, path: str, where: str) -> Json:
    """JSON bytes as plain values, odd ones mended; BadTrace says where they stop being JSON."""
    return decode(data.decode("utf-8", "replace").encode(), path, where)


def taken(span: Span, about: dict[str, Json], where: str, tally: Tally) -> RawSpan | None:
    """The span as this importer has it; a problem and None where it has no id."""
    try:
        made = raw_span(span, about)
    except RecursionError:
        tally.problem(where, f"span {span.span_id} {TOO_DEEP}")
        return None
    if made is None:
        tally.problem(where, "a span has no id")
    elif is_deep([made.attributes, [each.attributes for each in made.events]]):
        tally.problem(where, f"span {span.span_id} {TOO_DEEP}")
        return None
    return made


def read_strictly(
    record: LogRecord, about: dict[str, Json], where: str, tally: Tally
) -> Log | None:
    """The event that a log record tells of, None where it tells of none."""
    tally.counts["log_records"] += 1
    try:
        made = log(record, about)
    except RecursionError:
        tally.problem(where, f"a log record {TOO_DEEP}")
        return None
    if made is not None and is_deep(made.event.attributes):
        tally.problem(where, f"a log record {TOO_DEEP}")
        return None
    return made


def untyped(value: Json, where: str, tally: Tally) -> Iterator[Record]:
    """The records of a request with fields unknown or of other types."""
    request = obj(value)
    count_unknown(request, Request, tally)
    for of_spans in map(obj, listed(request.get("resourceSpans"))):
        count_unknown(of_spans, ResourceSpans, tally)
        about = resource_of(of_spans.get("resource"), tally)
        for in_scope in map(obj, listed(of_spans.get("scopeSpans"))):
            count_unknown(in_scope, ScopeSpans, tally)
            for span in listed(in_scope.get("spans")):
                yield from span_of(span, about, where, tally)
    for of_logs in map(obj, listed(request.get("resourceLogs"))):
        count_unknown(of_logs, ResourceLogs, tally)
        about = resource_of(of_logs.get("resource"), tally)
        for in_scope in map(obj, listed(of_logs.get("scopeLogs"))):
            count_unknown(in_scope, ScopeLogs, tally)
            for record in listed(in_scope.get("logRecords")):
                yield from log_of(record, about, where, tally)
    if request.get("resourceMetrics") is not None:
        tally.counts["metrics_exports"] += 1


def count_unknown(value: dict[str, Json], shape: type[Struct], tally: Tally) -> None:
    """Count the fields that a shape of the protocol does not have."""
    for name in value.keys() - set(shape.__struct_encode_fields__):
        tally.unknown[f"{shape.__name__} {name}"] += 1


def resource_of(value: Json, tally: Tally) -> dict[str, Json]:
    """What is kept of a resource."""
    try:
        return kept(_as(Resource, value, "a resource", tally))
    except RecursionError:
        tally.problem("a resource", TOO_DEEP)
        return {}


def span_of(value: Json, about: dict[str, Json], where: str, tally: Tally) -> Iterator[Record]:
    """The span that a value is, nothing where it is none."""
    count_unknown(obj(value), Span, tally)
    span = _as(Span, value, where, tally)
    made = taken(span, about, where, tally) if span is not None else None
    if made is not None:
        yield made


def log_of(value: Json, about: dict[str, Json], where: str, tally: Tally) -> Iterator[Record]:
    """The event of a value that is a log record, nothing where it is none or tells of none."""
    count_unknown(obj(value), LogRecord, tally)
    record = _as(LogRecord, value, where, tally)
    told = read_strictly(record, about, where, tally) if record is not None else None
    if told is not None:
        yield told


def _as(shape: type[_W], value: Json, where: str, tally: Tally) -> _W | None:
    """The value as a shape of the protocol; a problem and None where it is none."""
    if value is None:
        return None
    try:
        return msgspec.convert(value, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        why = TOO_DEEP if isinstance(error, RecursionError) else f"is not valid OTLP: {error}"
        tally.problem(where, why)
        return None


CHUNK_BYTES = 1024 * 1024
MAX_PIECE_CHARS = 128 * 1024 * 1024
MAX_GLUE_CHARS = 4096
"""The longest text that can stand before a piece without its name being in it."""

_OPENS = re.compile(r'"(spans|logRecords)"\s*:\s*\[|"(resource)"\s*:\s*(?=\{)')
_SPACE = re.compile(r"\s*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class Piece(NamedTuple):
    """`name` is where it stands: one of the spans, a resource, …; `size` its characters."""

    name: str
    value: Json
    size: int


class _Text:
    """The text of a source, of which what was read is let go. `at` is the place in `held`."""

    def __init__(self, source: Source, stream: IO[bytes]) -> None:
        self._source = source
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self.held = ""
        self.at = 0
        self.done = False

    def more(self) -> bool:
        """Read on, twice as far as last time while one piece wants it; False at the end."""
        if self.done:
            return False
        self.held = self.held[self.at :]
        self.at = 0
        try:
            data = self._stream.read(max(CHUNK_BYTES, len(self.held)))
        except (OSError, EOFError, ValueError) as error:
            raise BadTrace(self._source.display, "", f"is truncated: {error}") from error
        self.done = not data
        self.held += self._decode(data, self.done)
        return not self.done


def pieces(source: Source, tally: Tally) -> Iterator[Piece]:
    """The pieces of a document in their order.

    Where it breaks, what came before stays good and the break is a problem; BadTrace where
    nothing came before.
    """
    decoder = json.JSONDecoder(parse_constant=lambda _: None)
    found = 0
    with source.open() as stream:
        text = _Text(source, stream)
        try:
            for name in _named(text):
                for piece in _each(text, name, decoder):
                    found += name in ("spans", "logRecords")
                    yield piece
        except (ValueError, RecursionError) as error:
            why = _reason(error, text)
            if not found:
                raise BadTrace(source.display, "", why) from error
            tally.problem(f"after {found} records", why)


def _reason(error: Exception, text: _Text) -> str:
    if isinstance(error, RecursionError):
        return TOO_DEEP
    return "is not JSON: it is truncated" if text.done else f"is not JSON: {error}"


def _named(text: _Text) -> Iterator[str]:
    """The names of the pieces that follow; the place is then that of the first of them."""
    while True:
        match = _OPENS.search(text.held, text.at)
        if match is not None:
            text.at = match.end()
            yield match[1] or match[2]
            continue
        text.at = max(text.at, len(text.held) - MAX_GLUE_CHARS)
        if not text.more():
            return


def _each(text: _Text, name: str, decoder: json.JSONDecoder) -> Iterator[Piece]:
    """The one object of a name, or all of its list."""
    if name == "resource":
        yield _one(text, name, decoder)
        return
    while True:
        end = _SPACE.match(text.held, text.at)
        assert end is not None
        text.at = end.end()
        if text.at == len(text.held):
            if not text.more():
                raise ValueError("it is truncated")
        elif text.held[text.at] == "]":
            return
        elif text.held[text.at] == ",":
            text.at += 1
        else:
            yield _one(text, name, decoder)


def _one(text: _Text, name: str, decoder: json.JSONDecoder) -> Piece:
    """The value at the place, read on for until it is whole."""
    while True:
        try:
            value, end = decoder.raw_decode(text.held, text.at)
        except ValueError:
            # Not whole yet, or never: only the end of the source can tell.
            if len(text.held) - text.at > MAX_PIECE_CHARS:
                raise ValueError(f"a piece is longer than {MAX_PIECE_CHARS >> 20} MiB") from None
            if not text.more():
                raise
            continue
        written = text.held[text.at : end]
        if _SURROGATE.search(written):  # half of a pair may stand alone, which no text can hold
            value = decode(written.encode(), "", "")
        piece = Piece(name, value, len(written))
        text.at = end
        return piece
