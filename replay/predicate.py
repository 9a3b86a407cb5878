"""What is an answer expected to do? An expression about an action, read and tried.

`tool=refund_order args.amount<=40 and not text~sorry`: fields, how they are compared, and with
what, joined by `and`, `or`, `not` and brackets.

`Detector` is the question that the engine asks and does not answer itself: does an answer still
show the failure? The recorded action at the break is one way to fail; the model may fail there in
other ways just as well. Whoever knows what the failure is (a rule, an expectation, a judge) answers
by this protocol; of an expectation, an answer that does not meet it is bad.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from replay import digests
from replay.action import Act, Action
from replay.compare import rules
from replay.edit.changes import meant
from replay.errors import ArcError
from replay.patterns import Pattern, TooLong, Unusable
from replay.redact.placeholders import masked_count
from replay.trace import Json


class Detector(Protocol):
    """A judge of the answers at one step. `name` says which, and stands beside every figure of it.

    It must be a function of the action: the same answer gets the same verdict.
    """

    name: str
    step: int

    def shows(self, action: Action) -> bool | None:
        """Does this action at that step show the failure? None where that cannot be told."""
        ...


def predicate(text: str) -> Predicate:
    """The expectation in a text. Raises BadPredicate naming the place and what is known."""
    return Predicate(text=" ".join(text.split()), rows=rows(text))


class Predicate(Struct, frozen=True, kw_only=True):
    """An expectation: it is met where one of its rows is. `text` is what the user wrote."""

    text: str
    rows: tuple[tuple[Condition, ...], ...]

    def met(self, action: Action, *, whole: bool = True) -> bool | None:
        """Does the action meet it? None where that cannot be told.

        An action that is not `whole` may call more, and its words are not its last.
        """
        return _any(_all(_row(row, action, whole)) for row in self.rows)

    def tools(self) -> tuple[str, ...]:
        """The tools it names."""
        return tuple(
            each.value
            for row in self.rows
            for each in row
            if each.field == "tool" and each.how == "=" and not each.says_none
        )

    def check(self, offered: Collection[str]) -> None:
        """Raises BadPredicate where it names a tool that is not among those offered."""
        for name in self.tools():
            if offered and name not in offered:
                raise BadPredicate(
                    f"expectation {self.text!r}: tool {name!r} not offered there",
                    f"{meant(name, offered)} To test it anyway: tool~^{re.escape(name)}$",
                )


def _row(row: Sequence[Condition], action: Action, whole: bool) -> Iterator[bool | None]:
    """What each part of a row comes to."""
    about: list[Condition] = []
    for each in row:
        if each.field in {"text", "calls"} or each.says_none:
            yield _turned(_of_action(each, action, whole), each)
        elif each.opens:
            if about:
                yield _of_calls(about, action.calls, whole)
            about = [each]
        elif each.field == "tool":
            yield _of_calls([each], action.calls, whole)
        else:
            about.append(each)
    if about:
        yield _of_calls(about, action.calls, whole)


def _of_action(each: Condition, action: Action, whole: bool) -> bool | None:
    if each.field == "text":
        return each.of_text(action.text) if whole else None
    if each.says_none:
        return False if action.calls else True if whole else None
    return each.of_count(len(action.calls)) if whole else None


def _of_calls(about: Sequence[Condition], calls: Iterable[Act], whole: bool) -> bool | None:
    """Of some call; where nothing is said but what is not, of all."""
    each_call = [_all(_turned(each.of_call(call), each) for each in about) for call in calls]
    if all(each.turned for each in about):
        return _all([*each_call, True if whole else None])
    return _any([*each_call, False if whole else None])


def _turned(holds: bool | None, each: Condition) -> bool | None:
    return holds if holds is None else holds is not each.turned


def _all(parts: Iterable[bool | None]) -> bool | None:
    found = list(parts)
    return False if False in found else None if None in found else True


def _any(parts: Iterable[bool | None]) -> bool | None:
    found = list(parts)
    return True if True in found else None if None in found else False


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
        found = [self._of(value) for value in _values(call.arguments, rules.steps(self.path))]
        return True if True in found else None if None in found else False

    def of_text(self, text: str) -> bool | None:
        return self._of(text)

    def of_count(self, calls: int) -> bool | None:
        return self._of(calls)

    def _of(self, found: Json) -> bool | None:
        if masked_count(digests.canonical(found)):
            return None
        if self.how == "~":
            return _matches(self.value, digests.bare_text(found))
        if self.how == "=":
            return found == self.value or any(digests.same(found, each) for each in self._read())
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


def _values(value: Json, rest: rules.Steps) -> Iterator[Json]:
    """The values at the places that these steps name."""
    ways = rules.opened(rest)
    if () in ways:
        yield value
    inner: Iterable[tuple[str | int, Json]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for step, each in inner:
        further = [to_go for way in ways for to_go in rules.after(way, step)]
        for to_go in dict.fromkeys(further):
            yield from _values(each, to_go)


Row: TypeAlias = tuple[Condition, ...]

FIELDS: tuple[Field, ...] = ("tool", "args", "text", "calls")

_EXAMPLE = "Try: tool=get_order, args.order_id=1049"
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
                    f"{self._rest()!r} does not follow an operator",
                    "Try: `and`, a comma or `or` before it",
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
            said = f"no condition for {field}{rules.joined(path)}"
            raise self._wrong(said, "Try: one of = != ~ !~ < <= > >=")
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
            raise self._wrong("condition missing", _EXAMPLE)
        raise self._wrong(
            f"unknown field {said!r}", meant(said, (*FIELDS[:1], "args.PATH", *FIELDS[2:]))
        )

    def _path(self) -> str:
        """A path into the arguments, "" for all of them."""
        found = _PATH.match(self._text, self._at)
        path = (found[0] if found else "").removeprefix(".")
        try:
            rules.steps(path)
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
            raise self._wrong(f"{value!r} is not a number", "Try: a number, as in calls<=1")
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
                raise self._wrong(f"{quoted[0]} is not a valid JSON string: {error}", "") from error
        if self._text[self._at : self._at + 1] in {"[", "{"}:
            return self._json(), False
        bare = self._take(_BARE)
        if bare is not None and bare[0].startswith('"'):
            self._at = bare.start()
            raise self._wrong(f"{bare[0]} has no closing quote", "")
        if bare is None:
            raise self._wrong("value missing", _EXAMPLE)
        return bare[0], False

    def _json(self) -> str:
        """A list or an object: up to where it closes."""
        try:
            _, end = json.JSONDecoder().raw_decode(self._text, self._at)
        except ValueError as error:
            raise self._wrong(f"{self._rest()!r} is not valid JSON: {error}", "") from error
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


class Unmet:
    """The `Detector` of an expectation at a step. An answer that is cut decides nothing."""

    def __init__(self, expected: Predicate, step: int) -> None:
        self.name = f"does not meet {expected.text}"
        self.step = step
        self._expected = expected

    def shows(self, action: Action) -> bool | None:
        met = None if action.cut is not None else self._expected.met(action)
        return None if met is None else not met
