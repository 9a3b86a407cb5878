"""Where did a value come from, which values of a call came from nowhere, what is recorded of one?

Only values that must come from somewhere are asked about: ids, paths, amounts, names.

A record is an object in a tool's result that names what it is about by an identifier of its own;
later records of the same thing take the place of earlier ones, field by field. What a call changed
is unknown until it is shown again: nobody looked.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from replay.effects import PROGRAM_KEYS, words_of
from replay.tool_errors import decoded
from replay.trace import Json
from taxonomy.evidence.context_index import Index, Origin
from taxonomy.evidence.reading import Act, Reading, Turn, leaves, mutates
from taxonomy.evidence.results import Kind


class Value(Struct, frozen=True, eq=False, kw_only=True):
    """A value of a call that needs an origin, and the origin that was found for it."""

    act: Act
    path: str
    value: Json
    sort: Sort
    origin: Origin | None


def values(index: Index, turn: Turn, acts: Sequence[Act] | None = None) -> Iterator[Value]:
    """The values of a turn's calls that need an origin; none where the run's first words are not
    known. `acts` are the calls where those of the turn are not all, as a program in its text.

    An identifier put together from parts that were shown is a guess: it has an origin only where
    the call it stands in did not come back empty-handed. Where the source cut what was shown
    before, only a value that was not found either is known to have no origin.
    """
    if not index.knows_task:
        return
    partly = index.cut_from is not None and index.cut_from <= turn.index
    for act in turn.acts if acts is None else acts:
        missing = act.reply.kind is Kind.MISSING
        for named in to_ground(act):
            origin = index.origin(turn.index, named.value)
            guessed = origin is not None and origin.how == "derived" and named.sort != "amount"
            if guessed and missing:
                origin = None
            if origin is None and partly and not missing:
                continue
            yield Value(act=act, path=named.path, value=named.value, sort=named.sort, origin=origin)


Sort = Literal["id", "address", "code", "amount", "path"]


class Named(Struct, frozen=True, kw_only=True):
    """A value of a call that needs an origin; `path` is its place in the arguments."""

    path: str
    value: Json
    sort: Sort


_COMPOSED = re.compile(
    r"content|query|q|description|text|message|thoughts?|summary|body|prompt|expression"
    r"|string|title|names?|reason|answer|comment|subject|instructions?|notes?|pattern|input"
    r"|question|task|plan|search|keywords?|labels?|tags?|caption|explanation|regex|url|uri|link"
)
"""Last words of an argument's name whose value the model writes itself."""

_MANY = {"list", "array"}
"""Last words of an argument's name that say that it holds several of what the others name."""

_ID = re.compile(r"ids?|uuid|guid|sku|iban|pnr|isbn|serial|ticket|tracking|hash|sha|commit")
_CODE = re.compile(r"number|no|code|ref|reference|order|account|invoice|booking|reservation|user")
_AMOUNT = re.compile(r"amount|price|total|cost|balance|fee|fare|payment|sum")
_LINK = re.compile(r"url|uri|link|href")
_PATH = re.compile(r"path|file|filename|filepath|directory|dir|folder|notebook")

_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_SHAPES = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|[A-Z]{2,}[-_#]?\d{3,}|#?[A-Z]\d{5,}|[a-z]+(?:[_-][a-z]+)*[_-]\d{4,}"
    r"|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,}|(?=\w*\d)(?=\w*[A-Z])[A-Z0-9]{6,}"
)
_STANDARDS = re.compile(r"(?:ISO|RFC|SHA|AES|UTF|MD|RSA|CVE|PEP|IEEE|ANSI|HTTP|TLS|CP)[-_]?\d+")
_PLACEHOLDER = "[[SECRET:"
_CUT_END = ("…", "...")
_CREATES = re.compile(
    r"create|add|register|new|insert|generate|make|init|start|open|write|ask|show|present|display|plan"
)
_PLAIN_PATH = re.compile(r"[~./\\]*[\w][^*?\n:;|<>{}]*")
_PATH_TOKEN = re.compile(r"(?<![\w$}])(?:~|\.{0,2})/?[\w.-]+(?:/[\w.@+-]+)+|\b[\w-]+\.[a-z]{1,5}\b")

_MISSES = re.compile(r"no such file|not found", re.I)
_PROGRAM = 8_000
SMALLEST_ID = 1_000
SMALLEST_AMOUNT = 10


def to_ground(act: Act) -> Iterator[Named]:
    """The values of a call that need an origin, in the order of its arguments."""
    for path, value in leaves(act.span.arguments):
        if isinstance(value, bool) or value is None:
            continue
        keys = [part for part in path.split(".") if not part.isdecimal()]
        words = words_of(keys[-1]) if keys else []
        if len(words) > 1 and words[-1] in _MANY:
            words = words[:-1]
        if keys and keys[-1] in PROGRAM_KEYS:
            yield from _missing_paths(act, path, value)
        else:
            sort = sort_of(words, value, act)
            if sort is not None:
                yield Named(path=path, value=value, sort=sort)


def sort_of(words: list[str], value: Json, act: Act) -> Sort | None:
    """What sort of identifier an argument is, by its name's words and the look of its value."""
    last = words[-1] if words else ""
    if isinstance(value, (int, float)):
        return _numeric(last, value)
    if not isinstance(value, str) or _PLACEHOLDER in value or len(value) > 200:
        return None
    if value.endswith(_CUT_END):
        return None
    if _PATH.fullmatch(last):
        read = mutates(act.span) is not True and act.reply.kind is Kind.MISSING
        return "path" if read and _PLAIN_PATH.fullmatch(value) else None
    if _LINK.fullmatch(last) and act.reply.kind is Kind.MISSING:
        return "address" if mutates(act.span) is not True and "://" in value else None
    if _COMPOSED.fullmatch(last) or " " in value or len(value) > 80:
        return None
    if _ADDRESS.fullmatch(value):
        return "address"
    if _ID.fullmatch(last) and _looks_issued(value):
        return None if _own(words, act) else "id"
    if _SHAPES.fullmatch(value) and not _STANDARDS.fullmatch(value):
        return None if _own(words, act) else "code"
    if _CODE.fullmatch(last) and value.isdecimal() and int(value) >= SMALLEST_ID:
        return "code"
    return None


def _numeric(last: str, value: float) -> Sort | None:
    if _ID.fullmatch(last) and value >= SMALLEST_ID:
        return "id"
    return "amount" if _AMOUNT.fullmatch(last) and value >= SMALLEST_AMOUNT else None


def _looks_issued(value: str) -> bool:
    """Given out by a system rather than a word: long enough, and with a digit or all capitals."""
    if value.isdecimal():
        return int(value) >= SMALLEST_ID
    return len(value) >= 5 and (any(mark.isdecimal() for mark in value) or value.isupper())


def _own(words: list[str], act: Act) -> bool:
    """Is it the id of what the call itself creates?"""
    tool = words_of(act.name)
    creates = any(_CREATES.fullmatch(word) for word in tool)
    return creates and (len(words) == 1 or any(word in tool for word in words[:-1]))


def _missing_paths(act: Act, path: str, program: Json) -> Iterator[Named]:
    """Paths a program names that its own error says are not there."""
    blamed = act.reply.text
    if not act.reply.failed or not isinstance(program, str) or not _MISSES.search(blamed):
        return
    for token in dict.fromkeys(_PATH_TOKEN.findall(program[:_PROGRAM])):
        named = re.escape(token)
        says = re.search(
            rf"{named}\S{{0,3}} (?:no such|not found)|no such file or directory: '{named}'",
            blamed,
            re.I,
        )
        if says and not re.search(rf">\s*{re.escape(token)}", program):
            yield Named(path=path, value=token, sort="path")


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
