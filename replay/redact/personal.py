"""What tells who somebody is: addresses of mail and machines, numbers of telephones and of persons.

Asked for, not usual: an agent's work may be about these. Known are numbers of telephones that begin
with + or are written as in North America, US social security numbers, and public IP addresses.
What is nobody's survives: domains and numbers kept for examples, mail that nobody reads,
addresses within a network and of well-known name servers, and what is rather a version (1.2.3.4).
"""

from __future__ import annotations

import re
from ipaddress import ip_address

from replay.redact.rules import Rule, Span

_DOMAINS = frozenset(
    "com org net edu gov mil int info biz name pro mobi aero coop museum jobs travel cat post tel"
    " app dev cloud online site tech store shop blog email xyz live life today world group company"
    " agency digital global health bank law club page work team chat space wiki systems network"
    " solutions services media news studio design consulting international".split()
)
"""Ends of addresses besides those of countries, which have two letters."""

_NOBODY = re.compile(
    r"(?:(?:no-?reply|do-?not-?reply|git|root|mailer-daemon)@"
    r"|[^@]*@(?:[\w.-]+\.)?(?:example\.(?:com|org|net|edu)|(?:[\w-]+\.)*(?:example|test|invalid))\Z"
    r"|[^@]*@users\.noreply\.github\.com\Z)",
    re.I,
)
_SAID = "._%+'-"
_LONGEST = 64


def _mail(text: str, match: re.Match[str]) -> Span | None:
    """An address to the begin of its name."""
    begin = match.start()
    while begin and (text[begin - 1].isalnum() or text[begin - 1] in _SAID):
        begin -= 1
        if match.start() - begin > _LONGEST:
            return None
    begin = _behind_escape(text, begin)
    while begin < match.start() and not text[begin].isalnum():
        begin += 1
    ends = match["end"].lower()
    known = begin < match.start() and (len(ends) == 2 or ends in _DOMAINS)
    return (begin, match.end()) if known else None


def _behind_escape(text: str, begin: int) -> int:
    """What stands behind a backslash there is a line break, a tab or a number, and no letter."""
    if not begin or text[begin - 1] != "\\":
        return begin
    escape = re.compile(r"u[0-9a-fA-F]{4}|[nrtbf]").match(text, begin)
    return escape.end() if escape else begin


def _somebody(text: str) -> bool:
    return not _NOBODY.match(text.replace("%40", "@"))


_COUNTRIES = re.compile(
    r"(?:1|7|20|27|3[0-469]|4[0-1]|4[3-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|2[1-69]\d|3[578]\d|42[013]"
    r"|5[09]\d|6[7-9]\d|8[058]\d|9[679]\d)"
)


def _telephone(text: str) -> bool:
    """Can it be dialled, and is it no number kept for examples (555-0100 to 555-0199)?"""
    digits = re.sub(r"\D", "", text)
    if text.startswith("+") and not _COUNTRIES.match(digits):
        return False
    if len(digits) == 11 and digits[0] == "1":
        digits = digits[1:]
    elif text.startswith("+"):
        return 9 <= len(digits) <= 15 and digits[0] != "1" and len(set(digits[2:])) > 1
    ours = re.fullmatch(r"[2-9]\d\d([2-9]\d\d)\d{4}", digits)
    return ours is not None and not re.fullmatch(r"\d{3}55501\d\d", digits)


def _person(text: str) -> bool:
    area, group, serial = text.split("-")
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


_SMALL = 32
"""Four numbers below it are taken for a version: of all addresses, one in 4 096 is so."""

_SERVERS = frozenset({"8.8.8.8", "8.8.4.4", "9.9.9.9", "208.67.222.222", "208.67.220.220"})
_VERSION = re.compile(
    r"(?i)(?:\bver(?:sion)?|release|build|rev|[=~<>]=|[\^~]|[\w.]/)[\s:\"'=]{0,4}\Z"
)


def _public(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if address.version == 4 and all(int(part) < _SMALL for part in text.split(".")):
        return False
    return address.is_global and not address.is_multicast and text not in _SERVERS


def _machine(text: str, match: re.Match[str]) -> Span | None:
    """An address that is not said to be a version."""
    before = text[max(match.start() - 24, 0) : match.start()]
    return None if _VERSION.search(before) and not before.endswith("//") else match.span()


_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})"
_OPEN = (
    r"(?:(?<![\w.@/+-])(?<!\d,)|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=[\[;0-9][0-9]m)"
    r"|(?<=%[0-9a-fA-F]{2}))"
)
"""No word and no number goes on there; an escaped character may end."""

_PART = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"

PERSONAL: tuple[Rule, ...] = (
    Rule(
        "email",
        ("@", "%40"),
        re.compile(rf"(?:@|%40)(?:{_LABEL}\.){{1,8}}(?P<end>[A-Za-z]{{2,24}})(?![\w(@])(?!-\w)"),
        _somebody,
        extent=_mail,
    ),
    Rule(
        "phone",
        ("+",),
        re.compile(rf"{_OPEN}\+[1-9]\d{{0,3}}(?:[ .-]?\(?\d++\)?+){{1,6}}+(?![\w+])(?!\.\d)"),
        _telephone,
    ),
    Rule(
        "phone",
        ("000-000-0000", "000a000a0000", "000a-000-0000"),
        re.compile(
            rf"{_OPEN}(?:1[ .-])?(?:\(\d{{3}}\)[ -]?\d{{3}}[ .-]|\d{{3}} \d{{3}}-"
            r"|\d{3}(?P<gap>[.-])\d{3}(?P=gap))\d{4}(?![\w-])(?!\.\d)"
        ),
        _telephone,
        digits=3,
    ),
    Rule(
        "ssn",
        ("000-00-0000",),
        re.compile(rf"{_OPEN}\d{{3}}-\d\d-\d{{4}}(?![\w-])(?!\.\d)"),
        _person,
        digits=9,
    ),
    Rule(
        "ip_address",
        ("0a0",),
        re.compile(rf"{_OPEN[:-1]}|(?<=//)|(?<=\w@))(?:{_PART}\.){{3}}{_PART}(?![\w-])(?!\.\d)"),
        _public,
        digits=1,
        extent=_machine,
    ),
    Rule(
        "ip_address",
        (":",),
        re.compile(
            rf"{_OPEN}(?<![0-9a-fA-F]:)[23][0-9a-fA-F]{{3}}:(?:[0-9a-fA-F]{{0,4}}:){{2,6}}"
            r"[0-9a-fA-F]{0,4}(?![\w:])"
        ),
        _public,
    ),
)
"""After all others: what is a secret is masked as one."""
