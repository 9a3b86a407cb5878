"""The values of a file: one document, or one value a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from replay.depth import TOO_DEEP, from_text
from replay.errors import BadTrace
from replay.formats import normal
from replay.formats.fields import word
from replay.formats.intake import Source, Tally, decode
from replay.formats.literal import literal
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
    return normal.usd(value)


def joined(values: Json) -> str | None:
    """Words of a list as one text, None for none."""
    found = [each for value in values if (each := word(value))] if type(values) is list else []
    return ", ".join(found) or None
