"""What a rule for secrets is, and the rules that people add to the built-in ones.

The pieces that patterns are made of, what tells a secret from its like, names of fields whose
value is never kept, and which patterns of a person are taken and why others are not.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from msgspec import Struct

from replay.errors import ArcError
from replay.patterns import Pattern, Unusable

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


PIECE = 1_000
"""Characters that a pattern of a person meets at once."""

OVERLAP = 250
"""Characters that a piece and the next have in common."""

WAYS = 100_000
"""Ways that the repeats and choices of one pattern may share out a piece between them."""


class BadPattern(ArcError):
    """A pattern that cannot be used."""


class OwnRule(Rule, frozen=True):
    """A rule that meets a text in pieces."""

    def finds(self, text: str) -> bool:
        return next(self.found(text), None) is not None

    def found(self, text: str) -> Iterator[Span]:
        group = "secret" if "secret" in self.pattern.groupindex else 0
        for line in re.finditer(r"[^\n]+", text):
            at, last = line.start(), line.start()
            while at < line.end():
                stop = min(at + PIECE, line.end())
                following = stop if stop == line.end() else stop - OVERLAP
                for match in self.pattern.finditer(text, at, stop):
                    if match.end() == stop < line.end() and match.start() > following:
                        break  # it may go on: the next piece has all of it
                    start, end = match.span(group)
                    if last <= start < end:
                        yield start, end
                        last = end
                    following = max(following, match.end())
                at = following


def rule(name: str, pattern: str) -> Rule:
    """A rule of that name for a pattern; its group `secret` is what is masked, else all of it.

    Raises BadPattern.
    """
    if not re.fullmatch(r"[a-z0-9_]+", name):
        raise BadPattern(
            f"{name!r} is not a valid rule name", "Try: lower-case letters, digits and _ only"
        )
    try:
        found = Pattern(pattern)
    except Unusable as error:
        raise BadPattern(f"{name} {error}", error.hint) from error
    if found.narrowest == 0:
        raise BadPattern(
            f"{name} matches the empty string", "Try: start it with a required character"
        )
    if found.ways(PIECE) > WAYS:
        raise BadPattern(
            f"{name} has too many unbounded repeats side by side",
            "Try: bounded repeats, {0,8} for *, {1,64} for +",
        )
    return OwnRule(name, (), found.compiled)


def rules(patterns: Mapping[str, str]) -> tuple[Rule, ...]:
    """A rule for each pattern by its name. Raises BadPattern."""
    return tuple(rule(name, pattern) for name, pattern in patterns.items())


class Policy(Struct, frozen=True, kw_only=True):
    """Rules and names beside the built-in ones, and texts that are never masked."""

    rules: tuple[Rule, ...] = ()
    keys: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


NONE = Policy()
"""Nothing is added to the built-in rules."""


DENIED_KEYS = frozenset(
    {"apikey", "xapikey", "authorization", "proxyauthorization", "cookie", "setcookie"}
    | {"password", "passwd", "secret", "secretkey", "clientsecret", "privatekey"}
    | {"accesstoken", "refreshtoken", "idtoken", "authtoken", "bearertoken", "sessiontoken"}
    | {"awssecretaccesskey", "awssessiontoken", "githubtoken", "passphrase", "apitoken"}
    | {"secretaccesskey", "accountkey", "signingkey", "encryptionkey", "subscriptionkey"}
    | {"privatetoken", "sharedaccesskey", "securitytoken", "dockerconfigjson"}
)
"""JSON keys (letters only, lower case) whose text value is masked whole."""

_DENIED_ENDS = tuple(sorted(DENIED_KEYS))
"""A key that ends so is denied where its value could be a secret: one word, no reference."""

HEADERS = frozenset(
    {"authorization", "proxyauthorization", "cookie", "setcookie", "xapikey", "apikey"}
    | {"xauthtoken", "privatetoken", "xgoogapikey", "xgitlabtoken", "xvaulttoken"}
)
"""Names that are a header's even as the first of two texts in a list."""

PAIRS = (("name", "value"), ("key", "value"), ("header", "value"), ("Name", "Value"))
"""How an object says a name and its value."""

SECRET_DATA = frozenset({"data", "stringData"})
"""Where a Secret of Kubernetes has what nobody may see."""

LONGEST = 100
"""A name of more characters is none."""

_TYPES = frozenset({"string", "str", "text", "password", "secret", "hidden", "required", "token"})


class Names:
    """Which names are denied: the usual ones and those of a person, written in letters only."""

    def __init__(self, more: frozenset[str] = frozenset()) -> None:
        self._exact = DENIED_KEYS | more
        self._ends = (*_DENIED_ENDS, *sorted(more))
        self._more = more
        self.rank = lru_cache(8192)(self._rank)

    def _rank(self, name: str) -> int:
        letters = plain(name) if len(name) <= LONGEST else ""
        if letters in self._exact:
            return 2
        return 1 if letters.endswith(self._ends) else 0

    def denies(self, name: str, value: str) -> bool:
        """Is this text, under this name, never kept?"""
        rank = self.rank(name)
        if rank == 2 or (name in ("auth", "_auth") and user_and_password(value)):
            return True
        return rank == 1 and len(value) >= 3 and not re.search(r"\s", value) and (
            real(value) and value.lower() not in _TYPES
        )  # fmt: skip

    def rules(self) -> tuple[Rule, ...]:
        """What finds one of them in a JSON text as a key, also in JSON that stands escaped in it:
        for looking only, what stands behind is not looked at."""
        return (
            *(self._ending(*each) for each in _ENDINGS),
            Rule("key", ("secret",), _SECRET_KIND, lower=True),
            *(self._ending(_NO_LETTERS.join(name), ()) for name in sorted(self._more)),
        )

    def _ending(self, ending: str, hints: tuple[str, ...]) -> Rule:
        pattern = re.compile(ending + r"[^a-z\"]*+\"")
        return Rule("key", hints, pattern, lower=True, extent=self._whole)

    def _whole(self, text: str, match: re.Match[str]) -> Span | None:
        name = plain(text[max(match.start() - LONGEST, 0) : match.end()])
        return match.span() if name.endswith(self._ends) else None


_SECRET_KIND = re.compile(r"kind[\\\"']*\s*:\s*[\\\"']*secret(?![a-z])")
_NO_LETTERS = r'[^a-z"]*+'

_ENDINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("key", ("key",)),
    ("token", ("token",)),
    ("secret", ("secret",)),
    ("pass(?:word|wd|phrase)", ("pass",)),
    ("authorization", ("auth",)),
    ("cookie", ("cookie",)),
    ("dockerconfigjson", ("dockerconfigjson",)),
)
"""How such keys end. What stands between their letters, as in `api_key`, is looked at last."""


def plain(name: str) -> str:
    """A name in lower case, its letters only."""
    return re.sub(r"[^a-z]", "", name.lower())


def denied(name: str) -> bool:
    """Is this JSON key one whose text value is never kept?"""
    return plain(name) in DENIED_KEYS
