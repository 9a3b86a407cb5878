"""What counts when arguments are compared? Rules for places in the arguments of a tool, as data.

Said in a line each, `TOOL.PATH=HOW` or `TOOL.PATH=HOW:VALUE`: `refund_order.amount=tolerance:0.01`.
`*` is any tool, `replay.compare.pattern` says what a path is, and without one the rule is about the
arguments as a whole. What a rule does to a value is for `replay.compare.likeness` to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from replay.compare import forms, pattern
from replay.edit import meant
from replay.errors import ArcError

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
    "tolerance": forms.bound,
    "regex": forms.compiled,
}
"""The rules that take a value, and what raises ValueError where it is no such value."""

_LINES: dict[How, str] = {
    "ignore": "does not count",
    "casefold": "letter case does not count",
    "trim": "outer white space and runs of it do not count",
    "path": "a file path: ., //, .. and a closing slash do not count",
    "set": "the order of the list does not count",
    "tolerance": "numbers no more than {} apart are the same",
    "regex": "texts that match {} are the same where its groups are",
    "date": "dates and instants are the same however they are written",
    "json": "a text that holds JSON counts as what it holds",
}
_EXAMPLE = "write TOOL.PATH=HOW, as in refund_order.amount=tolerance:0.01"
_WHERE = re.compile(rf"(?P<tool>\*|{pattern.NAME})(?P<path>\..+|\[.+)?", re.DOTALL)
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
            pattern.steps(self.path)
            if check is not None:
                check(self.value)
        except ValueError as error:
            raise BadRule(f"comparison rule {self.text!r}: {error}") from error

    @property
    def where(self) -> str:
        tool = self.tool if self.tool == ANY_TOOL else pattern.quoted(self.tool)
        return tool + pattern.joined(self.path)

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
        raise BadRule(f"comparison rule {text!r}: says not how to compare", _EXAMPLE)
    place = halves["where"].strip()
    where = _WHERE.fullmatch(place)
    if where is None:
        raise BadRule(f"comparison rule {text!r}: {place!r} is no TOOL or TOOL.PATH", _EXAMPLE)
    said, colon, value = halves["what"].partition(":")
    how = _how(text, said.strip())
    if (how in _VALUES) != bool(colon):
        takes = "takes a value" if how in _VALUES else "takes no value"
        raise BadRule(f"comparison rule {text!r}: {how} {takes}", _EXAMPLE)
    try:
        tool = pattern.named(where["tool"].rstrip())
    except ValueError as error:
        raise BadRule(f"comparison rule {text!r}: the tool is no JSON text: {error}") from error
    path = (where["path"] or "").removeprefix(".")
    return PathRule(tool=tool, path=path, how=how, value=value)


def _how(text: str, word: str) -> How:
    known: tuple[How, ...] = get_args(How)
    for each in known:
        if each == word:
            return each
    raise BadRule(f"comparison rule {text!r}: no way to compare {word!r}", meant(word, known))
