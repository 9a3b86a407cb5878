"""The agent's tools: what is offered to the model, and the functions behind the names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from replay.trace import Effect, Json, Tool
from tests.shop.world import Order, Product, Refused, Shop

Arguments = dict[str, Json]


class ShopTool(Struct, frozen=True):
    """A tool, what it does to the world, how long it takes, and the function that does it."""

    offer: Tool
    effect: Effect
    latency_ms: int
    run: Callable[[Shop, Arguments], Json]


def call(shop: Shop, name: str, arguments: Arguments, tools: dict[str, ShopTool]) -> Json:
    """The result of a call. Raises Refused with the sentence the agent is to read."""
    tool = tools.get(name)
    if tool is None:
        raise Refused(f"no such tool: {name}; there are {', '.join(tools)}")
    schema = tool.offer.schema
    assert isinstance(schema, dict)
    for field in schema["required"]:
        if field not in arguments:
            raise Refused(f"{field} is missing")
    for field in arguments:
        if field not in schema["properties"]:
            raise Refused(f"{field} is not an argument of {name}")
    return tool.run(shop, arguments)


def _text(arguments: Arguments, field: str) -> str:
    value = arguments.get(field)
    if not isinstance(value, str):
        raise Refused(f"{field} must be a text")
    return value


def _order(order: Order) -> dict[str, Any]:
    return {
        "order_id": order.id,
        "status": order.status,
        "email": order.email,
        "items": list(order.items),
        "total": f"${order.total_cents / 100:.2f}",
        "total_cents": order.total_cents,
        "refunded_cents": order.refunded_cents,
        "placed": order.placed,
        "expected": order.expected,
        "delivered": order.delivered,
        "address": order.address,
    }


def _get_order(shop: Shop, given: Arguments) -> Json:
    return _order(shop.order(_text(given, "order_id")))


def _find_orders(shop: Shop, given: Arguments) -> Json:
    since = _text(given, "since") if "since" in given else None
    return {
        "orders": [
            {"order_id": order.id, "status": order.status, "placed": order.placed,
             "items": list(order.items)}
            for order in shop.orders_of(_text(given, "email"), since)
        ]
    }  # fmt: skip


def _refund_order(shop: Shop, given: Arguments) -> Json:
    order = shop.refund(_text(given, "order_id"), given.get("amount"))
    return {"order_id": order.id, "refunded_cents": given["amount"], "receipt": f"R-{order.id}"}


def _cancel_order(shop: Shop, given: Arguments) -> Json:
    order = shop.cancel(_text(given, "order_id"))
    return {"order_id": order.id, "status": order.status}


def _update_address(shop: Shop, given: Arguments) -> Json:
    order = shop.move(_text(given, "order_id"), _text(given, "address"))
    return {"order_id": order.id, "address": order.address}


def _search_help(shop: Shop, given: Arguments) -> Json:
    title, text = shop.page(_text(given, "query"))
    return {"article": title, "text": text}


def _get_product(shop: Shop, given: Arguments) -> Json:
    found = shop.product(_text(given, "product"))
    return {
        "sku": found.sku,
        "name": found.name,
        "price": f"${found.cents / 100:.2f}",
        "features": found.features,
        "availability": "listed",
    }


def _check_stock(shop: Shop, given: Arguments) -> Json:
    found: Product = shop.product(_text(given, "product"))
    shop.asked_for_stock += 1
    if found.sku == "SPK-7" and shop.asked_for_stock == 1:
        raise Refused("the warehouse timed out, try again")
    return {
        "sku": found.sku,
        "name": found.name,
        "units": found.units,
        "next_delivery": None if found.units else found.next_delivery,
    }


def _hand_over(shop: Shop, given: Arguments) -> Json:
    return {"ticket": shop.hand_over(_text(given, "summary")), "answered_within": "1 day"}


def _delegated(shop: Shop, given: Arguments) -> Json:
    raise AssertionError("the agent loop answers this one with a sub-agent")


RESEARCHER = "ask_researcher"


def _tool(
    name: str,
    description: str,
    run: Callable[[Shop, Arguments], Json],
    latency_ms: int,
    effect: Effect = "read",
    optional: tuple[str, ...] = (),
    **properties: str,
) -> ShopTool:
    schema = {
        "type": "object",
        "properties": {
            field: {"type": "number" if field == "amount" else "string", "description": text}
            for field, text in properties.items()
        },
        "required": [field for field in properties if field not in optional],
    }
    offer = Tool(name=name, description=description, schema=schema)
    return ShopTool(offer, effect, latency_ms, run)


TOOLS: dict[str, ShopTool] = {
    tool.offer.name: tool
    for tool in (
        _tool(
            "get_order", "Look up one order by its number: status, items, total, delivery.",
            _get_order, 120, order_id="the number of the order",
        ),
        _tool(
            "find_orders", "List the orders of a customer by e-mail.",
            _find_orders, 340, optional=("since",),
            email="the customer's e-mail", since="only orders placed on or after this date",
        ),
        _tool(
            "refund_order", "Refund money for an order.",
            _refund_order, 900, "write",
            order_id="the number of the order", amount="how much to refund",
            reason="why, in the customer's words",
        ),
        _tool(
            "cancel_order", "Cancel an order that was not shipped yet.",
            _cancel_order, 450, "write",
            order_id="the number of the order", reason="why, in the customer's words",
        ),
        _tool(
            "update_address", "Change the delivery address of an order that was not shipped yet.",
            _update_address, 410, "write",
            order_id="the number of the order", address="the whole new address",
        ),
        _tool(
            "search_help", "Search the help pages: policies, returns, warranty, shipping.",
            _search_help, 650, query="a few words",
        ),
        _tool(
            "get_product", "Product features and availability.",
            _get_product, 180, product="the name of the product",
        ),
        _tool(
            "check_stock", "Product stock.",
            _check_stock, 280, product="the name of the product",
        ),
        _tool(
            "hand_over_to_human", "Hand the conversation over to a human colleague.",
            _hand_over, 220, "write", summary="what the colleague needs to know",
        ),
        _tool(
            RESEARCHER, "Have the research agent compare products and answer a question.",
            _delegated, 50, question="the whole question",
        ),
    )
}  # fmt: skip

RESEARCH_TOOLS = {name: TOOLS[name] for name in ("search_help", "get_product", "check_stock")}

SHARPER = {
    "get_product": "Name, price and features of a product. It says nothing about stock.",
    "check_stock": "How many units of a product are in stock now, and when more arrive."
    " Use it for every question about availability.",
}
"""The two descriptions that mend the wrong tool: which of them answers what."""


def as_sent(tools: dict[str, ShopTool], changed: dict[str, str] | None = None) -> list[Json]:
    """Tools as the Messages API takes them, some descriptions replaced."""
    return [
        {
            "name": name,
            "description": (changed or {}).get(name, tool.offer.description),
            "input_schema": tool.offer.schema,
        }
        for name, tool in tools.items()
    ]
