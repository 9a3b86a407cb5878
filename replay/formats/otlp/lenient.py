"""OTLP in JSON whose fields are not all as the protocol says: each value is taken for itself.

Slower than reading typed, so used where that fails; here unknown fields are seen and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from replay.depth import TOO_DEEP, is_deep
from replay.formats.fields import listed, obj
from replay.formats.intake import Tally, decode
from replay.formats.otlp import wire
from replay.formats.otlp.held import Record
from replay.formats.otlp.records import Log, Raw, kept, log, raw
from replay.trace import Json

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises where bytes are not what they should be."""

_W = TypeVar("_W", bound=wire.Wire)


def loose(data: bytes, path: str, where: str) -> Json:
    """JSON bytes as plain values, odd ones mended; BadTrace says where they stop being JSON."""
    return decode(data.decode("utf-8", "replace").encode(), path, where)


def taken(span: wire.Span, about: dict[str, Json], where: str, tally: Tally) -> Raw | None:
    """The span as this importer has it; a problem and None where it has no id."""
    try:
        made = raw(span, about)
    except RecursionError:
        tally.problem(where, f"span {span.span_id} {TOO_DEEP}")
        return None
    if made is None:
        tally.problem(where, "a span has no id")
    elif is_deep([made.attributes, [each.attributes for each in made.events]]):
        tally.problem(where, f"span {span.span_id} {TOO_DEEP}")
        return None
    return made


def heard(record: wire.LogRecord, about: dict[str, Json], where: str, tally: Tally) -> Log | None:
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
    count_unknown(request, wire.Request, tally)
    for of_spans in map(obj, listed(request.get("resourceSpans"))):
        count_unknown(of_spans, wire.ResourceSpans, tally)
        about = resource(of_spans.get("resource"), tally)
        for in_scope in map(obj, listed(of_spans.get("scopeSpans"))):
            count_unknown(in_scope, wire.ScopeSpans, tally)
            for span in listed(in_scope.get("spans")):
                yield from span_of(span, about, where, tally)
    for of_logs in map(obj, listed(request.get("resourceLogs"))):
        count_unknown(of_logs, wire.ResourceLogs, tally)
        about = resource(of_logs.get("resource"), tally)
        for in_scope in map(obj, listed(of_logs.get("scopeLogs"))):
            count_unknown(in_scope, wire.ScopeLogs, tally)
            for record in listed(in_scope.get("logRecords")):
                yield from log_of(record, about, where, tally)
    if request.get("resourceMetrics") is not None:
        tally.counts["metrics_exports"] += 1


def count_unknown(value: dict[str, Json], shape: type[Struct], tally: Tally) -> None:
    """Count the fields that a shape of the protocol does not have."""
    for name in value.keys() - set(shape.__struct_encode_fields__):
        tally.unknown[f"{shape.__name__} {name}"] += 1


def resource(value: Json, tally: Tally) -> dict[str, Json]:
    """What is kept of a resource."""
    try:
        return kept(_as(wire.Resource, value, "a resource", tally))
    except RecursionError:
        tally.problem("a resource", TOO_DEEP)
        return {}


def span_of(value: Json, about: dict[str, Json], where: str, tally: Tally) -> Iterator[Record]:
    """The span that a value is, nothing where it is none."""
    count_unknown(obj(value), wire.Span, tally)
    span = _as(wire.Span, value, where, tally)
    made = taken(span, about, where, tally) if span is not None else None
    if made is not None:
        yield made


def log_of(value: Json, about: dict[str, Json], where: str, tally: Tally) -> Iterator[Record]:
    """The event of a value that is a log record, nothing where it is none or tells of none."""
    count_unknown(obj(value), wire.LogRecord, tally)
    record = _as(wire.LogRecord, value, where, tally)
    told = heard(record, about, where, tally) if record is not None else None
    if told is not None:
        yield told


def _as(shape: type[_W], value: Json, where: str, tally: Tally) -> _W | None:
    """The value as a shape of the protocol; a problem and None where it is none."""
    if value is None:
        return None
    try:
        return msgspec.convert(value, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        why = TOO_DEEP if isinstance(error, RecursionError) else f"is not as OTLP says: {error}"
        tally.problem(where, why)
        return None
