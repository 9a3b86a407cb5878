"""Where in a file of JSON (or of OTLP's protobuf) does a field of some name stand first?

An importer counts what it did not understand by name alone, because most people never ask. Who
asks wants to see one: the file is then looked through for the name. What is found is the first
field of that name, or the first record of that kind, the outermost of its record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from replay.errors import BadTrace
from replay.formats.intake import Source, decode
from replay.formats.otlp import protobuf
from replay.trace import Json

MOST_BYTES = 32 * 1024 * 1024
"""A larger file is not looked through."""

_KINDS = {"type", "kind", "event"}
_NAMELESS = {"type", "line", "record"}
"""Last words of what importers say of a record that has no kind (`line without a type`)."""


def spots(path: Path, fields: Iterable[str]) -> dict[str, str]:
    """The place of each field (as its importer names it) that stands in the file: a line and the
    way to it, or the way alone; in protobuf the byte where it begins. A field that is not found has
    none.
    """
    named = {each: each.rpartition(" ")[2] for each in fields if not _has_no_name(each)}
    names = set(named.values())
    found: dict[str, str] = {}
    try:
        if path.stat().st_size > MOST_BYTES:
            return {}
        source = Source(path)
        if protobuf.looks_like(source.head.data):
            return _in_bytes(source.read(), named)
        for where, value in _values(source):
            for name, way in _ways(value, names - found.keys()):
                found[name] = f"{where}: {way}" if where else way
            if len(found) == len(names):
                break
    except (BadTrace, OSError):
        pass  # what was found before it broke is true all the same
    return {each: found[name] for each, name in named.items() if name in found}


def _in_bytes(data: bytes, named: dict[str, str]) -> dict[str, str]:
    """The byte at which the key of each attribute begins, after its tag and length."""
    keys = {field: name.encode() for field, name in named.items()}
    at = {f: data.find(b"\x0a" + bytes([len(k)]) + k) for f, k in keys.items() if len(k) < 128}
    return {field: f"byte {start + 2}" for field, start in at.items() if start >= 0}


def _has_no_name(field: str) -> bool:
    *before, last = field.split()
    return last in _NAMELESS and bool({"no", "without", "empty"} & set(before))


def _values(source: Source) -> Iterator[tuple[str, Json]]:
    """(line, value) of JSON Lines, ("", value) of one document."""
    for index, (number, line) in enumerate(source.lines()):
        try:
            value = decode(line, source.display, "")
        except BadTrace:
            if index == 0:  # a document that begins here and ends further down
                yield "", source.document()
                return
            continue
        yield f"line {number}", value


def _ways(value: Json, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(name, way) of each name that is a field or a kind of record in the value."""
    wanted = set(names)
    waiting: deque[tuple[str, Json]] = deque([("", value)])
    while waiting and wanted:
        way, inner = waiting.popleft()
        if isinstance(inner, list):
            waiting.extend((f"{way}[{index}]", each) for index, each in enumerate(inner))
            continue
        if not isinstance(inner, dict):
            continue
        for key, each in inner.items():
            below = f"{way}.{key}" if way else key
            hit = key if key in wanted else each if key in _KINDS else None
            if isinstance(hit, str) and hit in wanted:
                wanted.discard(hit)
                yield hit, below
            waiting.append((below, each))
