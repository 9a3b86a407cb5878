"""May this text be written to disk? Secrets become placeholders before anything is stored.

Pure and idempotent: the same value under the same key always gives the same placeholder, so equal
secrets stay equal (a replay or a diff still works), and a placeholder is never masked again.
Names, postal addresses and free prose are not recognised by any rule here.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from replay.trace import Json

PLACEHOLDER = re.compile(r"\[\[SECRET:[a-z0-9_]+:[0-9a-f]{8}\]\]")


class Rule(Struct, frozen=True):
    """A name, the pattern (group `secret` is what is masked, else the whole match), a check."""

    name: str
    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None = None


def luhn(text: str) -> bool:
    """Does the digit string pass the checksum that payment cards carry?"""
    digits = [int(char) for char in text if char.isdigit()]
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2]]
    return sum(digits[-1::-2], sum(doubled)) % 10 == 0


def _varied(text: str) -> bool:
    """Looks generated, not written: no code, no variable, and more than one class of character."""
    if re.search(r"[(){}<>$\s]|\.\.\.|^(true|false|none|null|your|xxx|changeme)", text, re.I):
        return False
    return bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text))


def _rule(name: str, pattern: str, check: Callable[[str], bool] | None = None) -> Rule:
    return Rule(name, re.compile(pattern), check)


RULES: tuple[Rule, ...] = (
    _rule(
        "private_key",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    ),
    _rule("anthropic_key", r"\bsk-ant-[A-Za-z0-9_-]{16,}"),
    _rule("openai_key", r"\bsk-(?:proj-|svcacct-|or-v1-)?(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}"),
    _rule("github_token", r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{22,}"),
    _rule("gitlab_token", r"\bgl(?:pat|dt|rt|cbt|ptt|agent)-[A-Za-z0-9_-]{20,}"),
    _rule("aws_access_key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    _rule(
        "aws_secret_key",
        r"(?i)aws.{0,20}?secret.{0,20}?[\"'=:\s]{1,5}(?P<secret>[A-Za-z0-9/+=]{40})(?![A-Za-z0-9/+=])",
    ),
    _rule("google_key", r"\bAIza[A-Za-z0-9_-]{35}"),
    _rule("google_oauth", r"\bya29\.[A-Za-z0-9_-]{20,}|\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    _rule("slack_token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{10,}"),
    _rule("slack_webhook", r"https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    _rule("stripe_key", r"\b(?:sk|rk|whsec)_(?:(?:live|test)_)?[A-Za-z0-9]{20,}"),
    _rule("huggingface_token", r"\bhf_[A-Za-z0-9]{20,}"),
    _rule("npm_token", r"\bnpm_[A-Za-z0-9]{36}"),
    _rule("pypi_token", r"\bpypi-AgE[A-Za-z0-9_-]{20,}"),
    _rule("sendgrid_key", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _rule("telegram_token", r"\b\d{8,10}:AA[A-Za-z0-9_-]{33}"),
    _rule("jwt", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    _rule("bearer", r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/=-]{16,})", _varied),
    _rule("basic_auth", r"(?i)\bauthorization:\s*basic\s+(?P<secret>[A-Za-z0-9+/=]{8,})"),
    _rule("url_password", r"\b[a-z][a-z0-9+.-]{1,15}://[^\s:/@]{1,64}:(?P<secret>[^\s:/@]{3,})@"),
    _rule(
        "assigned",
        r"(?i)\b[a-z0-9_]*(?:api_?key|access_?key|secret(?:_?key)?|auth_?token|access_?token|passw(?:or)?d)"
        r"[\"']?\s{0,3}[=:]\s{0,3}[\"']?(?P<secret>[^\s\"'`,;\\]{8,200})",
        _varied,
    ),
    _rule(
        "payment_card",
        r"(?<![\w.-])(?:4\d{3}|5[1-5]\d{2}|3[47]\d{2}|6011)(?:[ -]?\d{4}){2}[ -]?\d{3,4}(?![\w.-])",
        luhn,
    ),
)

DENIED_KEYS = frozenset(
    {"apikey", "xapikey", "authorization", "proxyauthorization", "cookie", "setcookie"}
    | {"password", "passwd", "secret", "secretkey", "clientsecret", "privatekey"}
    | {"accesstoken", "refreshtoken", "idtoken", "authtoken", "bearertoken", "sessiontoken"}
    | {"awssecretaccesskey", "awssessiontoken", "githubtoken"}
)
"""JSON keys (letters only, lower case) whose text value is masked whole."""

_HINTS = re.compile(
    r"(?i)PRIVATE KEY|sk-|gh[pousr]_|github_pat|gl[a-z]{2,5}-|A[KSBC]IA|ACCA|secret"
    r"|AIza|ya29|GOCSPX|xox|xapp-|hooks\.slack|[sr]k_|whsec|hf_|npm_|pypi-|SG\.|:AA|eyJ"
    r"|bearer|basic |://[^\s/]*@"
    r"|api_?-?key|access_?-?key|auth_?-?token|access_?-?token|passw|cookie|authorization"
    r"|(?:id|refresh|session|bearer|github)_?-?token|private_?-?key|(?:\d[ -]?){13}"
)
"""Cheap test that clears nearly every text; whatever a rule or a denied key can match hits it."""


class Redactor:
    """The rules under one database's key. `rules` come after the built-in ones."""

    def __init__(self, key: bytes, rules: tuple[Rule, ...] = ()) -> None:
        self._key = key
        self._rules = RULES + rules
        self._always = bool(rules)

    def placeholder(self, rule: str, value: str) -> str:
        """`[[SECRET:<rule>:<8 hex>]]`, the hex from an HMAC of the value under the key."""
        mark = hmac.new(self._key, value.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
        return f"[[SECRET:{rule}:{mark[:8]}]]"

    def text(self, text: str) -> str:
        """`text` with every secret masked, also inside JSON that the text holds."""
        if not self._always and not _HINTS.search(text):
            return text
        if text[:1] in "{[" and text.rstrip()[-1:] in "}]":
            inner = self._json_text(text)
            if inner is not None:
                return inner
        for rule in self._rules:
            text = rule.pattern.sub(partial(self._mask, rule), text)
        return text

    def _json_text(self, text: str) -> str | None:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return None
        masked = self.value(value)
        return text if masked == value else msgspec.json.encode(masked).decode()

    def _mask(self, rule: Rule, match: re.Match[str]) -> str:
        whole = match.group()
        named = "secret" in rule.pattern.groupindex
        secret = match.group("secret") if named else whole
        if "[[SECRET:" in secret or (rule.check is not None and not rule.check(secret)):
            return whole
        mark = self.placeholder(rule.name, secret)
        if not named:
            return mark
        start = match.start("secret") - match.start()
        return whole[:start] + mark + whole[start + len(secret) :]

    def value(self, value: Json) -> Json:
        """`value` with every string leaf masked; the same object where nothing was found."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, (list, tuple)):
            masked = [self.value(entry) for entry in value]
            unchanged = all(new is old for new, old in zip(masked, value, strict=True))
            return value if unchanged else masked
        return value

    def _mapping(self, value: dict[str, Any]) -> dict[str, Any]:
        masked = {name: self._entry(name, entry) for name, entry in value.items()}
        unchanged = all(masked[name] is entry for name, entry in value.items())
        return value if unchanged else masked

    def _entry(self, name: str, entry: Json) -> Json:
        if isinstance(entry, str) and entry and denied(name):
            return entry if PLACEHOLDER.fullmatch(entry) else self.placeholder("key", entry)
        return self.value(entry)


def denied(name: str) -> bool:
    """Is this JSON key one whose text value is never kept?"""
    return re.sub(r"[^a-z]", "", name.lower()) in DENIED_KEYS


def clear(encoded: bytes) -> bool:
    """Can this JSON text be stored as it is without looking closer? False means: look closer."""
    return _HINTS.search(encoded.decode("utf-8", "replace")) is None


def masked_count(encoded: str) -> int:
    """How many placeholders a stored text holds."""
    return len(PLACEHOLDER.findall(encoded))
