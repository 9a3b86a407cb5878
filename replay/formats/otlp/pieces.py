"""One export as it comes over the wire: the body of a request, and what an exporter is told back.

A body is small beside a file and comes from a program that runs, so it is read value by value: an
odd span costs itself and not its neighbours.
"""

from __future__ import annotations

import msgspec

from replay.errors import BadTrace
from replay.formats.intake import Tally
from replay.formats.otlp.binary import LIST, Broken, fields, in_resource
from replay.formats.otlp.held import Record
from replay.formats.otlp.lenient import loose, untyped
from replay.trace import Json

_LISTS = ("resourceSpans", "resourceLogs", "resourceMetrics")


def in_protobuf(body: bytes, tally: Tally) -> list[Record]:
    """The records of a request in protobuf. Raises Broken where the bytes are no message."""
    found: list[Record] = []
    for tag, resource in fields(body):
        if tag != LIST:
            raise Broken("it has a field that no export has")
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
    partial = b"\x08" + _varint(rejected) + _text(0x12, why)
    return b"\x0a" + _varint(len(partial)) + partial


def refused_in_json(why: str) -> bytes:
    return msgspec.json.encode({"code": _INVALID, "message": why})


def refused_in_protobuf(why: str) -> bytes:
    """A `google.rpc.Status`: a code, and a sentence."""
    return b"\x08" + _varint(_INVALID) + _text(0x12, why)


_INVALID = 3
"""The code of an argument that is not valid."""


def _text(tag: int, text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    return bytes([tag]) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)
