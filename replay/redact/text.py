"""What of a text is searched: which rules can find nothing in it, and what its escapes hide.

What refers is no secret and stays: digests and ids of traces, in texts that we wrote ourselves.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from replay.redact.rules import Rule
from replay.trace import Json

LONG = 19
"""Every key that is looked for in words has at least so many characters."""

WRAPPED = 24
"""So many characters of base64 has a text of a key's length at least."""

_WORDS = bytes(
    each if (chr(each).isalnum() and each < 128) or chr(each) in "_-.~" else 32
    for each in range(256)
).lower()
_SIGNS = bytes(32 if each == 32 else 97 for each in _WORDS)
_LONG_WORD = b"a" * LONG
_SHAPES = bytes(
    48 if 48 <= each <= 57 else 65 if 65 <= each <= 90 else 45 if each in (32, 45) else 97
    for each in range(256)
)
_RUNS = bytes(48 if 48 <= each <= 57 or 65 <= each <= 90 else 97 for each in range(256))
_GAPS = b" -"
_RARE = "%<@/=~-_."

Hints = list[tuple[str, list[tuple[str, list[int]]]]]
"""Characters, each with the hints it stands in, and these with the places of their rules."""


class Glance:
    """Which of some rules could find something in a text."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._all = tuple(rules)
        self._wrapped = [at for at, rule in enumerate(self._all) if rule.wrapped]
        self._always = [
            at for at, rule in enumerate(self._all) if not rule.hints and not rule.wrapped
        ]
        self._words = self._hints(lambda rule: rule.words)
        shapes = self._hints(lambda rule: rule.digits > 0)
        self._run = b"0" * min((rule.digits for rule in self._all if rule.digits), default=0)
        self._shapes = [(hint.encode(), at) for _, each in shapes for hint, at in each]
        self._text = self._hints(lambda rule: not rule.words and not rule.digits)

    def _hints(self, of: Callable[[Rule], bool]) -> Hints:
        found: dict[str, list[int]] = {}
        for at, rule in enumerate(self._all):
            for hint in rule.hints if of(rule) else ():
                found.setdefault(hint, []).append(at)
        hints: dict[str, list[tuple[str, list[int]]]] = {}
        for hint, places in found.items():
            rare = next((char for char in _RARE if char in hint), "")
            hints.setdefault(rare, []).append((hint, places))
        return list(hints.items())

    def rules(self, encoded: bytes, lower: str) -> list[Rule]:
        """Those rules, in the order in which they were given."""
        found = [*self._always, *_standing(self._text, lower)]
        if _LONG_WORD in encoded.translate(_SIGNS):  # most texts have none: they are not split
            words = encoded.translate(_WORDS).split()
            long = [word for word in words if len(word) >= LONG]
            if long:
                found += _standing(self._words, f" {b' '.join(long).decode('ascii')}")
                if self._wrapped and any(map(_may_be_wrapped, long)):
                    found += self._wrapped
        if len(encoded) >= len(self._run) and self._run in encoded.translate(_RUNS, _GAPS):
            shapes = encoded.translate(_SHAPES)
            for shape, places in self._shapes:
                if shape in shapes:
                    found += places
        return [self._all[at] for at in sorted(set(found))] if found else []


def _may_be_wrapped(word: bytes) -> bool:
    """Could a long word be base64 of ASCII? Every fourth character of that is a letter."""
    return word[:WRAPPED:4].isalpha() and word[:WRAPPED].isalnum() and len(word) >= WRAPPED


def _standing(hints: Hints, text: str) -> list[int]:
    """The places of rules of which a hint stands in a text."""
    found: list[int] = []
    for rare, listed in hints:
        if rare in text:
            for hint, places in listed:
                if hint in text:
                    found += places
    return found


_PLAIN = r"\\{1,63}u00(2[b-fB-F]|3[0-9aA]|3[dD]|40|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aA])"
_ESCAPED = re.compile(_PLAIN)


def escaped(text: str) -> bool:
    """Does it write a letter, a digit or a mark of a key as a number?"""
    return "u00" in text and _ESCAPED.search(text) is not None


def unescaped(text: str) -> str:
    """The text with those as they are read."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


_KEY, _END = "[A-Za-z0-9_-]", "[A-Za-z0-9_.-]"
_CODES = re.compile(
    rf"(?<={_KEY})(?:(?:\x1b|\\{{1,63}}(?:u001[bB]|x1[bB]|033|e))\[[0-9;?]{{0,20}}[A-Za-z])"
    rf"{{1,9}}+(?={_KEY})"
)
"""What a terminal obeys, within a word."""

_PERCENT = re.compile("%(?:2[dDeE]|3[0-9]|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aA])")
"""Letters, digits, `-`, `.` and `_`, which no address has to write so."""
_ASCII = re.compile("%[2-7][0-9a-fA-F]")

_REST = rf"[ \t]{{0,20}}(?=(?P<rest>{_END}{{6,}}))"
_LINE = re.compile(rf"\n(?:(?<={_END}{{8}}\n)|(?<={_END}{{8}}\r\n)){_REST}")
_ESCAPED_LINE = re.compile(
    rf"\\n(?=[ \t]{{0,20}}{_END}{{6}})(?:(?<={_END}{{8}}\\n)|(?<={_END}{{8}}\\\\n)"
    rf"|(?<={_END}{{8}}\\{{4}}n)){_REST}"
)
"""The end of a line within what may be one word."""

_FULL = 60
"""A line with fewer characters did not end because it was full."""

_WHOLE = re.compile("(?:[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|(?:[0-9a-f]{8}){5,16})")
"""A hash or an id, which stands in a line of its own and ends no key."""


class View(NamedTuple):
    """A text as it is meant: without codes, with its letters, in one line. `before` and `after` are
    the places in it of what is written otherwise, `longer` by how much the text as written is
    longer after so many of them."""

    text: str
    before: list[int]
    after: list[int]
    longer: list[int]
    all_of_it: bool = False

    def written(self, start: int, end: int) -> tuple[int, int] | None:
        """Where a part of it stands in the text as written; None where it is written so, unless
        `all_of_it` counts."""
        first = start + self.longer[bisect_right(self.after, start)]
        last = end + self.longer[bisect_left(self.before, end)]
        return (first, last) if self.all_of_it or last - first != end - start else None


def views(text: str) -> Iterator[View]:
    """What else a text may mean, whatever the rule that looks."""
    if "\x1b" in text or _coded(text):
        yield _view(text, ((match.span(), "") for match in _CODES.finditer(text)))
    if "%" in text and _PERCENT.search(text) is not None:
        yield _view(text, ((m.span(), chr(int(m[0][1:], 16))) for m in _ASCII.finditer(text)))


_SIGN = re.compile(r"\\{1,63}(?P<sign>[n\"])")
"""How a text that is quoted, once or more, writes the end of a line and a quote."""


def unquoted(text: str) -> View | None:
    """A document that stands quoted in the text, with its own lines and quotes: its rules find in
    it what they know by its lines alone. None where no Secret of Kubernetes may be in one."""
    if "\\" not in text or "Secret" not in text or "kind" not in text:
        return None
    signs = {"n": "\n", '"': '"'}
    cuts = ((match.span(), signs[match["sign"]]) for match in _SIGN.finditer(text))
    return _view(text, cuts)._replace(all_of_it=True)


def joined(text: str) -> View | None:
    """The text with its full lines joined where a key may go on; None where none may."""
    found = (*_LINE.finditer(text), *_ESCAPED_LINE.finditer(text))
    ends = sorted(match.span() for match in found if _goes_on(text, match))
    return _view(text, (((_mark(text, start), end), "") for start, end in ends)) if ends else None


def _mark(text: str, start: int) -> int:
    """Where the mark of a line's end begins, with the escapes before it."""
    while text[start - 1] in "\r\\":
        start -= 1
    return start


def otherwise(text: str) -> bool:
    """Can it mean something else? Cheap; False is sure."""
    return (
        ("\\" in text and (_coded(text) or _ESCAPED_LINE.search(text) is not None))
        or ("%" in text and _PERCENT.search(text) is not None)
        or ("\n" in text and _LINE.search(text) is not None)
        or ("\x1b" in text and _CODES.search(text) is not None)
    )


def _coded(text: str) -> bool:
    begun = "1b[" in text or "1B[" in text or "033[" in text or "\\e[" in text
    return begun and _CODES.search(text) is not None


def _goes_on(text: str, match: re.Match[str]) -> bool:
    rest = match["rest"]
    if _WHOLE.fullmatch(rest) or not re.search("[0-9]|.[A-Z]", rest):  # a word of prose is neither
        return False
    line = text[max(match.start() - _FULL, 0) : match.start()]
    return len(line) == _FULL and "\n" not in line and "\\n" not in line


def _view(text: str, cuts: Iterable[tuple[tuple[int, int], str]]) -> View:
    parts: list[str] = []
    view = View("", [], [], [0])
    at = place = 0
    for (start, end), meant in cuts:
        parts += (text[at:start], meant)
        place += start - at
        view.before.append(place)
        place += len(meant)
        view.after.append(place)
        view.longer.append(view.longer[-1] + end - start - len(meant))
        at = end
    return view._replace(text="".join([*parts, text[at:]]))


class _Again(str):
    """A name that stood in its object before: another one than that."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def every(text: str) -> Any:
    """What a JSON text says, with every value of a name that stands twice in an object; None where
    there is no such name, or where the text is no JSON."""
    again = False

    def kept(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal again
        found: dict[str, Any] = {}
        for name, value in pairs:
            again |= name in found
            found[_Again(name) if name in found else name] = value
        return found

    try:
        value = json.loads(text, object_pairs_hook=kept)
    except (ValueError, RecursionError):
        return None
    return value if again else None


REFERENCE = re.compile(r"((?:sha256:)?\b[0-9a-f]{64}\b|\b[0-9a-f]{16}\b)")

_ID = 16
"""Letters of the id of a trace."""


def refers(text: str, is_trace: Callable[[str], bool]) -> bool:
    """Is it, as a whole, a digest or the id of a trace?"""
    return REFERENCE.fullmatch(text) is not None and (len(text) > _ID or is_trace(text))


def restored(before: Json, after: Json, is_trace: Callable[[str], bool]) -> Json:
    """What was masked, its references as they were; the same as before where that is all."""
    if before is after or (isinstance(before, str) and refers(before, is_trace)):
        return before
    if isinstance(before, dict) and isinstance(after, dict):
        both = zip(before.items(), after.items(), strict=True)
        held = [
            (restored(*names, is_trace), restored(*values, is_trace))
            for names, values in (zip(*each, strict=True) for each in both)
        ]
        return before if held == list(before.items()) else dict(held)
    if isinstance(before, list) and isinstance(after, list):
        listed = [restored(*pair, is_trace) for pair in zip(before, after, strict=True)]
        return before if listed == before else listed
    return after
