"""OTLP in JSON, read piece by piece, each value by itself where it is not as it should be."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from replay.depth import TOO_DEEP, is_deep
from replay.errors import BadTrace
from replay.formats.common import listed, obj
from replay.formats.otlp import wire
from replay.formats.otlp.held import Record
from replay.formats.otlp.records import Log, RawSpan, kept, log, raw_span
from replay.formats.source import Source, Tally, decode
from replay.trace import Json

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises where bytes are not what they should be."""

_W = TypeVar("_W", bound=wire.Wire)


def loose(data: bytes, path: str, where: str) -> Json:
    """JSON bytes as plain values, odd ones mended; BadTrace says where they stop being JSON."""
    return decode(data.decode("utf-8", "replace").encode(), path, where)


def taken(span: wire.Span, about: dict[str, Json], where: str, tally: Tally) -> RawSpan | None:
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
    record: wire.LogRecord, about: dict[str, Json], where: str, tally: Tally
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
    count_unknown(request, wire.Request, tally)
    for of_spans in map(obj, listed(request.get("resourceSpans"))):
        count_unknown(of_spans, wire.ResourceSpans, tally)
        about = resource_of(of_spans.get("resource"), tally)
        for in_scope in map(obj, listed(of_spans.get("scopeSpans"))):
            count_unknown(in_scope, wire.ScopeSpans, tally)
            for span in listed(in_scope.get("spans")):
                yield from span_of(span, about, where, tally)
    for of_logs in map(obj, listed(request.get("resourceLogs"))):
        count_unknown(of_logs, wire.ResourceLogs, tally)
        about = resource_of(of_logs.get("resource"), tally)
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


def resource_of(value: Json, tally: Tally) -> dict[str, Json]:
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
        why = TOO_DEEP if isinstance(error, RecursionError) else f"is not as OTLP says: {error}"
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
            raise BadTrace(self._source.display, "", f"ends before its end: {error}") from error
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
    return "is not JSON: it ends too early" if text.done else f"is not JSON: {error}"


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
                raise ValueError("it ends too early")
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
