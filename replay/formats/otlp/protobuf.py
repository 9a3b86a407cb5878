"""OTLP's binary encoding: one message, or many with their lengths before them.

Lengths are written in three ways in the wild: four bytes, most or least significant first (the
collector's file exporter), or a varint (the file format of the specification). A collector that
compresses does so message by message, behind the length. Messages are taken apart here down to
their spans, so that no more than one span is decoded at a time.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from typing import IO, Literal, TypeAlias

from replay.errors import BadTrace
from replay.formats.intake import (
    HEAD_BYTES,
    MAX_DOCUMENT_BYTES,
    MAX_LINE_BYTES,
    Source,
    Tally,
)
from replay.formats.otlp.binary import (
    EARLY,
    LIST,
    SCOPES,
    URL,
    Broken,
    field_at,
    fields,
    in_resource,
    varint,
)
from replay.formats.otlp.held import Record
from replay.formats.otlp.lenient import loose, untyped

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
            raise Broken("a number does not end")
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
            raise BadTrace(source.display, "", f"is no OTLP that can be read: {broken}") from broken
        tally.problem("after the last whole message", str(broken))


def _require_classes(source: Source) -> None:
    try:
        import opentelemetry.proto.trace.v1.trace_pb2  # noqa: F401
    except ModuleNotFoundError as error:
        why = "is OTLP in protobuf, and the package that reads it is not installed"
        raise BadTrace(source.display, "", why, "pip install opentelemetry-proto") from error


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
            raise Broken(f"ends before its end: {error}") from error


def _unframed(stream: IO[bytes]) -> Iterator[bytes]:
    """The fields of the one message: each of its list makes a message of its own."""
    while tag := stream.read(1):
        length = _delimited(stream)
        if tag[0] != LIST or length is None:
            raise Broken("what follows is no resource")
        yield tag + _written(length) + _exactly(stream, length)


def _written(number: int) -> bytes:
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
        raise Broken(f"a message unpacks to more than {_MOST_RATIO} times its size")
    return found


def _records(data: bytes, tally: Tally) -> Iterator[tuple[list[Record], int]]:
    """The records of one message; one that is JSON is what a compressing collector writes."""
    if data.startswith(b"{"):
        yield list(untyped(loose(data, "", "a message"), "a message", tally)), len(data)
        return
    for tag, resource in fields(data):
        if tag == LIST:
            yield list(in_resource(resource, tally)), len(resource)
