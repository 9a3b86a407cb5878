"""Traces of a store as batches for the ordinary importer: whole traces, a group of ids a question.

Values of a map are texts there, whatever they were: those that stand for numbers are numbers again
by their names alone, so that a tool's argument "12" stays the text it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from replay.fleet.connection import Connection
from replay.fleet.dialect import Began, Dialect
from replay.formats import otlp
from replay.formats.genai import attributes
from replay.formats.genai.records import SERVER, Event, RawSpan, flat, hexadecimal
from replay.formats.source import Tally
from replay.trace import FLEET, Batch, Json, Status

TOGETHER = 20
"""Traces that are read by one question."""

UNREADABLE = "left out: its attributes hold bytes that are not text"

LATEST_NS = 2**63 - 1
"""The latest moment that a DateTime64 in nanoseconds can be."""

_SCORES = ("gen_ai.evaluation.score.value", "gen_ai.evaluation.score")
_NUMBERS = frozenset(
    name
    for thing in (
        attributes.USAGE_IN, attributes.USAGE_OUT, attributes.CACHE_READ, attributes.CACHE_WRITE,
        attributes.CACHE_WRITE_1H, attributes.REASONING, attributes.COST,
    )
    for name in thing.names
).union(attributes.PARAMS, _SCORES)  # fmt: skip


def read_traces(
    connection: Connection, dialect: Dialect, traces: Sequence[Began], tally: Tally
) -> Iterator[Batch]:
    """The traces of these ids, each with when it began. Raises FleetError."""
    for at in range(0, len(traces), TOGETHER):
        yield from dialect.read(connection, dialect, traces[at : at + TOGETHER], tally)


def read_rows(
    columns: Sequence[str],
    connection: Connection,
    dialect: Dialect,
    traces: Sequence[Began],
    tally: Tally,
) -> Iterator[Batch]:
    """The traces of a table of OpenTelemetry's spans; `columns` are those of `_raw`. One that
    cannot be read is a problem of the tally's."""
    values = {"ids": [trace for trace, _ in traces], "least": min(start for _, start in traces)}
    sql = (
        f"SELECT {', '.join(columns)} FROM {dialect.spans}"
        f" WHERE {dialect.trace} IN {{ids:Array(String)}} AND {dialect.since('{least:Int64}')}"
        f" ORDER BY {dialect.trace}, {dialect.start}"
    )
    found = (row for block in connection.blocks(sql, values) for row in block)
    for name, rows in groupby(found, key=lambda row: row[0]):
        try:
            raws = [_raw(row) for row in rows]
        except msgspec.DecodeError:
            tally.problem(f"trace {name}", UNREADABLE)
            continue
        batch = otlp.batch_of(str(name), raws, [], f"{FLEET}{connection.name}", tally)
        if batch is not None:
            yield batch


def _raw(row: Sequence[Any]) -> RawSpan:
    (trace, span, parent, name, kind, start, duration, status, message,
     given, resource, event_names, event_times, event_attributes) = row  # fmt: skip
    events = [
        Event(named, _attributes(said), int(when) or None)
        for named, when, said in zip(event_names, event_times, event_attributes, strict=True)
    ]
    start_ns = int(start) or None
    end_ns = None if start_ns is None else start_ns + int(duration)
    return RawSpan(
        trace=str(trace),
        id=hexadecimal(span) or str(span),
        parent=hexadecimal(parent),
        name=name,
        kind=SERVER if kind in ("Server", "SPAN_KIND_SERVER") else 0,
        start_ns=start_ns,
        end_ns=None if end_ns is None or end_ns > LATEST_NS else end_ns,
        status=_STATUS.get(status.removeprefix("STATUS_CODE_").lower(), "unset"),
        message=message or None,
        attributes={n: v for each in given for n, v in _attributes(each).items()},
        events=events,
        resource=_attributes(resource),
    )


_STATUS: dict[str, Status] = {"ok": "ok", "error": "error"}


def _attributes(text: str) -> dict[str, Json]:
    """Attributes by their dotted names, out of the JSON of a map, or of a column of JSON, which
    nests them; "" of an event that has none."""
    if not text:
        return {}
    found = flat(msgspec.json.decode(text))
    return {name: _value(name, value) for name, value in found.items() if value != ""}


def _value(name: str, value: Json) -> Json:
    if name not in _NUMBERS or not isinstance(value, str):
        return value
    try:
        return int(value) if value.lstrip("-").isdecimal() else float(value)
    except ValueError:
        return value
