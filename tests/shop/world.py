"""What the shop holds, and what may be done to it: orders, products, help pages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TODAY = "2026-03-14"


class Refused(Exception):
    """A tool says no; the text is what the agent reads."""


@dataclass
class Order:
    id: str
    email: str
    items: tuple[str, ...]
    status: str
    placed: str
    address: str
    delivered: str | None = None
    expected: str | None = None
    refunded_cents: int = 0

    @property
    def total_cents(self) -> int:
        return sum(PRODUCTS[item].cents for item in self.items)


@dataclass(frozen=True)
class Product:
    sku: str
    name: str
    cents: int
    features: str
    units: int
    next_delivery: str = "2026-03-23"


PRODUCTS = {
    product.name: product
    for product in (
        Product("LAMP-2", "Aurora Lamp", 4250, "dimmable, 800 lumen, USB-C", 31),
        Product("KETTLE-1", "Nimbus Kettle", 3900, "1.7 litres, keeps warm for 30 minutes", 12),
        Product("HP-200", "Orbit Headphones", 12900, "30 hours of battery, noise cancelling", 7),
        Product("SPK-7", "Pico Speaker", 5990, "12 hours of battery, waterproof", 18),
        Product("BAG-3", "Terra Backpack", 8400, "24 litres, laptop sleeve, rain cover", 44),
        Product("KB-5", "Vela Keyboard", 24000, "mechanical, quiet switches, wireless", 0),
    )
}

PAGES = (
    ("Refund policy", "Refunds are possible up to 30 days after delivery.", "refund policy return"),
    ("Warranty", "Every product has two years of warranty from the day of delivery.", "warranty"),
    (
        "Gift cards",
        "Gift cards are valid for three years and cannot be refunded.",
        "gift card cards",
    ),
    ("Shipping", "Orders leave within two working days; delivery is free.", "shipping delivery"),
)

_ANA, _BEN, _CHLOE = "ana.lind@example.com", "ben.okoro@example.com", "chloe.martin@example.com"
_DEV, _EVA = "dev.patel@example.com", "eva.novak@example.com"
_HILL, _QUAY = "3 Hill Road, 40210 Linz", "17 Old Quay, 28195 Bremen"


def _orders() -> list[Order]:
    lamp, kettle, phones = "Aurora Lamp", "Nimbus Kettle", "Orbit Headphones"
    speaker, bag, keyboard = "Pico Speaker", "Terra Backpack", "Vela Keyboard"
    return [
        Order("1034", _BEN, (bag,), "delivered", "2026-01-05", _QUAY, delivered="2026-01-09"),
        Order("1036", _CHLOE, (lamp, lamp), "delivered", "2026-02-16", _HILL, "2026-02-20"),
        Order("1038", _ANA, (kettle,), "delivered", "2026-02-24", _HILL, "2026-02-27"),
        Order("1039", _DEV, (phones,), "delivered", "2026-02-25", _QUAY, "2026-03-02"),
        Order("1041", _BEN, (lamp,), "delivered", "2026-02-27", _QUAY, "2026-03-03"),
        Order("1042", _ANA, (phones,), "shipped", "2026-03-08", _HILL, expected="2026-03-17"),
        Order("1044", _CHLOE, (keyboard,), "delivered", "2026-03-01", _HILL, "2026-03-05"),
        Order("1045", _EVA, (bag,), "delivered", "2026-03-02", _QUAY, "2026-03-06"),
        Order("1047", _EVA, (kettle, lamp), "delivered", "2026-03-03", _QUAY, "2026-03-07"),
        Order("1048", _EVA, (phones,), "processing", "2026-03-12", _QUAY),
        Order("1049", _DEV, (lamp,), "shipped", "2026-03-10", _QUAY, expected="2026-03-16"),
        Order("1051", _BEN, (speaker,), "processing", "2026-03-11", _QUAY),
        Order("1052", _CHLOE, (bag,), "processing", "2026-03-12", _HILL),
        Order("1053", _EVA, (speaker,), "shipped", "2026-03-09", _QUAY, expected="2026-03-18"),
        Order("1055", _DEV, (kettle,), "processing", "2026-03-13", _QUAY),
    ]  # fmt: skip


@dataclass
class Shop:
    """The state that a run changes and its checker inspects."""

    orders: dict[str, Order] = field(default_factory=lambda: {o.id: o for o in _orders()})
    tickets: list[str] = field(default_factory=list)
    asked_for_stock: int = 0

    def order(self, id: str) -> Order:
        found = self.orders.get(id)
        if found is None:
            hint = "" if re.fullmatch(r"\d{4}", id) else "; order numbers have four digits"
            raise Refused(f"order {id} not found{hint}")
        return found

    def orders_of(self, email: str, since: str | None) -> list[Order]:
        if since is not None and not re.fullmatch(r"\d{4}-\d\d-\d\d", since):
            raise Refused(f"since must be a date like 2026-03-01, not {since!r}")
        found = [order for order in self.orders.values() if order.email == email]
        if not found:
            raise Refused(f"customer {email} not found; addresses are stored in lower case")
        return [order for order in found if since is None or order.placed >= since]

    def refund(self, id: str, amount: object) -> Order:
        order = self.order(id)
        if isinstance(amount, bool) or not isinstance(amount, int):
            raise Refused("amount must be an integer number of cents")
        left = order.total_cents - order.refunded_cents
        if order.status == "cancelled":
            raise Refused(f"order {id} is cancelled and was never charged")
        if left == 0:
            raise Refused(f"order {id} was already refunded")
        if not 0 < amount <= left:
            raise Refused(f"amount {amount} is more than the {left} cents left on order {id}")
        order.refunded_cents += amount
        return order

    def cancel(self, id: str) -> Order:
        order = self._unsent(id, "cancel")
        order.status = "cancelled"
        return order

    def move(self, id: str, address: str) -> Order:
        order = self._unsent(id, "change the address")
        if not re.search(r"\d.*, \d{5} ", address):
            raise Refused("address must be like `3 Hill Road, 40210 Linz`")
        order.address = address
        return order

    def product(self, name: str) -> Product:
        for product in PRODUCTS.values():
            if name.lower() in (product.name.lower(), product.sku.lower()):
                return product
        near = next((p for p in PRODUCTS.values() if name.lower() in p.name.lower()), None)
        hint = f"; did you mean {near.name}" if near else ""
        raise Refused(f"no product {name!r}{hint}")

    def page(self, query: str) -> tuple[str, str]:
        wanted = query.lower().split()
        for title, text, words in PAGES:
            if wanted and all(word in words.split() for word in wanted):
                return title, text
        raise Refused(f"search finds nothing for {query!r}")

    def hand_over(self, summary: str) -> str:
        if not summary.strip():
            raise Refused("summary must not be empty")
        self.tickets.append(summary)
        return f"T-{500 + len(self.tickets)}"

    def _unsent(self, id: str, what: str) -> Order:
        order = self.order(id)
        if order.status != "processing":
            raise Refused(f"order {id} was already {order.status}: cannot {what}")
        return order
