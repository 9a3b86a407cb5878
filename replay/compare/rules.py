"""What counts when arguments are compared? Rules for places in the arguments of a tool, as data.

A path such as `items[*].id` names places in a value. A text may be read as a path or a date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from replay.edit.changes import meant
from replay.errors import ArcError
from replay.patterns import FOREIGN_STEPS, Pattern, TooLong, Unusable
from replay.trace import Json


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
            raise ValueError(f"{rest!r} is not a valid path part")
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


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_MONTH = {name: at for names in (_MONTHS, _FULL_MONTHS) for at, name in enumerate(names, 1)}
_MONTH["sept"] = 9

_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_DATES = tuple(
    re.compile(rf"(?:{shape})", re.IGNORECASE)
    for shape in (
        r"(?P<year>[0-9]{4})(?P<mark>[-/.])(?P<month>[0-9]{1,2})(?P=mark)(?P<day>[0-9]{1,2})",
        r"(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})",
        rf"{_DAY}[ -](?P<month>[a-z]+)\.?,?[ -](?P<year>[0-9]{{4}})",
        rf"(?P<month>[a-z]+)\.? {_DAY},? (?P<year>[0-9]{{4}})",
    )
)
_TIME = re.compile(
    r"(?:t| )(?P<hour>[0-9]{2}):?(?P<minute>[0-9]{2})"
    r"(?::?(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?"
    r"(?P<zone> ?(?:z|utc|gmt)|[+-](?P<ahead>[0-9]{2}):?(?P<rest>[0-5][0-9])?)?",
    re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_BOUND = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<percent>%?)")


def trimmed(text: str) -> str:
    """The text without outer white space, and with runs of it as one blank."""
    return " ".join(text.split())


def normal_path(text: str) -> str:
    """A file path without `.`, `//`, a closing slash, and `..` where the text says what it leaves.

    Nothing is looked up: a link is not followed.
    """
    rooted = text.startswith("/")
    kept: list[str] = []
    for part in text.split("/"):
        if part == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif part not in ("", ".") and not (part == ".." and rooted):
            kept.append(part)
    if rooted:
        return f"/{'/'.join(kept)}"
    return "/".join(kept) or (text and ".")


def dated(text: str) -> list[Json] | None:
    """A calendar date, a time without a zone, or an instant; the three are never equal."""
    text = text.strip()
    for shape in _DATES:
        found = shape.match(text)
        if found is not None and (day := _day(found)) is not None:
            rest = text[found.end() :]
            return [day.isoformat()] if not rest else _timed(day, rest)
    return None


def _day(found: re.Match[str]) -> date | None:
    month = found["month"].casefold()
    at = int(month) if month.isdecimal() else _MONTH.get(month, 0)
    try:
        return date(int(found["year"]), at, int(found["day"]))
    except ValueError:
        return None


def _timed(day: date, text: str) -> list[Json] | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    second = int(found["second"] or 0)
    try:
        at = datetime(
            day.year, day.month, day.day, int(found["hour"]), int(found["minute"]), second
        )
        zone = timezone(_ahead(found))
    except ValueError:
        return None
    fraction = (found["fraction"] or "").rstrip("0")
    if not found["zone"]:
        return [at.isoformat(), fraction]
    return [(at.replace(tzinfo=zone) - _EPOCH) // timedelta(seconds=1), fraction]


def _ahead(found: re.Match[str]) -> timedelta:
    """How far ahead of UTC the clock is."""
    ahead = timedelta(hours=int(found["ahead"] or 0), minutes=int(found["rest"] or 0))
    return -ahead if (found["zone"] or "").startswith("-") else ahead


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    """Raises ValueError where the pattern is no regular expression, or may take for ever."""
    try:
        return Pattern(pattern)
    except Unusable as error:
        raise ValueError(f"{pattern!r} {error}") from error


def matched(text: str, pattern: str) -> list[Json] | None:
    """What the groups of a pattern that matches the whole text hold; None where it does not, and
    for a text so long that the pattern might take too long."""
    try:
        found = compiled(pattern).fullmatch(text, FOREIGN_STEPS)
    except TooLong:
        return None
    return None if found is None else list(found.groups())


@lru_cache(maxsize=256)
def bound(text: str) -> tuple[Fraction, bool]:
    """How far apart two numbers may be, and whether that is a share of the larger one.

    `0.01` is a distance, `1%` a share. Raises ValueError for anything else.
    """
    found = _BOUND.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a tolerance such as 0.01 or 1%")
    relative = found["percent"] == "%"
    most = Fraction(found["number"]) / (100 if relative else 1)
    if relative and most > 1:
        raise ValueError(f"{text!r} exceeds 100 %")
    return most, relative


def within(one: Fraction, other: Fraction, tolerance: str) -> bool:
    """Are two numbers no further apart than that? Exact: 1.0 and 1.01 are within 0.01."""
    most, relative = bound(tolerance)
    return abs(one - other) <= most * (max(abs(one), abs(other)) if relative else 1)


How: TypeAlias = Literal[
    "ignore", "casefold", "trim", "path", "set", "tolerance", "regex", "date", "json"
]
"""What a rule does with the values it is about; one it cannot be applied to is compared plainly.

`ignore` it does not count, given or not; `casefold` letter case does not count; `trim` outer white
space and runs of it do not; `path` `.`, `//`, `..` and a closing slash do not; `set` the order of a
list does not; `tolerance` numbers that far apart are the same; `regex` texts that match are the
same where their groups are; `date` dates and instants however written; `json` a text that holds
JSON counts as what it holds.
"""

ANY_TOOL = "*"

_VALUES: dict[How, Callable[[str], object]] = {
    "tolerance": bound,
    "regex": compiled,
}
"""The rules that take a value, and what raises ValueError where it is no such value."""

_LINES: dict[How, str] = {
    "ignore": "ignored",
    "casefold": "letter case ignored",
    "trim": "whitespace at the ends and its amount ignored",
    "path": "file path, normalised: ., //, .. and a trailing slash ignored",
    "set": "list order ignored",
    "tolerance": "numbers within {} are equal",
    "regex": "texts matching {} are equal when its groups are",
    "date": "dates and times compared by value, not format",
    "json": "JSON strings compared as JSON",
}
_EXAMPLE = "Try: TOOL.PATH=HOW, as in refund_order.amount=tolerance:0.01"
_WHERE = re.compile(rf"(?P<tool>\*|{NAME})(?P<path>\..+|\[.+)?", re.DOTALL)
_RULE = re.compile(r'(?P<where>(?:"(?:[^"\\]|\\.)*"|[^="])*)=(?P<what>.*)', re.DOTALL)


class BadRule(ArcError):
    """A comparison rule that cannot be read; the message quotes it."""


class PathRule(Struct, frozen=True, kw_only=True):
    """How the values at some places in the arguments of a tool are compared.

    `tool` is a name or `*`. Raises BadRule where `path` is no path or `value` not what `how` takes.
    """

    tool: str
    path: str
    how: How
    value: str = ""

    def __post_init__(self) -> None:
        check = _VALUES.get(self.how)
        if check is None and self.value:
            raise BadRule(f"comparison rule {self.text!r}: {self.how} takes no value")
        try:
            steps(self.path)
            if check is not None:
                check(self.value)
        except ValueError as error:
            raise BadRule(f"comparison rule {self.text!r}: {error}") from error

    @property
    def where(self) -> str:
        tool = self.tool if self.tool == ANY_TOOL else quoted(self.tool)
        return tool + joined(self.path)

    @property
    def text(self) -> str:
        """The rule as `rules_from` reads it."""
        return f"{self.where}={self.how}" + (f":{self.value}" if self.how in _VALUES else "")

    @property
    def line(self) -> str:
        """The rule in words."""
        return f"{self.where}: {_LINES[self.how].format(self.value)}"


class Rules(Struct, frozen=True):
    """Rules in the order they are applied in where several meet at one place."""

    paths: tuple[PathRule, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """What is printed with a verdict: a line a rule."""
        return tuple(each.line for each in self.paths)


PLAIN = Rules()
"""Nothing but what always holds."""


def rules_from(texts: Sequence[str]) -> Rules:
    """The rules a user wrote, one a text. Raises BadRule naming the text and what is wrong."""
    return Rules(tuple(map(_rule, texts)))


def _rule(text: str) -> PathRule:
    halves = _RULE.fullmatch(text)
    if halves is None:
        raise BadRule(f"comparison rule {text!r}: comparison missing", _EXAMPLE)
    place = halves["where"].strip()
    where = _WHERE.fullmatch(place)
    if where is None:
        raise BadRule(f"comparison rule {text!r}: {place!r} is not TOOL or TOOL.PATH", _EXAMPLE)
    said, colon, value = halves["what"].partition(":")
    how = _how(text, said.strip())
    if (how in _VALUES) != bool(colon):
        takes = "needs a value" if how in _VALUES else "takes no value"
        raise BadRule(f"comparison rule {text!r}: {how} {takes}", _EXAMPLE)
    try:
        tool = named(where["tool"].rstrip())
    except ValueError as error:
        raise BadRule(
            f"comparison rule {text!r}: the tool is not a valid JSON string: {error}"
        ) from error
    path = (where["path"] or "").removeprefix(".")
    return PathRule(tool=tool, path=path, how=how, value=value)


def _how(text: str, word: str) -> How:
    known: tuple[How, ...] = get_args(How)
    for each in known:
        if each == word:
            return each
    raise BadRule(f"comparison rule {text!r}: unknown comparison {word!r}", meant(word, known))


Open: TypeAlias = tuple[tuple[PathRule, Steps], ...]


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
    return _place((rule, to_go) for rule, rest in place.open for to_go in after(rest, step))


def _place(found: Iterable[tuple[PathRule, Steps]]) -> Place:
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
        for rest in opened(steps(rule.path))
    )
