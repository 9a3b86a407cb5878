"""What do the rules say about one place in the arguments of a tool, and about those further in?

The way down is walked once for each tool, key and place in a list, and remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from replay.compare import pattern
from replay.compare.rules import ANY_TOOL, PathRule, Rules

Open: TypeAlias = tuple[tuple[PathRule, pattern.Steps], ...]


class Place(Struct, frozen=True, eq=False):
    """A place in the arguments of a tool, and what the rules say about it.

    `open` are the rules about it or about a place in it, each with the steps to go; `rules` those
    about the place itself, in their order. Of a value that is `ignored` nothing counts, of one that
    is `unordered` not the order. A value that is `marked` counts together with the name of the rule
    that settled it, or with none: without that mark the form of one value could equal another value
    that merely looks like it.
    """

    open: Open = ()
    rules: tuple[PathRule, ...] = ()
    ignored: bool = False
    unordered: bool = False
    marked: bool = False

    def inner(self, step: str | int) -> Place:
        """The place one key, or one entry of a list, further in."""
        return _inner(self, step) if self.open else ANYWHERE


ANYWHERE = Place()
"""A place no rule is about, nor any place in it."""

_SETTLING = frozenset({"tolerance", "regex", "date"})
"""Rules after which a value is no JSON of its own any more: no other rule is applied to it."""


@lru_cache(maxsize=4096)
def _inner(place: Place, step: str | int) -> Place:
    return _place((rule, to_go) for rule, rest in place.open for to_go in pattern.after(rest, step))


def _place(found: Iterable[tuple[PathRule, pattern.Steps]]) -> Place:
    still_open = tuple(dict.fromkeys(found))
    if not still_open:
        return ANYWHERE
    rules = tuple(rule for rule, rest in still_open if not rest)
    ways = {rule.how for rule in rules}
    return Place(still_open, rules, "ignore" in ways, "set" in ways, bool(ways & _SETTLING))


def arguments_of(tool: str, rules: Rules) -> Place:
    """The place of a tool's arguments as a whole."""
    return _arguments_of(tool, rules) if rules.paths else ANYWHERE


@lru_cache(maxsize=1024)
def _arguments_of(tool: str, rules: Rules) -> Place:
    return _place(
        (rule, rest)
        for rule in rules.paths
        if rule.tool in (ANY_TOOL, tool)
        for rest in pattern.opened(pattern.steps(rule.path))
    )
