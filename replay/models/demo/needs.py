"""What the customer wants and what was observed, as the demo model reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from replay.models.demo.request import PastCall, Turn
from replay.trace import Json

_ORDER = re.compile(r"(?<![\w.,$-])(?:#|ORD-)?\d{4}(?![\w-]|[.,]\d)")
_YEAR = re.compile(r"\b(january|february|march|april|may|june|july|august|september|october"
                   r"|november|december)\s+\d{4}", re.I)  # fmt: skip
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_PRODUCT = re.compile(r"\b[A-Z][a-z]+ (?:Lamp|Kettle|Headphones|Speaker|Backpack|Keyboard)\b")
_ADDRESS = re.compile(r"\b\d{1,3} [A-Z][\w ]+, \d{5} [A-Z]\w+")
_MONEY = re.compile(r"\$(\d+)(?:\.(\d\d))?")
_SINCE = re.compile(
    r"\b(?:after|since) (?:the )?(\d{4}-\d\d-\d\d|\d{1,2} [A-Z][a-z]+(?: \d{4})?"
    r"|[A-Z][a-z]+ \d{1,2}(?:st|nd|rd|th)?)"
)
_SPLIT = re.compile(r"(?<=[.!?])\s+|\n+")

_KINDS: tuple[tuple[str, str], ...] = (
    ("human", r"\b(speak|talk) (to|with) (a|some)\b"),
    ("policy", r"\b(policy|warranty|how long do i have|gift cards?|return by)\b"),
    ("compare", r"\b(compare|which of|which one|which is better|difference between)\b"),
    ("address", r"\baddress\b|\bsend it to\b|\bdeliver it to\b"),
    ("cancel", r"\bcancel\b"),
    ("refund", r"\brefund|\bmoney back\b"),
    ("stock", r"\bin stock\b|\bavailable\b"),
    ("status", r"\bwhere is\b|\bwhere's\b|\bstatus of\b|\bnot arrived\b|\bwhen (will|does)\b"),
    ("product", r"\bdoes the\b|\bhow (loud|heavy|big|long) is\b|\bfeatures\b|\btell me about\b"),
)
_HIDES = {"policy": {"refund", "status"}, "compare": {"product", "stock"}}
"""A kind, and the kinds whose words in the same sentence then belong to it."""

ABOUT_ORDERS = frozenset({"status", "refund", "cancel", "address"})


class Need(Struct, frozen=True, kw_only=True):
    """One thing wanted. `text` is the sentence that says so; the rest is None where not said."""

    kind: str
    text: str
    order: str | None = None
    products: tuple[str, ...] = ()
    amount_cents: int | None = None
    address: str | None = None
    since: str | None = None


class Open(Struct, frozen=True):
    """The needs still to be met, and the number of calls made before they were raised."""

    needs: tuple[Need, ...]
    since_call: int


def open_needs(turns: tuple[Turn, ...]) -> Open:
    """What is still to be done, in the order in which it was asked for."""
    said: list[str] = []
    calls, since_call = 0, 0
    for turn in turns:
        calls += len(turn.calls)
        if turn.speaker == "user":
            said.append(turn.text)
        elif turn.speaker == "assistant" and not turn.calls and not turn.text.endswith("?"):
            said.clear()
            since_call = calls
    return Open(needs("\n".join(said)), since_call)


def email(turns: tuple[Turn, ...]) -> str | None:
    """The last e-mail address a user gave."""
    found = [each for turn in turns if turn.speaker == "user" for each in _EMAIL.findall(turn.text)]
    return found[-1] if found else None


def needs(text: str) -> tuple[Need, ...]:
    """The needs that a text raises, each once."""
    parts = [part.strip() for part in _SPLIT.split(text) if part.strip()]
    kinds = [list(_kinds(part)) for part in parts]
    found: dict[tuple[str, str | None, tuple[str, ...]], Need] = {}
    for index, part in enumerate(parts):
        for kind in kinds[index]:
            for order in _orders_for(kind, index, parts, kinds):
                need = _need(kind, part, order, text)
                found.setdefault((kind, need.order, need.products), need)
    return tuple(found.values())


def orders_in(text: str) -> list[str]:
    """The order numbers a text mentions, as written, a leading # apart."""
    return [each.removeprefix("#") for each in _ORDER.findall(_YEAR.sub("", text))]


def _kinds(part: str) -> Iterator[str]:
    lower = part.lower()
    found = {kind: match.start() for kind, cue in _KINDS if (match := re.search(cue, lower))}
    hidden = {each for kind in found for each in _HIDES.get(kind, ())}
    yield from sorted(found.keys() - hidden, key=lambda kind: found[kind])


def _orders_for(
    kind: str, index: int, parts: list[str], kinds: list[list[str]]
) -> list[str] | list[None]:
    """The orders a need is about: named in its sentence, just before, or in a later answer."""
    if kind not in ABOUT_ORDERS:
        return [None]
    if here := orders_in(parts[index]):
        return list(dict.fromkeys(here))
    if not _PRODUCT.search(parts[index]):
        for before in reversed(parts[:index]):
            if named := orders_in(before):
                return named[-1:]
    for after, others in zip(parts[index + 1 :], kinds[index + 1 :], strict=True):
        if not others and (named := orders_in(after)):
            return named[:1]
    return [None]


def _need(kind: str, part: str, order: str | None, text: str) -> Need:
    money = _MONEY.search(part)
    address = _ADDRESS.search(part) or _ADDRESS.search(text)
    since = _SINCE.search(part) or _SINCE.search(text)
    return Need(
        kind=kind,
        text=part,
        order=order,
        products=tuple(dict.fromkeys(_PRODUCT.findall(part) or _PRODUCT.findall(text))),
        amount_cents=int(money[1]) * 100 + int(money[2] or 0) if money else None,
        address=address[0] if address and kind == "address" else None,
        since=since[1] if since else None,
    )


class Seen(Struct, frozen=True):
    """A record as last observed, the number of the call that showed it, and that call's tool."""

    data: dict[str, Any]
    at: int
    tool: str

    def text(self, name: str) -> str:
        """A field as text, "" where it is absent or null."""
        value = self.data.get(name)
        return "" if value is None else str(value)

    def number(self, name: str) -> int | None:
        value = self.data.get(name)
        return value if isinstance(value, int) else None


class Facts(Struct, eq=False):
    """`orders` are full records, `listed` what a search for orders showed, newest call last."""

    orders: dict[str, Seen] = field(default_factory=dict)
    listed: dict[str, Seen] = field(default_factory=dict)
    refunds: dict[str, Seen] = field(default_factory=dict)
    cancelled: dict[str, Seen] = field(default_factory=dict)
    moved: dict[str, Seen] = field(default_factory=dict)
    products: dict[str, Seen] = field(default_factory=dict)
    stock: dict[str, Seen] = field(default_factory=dict)
    articles: list[Seen] = field(default_factory=list)
    calls: int = 0

    def stale(self, order: str) -> bool:
        """Was the order read long ago, with much else observed since?"""
        return order in self.orders and self.calls - self.orders[order].at > 8

    def latest_order(self) -> str | None:
        """The order whose record was observed last."""
        return max(self.orders, key=lambda order: self.orders[order].at, default=None)


def gather(calls: tuple[PastCall, ...]) -> Facts:
    """Everything that the results of these calls say; failed calls say nothing lasting."""
    facts = Facts(calls=len(calls))
    for call in calls:
        if not call.failed:
            for record in _records(call.value):
                _note(facts, Seen(record, call.at, call.name))
    return facts


def _records(value: Json) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _records(each)
    elif isinstance(value, list):
        for each in value:
            yield from _records(each)


def _note(facts: Facts, seen: Seen) -> None:
    order = seen.text("order_id")
    if order and "total_cents" in seen.data:
        facts.orders[order] = seen
    elif order and "items" in seen.data:
        facts.listed[order] = seen
    elif order and "refunded_cents" in seen.data:
        facts.refunds[order] = seen
    elif order and "address" in seen.data:
        facts.moved[order] = seen
    elif order and seen.text("status") == "cancelled":
        facts.cancelled[order] = seen
    elif "article" in seen.data:
        facts.articles.append(seen)
    elif "sku" in seen.data and "name" in seen.data:
        _note_product(facts, seen)


def _note_product(facts: Facts, seen: Seen) -> None:
    for key in (seen.text("sku").lower(), seen.text("name").lower()):
        if "features" in seen.data:
            facts.products[key] = seen
        if "units" in seen.data:
            facts.stock[key] = seen
