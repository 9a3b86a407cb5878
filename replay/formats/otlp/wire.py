"""OTLP's own shapes in JSON: requests, spans, log records, values with their type beside them.

Spans and records are read into typed values first, which costs a third of reading objects. Types
are as wide as exporters are lax: 64-bit numbers as text or number, enums as number or name.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import Generic, TypeAlias, TypeVar

from msgspec import Raw, Struct

from replay.trace import Json

Number: TypeAlias = int | str | float | None

S = TypeVar("S")
L = TypeVar("L")

_LATEST = 2**63 - 1
_HEX = re.compile(r"[0-9a-f]+")


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


class Event(Wire):
    name: str | None = None
    time_unix_nano: Number = None
    attributes: list[Pair] | None = None
    dropped_attributes_count: Number = None


class Status(Wire):
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
    events: list[Event] | None = None
    status: Status | None = None
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


def nanos(value: Number) -> int | None:
    """A time; 0 is none."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdecimal() and len(value) < 20 else None
    if isinstance(value, float):
        value = int(value) if 0 < value < _LATEST else None
    return value if value is not None and 0 < value <= _LATEST else None


@lru_cache(4096)
def hexadecimal(name: str | None) -> str | None:
    """An id in lower-case hex digits, None for none; base64, as generic encoders write it, is
    turned into hex, and any other text is taken as it stands."""
    if not name:
        return None
    lower = name.lower()
    if _HEX.fullmatch(lower):
        return lower if lower.strip("0") else None
    if len(name) in (12, 24):
        try:
            return base64.b64decode(name, validate=True).hex()
        except (binascii.Error, ValueError):
            return name
    return name
