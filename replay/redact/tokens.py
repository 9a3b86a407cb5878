"""Keys that their makers gave a shape of its own: found wherever they stand."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterable

from replay.redact.glance import WRAPPED
from replay.redact.rule import Rule, Span, digit, start, varied

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
