"""What the demo model has observed: orders, products, articles and receipts in tool results.

A record is known by the shape of its JSON, not by the tool it came from, so renamed tools and
hand-written observations are read alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from replay.models.demo.request import PastCall
from replay.trace import Json


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
