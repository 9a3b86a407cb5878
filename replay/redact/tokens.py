"""Secrets with a shape of their own: keys by their makers' forms, private keys, numbers with a
checksum.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterable

from replay.redact.rules import QUOTE, SPACE, Rule, Span, digit, start, varied
from replay.redact.text import WRAPPED

_ANY = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"


def _token(name: str, *shapes: tuple[str, str]) -> Rule:
    """A key that begins with one of some literal texts, each with the pattern of what follows."""
    pattern = "|".join(f"{start(begin)}{rest}" for begin, rest in shapes)
    hints = tuple(dict.fromkeys(begin.lower() for begin, _ in shapes))
    return Rule(name, hints, re.compile(pattern), words=True)


def _tokens(name: str, begins: str, rest: str) -> Rule:
    return _token(name, *((begin, rest) for begin in begins.split()))


def _is_jwt(text: str) -> bool:
    parts = text.split(".")
    return len(parts) >= 3 or (len(parts) == 2 and parts[1].startswith("eyJ"))


def _grown(text: str, match: re.Match[str], least: int, most: int, more: str = "") -> Span | None:
    """A match with the word right before it, where that is of a length between the two."""
    start = match.start()
    while start and (text[start - 1].isalnum() or text[start - 1] in more):
        start -= 1
        if match.start() - start > most:
            return None
    return (start, match.end()) if match.start() - start >= least else None


def _with_number(text: str, match: re.Match[str]) -> Span | None:
    own = re.search(r"[0-9]{8,10}\Z", text[max(match.start() - 10, 0) : match.start()])
    return (match.start() - len(own.group()), match.end()) if own is not None else None


def _with_word(text: str, match: re.Match[str]) -> Span | None:
    return _grown(text, match, 14, 40)


def _with_four(text: str, match: re.Match[str]) -> Span | None:
    return (
        (match.start() - 4, match.end())
        if match.start() >= 4 and text[match.start() - 1].isdigit()
        else None
    )


def _with_id(text: str, match: re.Match[str]) -> Span | None:
    """With what stands before it, where that is base64 of a number: the bot's id."""
    begin = max(match.start() - 28, 0)
    for first in re.finditer("[MNO]", text[begin : match.start() - 21]):
        start = begin + first.start()
        try:
            number = b64decode(text[start : match.start()] + "==", validate=True)
        except (Error, ValueError):
            continue
        if number.isdigit():
            return start, match.end()
    return None


_MOST_WRAPPED = 8192
"""A longer text in base64 is a file, and its secrets are not looked for."""


def wrapped(rules: Callable[[str], Iterable[Rule]]) -> Rule:
    """A secret in base64, as a Secret of Kubernetes holds it; `rules` are those to look with."""

    def check(text: str) -> bool:
        plain = _plain(text[:WRAPPED]) and _plain(text)
        return bool(plain) and any(rule.finds(plain) for rule in rules(plain))

    pattern = re.compile(
        f"(?<![A-Za-z0-9+/_=-])[A-Za-f][A-Za-z0-9+/]{{{WRAPPED - 1},{_MOST_WRAPPED}}}"
        "={0,2}(?![A-Za-z0-9+/])"
    )
    return Rule("base64", (), pattern, check, wrapped=True)


def _plain(text: str) -> str:
    """What a text in base64 says, "" where that is none."""
    try:
        said = b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)).decode("ascii")
    except (Error, ValueError):
        return ""
    return said if said.isprintable() or not re.search(r"[^\s!-~]", said) else ""


TOKENS: tuple[Rule, ...] = (
    _token("anthropic_key", ("sk-ant-", f"{_ANY}{{16,}}")),
    _token("langfuse_key", ("sk-lf-", "[0-9a-f-]{36}")),
    Rule("openai_key", ("sk-",), re.compile(f"{start('sk-')}{_ANY}{{20,}}"), digit, words=True),
    _tokens("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", f"{_ALNUM}{{30,}}"),
    _token("github_token", ("github_pat_", f"{_ANY}{{22,}}")),
    _tokens(
        "gitlab_token",
        "glpat- gldt- glrt- glcbt- glptt- glagent- gloas- glft- glsoat- glimt- glffct-",
        f"{_ANY}{{20,}}",
    ),
    _tokens("aws_access_key", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _token("google_key", ("AIza", f"{_ANY}{{35}}")),
    _tokens("google_oauth", "ya29. GOCSPX-", f"{_ANY}{{20,}}"),
    Rule("google_oauth", ("//",), re.compile(f"{start('1//0')}{_ANY}{{30,}}")),
    _token(
        "slack_token",
        ("xox", r"[abceoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{14,}"),
        ("xapp-", "[0-9]-[A-Za-z0-9-]{12,}"),
    ),
    _tokens(
        "stripe_key",
        "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_",
        f"{_ALNUM}{{16,}}",
    ),
    _tokens("huggingface_token", "hf_ api_org_", f"{_ALNUM}{{20,}}"),
    _token("npm_token", ("npm_", f"{_ALNUM}{{36}}")),
    _token("pypi_token", ("pypi-AgE", f"{_ANY}{{20,}}")),
    _token("sendgrid_key", ("SG.", rf"{_ANY}{{16,100}}\.{_ANY}{{16,100}}")),
    Rule(
        "telegram_token", (" aa",), re.compile(rf":AA{_ANY}{{33}}"), extent=_with_number, words=True
    ),
    Rule(
        "jwt",
        ("eyj",),
        # The whole run is consumed, dots or not: nothing within it is looked at again.
        re.compile(rf"{start('eyJ')}(?<!-eyJ){_ANY}{{8,}}(?:\.{_ANY}+){{0,4}}"),
        _is_jwt,
        words=True,
    ),
    _token("groq_key", ("gsk_", f"{_ALNUM}{{30,}}")),
    _token("xai_key", ("xai-", f"{_ALNUM}{{40,}}")),
    _token("perplexity_key", ("pplx-", f"{_ALNUM}{{40,}}")),
    _token("replicate_token", ("r8_", f"{_ALNUM}{{30,}}")),
    _token("nvidia_key", ("nvapi-", f"{_ANY}{{40,}}")),
    _tokens("langsmith_key", "lsv2_pt_ lsv2_sk_", "[A-Za-z0-9_]{32,}"),
    _token("tavily_key", ("tvly-", f"{_ANY}{{20,}}")),
    _token("e2b_key", ("e2b_", "[0-9a-f]{40}")),
    _token("pinecone_key", ("pcsk_", "[A-Za-z0-9_]{40,}")),
    _tokens("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", "[0-9a-f]{64}"),
    _token("doppler_token", ("dp.", rf"[a-z]{{2,5}}\.(?:[a-z0-9_-]{{1,40}}\.)?{_ALNUM}{{40,}}")),
    _token("databricks_token", ("dapi", r"[0-9a-f]{32}(?:-\d)?")),
    _tokens("shopify_token", "shpat_ shpca_ shppa_ shpss_", "[0-9a-fA-F]{32}"),
    _tokens("linear_key", "lin_api_ lin_oauth_", f"{_ALNUM}{{32,}}"),
    _token("notion_token", ("ntn_", f"{_ALNUM}{{40,}}")),
    _tokens("figma_token", "figd_ figp_ figo_ figu_ figr_", f"{_ANY}{{36,}}"),
    _token("postman_key", ("PMAK-", "[0-9a-f]{24}-[0-9a-f]{34}")),
    _tokens("grafana_token", "glc_ glsa_", f"{_ANY}{{32,}}"),
    _tokens("newrelic_key", "NRAK- NRII- NRJS-", f"{_ALNUM}{{20,}}"),
    _tokens("sentry_token", "sntrys_ sntryu_", f"{_ANY}{{40,}}"),
    _tokens("vault_token", "hvs. hvb. hvr.", f"{_ANY}{{24,}}"),
    Rule(
        "terraform_token",
        (".atlasv1.",),
        re.compile(rf"\.atlasv1\.{_ANY}{{60,}}"),
        extent=_with_word,
        words=True,
    ),
    _tokens("docker_token", "dckr_pat_ dckr_oat_", f"{_ANY}{{20,}}"),
    _token("atlassian_token", ("ATATT3", f"{_ANY}{{60,}}=?")),
    _tokens("square_token", "sq0atp- sq0csp- sq0idp- EAAA", f"{_ANY}{{22,}}"),
    _token("rubygems_key", ("rubygems_", "[0-9a-f]{48}")),
    _token("onepassword_token", ("ops_", "eyJ[A-Za-z0-9_+/-]{40,}={0,2}")),
    _tokens("cloudflare_token", "cfut_ cfat_ cfk_", f"{_ANY}{{36,}}"),
    Rule(
        "discord_token",
        (".",),
        re.compile(rf"\.{_ANY}{{6}}\.{_ANY}{{27,40}}(?![A-Za-z0-9_.-])"),
        words=True,
        extent=_with_id,
    ),
    _tokens("supabase_key", "sbp_ sb_secret_", f"{_ANY}{{20,}}"),
    _tokens("planetscale_token", "pscale_tkn_ pscale_pw_ pscale_oauth_", f"{_ANY}{{30,}}"),
    _token("mailgun_key", ("key-", "[0-9a-f]{32}(?![0-9a-f])")),
    _token("age_key", ("AGE-SECRET-KEY-1", "[A-Z0-9]{50,}")),
    Rule(
        "azure_client_secret",
        ("q~",),
        re.compile(r"Q~[A-Za-z0-9_~.-]{31,34}"),
        varied,
        extent=_with_four,
        words=True,
    ),
    _token("twilio_key", ("SK", "[0-9a-f]{32}(?![0-9A-Za-z])")),
)
"""Narrower ones before the wider."""


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


def luhn(text: str) -> bool:
    """Does the digit string pass the checksum that payment cards carry?"""
    digits = [int(char) for char in text if char.isdecimal()]
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2]]
    return sum(digits[-1::-2], sum(doubled)) % 10 == 0


def iban(text: str) -> bool:
    """Is it a bank account by its length and its remainder of 97? (ISO 13616)"""
    compact = re.sub(r"[ -]", "", text)
    if IBAN_LENGTHS.get(compact[:2]) != len(compact):
        return False
    turned = compact[4:] + compact[:4]
    return int("".join(str(int(char, 36)) for char in turned)) % 97 == 1


IBAN_LENGTHS = {
    each[:2]: int(each[2:])
    for each in (
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18"
        " DO28 EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23"
        " IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19"
        " MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24"
        " SM27 ST25 SV28 TN24 TR26 UA29 VA22 VG24 XK20"
    ).split()
}
"""How many characters an account has, by country."""

LEAST = 15
"""The shortest card and the shortest account have so many characters."""

_ALONE = r"(?:(?<![\w.-]\d{4})|(?<=\\[nrtbf]\d{4}))"
"""No word and no number goes on before the four digits that were read."""

NUMBERS: tuple[Rule, ...] = (
    Rule(
        "payment_card",
        ("0" * 15, "0000-0000-0000-0", "0000-000000-0000"),
        # What stands before is looked at last: a pattern that begins with digits is found faster.
        re.compile(
            rf"(?:4\d{{3}}|5[1-5]\d\d|2[2-7]\d\d|6011|65\d\d|35[2-8]\d){_ALONE}"
            r"(?:(?:[ -]\d{4}){3}|\d{11,12})(?![\w.-])"
            rf"|3[47]\d\d{_ALONE}(?:[ -]\d{{6}}[ -]\d{{5}}|\d{{11}})(?![\w.-])"
        ),
        luhn,
        digits=LEAST,
    ),
    Rule(
        "iban",
        ("AA00",),
        re.compile(
            r"[A-Z]{2}\d{2}(?:(?<![\w.-][A-Z]{2}\d{2})|(?<=\\[nrtbf][A-Z]{2}\d{2}))"
            r"(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
        ),
        iban,
        digits=LEAST,
    ),
)
