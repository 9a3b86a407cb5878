"""Attributes of a span: flat dotted names, grown into the objects and lists they spell.

Exports differ in how far they have done this already, so what comes nested is first made flat.
"""

from __future__ import annotations

from typing import Any

import msgspec

from replay.depth import from_text
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
    if below and all(name.isdecimal() for name in below) and _nested(below):
        return [below[name] for name in sorted(below, key=lambda name: (len(name), name))]
    return below


def _nested(below: dict[str, Json]) -> bool:
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
