"""What did observations say of the things a run dealt with, field by field, as of each step?

A record is an object in a tool's result that names what it is about by an identifier of its own;
later records of the same thing take the place of earlier ones. What a call changed is unknown
until it is shown again: nobody looked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from replay.effects import words_of
from replay.tool_errors import decoded
from replay.trace import Json
from taxonomy.evidence.reading import Act, Reading, leaves, mutates

_OWN_NAMES = frozenset({"id", "number", "sku", "code", "key"})


class Thing(NamedTuple):
    """What a record is about: the name of the field that identifies it, and its value."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name} {self.value}"


class Record(Struct, frozen=True, eq=False, kw_only=True):
    """What one result says of a thing: its scalar fields by path."""

    thing: Thing
    fields: dict[str, Json]
    act: Act


class Shown(Struct, frozen=True, kw_only=True):
    """What a field of a thing was shown to be from a step on; `act` None: a call changed the
    thing, and nobody looked since."""

    visible: int
    value: Json
    act: Act | None


class Records:
    """The records of a run, in step order."""

    def __init__(self, reading: Reading) -> None:
        self.all: tuple[Record, ...] = tuple(
            record for act in reading.acts if act.reply.failed is False for record in _of(act)
        )
        self._by_thing: dict[Thing, list[Record]] = defaultdict(list)
        for record in self.all:
            self._by_thing[record.thing].append(record)
        self._changes: dict[Thing, list[Act]] = defaultdict(list)
        for act in reading.acts:
            if act.reply.failed is False and mutates(act.span):
                for thing in self.named_by(act):
                    self._changes[thing].append(act)

    @property
    def things(self) -> Sequence[Thing]:
        return tuple(self._by_thing)

    def named_by(self, act: Act) -> list[Thing]:
        """The things shown before a call whose identifiers it names, under the same name."""
        named = (
            Thing(path.rpartition(".")[2], str(leaf)) for path, leaf in leaves(act.span.arguments)
        )
        return [
            thing
            for thing in dict.fromkeys(named)
            if thing in self._by_thing and self._by_thing[thing][0].act.step < act.step
        ]

    def of(self, thing: Thing, before: int | None = None) -> list[Record]:
        """The records of a thing, those that were shown before a step where one is given."""
        found = self._by_thing[thing]
        return [each for each in found if before is None or each.act.step < before]

    def history(self, thing: Thing, field: str) -> tuple[Shown, ...]:
        """What a field was shown to be, from which step on, in step order."""
        shown = [
            Shown(visible=each.act.step + 1, value=each.fields[field], act=each.act)
            for each in self._by_thing[thing]
            if field in each.fields
        ]
        changed = [
            Shown(visible=act.step + 1, value=None, act=None)
            for act in self._changes.get(thing, ())
            if not _shows(shown, act)
        ]
        return tuple(sorted([*shown, *changed], key=lambda each: each.visible))


def _shows(shown: Sequence[Shown], act: Act) -> bool:
    """Did the call itself show the field as it is now?"""
    return any(each.act is not None and each.act.span.id == act.span.id for each in shown)


def _of(act: Act) -> Iterator[Record]:
    for found in _objects(decoded(act.reply.text)):
        thing = _thing(found)
        if thing is not None:
            fields = {path: leaf for path, leaf in leaves(found) if leaf is not None}
            yield Record(thing=thing, fields=fields, act=act)


def _objects(value: Json) -> Iterator[dict[str, Json]]:
    """The object a result is, or the objects of the list that it is or holds in one field."""
    if isinstance(value, dict):
        yield value
        nested = [each for each in value.values() if isinstance(each, list)]
        value = nested[0] if len(nested) == 1 else []
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))


def _thing(found: dict[str, Json]) -> Thing | None:
    """The first field of an object that names it: `order_id`, `id`, `sku`."""
    for name, value in found.items():
        words = words_of(name)
        identifies = bool(words) and words[-1] in _OWN_NAMES and not isinstance(value, bool)
        if identifies and isinstance(value, (str, int)) and str(value).strip():
            return Thing(name, str(value))
    return None
