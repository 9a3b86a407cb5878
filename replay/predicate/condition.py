"""One condition on an action: a field of it, how it is compared, and with what."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from replay import canon, redact
from replay.action import Act
from replay.compare import pattern
from replay.patterns import Pattern, TooLong
from replay.trace import Json

Field: TypeAlias = Literal["tool", "args", "text", "calls"]
How: TypeAlias = Literal["=", "~", "<", "<=", ">", ">="]

NONE = "none"
"""The tool of an answer that calls nothing."""

_ORDERED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Condition(Struct, frozen=True, kw_only=True):
    """One condition. `turned` says that it must not hold; `quoted` that the value is a text.

    `path` leads into the arguments.
    """

    field: Field
    how: How
    value: str
    path: str = ""
    quoted: bool = False
    turned: bool = False

    @property
    def says_none(self) -> bool:
        """Is it `tool=none`?"""
        return self.field == "tool" and self.how == "=" and self.value == NONE and not self.quoted

    @property
    def opens(self) -> bool:
        """Does it name a call that later conditions speak about?"""
        return self.field == "tool" and not self.turned and not self.says_none

    def of_call(self, call: Act) -> bool | None:
        """Does this hold of a call, `turned` left aside? None where that lies behind a mask, or
        might take too long to find out."""
        if self.field == "tool":
            return self._of(call.tool)
        if call.raw is not None:
            return False
        found = [self._of(value) for value in _values(call.arguments, pattern.steps(self.path))]
        return True if True in found else None if None in found else False

    def of_text(self, text: str) -> bool | None:
        return self._of(text)

    def of_count(self, calls: int) -> bool | None:
        return self._of(calls)

    def _of(self, found: Json) -> bool | None:
        if redact.masked_count(canon.canonical(found)):
            return None
        if self.how == "~":
            return _matches(self.value, _text(found))
        if self.how == "=":
            return found == self.value or any(canon.same(found, each) for each in self._read())
        given = found if isinstance(found, int | float) and not isinstance(found, bool) else None
        return given is not None and _ORDERED[self.how](given, float(self.value))

    def _read(self) -> Iterator[Json]:
        """The value as JSON, where it is more than a text."""
        if not self.quoted:
            try:
                yield msgspec.json.decode(self.value)
            except msgspec.DecodeError:
                return


_compiled = lru_cache(maxsize=64)(Pattern)


def _matches(value: str, text: str) -> bool | None:
    """Does the pattern occur in the text? None where that might take too long to find out."""
    try:
        return _compiled(value).search(text) is not None
    except TooLong:
        return None


def _values(value: Json, rest: pattern.Steps) -> Iterator[Json]:
    """The values at the places that these steps name."""
    ways = pattern.opened(rest)
    if () in ways:
        yield value
    inner: Iterable[tuple[str | int, Json]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for step, each in inner:
        further = [to_go for way in ways for to_go in pattern.after(way, step)]
        for to_go in dict.fromkeys(further):
            yield from _values(each, to_go)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
