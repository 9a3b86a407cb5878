"""How the definition of a tool changed: its description, and each argument of its schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from replay import digests
from replay.trace import Json, Tool

What: TypeAlias = Literal[
    "added", "removed", "renamed", "type", "required", "optional", "description", "rules", "tool",
    "other",
]  # fmt: skip
"""What happened to an argument. `rules` are its other constraints (`enum`, `default`, …); `tool` is
the description of the tool itself, `other` the parts of its definition that are no argument."""


class SchemaChange(Struct, frozen=True, kw_only=True):
    """One change. `argument` is its path (`filter.date`, `rows[].id`), None of the tool itself;
    `before` and `after` what changed: types, names, or the names of the constraints."""

    what: What
    argument: str | None = None
    before: str | None = None
    after: str | None = None


class _Argument(Struct, frozen=True, kw_only=True):
    type: str
    required: bool
    description: str | None
    rules: Mapping[str, str]


_DEEPEST = 40


def schema_changes(before: Tool, after: Tool) -> tuple[SchemaChange, ...]:
    """What changed from one definition of a tool to another, by argument."""
    return tuple(_changes(before, after))


def _changes(before: Tool, after: Tool) -> Iterator[SchemaChange]:
    if (before.description or "") != (after.description or ""):
        yield SchemaChange(what="tool")
    mine, other = dict(_arguments(before.schema)), dict(_arguments(after.schema))
    gone = [name for name in mine if name not in other and not _is_below(name, mine, other)]
    came = [name for name in other if name not in mine and not _is_below(name, other, mine)]
    renamed = dict(_find_renames({n: mine[n] for n in gone}, {n: other[n] for n in came}))
    for name in sorted(gone):
        if name in renamed:
            yield SchemaChange(what="renamed", argument=name, before=name, after=renamed[name])
            yield from _argument_changes(renamed[name], mine[name], other[renamed[name]])
        else:
            yield SchemaChange(what="removed", argument=name, before=mine[name].type)
    for name in sorted(set(came) - set(renamed.values())):
        yield SchemaChange(what="added", argument=name, after=_describe(other[name]))
    for name in sorted(mine.keys() & other.keys()):
        yield from _argument_changes(name, mine[name], other[name])
    differ = sorted(
        name
        for name, one, two in _pairs(_rest(before), _rest(after))
        if one != two
    )  # fmt: skip
    if differ:
        yield SchemaChange(what="other", before=", ".join(differ))


def _describe(argument: _Argument) -> str:
    return f"{argument.type}, required" if argument.required else argument.type


def _argument_changes(name: str, one: _Argument, two: _Argument) -> Iterator[SchemaChange]:
    if one.type != two.type:
        yield SchemaChange(what="type", argument=name, before=one.type, after=two.type)
    if one.required != two.required:
        yield SchemaChange(what="required" if two.required else "optional", argument=name)
    if one.description != two.description:
        yield SchemaChange(what="description", argument=name)
    differ = [rule for rule, was, now in _pairs(one.rules, two.rules) if was != now]
    if differ:
        yield SchemaChange(what="rules", argument=name, before=", ".join(sorted(differ)))


def _pairs(
    one: Mapping[str, str], two: Mapping[str, str]
) -> Iterator[tuple[str, str | None, str | None]]:
    for name in one.keys() | two.keys():
        yield name, one.get(name), two.get(name)


def _is_below(name: str, mine: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Is it inside of an argument that is itself new, or gone?"""
    return any(
        each != name and name.startswith((f"{each}.", f"{each}[]")) and each not in other
        for each in mine
    )


def _find_renames(
    gone: Mapping[str, _Argument], came: Mapping[str, _Argument]
) -> Iterator[tuple[str, str]]:
    """Arguments that are there under another name, in the same place: those of one definition, else
    the only ones that went and came there, if they have one type."""
    for place in {_place(name) for name in gone}:
        old = [name for name in gone if _place(name) == place]
        new = [name for name in came if _place(name) == place]
        for name in old:
            same = [
                each for each in new
                if came[each] == gone[name] and sum(gone[o] == gone[name] for o in old) == 1
            ]  # fmt: skip
            if len(same) == 1:
                yield name, same[0]
                new.remove(same[0])
        only = len(old) == 1 and len(new) == 1 == sum(_place(name) == place for name in came)
        if only and gone[old[0]].type == came[new[0]].type and gone[old[0]] != came[new[0]]:
            yield old[0], new[0]


def _place(name: str) -> str:
    return name.rpartition(".")[0]


def _arguments(schema: Json, above: str = "", deep: int = 0) -> Iterator[tuple[str, _Argument]]:
    """(path, what is said of it) of each argument, those inside of others with them."""
    if not isinstance(schema, dict) or deep > _DEEPEST:
        return
    named = schema.get("properties")
    listed = schema.get("required")
    required = set(map(str, listed)) if isinstance(listed, list) else set()
    for name, held in named.items() if isinstance(named, dict) else ():
        path = f"{above}.{name}" if above else str(name)
        yield path, _argument(held, required=name in required)
        yield from _arguments(held, path, deep + 1)
        if isinstance(held, dict) and isinstance(held.get("items"), dict):
            yield from _arguments(held["items"], f"{path}[]", deep + 1)


_INSIDE = frozenset({"type", "description", "properties", "required"})


def _argument(held: Json, *, required: bool) -> _Argument:
    held = held if isinstance(held, dict) else {}
    rules = {name: digests.canonical(each) for name, each in held.items() if name not in _INSIDE}
    items = held.get("items")
    kind = _type(held)
    if isinstance(items, dict):
        kind = f"array of {_type(items)}"
        inner = {name: each for name, each in items.items() if name not in _INSIDE}
        rules["items"] = digests.canonical(inner)
    described = held.get("description")
    return _Argument(
        type=kind,
        required=required,
        description=described if isinstance(described, str) else None,
        rules=rules,
    )


def _type(held: Mapping[str, Json]) -> str:
    kind = held.get("type")
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    if isinstance(kind, str):
        return kind
    return next(
        (name for name in ("anyOf", "oneOf", "allOf", "$ref", "enum") if name in held), "any"
    )


def _rest(tool: Tool) -> dict[str, str]:
    """What else a definition says."""
    schema = tool.schema if isinstance(tool.schema, dict) else {"schema": tool.schema}
    outside = {name: each for name, each in schema.items() if name not in _INSIDE}
    return {name: digests.canonical(each) for name, each in (outside | tool.extra).items()}
