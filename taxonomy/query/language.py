"""How is a question about runs written? The signs of it, and the tree they make.

    outcome:failed tag:loop cost>0.5 (model:claude* or not variant:v3) "free text"

Terms beside each other must all hold; `and` may be written, binds closer than `or`, and `not` binds
closest. A term is a field with what it is asked (`fields` knows which there are), a plain word
that stands in the row of a run, or a quoted text that somebody said in it. Which runs that means
is the business of `compile`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.errors import ArcError

MOST_CHARACTERS = 2000
MOST_TERMS = 60
MOST_DEEP = 8
"""What is longer or deeper nobody typed; SQLite bounds its expressions too."""


class BadQuery(ArcError):
    """A question that cannot be read: why, and where (`at` counts characters from 0)."""

    def __init__(self, why: str, at: int, hint: str = "") -> None:
        super().__init__(f"{why} (at character {at + 1})", hint)
        self.at = at


# --- the tree; `at` is where a term begins

Operator: TypeAlias = Literal["", ":", "=", "<", "<=", ">", ">="]
"""`""` where a field stands alone."""


class Word(Struct, frozen=True):
    """A plain word."""

    text: str
    at: int = 0


class Says(Struct, frozen=True):
    """A quoted text."""

    text: str
    at: int = 0


class Asks(Struct, frozen=True):
    """A field and what it is asked. In a `quoted` value a star is a star."""

    field: str
    operator: Operator
    value: str
    quoted: bool = False
    at: int = 0


class Not(Struct, frozen=True):
    part: Node


class And(Struct, frozen=True):
    parts: tuple[Node, ...]


class Or(Struct, frozen=True):
    parts: tuple[Node, ...]


Node: TypeAlias = Word | Says | Asks | Not | And | Or


# --- signs

ALONE = frozenset({"step.error", "tool.error"})
"""Fields that may stand without a value."""

_QUOTE = "put the text in quotes to search messages"
_SPACES = 'separate terms with a space, and quote a text that contains ( ) or "'

_SPACE = re.compile(r"\s*")
_FIELD = re.compile(r"([^\W\d][\w.-]*)(!=|:?[<>]=?|[:=])")
_BARE = re.compile(r"[^\s()]*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_CLOSED = {
    '"': re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL),
    "'": re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL),
}


class _Token(Struct, frozen=True):
    """A bracket, a joining word, or a whole term."""

    kind: Literal["(", ")", "and", "or", "not", "term", "end"]
    at: int
    term: Word | Says | Asks | None = None


def _signs(query: str) -> list[_Token]:
    found: list[_Token] = []
    at = _after_space(query, 0)
    while at < len(query):
        if query[at] in "()":
            sign, end = _Token("(" if query[at] == "(" else ")", at), at + 1
        else:
            sign, end = _term(query, at)
            if query[end : end + 1] not in ("", ")") and not query[end].isspace():
                raise BadQuery(f"unexpected {query[end]!r} after {query[at:end]!r}", end, _SPACES)
        found.append(sign)
        at = _after_space(query, end)
    return [*found, _Token("end", len(query))]


def _after_space(query: str, at: int) -> int:
    found = _SPACE.match(query, at)
    return found.end() if found else at


def _term(query: str, at: int) -> tuple[_Token, int]:
    """(the term that begins here, where it ends)."""
    if query[at] in _CLOSED:
        text, end = _quoted(query, at)
        if not text.strip():
            raise BadQuery("empty quotes", at)
        return _Token("term", at, Says(text, at)), end
    field = _FIELD.match(query, at)
    if field is not None:
        return _asks(query, field)
    word = _bare(query, at)
    end = at + len(word)
    if word[0] in "<>=":
        raise BadQuery(
            f"missing field before {word!r}", at, f"write cost>0.5 without spaces, or {_QUOTE}"
        )
    match word.lower():
        case "and" | "or" | "not" as kind:
            return _Token(kind, at), end
        case name if name in ALONE:
            return _Token("term", at, Asks(name, "", "", at=at)), end
        case _:
            return _Token("term", at, Word(word, at)), end


def _asks(query: str, field: re.Match[str]) -> tuple[_Token, int]:
    name, written = field.groups()
    at, start = field.span()
    if written == "!=":
        raise BadQuery("unknown operator !=", field.start(2), f"write `not {name}=…`")
    operator = written[1:] if len(written) > 1 and written[0] == ":" else written
    quoted = query[start : start + 1] in _CLOSED
    if quoted:
        value, end = _quoted(query, start)
    else:
        value = _bare(query, start)
        end = start + len(value)
        if not value:
            raise BadQuery(f"missing value after {name}{written}", start, _no_space(query, end))
    return _Token("term", at, Asks(name.lower(), operator, value, quoted, at)), end  # type: ignore[arg-type]


def _no_space(query: str, end: int) -> str:
    """The hint for a missing value."""
    rest = query[end:].strip()
    return "write no space before the value" if rest else 'x:"" matches runs without x'


def _bare(query: str, at: int) -> str:
    found = _BARE.match(query, at)
    return found[0] if found else ""


def _quoted(query: str, at: int) -> tuple[str, int]:
    found = _CLOSED[query[at]].match(query, at)
    if found is None:
        raise BadQuery("unclosed quote", at)
    return _ESCAPED.sub(r"\1", found[1]), found.end()


def quote(text: str) -> str:
    """A value of the query language that means itself."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# --- the tree of them


def parse(query: str) -> Node | None:
    """The tree of a question, None where nothing is asked. Raises BadQuery."""
    if len(query) > MOST_CHARACTERS:
        raise BadQuery(f"query longer than {MOST_CHARACTERS} characters", MOST_CHARACTERS)
    for at, letter in enumerate(query):
        if "\ud800" <= letter <= "\udfff":
            raise BadQuery("not UTF-8", at)
    signs = _signs(query)
    if len(signs) == 1:
        return None
    terms = [sign for sign in signs if sign.kind == "term"]
    if len(terms) > MOST_TERMS:
        raise BadQuery(f"query of more than {MOST_TERMS} terms", terms[MOST_TERMS].at)
    reading = _Reading(signs)
    tree = reading.either(0)
    if reading.sign.kind != "end":
        raise BadQuery("unmatched )", reading.sign.at)
    return tree


class _Reading:
    """Signs under way, one after the other."""

    def __init__(self, signs: list[_Token]) -> None:
        self._signs = signs
        self._place = 0

    @property
    def sign(self) -> _Token:
        return self._signs[self._place]

    def _take(self) -> _Token:
        self._place += 1
        return self._signs[self._place - 1]

    def either(self, depth: int) -> Node:
        """Terms joined by `or`."""
        return _joined(Or, self._many(lambda: self._all(depth), lambda: self._passes("or")))

    def _all(self, depth: int) -> Node:
        """Terms joined by `and`, or by standing beside each other."""
        return _joined(And, self._many(lambda: self._one(depth), self._goes_on))

    def _many(self, part: Callable[[], Node], more: Callable[[], bool]) -> list[Node]:
        parts = [part()]
        while more():
            parts.append(part())
        return parts

    def _passes(self, kind: str) -> bool:
        there = self.sign.kind == kind
        self._place += there
        return there

    def _goes_on(self) -> bool:
        return self._passes("and") or self.sign.kind in ("term", "(", "not")

    def _one(self, depth: int) -> Node:
        sign = self._take()
        if depth > MOST_DEEP:
            raise BadQuery(f"more than {MOST_DEEP} nested brackets and nots", sign.at)
        if sign.term is not None:
            return sign.term
        if sign.kind == "not":
            return Not(self._one(depth + 1))
        if sign.kind != "(":
            raise BadQuery(_missing(sign.kind), sign.at)
        inside = self.either(depth + 1)
        if not self._passes(")"):
            raise BadQuery("unclosed (", sign.at)
        return inside


def _joined(kind: type[And] | type[Or], parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def _missing(kind: str) -> str:
    return f"missing term {'at the end' if kind == 'end' else f'before {kind}'}"
