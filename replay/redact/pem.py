"""Private keys as text: whole, cut at either end, or in base64 once more."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error

from replay.redact.rule import QUOTE, SPACE, Rule, Span

_END = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LINES = re.compile(
    rf"(?:{SPACE}|{QUOTE}|[+,|>]|(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\-]{{0,100}}+)*+"
    rf"(?:[A-Za-z0-9+/=]{{16,}}(?:{SPACE}|{QUOTE}|[+,|])*+)++[A-Za-z0-9+/=]*+"
)
_CODE = re.compile(r"[(){};$]")
_BODY = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\ \r\n\t")


def _from_its_begin(text: str, match: re.Match[str]) -> Span | None:
    """A key to its end; where the end is missing, as far as its lines go."""
    start, body = match.span()
    following = text.find("-----BEGIN ", body)
    end = _END.search(text, body, following if following >= 0 else len(text))
    if end is not None and end.start() - body > 4 and not _CODE.search(text, body, end.start()):
        return start, end.end()
    lines = _LINES.match(text, body)
    return (start, lines.end()) if lines is not None else None


def _to_its_end(text: str, match: re.Match[str]) -> Span | None:
    """The last lines of a key whose begin is missing."""
    start = match.start()
    while start and text[start - 1] in _BODY:
        start -= 1
    body = text[start : match.start()]
    lines = re.search(r"[A-Za-z0-9+/=]{16,}", body)
    return (start + lines.start(), match.end()) if lines is not None else None


def _encoded(text: str) -> bool:
    try:
        plain = b64decode(text[: min(len(text), 80) // 4 * 4])
    except (Error, ValueError):
        return False
    return b"PRIVATE KEY" in plain


KEYS: tuple[Rule, ...] = (
    Rule(
        "private_key",
        ("key",),
        re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"),
        extent=_from_its_begin,
    ),
    Rule("private_key", ("key",), _END, extent=_to_its_end),
    Rule(
        "private_key",
        ("ls0tls1crudjti",),
        re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{20,}"),
        _encoded,
        words=True,
    ),
    Rule(
        "private_key",
        ("b3blbnnzac1rzxktdje",),
        re.compile(r"b3BlbnNzaC1rZXktdjE(?:[A-Za-z0-9+/=]|\s|\\{1,63}n)+"),
        words=True,
    ),
    Rule(
        "private_key",
        ("key",),
        re.compile(
            r"Private-Lines: \d{1,3}(?P<secret>(?:(?:\s|\\{1,63}[nr])+[A-Za-z0-9+/=]{16,})+)"
        ),
    ),
)
