"""What a span and a log record are to this importer, whichever way they were written."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from replay.formats.otlp import wire
from replay.trace import Json, Status

SERVER = 2
"""The kind of a span that answers a call from elsewhere."""

_STATUS: dict[str, Status] = {
    "1": "ok", "2": "error", "STATUS_CODE_OK": "ok", "STATUS_CODE_ERROR": "error",
}  # fmt: skip
KEPT = (
    "service.name",
    "service.version",
    "deployment.environment.name",
    "deployment.environment",
    "session.id",
)
"""Attributes of a resource that tell runs apart."""


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


def kept(resource: wire.Resource | None) -> dict[str, Json]:
    """What of a resource is kept beside each of its spans."""
    if resource is None:
        return {}
    found = wire.attributes(resource.attributes)
    return {name: found[name] for name in KEPT if name in found}


def raw_span(span: wire.Span, resource: dict[str, Json]) -> RawSpan | None:
    """A span as it stands in JSON, None where it has no id."""
    trace, name = wire.hexadecimal(span.trace_id), wire.hexadecimal(span.span_id)
    if trace is None or name is None:
        return None
    start, end = wire.nanos(span.start_time_unix_nano), wire.nanos(span.end_time_unix_nano)
    status = span.status
    return RawSpan(
        trace=trace,
        id=name,
        parent=wire.hexadecimal(span.parent_span_id),
        name=span.name or "",
        kind=SERVER if span.kind in (SERVER, "2", "SPAN_KIND_SERVER") else 0,
        start_ns=start,
        end_ns=ended(start, end),
        status=_STATUS.get(str(status.code), "unset") if status is not None else "unset",
        message=(status.message or None) if status is not None else None,
        attributes=wire.attributes(span.attributes),
        events=[event(each) for each in span.events or ()],
        cut=span.dropped_attributes_count not in (None, 0, "0"),
        resource=resource,
    )


def ended(start: int | None, end: int | None) -> int | None:
    """The end of a span; one before its start is that of a process that died."""
    return None if end is None or (start is not None and end < start) else end


def event(given: wire.Event) -> Event:
    return Event(
        given.name or "", wire.attributes(given.attributes), wire.nanos(given.time_unix_nano)
    )


def log(record: wire.LogRecord, resource: dict[str, Json]) -> Log | None:
    """A log record, None where it is no event but words in a log."""
    body = wire.plain(record.body)
    time = wire.nanos(record.time_unix_nano) or wire.nanos(record.observed_time_unix_nano)
    made = named(record.event_name, wire.attributes(record.attributes), body, time)
    if made is None:
        return None
    return Log(
        event=made,
        trace=wire.hexadecimal(record.trace_id),
        span=wire.hexadecimal(record.span_id),
        resource=resource,
    )


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
