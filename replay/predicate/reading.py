"""An expectation as the user writes it, read into conditions."""

from __future__ import annotations

import json
import re
from typing import TypeAlias, cast

import msgspec

from replay.compare import pattern
from replay.edit import meant
from replay.errors import ArcError
from replay.patterns import Pattern, Unusable
from replay.predicate.condition import Condition, Field, How

Row: TypeAlias = tuple[Condition, ...]

FIELDS: tuple[Field, ...] = ("tool", "args", "text", "calls")

_EXAMPLE = "write it as in tool=get_order, args.order_id=1049"
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z_]+")
_JOINED = re.compile(r"(?P<and>,|and\b)|or\b")
_NOT = re.compile(r"not\b")
_PATH = re.compile(r'(?:\.(?:\*\*?|"(?:[^"\\]|\\.)*"|[^.\[\]="*\s,!~<>]+)|\[(?:[0-9]{1,9}|\*)\])*')
_HOW = re.compile(r"==|!=|!~|<=|>=|[=~<>]")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_SLASHED = re.compile(r"/((?:[^/\\]|\\.)*)/")
_BARE = re.compile(r"[^\s,]+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class BadPredicate(ArcError):
    """An expectation that cannot be read, or that nothing could ever meet."""


def rows(text: str) -> tuple[Row, ...]:
    """The rows of an expectation, one of which must hold. Raises BadPredicate."""
    return _Reader(text).rows()


class _Reader:
    """A text, and how far it has been read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def rows(self) -> tuple[Row, ...]:
        found: list[list[Condition]] = [[self._condition()]]
        while self._more():
            joined = self._take(_JOINED)
            if joined is None:
                raise self._wrong(
                    f"{self._rest()!r} is joined by nothing", "`and`, a comma or `or`"
                )
            if not joined["and"]:
                found.append([])
            found[-1].append(self._condition())
        return tuple(map(tuple, found))

    def _condition(self) -> Condition:
        turned = False
        while self._take(_NOT) is not None:
            turned = not turned
        field = self._field()
        path = self._path() if field == "args" else ""
        how = self._take(_HOW)
        if how is None:
            said = f"what must hold of {field}{pattern.joined(path)} is not said"
            raise self._wrong(said, "compare it by = != ~ !~ < <= > or >=")
        if how[0].startswith("!"):
            turned = not turned
        plain = cast(How, how[0].removeprefix("!").replace("==", "="))
        value, quoted = self._value(field, plain)
        return Condition(
            field=field, how=plain, value=value, path=path, quoted=quoted, turned=turned
        )

    def _field(self) -> Field:
        at = self._at
        word = self._take(_WORD)
        for each in FIELDS:
            if word is not None and word[0] == each:
                return each
        said = word[0] if word is not None else self._rest()
        self._at = at
        if not said:
            raise self._wrong("a condition is missing", _EXAMPLE)
        raise self._wrong(
            f"no field {said!r}", meant(said, (*FIELDS[:1], "args.PATH", *FIELDS[2:]))
        )

    def _path(self) -> str:
        """A path into the arguments, "" for all of them."""
        found = _PATH.match(self._text, self._at)
        path = (found[0] if found else "").removeprefix(".")
        try:
            pattern.steps(path)
        except ValueError as error:
            raise self._wrong(f"args.{path}: {error}", "") from error
        self._at += len(found[0]) if found else 0
        return path

    def _value(self, field: Field, how: How) -> tuple[str, bool]:
        """The value, and whether it is a text in quotes."""
        self._more()
        at = self._at
        value, quoted = self._regex() if how == "~" else self._plain()
        number = _NUMBER.fullmatch(value) is not None and not quoted
        if not number and (how not in {"=", "~"} or (field == "calls" and how == "=")):
            self._at = at
            raise self._wrong(f"{value!r} is no number", "numbers are compared, as in calls<=1")
        return value, quoted

    def _regex(self) -> tuple[str, bool]:
        at = self._at
        slashed = self._take(_SLASHED)
        value = slashed[1].replace("\\/", "/") if slashed is not None else self._plain()[0]
        try:
            Pattern(value)
        except Unusable as error:
            self._at = at
            raise self._wrong(f"{value!r} {error}", error.hint) from error
        return value, False

    def _plain(self) -> tuple[str, bool]:
        quoted = self._take(_QUOTED)
        if quoted is not None:
            try:
                return msgspec.json.decode(quoted[0], type=str), True
            except msgspec.DecodeError as error:
                self._at = quoted.start()
                raise self._wrong(f"{quoted[0]} is no JSON text: {error}", "") from error
        if self._text[self._at : self._at + 1] in {"[", "{"}:
            return self._json(), False
        bare = self._take(_BARE)
        if bare is not None and bare[0].startswith('"'):
            self._at = bare.start()
            raise self._wrong(f"{bare[0]} does not end with a quote", "")
        if bare is None:
            raise self._wrong("a value is missing", _EXAMPLE)
        return bare[0], False

    def _json(self) -> str:
        """A list or an object: up to where it closes."""
        try:
            _, end = json.JSONDecoder().raw_decode(self._text, self._at)
        except ValueError as error:
            raise self._wrong(f"{self._rest()!r} is no JSON: {error}", "") from error
        found, self._at = self._text[self._at : end], end
        return found

    # --- the text

    def _take(self, what: re.Pattern[str]) -> re.Match[str] | None:
        """What stands here, after white space; None where something else does."""
        self._more()
        found = what.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _more(self) -> bool:
        """Past white space; is there anything left?"""
        space = _SPACE.match(self._text, self._at)
        self._at = space.end() if space is not None else self._at
        return self._at < len(self._text)

    def _rest(self) -> str:
        return self._text[self._at :]

    def _wrong(self, said: str, hint: str) -> BadPredicate:
        return BadPredicate(f"expectation {self._text!r}, character {self._at + 1}: {said}", hint)
