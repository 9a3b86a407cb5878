"""What an attribute may spell: dotted names that make a tree, JSON texts, times, amounts, ids."""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from replay.depth import from_text
from replay.formats import common
from replay.formats.common import literal, word
from replay.trace import Json

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
