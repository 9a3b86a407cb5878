"""Which places in a value does a path such as `items[*].id` name?

A path is a row of steps: `.key`, `.*` for any key, `[3]`, `[*]` for any place in a list, `.**` for
any number of steps of any sort, none included. A key that holds one of `. [ ] = " *` is written as
a JSON text: `."a.b"`. The empty path names the value itself.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

import msgspec


class Wild(Enum):
    """A step that names no one place."""

    KEY = "*"
    PLACE = "[*]"
    PATH = "**"


Step: TypeAlias = str | int | Wild
"""A key, a place in a list counted from 0, or any of them."""

Steps: TypeAlias = tuple[Step, ...]

NAME = r'"(?:[^"\\]|\\.)*"|[^.\[\]="*]+'
"""A key or a tool: as it is, or as a JSON text."""

_STEP = re.compile(rf"\.(?P<wild>\*\*?)|\.(?P<name>{NAME})|\[(?P<place>[0-9]{{1,9}}|\*)\]")


def named(text: str) -> str:
    """The key or the tool that a `NAME` stands for. Raises ValueError where it is no JSON text."""
    return msgspec.json.decode(text, type=str) if text.startswith('"') else text


def quoted(name: str) -> str:
    """The `NAME` of a key or a tool."""
    bare = re.fullmatch(NAME, name) is not None and not name.startswith('"')
    return name if bare and name == name.strip() else msgspec.json.encode(name).decode()


def joined(path: str) -> str:
    """The path as it stands behind the name of a tool."""
    return path if path.startswith("[") or not path else f".{path}"


@lru_cache(maxsize=1024)
def steps(path: str) -> Steps:
    """The steps of a path. Raises ValueError that says from where on it is none."""
    rest = joined(path)
    found: list[Step] = []
    while rest:
        match = _STEP.match(rest)
        if match is None:
            raise ValueError(f"{rest!r} is no step of a path")
        found.append(_step(match))
        rest = rest[match.end() :]
    return tuple(found)


def _step(match: re.Match[str]) -> Step:
    wild, name, place = match["wild"], match["name"], match["place"]
    if wild is not None:
        return Wild(wild)
    if name is not None:
        return named(name)
    return Wild.PLACE if place == "*" else int(place)


def opened(rest: Steps) -> list[Steps]:
    """What may still be to go: `**` may stand for nothing."""
    found = [rest]
    while rest and rest[0] is Wild.PATH:
        rest = rest[1:]
        found.append(rest)
    return found


def after(rest: Steps, step: str | int) -> list[Steps]:
    """What is still to go behind `step`: empty steps where the path ends there, [] if it misses."""
    if not rest:
        return []
    match rest[0]:
        case Wild.PATH:
            return opened(rest)
        case Wild.KEY:
            takes = isinstance(step, str)
        case Wild.PLACE:
            takes = isinstance(step, int)
        case head:
            takes = head == step
    return opened(rest[1:]) if takes else []
