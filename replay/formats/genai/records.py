"""Spans and log records as they were read, whichever way they were written, and where they wait.

Also what their attributes may spell: dotted names that make a tree, JSON texts, times, amounts,
ids. Spans of traces that are still being read are held in memory up to a budget, then in a
temporary file.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cached_property, lru_cache
from typing import IO, Any, TypeAlias

import msgspec
from msgspec import Struct

from replay import files
from replay.depth import from_text
from replay.formats import common
from replay.formats.common import literal, word
from replay.trace import Json, Status

# --- what an attribute spells

MAX_PARTS = 32
"""Dots a name may have; a name of more is kept as one word."""


def flat(attributes: dict[str, Any]) -> dict[str, Json]:
    """Every leaf under its dotted name. Lists of objects are counted; other lists are leaves."""
    found: dict[str, Json] = {}
    waiting: list[tuple[str, Json]] = [*reversed(attributes.items())]
    while waiting:
        name, value = waiting.pop()
        members: list[tuple[str, Json]] = []
        if isinstance(value, dict):
            members = [*value.items()]
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            members = [(str(at), each) for at, each in enumerate(value)]
        if members and name.count(".") < MAX_PARTS:
            waiting.extend((f"{name}.{key}", each) for key, each in reversed(members))
        elif value is not None:
            found[name] = value
    return found


def grown(attributes: dict[str, Json]) -> dict[str, Json]:
    """The tree that dotted names spell: a part of digits alone is a place in a list."""
    root: dict[str, Any] = {}
    for name, value in attributes.items():
        parts = name.split(".") if name.count(".") < MAX_PARTS else [name]
        here = root
        for part in parts[:-1]:
            below = here.setdefault(part, {})
            if not isinstance(below, dict):  # a leaf has the same name: both are kept
                below = here[part] = {"": below}
            here = below
        last = here.get(parts[-1])
        if isinstance(last, dict):
            last[""] = value
        else:
            here[parts[-1]] = value
    return {name: _counted(value) for name, value in root.items()}


def _counted(value: Json) -> Json:
    """Objects whose names are all numbers as lists, in the order of the numbers."""
    if not isinstance(value, dict):
        return value
    below = {name: _counted(each) for name, each in value.items()}
    if below and all(name.isdecimal() for name in below) and _attributes_nested(below):
        return [below[name] for name in sorted(below, key=lambda name: (len(name), name))]
    return below


def _attributes_nested(below: dict[str, Json]) -> bool:
    """Do members lead on to objects? `tags.0` alone stays a name."""
    return all(isinstance(each, (dict, list)) for each in below.values())


def parsed(value: Json) -> Json:
    """The value of a JSON text of an object or a list; anything else as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return from_text(value)
    except msgspec.DecodeError:
        return value


MAX_ENCODED = 3
"""How often a text may hold a text that holds JSON; exporters encode what is encoded already."""


def readable(value: Json) -> Json:
    """The value that a text of JSON, or of a Python literal, stands for; else the value itself."""
    for _ in range(MAX_ENCODED):
        if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
            return value
        try:
            value = from_text(value)
        except msgspec.DecodeError:
            plain = literal(value) if value.lstrip()[0] != '"' else None
            return value if plain is None else plain
    return value


def usd(value: Json) -> float | None:
    """An amount of money, of a number or a decimal text; None where it is none."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return common.usd(value)


def joined(values: Json) -> str | None:
    """Words of a list as one text, None for none."""
    found = [each for value in values if (each := word(value))] if type(values) is list else []
    return ", ".join(found) or None


Number: TypeAlias = int | str | float | None

_LATEST = 2**63 - 1

_HEX = re.compile(r"[0-9a-f]+")


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


# --- spans and log records

SERVER = 2
"""The kind of a span that answers a call from elsewhere."""


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


def ended(start: int | None, end: int | None) -> int | None:
    """The end of a span; one before its start is that of a process that died."""
    return None if end is None or (start is not None and end < start) else end


def named(
    name: str | None, attributes: dict[str, Any], body: Json, time_ns: int | None
) -> Event | None:
    """The event that a record tells of: by its field, by an attribute, or by a body that is a
    name alone; a body that is an object, or the JSON text of one, adds to the attributes."""
    if not name:
        given = attributes.get("event.name")
        name = given if isinstance(given, str) else None
    if isinstance(body, str) and body.startswith("claude_code."):
        name = body
    if not name:
        return None
    inside = parsed(body) if name.startswith("gen_ai.") else body
    return Event(
        name, {**attributes, **inside} if isinstance(inside, dict) else attributes, time_ns
    )


class Raw(Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """A span of any export. `attributes` are flat, `tree` grows them."""

    trace: str
    id: str
    parent: str | None = None
    name: str = ""
    kind: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    status: Status = "unset"
    message: str | None = None
    attributes: dict[str, Json] = {}
    events: tuple[dict[str, Json], ...] = ()
    logs: tuple[dict[str, Json], ...] = ()
    annotations: tuple[dict[str, Json], ...] = ()

    @cached_property
    def tree(self) -> dict[str, Json]:
        """The attributes as objects and lists."""
        return grown(self.attributes)


# --- where they wait

Record: TypeAlias = RawSpan | Log

BUDGET_BYTES = 48 * 1024 * 1024


class _Page(msgspec.Struct, array_like=True):
    """What one trace had in memory when it was moved to the file."""

    spans: list[RawSpan]
    logs: list[Log]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Page).decode


class Held:
    """Records by the trace they belong to, in the order they were added."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._size = 0
        self._pages: dict[str, _Page] = {}
        self._sizes: dict[str, int] = {}
        self._filed: dict[str, list[tuple[int, int]]] = {}
        self._file: IO[bytes] | None = None

    def add(self, trace: str, record: Record, size: int) -> None:
        """Keep a record; `size` is roughly its bytes in the source."""
        page = self._pages.get(trace)
        if page is None:
            page = self._pages[trace] = _Page([], [])
            self._filed.setdefault(trace, [])
        if isinstance(record, RawSpan):
            page.spans.append(record)
        else:
            page.logs.append(record)
        self._sizes[trace] = self._sizes.get(trace, 0) + size
        self._size += size
        if self._size > self._budget:
            self._move()

    def traces(self) -> list[str]:
        """The traces held, in the order of their first records."""
        return list(self._filed)

    def take(self, trace: str) -> tuple[list[RawSpan], list[Log]]:
        """The spans and log records of a trace, which is then no longer held."""
        spans: list[RawSpan] = []
        logs: list[Log] = []
        for start, size in self._filed.pop(trace, ()):
            assert self._file is not None
            self._file.seek(start)
            page = _decode(self._file.read(size))
            spans += page.spans
            logs += page.logs
        last = self._pages.pop(trace, None)
        self._size -= self._sizes.pop(trace, 0)
        if last is not None:
            spans += last.spans
            logs += last.logs
        return spans, logs

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _move(self) -> None:
        """All that is in memory to the file."""
        if self._file is None:
            self._file = files.unlinked()
        start = self._file.seek(0, 2)
        for trace, page in self._pages.items():
            written = self._file.write(_encode(page))
            self._filed[trace].append((start, written))
            start += written
        self._pages.clear()
        self._sizes.clear()
        self._size = 0
