"""May this text be written to disk? Secrets become placeholders before anything is stored.

Pure and idempotent: the same value under the same key always gives the same placeholder, so
equal secrets stay equal (a replay or a diff still works), and a placeholder is never masked
again. Names, postal addresses, passwords in prose and keys without a shape or a name are not
recognised by any rule here; numbers that stand as numbers in JSON are where they are payment
cards, or have at least four digits and stand under a name whose value is never kept.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from functools import lru_cache
from operator import is_not

import msgspec

from replay.redact.context import CONTEXT, COOKIES, KUBERNETES
from replay.redact.placeholders import MARK, PLACEHOLDER
from replay.redact.rules import HEADERS, NONE, PAIRS, SECRET_DATA, Names, Policy, Rule, plain
from replay.redact.text import (
    Glance,
    View,
    escaped,
    every,
    joined,
    otherwise,
    unescaped,
    unquoted,
    views,
)
from replay.redact.tokens import KEYS, NUMBERS, TOKENS, wrapped
from replay.trace import Json

_BARE = re.compile(r"(?<=[:\[,\s])(\[\[SECRET:[a-z0-9_]+:[0-9a-f]{8}\]\])(?=\s*[,\]}])")
_HOLDERS = (dict, list, tuple)
_CARDS = range(10**14, 10**16)
"""Numbers with as many digits as a payment card."""
_PASSES = 8
"""A mask may bare what stands beside it; so often a text is looked at again."""

_BARE_RULES = (*KUBERNETES, COOKIES, *KEYS, *TOKENS, *CONTEXT)
_INSIDE, _SHAPED, _DOCUMENTS = Glance(_BARE_RULES), Glance(TOKENS), Glance(KUBERNETES)
RULES: tuple[Rule, ...] = (
    *_BARE_RULES,
    wrapped(lambda text: _INSIDE.rules(text.encode(), text.lower())),
    *NUMBERS,
)


class Redactor:
    """The rules under one database's key, and those of a person after the built-in ones."""

    def __init__(self, key: bytes, policy: Policy = NONE) -> None:
        self._key, self._policy = key, policy
        self._glance = Glance(RULES + policy.rules)
        self._names = Names(frozenset(map(plain, policy.keys)) - {""})
        self._closer = Glance(RULES + policy.rules + self._names.rules())
        self._allowed = frozenset(policy.allow)
        self._name = lru_cache(8192)(self.text)

    def __reduce__(self) -> tuple[type[Redactor], tuple[bytes, Policy]]:
        return Redactor, (self._key, self._policy)

    def placeholder(self, rule: str, value: str) -> str:
        """`[[SECRET:<rule>:<8 hex>]]`, the hex from an HMAC of the value under the key."""
        mark = hmac.new(self._key, value.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
        return f"[[SECRET:{rule}:{mark[:8]}]]"

    def clear(self, encoded: bytes) -> bool:
        """Can this JSON text be stored as it is? Cheap; False only means: look closer."""
        text = encoded.decode("utf-8", "replace")
        for rule in self._closer.rules(encoded, text.lower()):
            if rule.finds(text):
                return False
        return not escaped(text) and self._through(text) is text

    def encoded(self, value: object) -> str:
        """A value as JSON, masked."""
        raw = msgspec.json.encode(value)
        return raw.decode() if self.clear(raw) else self.text(raw.decode())

    def text(self, text: str) -> str:
        """`text` with every secret masked, also inside JSON that the text holds."""
        if text.startswith(("{", "[")) and text.rstrip().endswith(("}", "]")):
            return self._json_text(text)
        return self._plain(text)

    def _plain(self, text: str) -> str:
        masked = self._shown(text)
        if escaped(masked):
            bare = unescaped(masked)
            found = self._shown(bare)
            if found != bare:
                return found
        return masked

    def _shown(self, text: str) -> str:
        for _ in range(_PASSES):
            masked = self._once(self._through(text))
            if masked == text:
                break
            text = masked
        return text

    def _through(self, text: str) -> str:
        """The text without the secrets that only another view of it shows."""
        document = unquoted(text)
        if document is not None:
            text = self._seen(text, document, _DOCUMENTS)
        if not otherwise(text):
            return text
        for view in views(text):
            text = self._seen(text, view, self._glance)
        line = joined(text)
        return text if line is None else self._seen(text, line, _SHAPED)

    def _seen(self, text: str, view: View, glance: Glance) -> str:
        """The text with what rules find in a view of it masked, where it is written otherwise."""
        spans: list[tuple[int, int, str, str]] = []
        for rule in glance.rules(view.text.encode("utf-8", "replace"), view.text.lower()):
            for start, end in rule.found(view.text):
                place, secret = view.written(start, end), view.text[start:end]
                if place is not None and secret not in self._allowed and MARK not in secret:
                    spans.append((*place, rule.name, secret))
        parts, at = list[str](), 0
        for start, end, name, secret in sorted(spans):
            if start >= at:
                parts += [text[at:start], self.placeholder(name, secret)]
                at = end
        return "".join([*parts, text[at:]]) if parts else text

    def _once(self, text: str) -> str:
        for rule in self._glance.rules(text.encode("utf-8", "replace"), text.lower()):
            text = self._apply(rule, text)
        return text

    def _apply(self, rule: Rule, text: str) -> str:
        if MARK not in text:
            return self._mask(rule, text)
        # What is masked already is no rule's business: only the text between placeholders is.
        between = [self._mask(rule, part) for part in PLACEHOLDER.split(text)]
        kept = [*PLACEHOLDER.findall(text), ""]
        return "".join(part + mark for part, mark in zip(between, kept, strict=True))

    def _mask(self, rule: Rule, text: str) -> str:
        parts, at = list[str](), 0
        for start, end in rule.found(text):
            secret = text[start:end]
            if secret not in self._allowed:
                parts += [text[at:start], self.placeholder(rule.name, secret)]
                at = end
        return "".join([*parts, text[at:]]) if parts else text

    def _json_text(self, text: str) -> str:
        if self.clear(text.encode("utf-8", "replace")):
            return text
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return self._plain(text)
        masked = self.value(value)
        if masked is value:
            value = every(text)
            masked = self.value(value)
        if masked is not value:
            try:
                return msgspec.json.encode(masked).decode()
            except (UnicodeEncodeError, OverflowError, msgspec.MsgspecError):
                return self._plain(text)
        # What a rule finds although no value has it: between the values, or as a number.
        found = self._plain(text)
        return found if found == text else _BARE.sub(r'"\1"', found)

    def value(self, value: Json) -> Json:
        """`value` with every string in it masked, names too; the same object where nothing was
        found."""
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
            return self._object(holder, masked)
        name = ""
        if len(holder) == 2 and isinstance(holder[0], str) and plain(holder[0]) in HEADERS:
            name = holder[0]
        listed = [self._entry(name if at else "", each, masked) for at, each in enumerate(holder)]
        return listed if any(map(is_not, listed, holder)) else holder

    def _object(self, holder: dict[str, Json], masked: dict[int, Json]) -> Json:
        said = {
            value: holder[name]
            for name, value in PAIRS
            if isinstance(holder.get(name), str) and isinstance(holder.get(value), str)
        }
        named = {
            name: self._entry(said.get(name, name), each, masked) for name, each in holder.items()
        }
        if holder.get("kind") == "Secret":  # of Kubernetes: whatever its data are called
            for name in SECRET_DATA & named.keys():
                named[name] = self._all(named[name])
        changed = any(map(is_not, named.values(), holder.values()))
        names = [self._named(name) for name in holder]
        if any(map(is_not, names, holder)):
            return dict(zip(names, named.values(), strict=True))
        return named if changed else holder

    def _all(self, holder: Json) -> Json:
        """An object with every text in it masked; the same one where each is already."""
        if not isinstance(holder, dict):
            return holder
        made = {
            name: self.placeholder("key", text)
            if isinstance(text, str)
            and not (PLACEHOLDER.fullmatch(text) or text in self._allowed or not text)
            else text
            for name, text in holder.items()
        }
        return made if any(map(is_not, made.values(), holder.values())) else holder

    def _named(self, name: Json) -> Json:
        if not isinstance(name, str):
            return name
        masked = self._name(name) if len(name) < 200 else self.text(name)
        return name if masked == name else masked

    def _entry(self, name: str, entry: Json, masked: dict[int, Json]) -> Json:
        if (
            isinstance(entry, list | tuple)
            and isinstance(name, str)
            and self._names.rank(name) == 2
        ):
            kept = masked.get(id(entry), entry)
            listed = [
                self._entry(name, each, {}) if isinstance(each, str) else each for each in kept
            ]
            return listed if any(map(is_not, listed, kept)) else kept
        if not isinstance(entry, str):
            if isinstance(entry, _HOLDERS):
                return masked.get(id(entry), entry)
            return self._number(name, entry) if type(entry) is int else entry
        if entry and self._names.denies(name, entry) and entry not in self._allowed:
            return entry if PLACEHOLDER.fullmatch(entry) else self.placeholder("key", entry)
        return self._leaf(entry)

    def _number(self, name: str, number: int) -> Json:
        said = str(number)
        if said in self._allowed:
            return number
        if number >= 1000 and isinstance(name, str) and self._names.rank(name) == 2:
            return self.placeholder("key", said)
        masked = self._plain(said) if number in _CARDS else said
        return number if masked == said else masked

    def _leaf(self, text: str) -> str:
        masked = self.text(text)
        return text if masked == text else masked
