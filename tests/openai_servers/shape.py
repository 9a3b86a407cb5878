"""The shape of a request, and the sentences with which OpenAI says how one departs from it.

A shape is a value: `Text(most=64)`, `Fields({"name": need(Text())})`. `flaw` walks a request along
its shape and says the first thing that is wrong, with the parameter it is wrong at and the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

Body = dict[str, Any]


class Refused(Struct, frozen=True):
    """A request that is not answered: OpenAI's error object with its status."""

    message: str
    param: str | None = None
    code: str | None = None
    status: int = 400
    kind: str = "invalid_request_error"

    @property
    def body(self) -> Body:
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }


class Text(Struct, frozen=True):
    least: int = 0
    most: int | None = None
    pattern: str | None = None


class Choice(Struct, frozen=True):
    """One of some texts."""

    of: tuple[str, ...]


class Whole(Struct, frozen=True):
    least: int | None = None
    most: int | None = None


class Decimal(Struct, frozen=True):
    least: float | None = None
    most: float | None = None


class Flag(Struct, frozen=True):
    pass


class Anything(Struct, frozen=True):
    """A value that is not looked into: a schema, arguments of a tool that is not run here."""


class Items(Struct, frozen=True):
    each: Shape
    least: int = 0
    most: int | None = None


class Names(Struct, frozen=True):
    """An object with keys of the client's choice."""

    each: Shape
    most: int | None = None
    key_most: int | None = None


class Fields(Struct, frozen=True):
    """An object with these keys. With `open`, others are taken and not looked at."""

    of: Mapping[str, Field]
    open: bool = False


class Tagged(Struct, frozen=True):
    """An object whose field `by` says which shape it has, `otherwise` where it lacks it."""

    by: str
    of: Mapping[str, Fields]
    otherwise: str | None = None


class Either(Struct, frozen=True):
    """A text of the first shape, else a value of the second."""

    text: Text | Choice
    other: Items | Tagged | Fields


Shape = Text | Choice | Whole | Decimal | Flag | Anything | Items | Names | Fields | Tagged | Either


class Field(Struct, frozen=True):
    shape: Shape
    needed: bool = False
    nullable: bool = False


def need(shape: Shape, *, nullable: bool = False) -> Field:
    return Field(shape, True, nullable)


def may(shape: Shape, *, nullable: bool = False) -> Field:
    return Field(shape, False, nullable)


def listed(values: Iterable[str]) -> str:
    """`'a', 'b', and 'c'`."""
    quoted = [f"'{each}'" for each in values]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}"


def missing(path: str) -> Refused:
    return Refused(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")


def unknown(path: str) -> Refused:
    return Refused(f"Unknown parameter: '{path}'.", path, "unknown_parameter")


def not_supported(path: str, value: Any, supported: Iterable[str]) -> Refused:
    of = listed(supported)
    return Refused(f"Invalid value: '{value}'. Supported values are: {of}.", path, "invalid_value")


def flaw(value: Any, shape: Shape, path: str = "") -> Refused | None:
    """The first departure of a value from a shape, None where there is none."""
    return next(_flaws(value, shape, path), None)


def _flaws(value: Any, shape: Shape, path: str) -> Iterator[Refused]:
    if _kind(value) not in _accepted(shape):
        expected, got = _expected(shape), _article(_kind(value))
        why = f"Invalid type for '{path}': expected {expected}, but got {got} instead."
        yield Refused(why, path, "invalid_type")
        return
    match shape:
        case Text():
            yield from _text_flaws(value, shape, path)
        case Choice(of):
            if value not in of:
                yield not_supported(path, value, of)
        case Whole(least, most):
            yield from _range_flaws(value, least, most, path, "integer")
        case Decimal(least, most):
            yield from _range_flaws(value, least, most, path, "decimal")
        case Items(each, least, most):
            yield from _length_flaws(len(value), least, most, path, "array")
            for at, entry in enumerate(value):
                yield from _flaws(entry, each, f"{path}[{at}]")
        case Names(each, most, key_most):
            yield from _length_flaws(len(value), 0, most, path, "object", "properties")
            for name, entry in value.items():
                if key_most is not None and len(name) > key_most:
                    yield from _length_flaws(len(name), 0, key_most, f"{path}.{name}", "string")
                yield from _flaws(entry, each, f"{path}.{name}")
        case Fields():
            yield from _field_flaws(value, shape, path)
        case Tagged(by, of, otherwise):
            tag = value.get(by, otherwise)
            if tag is None:
                yield missing(_under(path, by))
            elif tag not in of:
                yield not_supported(_under(path, by), tag, of)
            else:
                yield from _field_flaws(value, of[tag], path)
        case Either(text, other):
            yield from _flaws(value, text if isinstance(value, str) else other, path)
        case Flag() | Anything():
            pass


def _field_flaws(value: Body, shape: Fields, path: str) -> Iterator[Refused]:
    for name, field in shape.of.items():
        if field.needed and name not in value:
            yield missing(_under(path, name))
    for name, entry in value.items():
        found = shape.of.get(name)
        if found is None:
            if not shape.open:
                yield unknown(_under(path, name))
        elif entry is not None or not found.nullable:
            yield from _flaws(entry, found.shape, _under(path, name))


def _text_flaws(value: str, shape: Text, path: str) -> Iterator[Refused]:
    yield from _length_flaws(len(value), shape.least, shape.most, path, "string")
    if shape.pattern is not None and re.fullmatch(shape.pattern.strip("^$"), value) is None:
        yield Refused(
            f"Invalid '{path}': string does not match pattern. "
            f"Expected a string that matches the pattern '{shape.pattern}'.",
            path,
            "invalid_value",
        )


def _length_flaws(
    length: int, least: int, most: int | None, path: str, what: str, of: str = "length"
) -> Iterator[Refused]:
    a = _article(what)
    if length < least and length == 0:
        why = f"empty {what}. Expected {a} with minimum length {least}, but got an empty {what}"
        yield Refused(f"Invalid '{path}': {why} instead.", path, f"empty_{what}")
    elif length < least:
        why = f"{what} too short. Expected {a} with minimum length {least}"
        why += f", but got {a} with length {length}"
        yield Refused(f"Invalid '{path}': {why} instead.", path, f"{what}_below_min_length")
    elif most is not None and length > most:
        long = "too long" if of == "length" else f"with too many {of}"
        limit = f"maximum length {most}" if of == "length" else f"at most {most} {of}"
        got = f"length {length}" if of == "length" else f"{length} {of}"
        why = f"{what} {long}. Expected {a} with {limit}, but got {a} with {got}"
        code = "max_length" if of == "length" else f"max_{of}"
        yield Refused(f"Invalid '{path}': {why} instead.", path, f"{what}_above_{code}")


def _range_flaws(
    value: float, least: float | None, most: float | None, path: str, what: str
) -> Iterator[Refused]:
    if least is not None and value < least:
        why = f"{what} below minimum value. Expected a value >= {least}, but got {value} instead."
        yield Refused(f"Invalid '{path}': {why}", path, f"{what}_below_min_value")
    if most is not None and value > most:
        why = f"{what} above maximum value. Expected a value <= {most}, but got {value} instead."
        yield Refused(f"Invalid '{path}': {why}", path, f"{what}_above_max_value")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "decimal"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _accepted(shape: Shape) -> frozenset[str]:
    match shape:
        case Text() | Choice():
            return frozenset({"string"})
        case Whole():
            return frozenset({"integer"})
        case Decimal():
            return frozenset({"integer", "decimal"})
        case Flag():
            return frozenset({"boolean"})
        case Items():
            return frozenset({"array"})
        case Names() | Fields() | Tagged():
            return frozenset({"object"})
        case Either(text, other):
            return _accepted(text) | _accepted(other)
        case Anything():
            return frozenset({"null", "boolean", "integer", "decimal", "string", "array", "object"})


def _expected(shape: Shape) -> str:
    match shape:
        case Either(_, other):
            return f"one of a string or {_expected(other).split(' ', 1)[1]}"
        case Items(each):
            of = "objects" if "object" in _accepted(each) else f"{min(_accepted(each))}s"
            return f"an array of {of}"
        case Decimal():
            return "a decimal"
        case _:
            return _article(min(_accepted(shape)))


def _article(what: str) -> str:
    if what == "null":
        return "null"
    return f"{'an' if what[0] in 'aio' else 'a'} {what}"


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
