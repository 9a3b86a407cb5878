"""Names whose value is never kept, whatever it is: in JSON, and in pairs of name and value."""

from __future__ import annotations

import re
from functools import lru_cache

from replay.redact.rule import Rule, Span, real, user_and_password

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
