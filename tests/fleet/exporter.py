"""OTLP files as OpenTelemetry's exporter writes them to ClickHouse: its tables, and its rows."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

MAP = "Map(LowCardinality(String), String)"

_SPANS = """
CREATE TABLE {table} (
  Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, TraceState String,
  SpanName LowCardinality(String), SpanKind LowCardinality(String),
  ServiceName LowCardinality(String), ResourceAttributes {attributes}, ScopeName String,
  ScopeVersion String, SpanAttributes {attributes} CODEC(ZSTD(1)), Duration UInt64,
  StatusCode LowCardinality(String), StatusMessage String,
  Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes {attributes}),
  Links Nested (TraceId String, SpanId String, TraceState String, Attributes {attributes})
  {indices}
) ENGINE = MergeTree PARTITION BY toDate(Timestamp)
ORDER BY (ServiceName, SpanName, toDateTime(Timestamp), Timestamp)
"""
_INDICES = """
  , INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1
  , INDEX idx_key mapKeys(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1
  , INDEX idx_value mapValues(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1
"""
_LOOKUP = """
CREATE TABLE {table}_trace_id_ts (TraceId String, Start DateTime, End DateTime,
  INDEX idx_trace_id TraceId TYPE bloom_filter(0.01) GRANULARITY 1)
ENGINE = MergeTree PARTITION BY toDate(Start) ORDER BY (TraceId, Start)
"""
_FILLED = """
CREATE MATERIALIZED VIEW {table}_trace_id_ts_mv TO {table}_trace_id_ts AS
SELECT TraceId, min(Timestamp) AS Start, max(Timestamp) AS End FROM {table}
WHERE TraceId <> '' GROUP BY TraceId
"""


def tables(table: str = "otel_traces", *, json: bool = False, lookup: bool = True) -> Iterator[str]:
    """The statements that make the tables."""
    attributes, indices = ("JSON", "") if json else (MAP, _INDICES)
    yield _SPANS.format(table=table, attributes=attributes, indices=indices)
    if lookup:
        yield _LOOKUP.format(table=table)
        yield _FILLED.format(table=table)


def _of_protobuf(data: bytes) -> dict[str, Any]:
    """The same document in JSON, ids in hexadecimal digits."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    found: dict[str, Any] = MessageToDict(TracesData.FromString(data), use_integers_for_enums=True)
    for each in found.get("resourceSpans", ()):
        for scope in each.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64decode(span[name]).hex()
    return found


_SIGNOZ = """
CREATE TABLE {table} (
  ts_bucket_start UInt64, resource_fingerprint String, timestamp DateTime64(9),
  trace_id FixedString(32), span_id String, trace_state String, parent_span_id String,
  flags UInt32, name LowCardinality(String), kind Int8, kind_string String, duration_nano UInt64,
  status_code Int16, status_message String, status_code_string String,
  attributes_string Map(LowCardinality(String), String),
  attributes_number Map(LowCardinality(String), Float64),
  attributes_bool Map(LowCardinality(String), Bool),
  resources_string Map(LowCardinality(String), String), events Array(String), links String,
  has_error Bool, INDEX idx_trace_id trace_id TYPE tokenbf_v1(10000, 5, 0) GRANULARITY 1
) ENGINE = MergeTree PARTITION BY toDate(timestamp)
ORDER BY (ts_bucket_start, resource_fingerprint, has_error, name, timestamp)
"""


def signoz_tables(table: str) -> Iterator[str]:
    """The statement that makes the table of SigNoz."""
    yield _SIGNOZ.format(table=table)


def signoz_rows(file: Path) -> Iterator[dict[str, Any]]:
    """The same rows as SigNoz's collector writes them: attributes by their type, lists as their
    JSON, an event a text."""
    for row in rows(file, json=True):
        given: dict[str, Any] = row["SpanAttributes"]
        numbers = {k: v for k, v in given.items() if type(v) in (int, float)}
        flags = {k: v for k, v in given.items() if type(v) is bool}
        seconds = int(row["Timestamp"].partition(".")[0])
        yield {
            "ts_bucket_start": seconds // 1800 * 1800,
            "timestamp": row["Timestamp"],
            "trace_id": row["TraceId"],
            "span_id": row["SpanId"],
            "parent_span_id": row["ParentSpanId"],
            "name": row["SpanName"],
            "kind_string": row["SpanKind"],
            "duration_nano": row["Duration"],
            "status_code_string": row["StatusCode"],
            "status_message": row["StatusMessage"],
            "attributes_string": {
                k: _text(v) for k, v in given.items() if k not in numbers and k not in flags
            },
            "attributes_number": numbers,
            "attributes_bool": flags,
            "resources_string": {k: _text(v) for k, v in row["ResourceAttributes"].items()},
            "events": [
                msgspec.json.encode(
                    {"name": name, "timeUnixNano": _whole(when), "attributeMap": said}
                ).decode()
                for name, when, said in zip(
                    row["Events.Name"], row["Events.Timestamp"], row["Events.Attributes"],
                    strict=True,
                )
            ],
            "has_error": row["StatusCode"] == "Error",
        }  # fmt: skip


def _whole(decimal: str) -> int:
    seconds, _, rest = decimal.partition(".")
    return int(seconds) * 10**9 + int(rest)


_KINDS = ("Unspecified", "Internal", "Server", "Client", "Producer", "Consumer")
_STATUS = ("Unset", "Ok", "Error")


def rows(file: Path, *, json: bool = False) -> Iterator[dict[str, Any]]:
    """The rows of a file of OTLP JSON, a line or a document."""
    for document in _documents(file):
        for resource_spans in document.get("resourceSpans", ()):
            resource = _attributes(resource_spans.get("resource", {}).get("attributes"), json=json)
            for scope_spans in resource_spans.get("scopeSpans", ()):
                for span in scope_spans.get("spans", ()):
                    yield _row(span, resource, json=json)


def _documents(file: Path) -> Iterable[dict[str, Any]]:
    data = file.read_bytes()
    if file.suffix == ".pb":
        return [_of_protobuf(data)]
    try:
        return [msgspec.json.decode(data)]
    except msgspec.DecodeError:
        return [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]


def _row(span: dict[str, Any], resource: dict[str, Any], *, json: bool) -> dict[str, Any]:
    start, end = int(span.get("startTimeUnixNano", 0)), int(span.get("endTimeUnixNano", 0))
    status = span.get("status", {})
    events = span.get("events", [])
    return {
        "Timestamp": _decimal(start),
        "TraceId": span["traceId"],
        "SpanId": span["spanId"],
        "ParentSpanId": span.get("parentSpanId", ""),
        "SpanName": span.get("name", ""),
        "SpanKind": _KINDS[int(span.get("kind", 0))],
        "ServiceName": str(resource.get("service.name", "")),
        "ResourceAttributes": resource,
        "SpanAttributes": _attributes(span.get("attributes"), json=json),
        "Duration": max(end - start, 0),
        "StatusCode": _STATUS[int(status.get("code", 0))],
        "StatusMessage": status.get("message", ""),
        "Events.Timestamp": [_decimal(int(each.get("timeUnixNano", 0))) for each in events],
        "Events.Name": [each.get("name", "") for each in events],
        "Events.Attributes": [_attributes(e.get("attributes"), json=json) for e in events],
    }


def _decimal(ns: int) -> str:
    return f"{ns // 10**9}.{ns % 10**9:09d}"


def _attributes(given: Any, *, json: bool) -> dict[str, Any]:
    found = {each["key"]: _value(each.get("value", {})) for each in given or ()}
    return found if json else {key: _text(value) for key, value in found.items()}


def _value(value: dict[str, Any]) -> Any:
    for kind, inner in value.items():
        match kind:
            case "intValue":
                return int(inner)
            case "arrayValue":
                return [_value(each) for each in inner.get("values", ())]
            case "kvlistValue":
                return {each["key"]: _value(each["value"]) for each in inner.get("values", ())}
            case _:
                return inner
    return None


def _text(value: Any) -> str:
    """Values of a map are texts: what is no text stands as its JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
