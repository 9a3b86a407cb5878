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
from operator import is_not

import msgspec
from msgspec import Struct

from replay.trace import Json

PLACEHOLDER = re.compile(r"\[\[SECRET:[a-z0-9_]+:[0-9a-f]{8}\]\]")
_MARK = "[[SECRET:"
_HOLDERS = (dict, list, tuple)


class Rule(Struct, frozen=True):
    """A kind of secret.

    `pattern` finds it (its group `secret` is what is masked, else the whole match), `check` has
    the last word. `hints` are lower-case texts of which one occurs wherever the pattern can match:
    looking for them clears nearly every text without running a pattern; () runs it always.
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None = None


def luhn(text: str) -> bool:
    """Does the digit string pass the checksum that payment cards carry?"""
    digits = [int(char) for char in text if char.isdecimal()]
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2]]
    return sum(digits[-1::-2], sum(doubled)) % 10 == 0


def _varied(text: str) -> bool:
    """Looks generated, not written: no code, no variable, and more than one class of character."""
    if re.search(r"[(){}<>$\s]|\.\.\.|^(true|false|none|null|your|xxx|changeme)", text, re.I):
        return False
    return bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text))


_ASSIGNED = ("api_key", "apikey", "api-key", "access_key", "accesskey", "secret", "auth_token",
             "authtoken", "access_token", "accesstoken", "passw")  # fmt: skip

RULES: tuple[Rule, ...] = (
    Rule(
        "private_key",
        ("private key-----",),
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
        ),
    ),
    Rule("anthropic_key", ("sk-ant-",), re.compile(r"\bsk-ant-[A-Za-z0-9_-]{16,}")),
    Rule(
        "openai_key",
        ("sk-",),
        re.compile(r"\bsk-(?:proj-|svcacct-|or-v1-)?(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}"),
    ),
    Rule(
        "github_token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{22,}"),
    ),
    Rule(
        "gitlab_token",
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glagent-"),
        re.compile(r"\bgl(?:pat|dt|rt|cbt|ptt|agent)-[A-Za-z0-9_-]{20,}"),
    ),
    Rule(
        "aws_access_key",
        ("akia", "asia", "abia", "acca"),
        re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ),
    Rule(
        "aws_secret_key",
        ("aws",),
        re.compile(
            r"(?i)aws.{0,20}?secret.{0,20}?[\"'=:\s]{1,5}"
            r"(?P<secret>[A-Za-z0-9/+=]{40})(?![A-Za-z0-9/+=])"
        ),
    ),
    Rule("google_key", ("aiza",), re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    Rule(
        "google_oauth",
        ("ya29.", "gocspx-"),
        re.compile(r"\bya29\.[A-Za-z0-9_-]{20,}|\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    ),
    Rule(
        "slack_token",
        ("xox", "xapp-"),
        re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{10,}"),
    ),
    Rule(
        "slack_webhook",
        ("hooks.slack.com",),
        re.compile(r"https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    ),
    Rule(
        "stripe_key",
        ("sk_", "rk_", "whsec_"),
        re.compile(r"\b(?:(?:sk|rk)_(?:live|test)|whsec)_[A-Za-z0-9]{16,}"),
    ),
    Rule("huggingface_token", ("hf_",), re.compile(r"\bhf_[A-Za-z0-9]{20,}")),
    Rule("npm_token", ("npm_",), re.compile(r"\bnpm_[A-Za-z0-9]{36}")),
    Rule("pypi_token", ("pypi-age",), re.compile(r"\bpypi-AgE[A-Za-z0-9_-]{20,}")),
    Rule("sendgrid_key", ("sg.",), re.compile(r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}")),
    Rule("telegram_token", (":aa",), re.compile(r"\b\d{8,10}:AA[A-Za-z0-9_-]{33}")),
    Rule(
        "jwt",
        ("eyj",),
        re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    ),
    Rule(
        "bearer",
        ("bearer",),
        re.compile(r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/=-]{16,})"),
        _varied,
    ),
    Rule(
        "basic_auth",
        ("authorization",),
        re.compile(r"(?i)\bauthorization:\s*basic\s+(?P<secret>[A-Za-z0-9+/=]{8,})"),
    ),
    Rule("url_password", ("://",), re.compile(r"://[^\s:/@]{1,64}:(?P<secret>[^\s:/@]{3,200})@")),
    Rule(
        "assigned",
        _ASSIGNED,
        re.compile(
            r"(?i)(?:api[_-]?key|access_?key|secret(?:_?key)?|auth_?token|access_?token"
            r"|passw(?:or)?d)[\"']?\s{0,3}[=:]\s{0,3}[\"']?(?P<secret>[^\s\"'`,;\\]{8,200})"
        ),
        _varied,
    ),
    Rule(
        "payment_card",
        (),
        # What stands before is looked at last: a pattern that begins with digits is found faster.
        re.compile(
            r"(?:4\d{3}|5[1-5]\d{2}|3[47]\d{2}|6011)(?<![\w.-]\d{4})"
            r"(?:[ -]?\d{4}){2}[ -]?\d{3,4}(?![\w.-])"
        ),
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

_ENDINGS = tuple(
    (word, re.compile(word + r"[^a-z\"]*\""))
    for word in ("key", "authorization", "cookie", "password", "passwd", "secret", "token")
)
"""What every such key ends with, as a word and where a key may end with it: prose has the words."""


class Redactor:
    """The rules under one database's key. `rules` come after the built-in ones."""

    def __init__(self, key: bytes, rules: tuple[Rule, ...] = ()) -> None:
        self._key = key
        self._rules = RULES + rules
        self._hints = tuple((hint, rule) for rule in self._rules for hint in rule.hints or ("",))

    def placeholder(self, rule: str, value: str) -> str:
        """`[[SECRET:<rule>:<8 hex>]]`, the hex from an HMAC of the value under the key."""
        mark = hmac.new(self._key, value.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
        return f"[[SECRET:{rule}:{mark[:8]}]]"

    def clear(self, encoded: bytes) -> bool:
        """Can this JSON text be stored as it is? Cheap; False only means: look closer."""
        text = encoded.decode("utf-8", "replace")
        lower = text.lower()
        for hint, rule in self._hints:
            if hint in lower and rule.pattern.search(text):
                return False
        for word, ending in _ENDINGS:
            if word in lower and ending.search(lower):
                return not _DENIED.search(lower)
        return True

    def text(self, text: str) -> str:
        """`text` with every secret masked, also inside JSON that the text holds."""
        if text[:1] in "{[" and text.rstrip()[-1:] in "}]":
            inner = self._json_text(text)
            if inner is not None:
                return inner
        lower = text.lower()
        for rule in dict.fromkeys(rule for hint, rule in self._hints if hint in lower):
            text = self._apply(rule, text)
        return text

    def _apply(self, rule: Rule, text: str) -> str:
        mask = partial(self._mask, rule)
        if _MARK not in text:
            return rule.pattern.sub(mask, text)
        # What is masked already is no rule's business: only the text between placeholders is.
        between = [rule.pattern.sub(mask, part) for part in PLACEHOLDER.split(text)]
        kept = [*PLACEHOLDER.findall(text), ""]
        return "".join(part + mark for part, mark in zip(between, kept, strict=True))

    def _json_text(self, text: str) -> str | None:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return None
        masked = self.value(value)
        return text if masked is value else msgspec.json.encode(masked).decode()

    def _mask(self, rule: Rule, match: re.Match[str]) -> str:
        whole = match.group()
        named = "secret" in rule.pattern.groupindex
        secret = match.group("secret") if named else whole
        if rule.check is not None and not rule.check(secret):
            return whole
        mark = self.placeholder(rule.name, secret)
        if not named:
            return mark
        start = match.start("secret") - match.start()
        return whole[:start] + mark + whole[start + len(secret) :]

    def value(self, value: Json) -> Json:
        """`value` with every string leaf masked; the same object where nothing was found."""
        if isinstance(value, str):
            return self._leaf(value)
        # Not by recursion: whatever is to be stored comes by here, however deeply nested.
        holders = [value] if isinstance(value, _HOLDERS) else []
        for holder in holders:  # which grows meanwhile: each stands before what it holds
            inner = holder.values() if isinstance(holder, dict) else holder
            holders += [entry for entry in inner if isinstance(entry, _HOLDERS)]
        masked: dict[int, Json] = {}
        for holder in reversed(holders):
            made = self._held(holder, masked)
            if made is not holder:
                masked[id(holder)] = made
        return masked.get(id(value), value)

    def _held(self, holder: Json, masked: dict[int, Json]) -> Json:
        """A list or an object with its texts masked and what is `masked` in place of what it was;
        the same one where there is neither."""
        if isinstance(holder, dict):
            named = {name: self._entry(name, each, masked) for name, each in holder.items()}
            return named if any(map(is_not, named.values(), holder.values())) else holder
        listed = [self._entry("", each, masked) for each in holder]
        return listed if any(map(is_not, listed, holder)) else holder

    def _entry(self, name: str, entry: Json, masked: dict[int, Json]) -> Json:
        if not isinstance(entry, str):
            return masked.get(id(entry), entry) if isinstance(entry, _HOLDERS) else entry
        if entry and denied(name):
            return entry if PLACEHOLDER.fullmatch(entry) else self.placeholder("key", entry)
        return self._leaf(entry)

    def _leaf(self, text: str) -> str:
        masked = self.text(text)
        return text if masked == text else masked


def denied(name: str) -> bool:
    """Is this JSON key one whose text value is never kept?"""
    return re.sub(r"[^a-z]", "", name.lower()) in DENIED_KEYS


_DENIED = re.compile(
    # a denied name as a JSON key, also inside JSON that stands escaped in a text
    r"(?:" + "|".join('[^a-z"]*'.join(name) for name in sorted(DENIED_KEYS)) + r")[^a-z\"]*\""
)


def masked_count(encoded: str) -> int:
    """How many placeholders a stored text holds."""
    return len(PLACEHOLDER.findall(encoded)) if _MARK in encoded else 0
