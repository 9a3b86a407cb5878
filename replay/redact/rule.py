"""What a rule is, the pieces its patterns are made of, and what tells a secret from its like.

A pattern meets a text as it is and as JSON holds it, once or several times: a line break may stand
there as `\\n`, a quote as `\\"` or `\\u0022`. The pieces here allow for both. Every pattern is
linear: what it repeats without bound it consumes, and a check decides afterwards.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import Struct

Span = tuple[int, int]


class Rule(Struct, frozen=True):
    """A kind of secret.

    `pattern` finds it (its group `secret` is what is masked, else the whole match), `check` has
    the last word, `extent` finds what belongs to a match. `hints` are lower-case texts of which
    one occurs wherever the pattern can match: looking for them clears nearly every text without
    running a pattern; () runs it always. `words` says that they stand in long words only; `digits`
    that they are shapes of numbers with at least so many digits and capitals (see `glance`);
    `wrapped` that it looks into words in base64 (see `glance`), and has no hints;
    `lower` that the pattern is written for the text in lower case, which is faster than a pattern
    that ignores case.
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None = None
    words: bool = False
    digits: int = 0
    wrapped: bool = False
    lower: bool = False
    extent: Callable[[str, re.Match[str]], Span | None] | None = None

    def found(self, text: str) -> Iterator[Span]:
        """Where its secrets stand in a text, in order and apart."""
        group = "secret" if "secret" in self.pattern.groupindex else 0
        last = 0
        for match in self.pattern.finditer(_lower(text) if self.lower else text):
            span: Span | None = match.span(group)
            if self.extent is not None:
                span = self.extent(text, match)
            if span is None:
                continue
            start, end = max(span[0], last), span[1]
            if start < end and (self.check is None or self.check(text[start:end])):
                yield start, end
                last = end

    def finds(self, text: str) -> bool:
        """Does it find anything?"""
        if self.pattern.search(_lower(text) if self.lower else text) is None:
            return False
        return next(self.found(text), None) is not None


@lru_cache(2)  # one text meets several rules
def _lower(text: str) -> str:
    """The text in lower case, of the same length."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(char.lower() if char.isascii() else char for char in text)


def start(word: str) -> str:
    """A pattern for `word` where no word goes on before it: also after an escaped character, or
    after a terminal's colour. It begins with the word itself, for which a search is quick."""
    own = re.escape(word)
    return (
        rf"{own}(?:(?<![A-Za-z0-9_]{own})|(?<=\\[nrtbf]{own})|(?<=\\u[0-9a-fA-F]{{4}}{own})"
        rf"|(?<=%[0-9A-Fa-f]{{2}}{own})|(?<=[\[;0-9][0-9]m{own}))"
    )


BEFORE = start("")
QUOTE = r"(?:\\{0,63}[\"'`]|\\{1,63}u002[27]|%2[27]|&quot;)"
SPACE = r"(?:\s|\\{1,63}[nrt]|%20|\\{1,63}u0020)"
GAP = r"(?:[ \t]|\\{1,63}t|%20){0,8}"
EQUALS = rf"{QUOTE}?{GAP}(?:=>|:=|={{1,3}}|:|%3[DdAa]){GAP}"
VALUE = r"[^\s\"'`,;\\<>]"

_REFERENCE = re.compile(
    r"^(?:\$|%\(|%[A-Za-z_]+%$|@|\{\{|<|\[\[|\*+$|x{3,}|your|placeholder|changeme|change_me|insert[-_]"
    r"|replace[-_]|redacted|none$|null$|true$|false$|undefined$|arn:|op://|vault:|projects/"
    r"|(?:process|os|env|self|config|settings|secrets|var|data|this|ctx|args|options|opts"
    r"|request|req|response|res|user|local|module|each|input|event|params?|st|cls)\??\.[A-Za-z_])"
    r"|\$\{|\$\(|\{\{|\.\.\.|…|\*{3}|[A-Za-z_\])]\("
    r"|^[~.]{0,2}/[\w.-]+(?:/|$)|^https?://[^@]*$",
    re.I,
)
"""A value that says where the secret is, or that there is none."""

_SYMBOL = re.compile(r"[!@#$%^&*+=~?|]")


def real(text: str) -> bool:
    """No reference to a secret, and no placeholder of one."""
    return not _REFERENCE.search(text)


def digit(text: str) -> bool:
    """Has a digit: names with hyphens rarely do, keys nearly always."""
    return any(char.isdecimal() for char in text)


def varied(text: str) -> bool:
    """Looks generated, not written: letters and digits, no code, no variable."""
    return bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text)) and real(text)


def password(text: str) -> bool:
    """Could be a password that stands behind its name: digits, or letters and more."""
    if not real(text) or re.fullmatch(r"[\W_]*", text):
        return False
    return bool(re.search(r"\d", text) or (_SYMBOL.search(text) and re.search(r"\w", text)))


def user_and_password(text: str) -> bool:
    """Is it base64 of `user:password`?"""
    try:
        plain = b64decode(text + "=" * (-len(text) % 4), validate=True).decode()
    except (Error, ValueError):
        return False
    return bool(re.fullmatch(r"[^\s:]*:[^\s]+", plain)) and plain.isprintable()
