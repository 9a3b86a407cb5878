"""What a run's environment was: the labels that pin it, and the shape of what its tools returned.

Pins are labels of a run whose name begins with `pin.`: the index, snapshot or image it ran against,
as a file (`arc import --pin FILE`) or its resource attributes (`arc.pin.NAME`) say. Versions are
the labels `version` (of the agent or its client), `version.NAME` (of a package or service) and
`mcp.NAME` (of an MCP server).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from replay.depth import from_text
from replay.errors import ArcError
from replay.trace import Json

PIN = "pin."
PIN_ATTRIBUTE = "arc.pin."
"""What a resource attribute that pins a run begins with."""

VERSION = "version"
_VERSIONS = (f"{VERSION}.", "mcp.")

_NAME = re.compile(r"[\w./-]+", re.ASCII)
_LONGEST = 500


def is_version(label: str) -> bool:
    """Does a label say the version of something the run used?"""
    return label == VERSION or label.startswith(_VERSIONS)


def version_labels(found: Mapping[str, object], prefix: str = "version.") -> dict[str, str]:
    """Labels of the packages (or what `prefix` says) whose versions are known."""
    return {f"{prefix}{name}": value for name, value in found.items() if isinstance(value, str)}


def pins_of(attributes: Mapping[str, object]) -> dict[str, str]:
    """The labels that attributes `arc.pin.NAME` give; values that are no plain ones give none."""
    return {
        PIN + name.removeprefix(PIN_ATTRIBUTE): _plain(value)
        for name, value in attributes.items()
        if name.startswith(PIN_ATTRIBUTE) and isinstance(value, (str, int, float))
    }


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_pins(path: Path) -> dict[str, str]:
    """The labels of a TOML file of pins: names and values, names in tables joined by dots.

    Raises ArcError where it cannot be read, is no TOML, or pins nothing.
    """
    import tomllib  # who only lists or reads runs has no file of pins

    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ArcError(f"{path}: cannot be read as TOML: {why}", _HINT) from error
    pins = dict(_flat(path, found, PIN))
    if not pins:
        raise ArcError(f"{path}: pins nothing: it has no NAME = VALUE", _HINT)
    return pins


_HINT = 'Try: a line like index = "docs-2026-11-01" in that file'


def _flat(path: Path, table: Mapping[str, Any], above: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in table.items():
        full = f"{above}{name}"
        shown = full.removeprefix(PIN)
        if not _NAME.fullmatch(name):
            raise ArcError(
                f"{path}: '{shown}' cannot name a pin", "Names have letters, digits, and _ . / -"
            )
        if isinstance(value, dict):
            found += _flat(path, value, f"{full}.")
            continue
        plain = "" if isinstance(value, list) else _plain(value).strip()
        if not plain or len(plain) > _LONGEST or not plain.isprintable():
            raise ArcError(
                f"{path}: the value of '{shown}' cannot be a pin",
                f"Values are a text on one line of at most {_LONGEST} characters, a number or a"
                " date",
            )
        found.append((full, plain))
    return found


# --- the shape of a result

Shape: TypeAlias = dict[str, set[str]]
"""JSON types by key path. The path `""` is the whole result, `a.b` a key, `a[]` the entries of a
list, `*` stands for keys that are values (ids, dates, many alike)."""

WHOLE = ""
TEXT = "text"
"""The type of a whole result that is no JSON object or list."""

MANY_KEYS = 64
"""An object with more keys holds a value for each of many things: its keys are no names."""

MOST_PATHS = 2000
"""A tool whose results have more key paths has no shape that could be compared."""

_VALUE_KEY = re.compile(r"\d{3}|[0-9a-f]{8}-|[\s@:/]|.{65}|^\d|^$")
"""A key that is an id, a date, a path or a sentence."""


def result_shape(text: str) -> Shape:
    """The key paths of a tool's result with the JSON types met there."""
    found: Shape = {}
    add_shape(found, text)
    return found


def add_shape(found: Shape, text: str) -> None:
    """Add the key paths of one more result to those `found`."""
    if text[:1].isspace():
        text = text.strip()
    if text[:1] not in ("{", "["):
        found.setdefault(WHOLE, set()).add(TEXT)
        return
    try:
        value = from_text(text)
    except msgspec.DecodeError:
        found.setdefault(WHOLE, set()).add(TEXT)
        return
    waiting: list[tuple[str, Json]] = [(WHOLE, value)]
    while waiting:
        path, value = waiting.pop()
        kind = _TYPES[type(value)]
        known = found.get(path)
        if known is None:
            if len(found) > MOST_PATHS:
                return
            found[path] = {kind}
        else:
            known.add(kind)
        if kind == "object":
            before = f"{path}." if path else ""
            names = len(value) <= MANY_KEYS
            waiting += [
                (before + (key if names and not _VALUE_KEY.search(key) else "*"), each)
                for key, each in value.items()
            ]
        elif kind == "array":
            waiting += [(f"{path}[]", each) for each in value]


_TYPES: Mapping[type, str] = {
    dict: "object", list: "array", str: "string", int: "number", float: "number", bool: "boolean",
    type(None): "null",
}  # fmt: skip


def parent_of(path: str) -> tuple[str, str] | None:
    """(the path above, the type it must have for this one to be there); None of the whole."""
    if path == WHOLE:
        return None
    if path.endswith("[]"):
        return path[:-2], "array"
    above, _, _ = path.rpartition(".")
    return above, "object"


class Environment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a recording says of the environment of its run, beside its labels.

    `tools` are the digests of each offered tool's definition, by name: several where it changed
    within the run, none where only its name was recorded; the whole is None where the source does
    not say what was offered. `models` are those that answered, `asked` those that were asked for;
    () where not recorded. `results` are the key paths, with types, of the results of each tool that
    returned one; errors are left out.
    """

    tools: dict[str, tuple[str, ...]] | None = None
    models: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    results: dict[str, dict[str, tuple[str, ...]]] = {}
