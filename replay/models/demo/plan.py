"""What the demo model answers: one plan a kind of need, the first unfinished one decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

from msgspec import Struct

from replay import digests
from replay.models.demo.mind import ASK_ORDER, Met, Mind, Move, Need, Say, Seen, Use, Way, identify
from replay.models.demo.request import GOALS
from replay.trace import Json

_ASK_ADDRESS = "Could you tell me the new address in full?"
_ROUND_SUMS = (2500, 4000, 5000, 7500, 10000)
_STATUS = {
    "processing": "Order {order_id} is being packed.",
    "shipped": "Order {order_id} is on its way and expected on {expected}.",
    "delivered": "Order {order_id} was delivered on {delivered}.",
}


def status(mind: Mind, need: Need) -> Move:
    order = identify(mind, need)
    if not isinstance(order, str):
        return order
    seen = mind.facts.orders.get(order)
    if seen is None:
        return _read_order(mind, need, order)
    told = _STATUS.get(seen.text("status"), "Order {order_id} is {status}.")
    return Met(re.sub(r"\{(\w+)\}", lambda field: seen.text(field[1]), told))


def refund(mind: Mind, need: Need) -> Move:
    order = identify(mind, need)
    if not isinstance(order, str):
        return order
    if receipt := mind.facts.refunds.get(order):
        paid = _dollars(receipt.number("refunded_cents") or 0)
        told = f"I have refunded ${paid} for order {order}.{_promise(mind)}"
        return _confirm(mind, order, receipt) or Met(told)
    on_amount = () if need.amount_cents is not None else ("amounts",)
    if first := _look_first(mind, need, order, "verify", "own", "policy", *on_amount):
        return first
    amount, belief = _amount(mind, need, order)
    if mind.limit_cents is not None and amount > mind.limit_cents and mind.obeys("limit"):
        return mind.hand_over(need, f"A refund of ${_dollars(amount)} is above my limit")
    return mind.pursue("refund", _refund_ways(mind, need, order, amount, belief), need)


def cancel(mind: Mind, need: Need) -> Move:
    order = identify(mind, need)
    if not isinstance(order, str):
        return order
    if receipt := mind.facts.cancelled.get(order):
        return _confirm(mind, order, receipt) or Met(f"Order {order} is cancelled.")
    if first := _look_first(mind, need, order, "verify", "own"):
        return first
    if gone := _gone(mind, order):
        return Met(f"{gone}, so it can no longer be cancelled.")
    way = Way({"order": order, "reason": need.text}, f"I will cancel order {order}.")
    return mind.pursue("cancel", [way], need)


def address(mind: Mind, need: Need) -> Move:
    order = identify(mind, need)
    if not isinstance(order, str):
        return order
    if receipt := mind.facts.moved.get(order):
        told = f"Order {order} now goes to {receipt.text('address')}."
        return _confirm(mind, order, receipt) or Met(told)
    if need.address is None:
        return Say(_ASK_ADDRESS)
    if first := _look_first(mind, need, order, "verify", "own"):
        return first
    if gone := _gone(mind, order):
        return Met(f"{gone}, so its address can no longer be changed.")
    says = f"I will send order {order} to {need.address}."
    way = Way({"order": order, "address": need.address}, says)
    return mind.pursue("change address", [way], need)


def _read_order(mind: Mind, need: Need, order: str) -> Move:
    forms = dict.fromkeys([order, re.sub(r"\D", "", order)])
    sure = "" if need.order or order in mind.facts.listed else "I take it this is the order. "
    ways = [Way({"order": form}, f"{sure}I will look up order {form}.") for form in forms]
    return mind.pursue("read order", ways, need, ask=ASK_ORDER)


def _look_first(mind: Mind, need: Need, order: str, *habits: str) -> Move | None:
    """What the rules want seen before an order is changed, None when all of it was."""
    seen = mind.facts.orders.get(order)
    if seen is None:
        wanted = any(mind.obeys(habit) for habit in habits)
        return _read_order(mind, need, order) if wanted else None
    if mind.obeys("own") and mind.email and seen.text("email") not in ("", mind.email.lower()):
        return mind.hand_over(need, f"Order {order} belongs to another customer")
    by_policy = "policy" in habits and mind.obeys("policy")
    if by_policy and (stopped := _keep_to_policy(mind, need, order, seen)):
        return stopped
    if mind.obeys("reread") and mind.facts.calls - seen.at > 3:
        return _fresh_look(mind, order, f"I will read order {order} again before I change it.")
    return None


def _keep_to_policy(mind: Mind, need: Need, order: str, seen: Seen) -> Move | None:
    pages = [each for each in mind.facts.articles if "refund" in each.text("article").lower()]
    if not pages:
        ways = [Way({"query": "refund policy"}, "I will read the refund policy first.")]
        return mind.pursue("read policy", ways, need)
    window = re.search(r"(\d+) days", pages[-1].text("text"))
    today, delivered = _date(mind.today or ""), _date(seen.text("delivered"))
    if window is None or today is None or delivered is None:
        return None
    if (today - delivered).days <= int(window[1]):
        return None
    return Met(
        f"Order {order} was delivered on {seen.text('delivered')}, more than {window[1]} days ago,"
        " so our policy does not allow a refund."
    )


def _fresh_look(mind: Mind, order: str, says: str) -> Use:
    return mind.use("read order", Way({"order": order}, says))


def _confirm(mind: Mind, order: str, receipt: Seen) -> Move | None:
    """A look at the order after a change, where a rule asks for it and it was not taken yet."""
    seen = mind.facts.orders.get(order)
    if not mind.obeys("confirm") or (seen is not None and seen.at > receipt.at):
        return None
    return _fresh_look(mind, order, f"I will read order {order} again to see that it is done.")


def _gone(mind: Mind, order: str) -> str | None:
    """The words for an order that is known to have left the house, None for any other."""
    seen = mind.facts.orders.get(order)
    now = seen.text("status") if seen is not None else ""
    return f"Order {order} was already {now}" if now in {"shipped", "delivered"} else None


def _amount(mind: Mind, need: Need, order: str) -> tuple[int, str]:
    """The cents to refund and the sentence that says where the model has them from."""
    if need.amount_cents is not None:
        amount = need.amount_cents
        return amount, f"I will refund order {order}, ${_dollars(amount)}."
    seen = mind.facts.orders.get(order)
    if seen is None:
        amount = _held(mind, order) or mind.chance.one_of(_ROUND_SUMS, "amount")
        return amount, f"I believe order {order} was about ${_dollars(amount)}, so I refund that."
    latest = mind.facts.latest_order()
    if mind.facts.stale(order) and latest is not None and not mind.obeys("reread"):
        seen = mind.facts.orders[latest]
    amount = seen.number("total_cents") or 0
    return amount, f"I will refund order {order}, ${_dollars(amount)}."


def _held(mind: Mind, order: str) -> int | None:
    """The amount an earlier, failed refund of this order was for."""
    for call in mind.calls:
        amount = call.arguments.get("amount")
        if order in call.arguments.values() and isinstance(amount, (int, float)):
            return round(amount if amount >= min(_ROUND_SUMS) else amount * 100)
    return None


def _refund_ways(mind: Mind, need: Need, order: str, amount: int, belief: str) -> list[Way]:
    as_written: Json = amount // 100 if amount % 100 == 0 else amount / 100
    units: list[Json] = [amount] if mind.obeys("cents") else [as_written, amount]
    slots: dict[str, Json] = {"order": order, "reason": need.text}
    ways = [Way({**slots, "amount": each}, belief) for each in units]
    for call in mind.calls:
        if call.failed and (
            left := re.search(rf"the (\d+) cents left on order {order}", call.text or "")
        ):
            says = f"I will refund the ${_dollars(int(left[1]))} that are left on order {order}."
            ways.append(Way({**slots, "amount": int(left[1])}, says))
    return ways


def _promise(mind: Mind) -> str:
    if mind.obeys("honest") or not mind.chance.happens(0.3, "promise"):
        return ""
    days = mind.chance.one_of((2, 3, 5, 7), "promised days")
    return f" You will have the money within {days} days."


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _dollars(cents: int) -> str:
    return f"{cents / 100:.2f}"


_ASK_PRODUCT = "Which product do you mean?"
_TOPIC = re.compile(r"\b(refund|return|warranty|gift cards?|shipping|delivery)s?\b", re.I)


def stock(mind: Mind, need: Need) -> Move:
    if not need.products:
        return Say(_ASK_PRODUCT)
    name = need.products[0]
    seen = mind.facts.stock.get(name.lower()) or _taken_for_stock(mind, name)
    if seen is None:
        says = f"I will see whether the {name} is in stock."
        return mind.pursue("read stock", _product_ways(mind, name, says), need)
    units = seen.number("units")
    if units is None:
        return Met(f"Yes, the {name} is available.")
    if units:
        return Met(f"The {name} is in stock, {units} left.")
    return Met(f"The {name} is out of stock; more arrive on {seen.text('next_delivery')}.")


def _taken_for_stock(mind: Mind, name: str) -> Seen | None:
    """A product record read to learn its stock: `availability` may only mean that it is listed."""
    seen = mind.facts.products.get(name.lower())
    if seen is None or not seen.text("availability") or seen.at < mind.open.since_call:
        return None
    return seen if mind.serves(seen.tool, "read stock") else None


def product(mind: Mind, need: Need) -> Move:
    if not need.products:
        return Say(_ASK_PRODUCT)
    told = []
    for name in need.products:
        seen = mind.facts.products.get(name.lower())
        if seen is None:
            says = f"I will look up the {name}."
            return mind.pursue("read product", _product_ways(mind, name, says), need)
        told.append(f"{name}: {seen.text('features')}.")
    return Met(" ".join(told))


def compare(mind: Mind, need: Need) -> Move:
    if not (mind.obeys("delegate") and mind.can("research")):
        return product(mind, need)
    way = Way({"query": need.text}, "I will ask the researcher about this.")
    answer = mind.succeeded("research", [way])
    return Met(answer.text or "") if answer else mind.pursue("research", [way], need)


def policy(mind: Mind, need: Need) -> Move:
    topic = _TOPIC.search(need.text)
    word = topic[0].lower() if topic else "help"
    queries = dict.fromkeys([" ".join([word, *need.products]), word])
    ways = [Way({"query": each}, f"I will search the help pages for “{each}”.") for each in queries]
    found = mind.succeeded("read policy", ways)
    if found is None:
        return mind.pursue("read policy", ways, need)
    page = found.value.get("text") if isinstance(found.value, dict) else None
    return Met(str(page or found.text))


def _product_ways(mind: Mind, name: str, says: str) -> list[Way]:
    hints = [
        found[1]
        for call in mind.calls
        if call.failed and (found := re.search(r"did you mean ([\w -]+)", call.text or ""))
    ]
    return [Way({"product": each}, says) for each in dict.fromkeys([name, *hints])]


def _human(mind: Mind, need: Need) -> Move:
    return mind.hand_over(need, "The customer wants to speak to a person")


PLANS: dict[str, Callable[[Mind, Need], Move]] = {
    "status": status,
    "refund": refund,
    "cancel": cancel,
    "address": address,
    "stock": stock,
    "product": product,
    "compare": compare,
    "policy": policy,
    "human": _human,
}


class Act(Struct, frozen=True):
    """A whole answer: what is said and the calls made; no calls end the turn."""

    text: str
    uses: tuple[Use, ...] = ()


def decide(mind: Mind) -> Act:
    """The model's answer to a request."""
    needs = mind.open.needs
    if not needs:
        return Act("You are welcome." if mind.calls else "Hello, how can I help you?")
    told: list[str] = []
    for index, need in enumerate(needs):
        move = PLANS[need.kind](mind, need)
        match move:
            case Met():
                told.append(move.text)
            case Say():
                return Act(" ".join([*told, move.text]))
            case Use():
                uses = (move, *_extra_text(mind, move, needs[index + 1 :]))
                return Act(" ".join(dict.fromkeys(use.says for use in uses)), uses)
    return Act(" ".join(dict.fromkeys(told)))


def _extra_text(mind: Mind, first: Use, later: tuple[Need, ...]) -> list[Use]:
    """Look-ups for later needs that can go in the same turn."""
    if GOALS[first.goal].writes or not mind.obeys("parallel"):
        return []
    taken = [first]
    for need in later:
        move = PLANS[need.kind](mind, need)
        if not isinstance(move, Use) or GOALS[move.goal].writes:
            continue
        if not any(_equal(move, other) for other in taken):
            taken.append(move)
    return taken[1:]


def _equal(left: Use, right: Use) -> bool:
    return left.tool == right.tool and digests.same(left.arguments, right.arguments)
