"""What the demo model does about products and rules: look up, compare, see what is in stock."""

from __future__ import annotations

import re

from replay.models.demo.facts import Seen
from replay.models.demo.mind import Met, Mind, Move, Say, Way
from replay.models.demo.needs import Need

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
