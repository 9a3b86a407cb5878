"""The records of a tracing service's export, by trace.

Records of traces that are still being read are held in memory up to a budget, then in a
temporary file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import msgspec

from replay import files
from replay.depth import TOO_DEEP, from_text
from replay.errors import BadTrace
from replay.formats import common
from replay.formats.common import literal, word
from replay.formats.source import Source, Tally, decode
from replay.trace import Json

MAX_ENCODED = 3
"""How often a text may hold a text that holds JSON; exporters encode what is encoded already."""


def values(source: Source, tally: Tally) -> Iterator[tuple[str, Json]]:
    """Each value with its place in words. A broken line is a problem where others are good;
    raises BadTrace where the file is no JSON at all."""
    lines = source.lines()
    first = next(lines, None)
    if first is None:
        return
    try:
        yield f"line {first[0]}", decode(first[1], source.display, "line 1")
    except BadTrace as error:
        if error.why != TOO_DEEP:
            yield "the document", source.document()
            return
        tally.problem("line 1", TOO_DEEP)
    for number, line in lines:
        where = f"line {number}"
        try:
            yield where, decode(line, source.display, where)
        except BadTrace as error:
            tally.problem(where, error.why)


def records(value: Json, *lists: str) -> Iterator[dict[str, Any]]:
    """The objects of a value: itself, those of a list, those under one of these names of it."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(reversed(each))
        elif isinstance(each, dict):
            inner = next((each[name] for name in lists if isinstance(each.get(name), list)), None)
            if inner is not None:
                waiting.extend(reversed(inner))
            else:
                yield each


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


Record = dict[str, Any]

BUDGET_BYTES = 64 * 1024 * 1024


class Groups:
    """Records by the trace they belong to, in the order they were added, as JSON."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._size = 0
        self._near: dict[str, list[bytes]] = {}
        self._far: dict[str, list[tuple[int, int]]] = {}
        self._file: IO[bytes] | None = None

    def add(self, trace: str, record: Record) -> None:
        text = msgspec.json.encode(record)
        self._near.setdefault(trace, []).append(text)
        self._far.setdefault(trace, [])
        self._size += len(text)
        if self._size > self._budget:
            self._move()

    def taken(self) -> Iterator[tuple[str, list[Record]]]:
        """Each trace with its records, in the order of their first ones; nothing is left."""
        try:
            for trace in list(self._far):
                yield trace, [msgspec.json.decode(text) for text in self._texts(trace)]
        finally:
            if self._file is not None:
                self._file.close()

    def _texts(self, trace: str) -> Iterator[bytes]:
        for start, size in self._far.pop(trace):
            assert self._file is not None
            self._file.seek(start)
            yield self._file.read(size)
        yield from self._near.pop(trace, ())

    def _move(self) -> None:
        """All that is in memory to the file."""
        if self._file is None:
            self._file = files.unlinked()
        start = self._file.seek(0, 2)
        for trace, texts in self._near.items():
            for text in texts:
                self._file.write(text)
                self._far[trace].append((start, len(text)))
                start += len(text)
        self._near.clear()
        self._size = 0
