"""The records of a file in their order, whichever of OTLP's encodings it has.

Also one export as it comes over the wire, which file of log records belongs to a file of spans,
and where in a file each trace ends, so that it is put together as soon as it is whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from replay.errors import BadTrace
from replay.formats.genai.records import Log, Record, hexadecimal
from replay.formats.otlp import json, protobuf
from replay.formats.otlp.json import (
    UNREADABLE,
    kept,
    log_of,
    loose,
    read_strictly,
    resource_of,
    span_of,
    taken,
    untyped,
)
from replay.formats.otlp.protobuf import LIST, Broken, fields, in_resource, written_varint
from replay.formats.source import Source, Tally
from replay.trace import Json

LINE_BYTES = 8 * 1024 * 1024
"""A longer line is not read at once, but span by span."""

RECORDS = 256
"""How many records of such a line are handed on together."""

_read = msgspec.json.Decoder(json.Request[json.KnownSpan, json.KnownRecord]).decode
_read_outside = msgspec.json.Decoder(json.Request[msgspec.Raw, msgspec.Raw]).decode
_read_span = msgspec.json.Decoder(json.KnownSpan).decode
_read_record = msgspec.json.Decoder(json.KnownRecord).decode
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
            yield from of_line(line, source, number, tally)
        except BadTrace as error:
            first = first or error
            tally.problem(error.where, error.why)
            continue
        good += 1
        yield Export([], number, 0)
    if first is not None and not good:
        raise first


def of_line(line: bytes, source: Source, number: int, tally: Tally) -> Iterator[Export]:
    """The records of one line, those of a long one in parts. Raises BadTrace where it is no
    JSON."""
    records = _line(line, source, f"line {number}", tally)
    size = len(line)
    while some := list(islice(records, RECORDS if size > LINE_BYTES else None)):
        yield Export(some, None, size)
        size = 0


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
    request: json.Request[json.KnownSpan, json.KnownRecord], where: str, tally: Tally
) -> Iterator[Record]:
    """The records of a request that is as the protocol says."""
    for span, about in _spans(request):
        made = taken(span, about, where, tally)
        if made is not None:
            yield made
    for record, about in _records(request, tally):
        told = read_strictly(record, about, where, tally)
        if told is not None:
            yield told


def _one_by_one(
    request: json.Request[msgspec.Raw, msgspec.Raw], where: str, tally: Tally
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
            told = read_strictly(_read_record(data), about, where, tally)
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


def _spans(request: json.Request[_S, _L]) -> Iterator[tuple[_S, dict[str, Json]]]:
    """Every span and what is kept of its resource."""
    for of_spans in request.resource_spans or ():
        about = kept(of_spans.resource)
        for in_scope in of_spans.scope_spans or ():
            for span in in_scope.spans or ():
                yield span, about


def _records(request: json.Request[_S, _L], tally: Tally) -> Iterator[tuple[_L, dict[str, Json]]]:
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
    for name, value, size in json.pieces(source, tally):
        if name == "resource":
            about = resource_of(value, tally)
        elif name == "spans":
            yield Export(list(span_of(value, about, "the document", tally)), None, size)
        else:
            yield Export(list(log_of(value, about, "the document", tally)), None, size)


_LISTS = ("resourceSpans", "resourceLogs", "resourceMetrics")


def in_protobuf(body: bytes, tally: Tally) -> list[Record]:
    """The records of a request in protobuf. Raises Broken where the bytes are no message."""
    found: list[Record] = []
    for tag, resource in fields(body):
        if tag != LIST:
            raise Broken("it has a field that no OTLP export has")
        found += in_resource(resource, tally)
    return found


def in_json(body: bytes, tally: Tally) -> list[Record]:
    """The records of a request in JSON. Raises Broken where the bytes are no export."""
    try:
        value = loose(body, "the body", "")
    except BadTrace as error:
        raise Broken(error.why) from error
    if not isinstance(value, dict):
        raise Broken("it is not a JSON object")
    for name in _LISTS:
        if not isinstance(value.get(name, []), list):
            raise Broken(f"{name} is not a list")
    return list(untyped(value, "the export", tally))


def said_in_json(rejected_as: str, rejected: int, why: str) -> bytes:
    """The answer to an export of which some records were refused, {} where none was.

    `rejected_as` is the field that counts them.
    """
    partial: Json = {rejected_as: str(rejected), "errorMessage": why}
    return msgspec.json.encode({"partialSuccess": partial} if rejected else {})


def said_in_protobuf(rejected: int, why: str) -> bytes:
    """The same in protobuf; spans and log records are counted in the same place."""
    if not rejected:
        return b""
    partial = b"\x08" + written_varint(rejected) + _text(0x12, why)
    return b"\x0a" + written_varint(len(partial)) + partial


def refused_in_json(why: str) -> bytes:
    return msgspec.json.encode({"code": _INVALID, "message": why})


def refused_in_protobuf(why: str) -> bytes:
    """A `google.rpc.Status`: a code, and a sentence."""
    return b"\x08" + written_varint(_INVALID) + _text(0x12, why)


_INVALID = 3
"""The code of an argument that is not valid."""


def _text(tag: int, text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    return bytes([tag]) + written_varint(len(data)) + data


_LOGS = re.compile(r"(?<![a-zA-Z])(?:logs?|events?)(?![a-zA-Z])")
_SPANS = re.compile(r"(?<![a-zA-Z])(?:traces?|spans?)(?![a-zA-Z])")
_OF_LOGS = ("logs", "log", "events", "event")
_OF_SPANS = ("traces", "trace", "spans", "span")


def spans_of(path: Path) -> Path | None:
    """The file of spans that this file of log records belongs to."""
    for other in _named(path, _LOGS, _OF_SPANS):
        if _holds(path, b"resourceLogs") and _holds(other, b"resourceSpans"):
            return other
    return None


def logs_of(path: Path) -> list[Path]:
    """The files of log records that belong to this file of spans."""
    return [other for other in _named(path, _SPANS, _OF_LOGS) if spans_of(other) == path]


def begins_with_logs(source: Source) -> bool:
    """Is the first record of a file one of a log?"""
    if not protobuf.looks_like(source.head.data):
        return _holds(source.path, b"resourceLogs")
    try:
        first = next((e.records[0] for e in exported(source, Tally()) if e.records), None)
    except BadTrace:
        return False
    return isinstance(first, Log)


def _named(path: Path, word: re.Pattern[str], others: tuple[str, ...]) -> Iterator[Path]:
    """The files beside this one whose name has one of the others in place of its word."""
    if word.search(path.name) is None:
        return
    for other in others:
        named = path.with_name(word.sub(other, path.name, count=1))
        if named.is_file():
            yield named


def _holds(path: Path, field: bytes) -> bool:
    """Is this OTLP with that field first? In protobuf the two are not told apart by their head."""
    try:
        head = Source(path).head
    except BadTrace:
        return False
    if protobuf.looks_like(head.data):
        return True
    return head.starts(b"{") and head.has(rb'\A\W*"' + field + rb'"\s*:')


_NAME = b'"traceId"'
_VALUE = re.compile(rb'\s*:\s*"([^"\\]{1,64})"')


class Ends:
    """The last line that names each trace, a line at a time.

    Lines are searched for the name of the field, not decoded; a text cannot look like it, for its
    quotes are escaped. A trace that is missed here stays until the end.
    """

    def __init__(self, source: Source) -> None:
        last: dict[str, int] = {}
        for number, line in source.lines():
            for trace, _ in mentions(line):
                if trace is not None:
                    last[trace] = number
        self._waiting = in_order(last)

    def reached(self, number: int) -> Iterator[str]:
        """The traces that no line after this one names."""
        while self._waiting and self._waiting[-1][1] <= number:
            yield self._waiting.pop()[0]


def in_order(last: dict[str, int]) -> list[tuple[str, int]]:
    """Traces and their last lines, the trace that ends first last."""
    return sorted(last.items(), key=lambda entry: entry[1], reverse=True)


def mentions(line: bytes) -> Iterator[tuple[str | None, int]]:
    """The traces that a line names, in its order, with the bytes up to what it names next: about
    what it says of each. None for a name that cannot be told."""
    weights: dict[bytes | None, int] = {}
    at, name, since = line.find(_NAME), None, 0
    found = at >= 0
    while at >= 0:
        at += len(_NAME)
        value = _VALUE.match(line, at)
        if since:
            weights[name] = weights.get(name, 0) + at - since
        name, since = (value[1] if value is not None else None), at
        at = line.find(_NAME, at)
    if found:
        weights[name] = weights.get(name, 0) + len(line) - since
    for each, weight in weights.items():
        yield hexadecimal(each.decode()) if each is not None and each.isascii() else None, weight
