"""Which offered tool serves a goal, and with which arguments: read from the tools' own words.

A tool is what its name and description say; what the instructions say of it by name counts as
much again. A goal is a bag of words too; the better the overlap, the likelier the choice. Two vague
descriptions that overlap make the choice a coin toss, a renamed tool with a clear description is
found again, and a tool that the instructions name but nobody offers is tried all the same.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from msgspec import Struct

from replay.models.demo.chance import Chance
from replay.models.demo.request import Offer
from replay.models.demo.rules import sentences
from replay.trace import Json

TEMPERATURE = 0.03
UNDERSTOOD = 0.25
"""The overlap from which on a tool counts as one the demo model knows."""


class Goal(NamedTuple):
    """Something to be done with one call. `key` is the argument it cannot do without.

    A goal that any trade has (`general`) does not make a set of tools a shop's.
    """

    words: str
    key: str
    writes: bool = False
    general: bool = False


GOALS: dict[str, Goal] = {
    "read order": Goal("look up get one order by its number: status items total delivery", "order"),
    "find orders": Goal("find list search the orders of a customer by e-mail", "email"),
    "refund": Goal("refund money for an order, pay back", "order", writes=True),
    "cancel": Goal("cancel stop an order", "order", writes=True),
    "change address": Goal("change update the delivery address", "address", writes=True),
    "read policy": Goal("search help pages article policy returns warranty shipping", "query",
                        general=True),
    "read product": Goal("product details information features price", "product"),
    "read stock": Goal("product stock available availability in stock units warehouse", "product"),
    "hand over": Goal("hand over escalate human colleague person", "summary", writes=True,
                      general=True),
    "research": Goal("ask research researcher question compare products", "query", general=True),
}  # fmt: skip

_SLOTS = {
    "amount": r"amount|cents|\bsum\b|money",
    "order": r"order",
    "email": r"e-?mail|customer",
    "address": r"address",
    "since": r"since|after|\bdate\b",
    "product": r"sku|product|item",
    "query": r"query|question|topic|search|keyword",
    "summary": r"summary|message|case|text",
    "reason": r"reason|note|comment|why",
}
"""What an argument can be, and how its name or description gives it away, first match first."""

_UNSUITED = 0.6
_USUAL_NAMES = {"order": "order_id", "amount": "amount"}

_STOP_WORD = re.compile(
    r"(an?|and|are|as|at|be|by|for|from|has|have|how|i|in|is|its?|more|no|not|of|on|one|or|s|that"
    r"|the|their|them|this|to|us|used?|was|when|with|your?)$"
)
_DENIAL = re.compile(r"(?i)\b(?:not|nothing|never|no)\b")
_TICKED = re.compile(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)`")


class Kit(Struct, frozen=True, eq=False):
    """The tools of one request, by name.

    `slots` says what each argument of an offered tool is for, None where nobody knows.
    `documents` are the tools' own words, `mentions` the instructions' words about them; both also
    hold tools that the instructions name and nobody offers.
    """

    offers: dict[str, Offer]
    slots: dict[str, dict[str, str | None]]
    documents: dict[str, dict[str, float]]
    mentions: dict[str, dict[str, float]]

    def rank(self, goal: str, at_hand: Iterable[str] = _SLOTS) -> dict[str, float]:
        """Every tool's overlap with the goal, when these slots can be filled."""
        wanted = _stems(GOALS[goal].words)
        known = {GOALS[goal].key, *at_hand}
        return {
            name: (_overlap(wanted, document) + _overlap(wanted, self.mentions.get(name, {})))
            * self._fit(name, GOALS[goal].key, known)
            for name, document in self.documents.items()
        }

    def choose(self, goal: str, at_hand: Iterable[str], avoid: set[str], chance: Chance) -> str:
        """A tool for the goal; never one of `avoid` while there is any other."""
        ranked = self.rank(goal, at_hand)
        left = {name: each for name, each in ranked.items() if name not in avoid} or ranked
        return chance.softmax(left, TEMPERATURE, "tool", goal)

    def arguments(self, tool: str, values: dict[str, Json]) -> dict[str, Json]:
        """The arguments of a call: each gets the value of the slot that its own words ask for."""
        slots = self.slots.get(tool)
        if not slots:
            return {_USUAL_NAMES.get(slot, slot): each for slot, each in values.items()}
        filled = {name: values.get(slot or "") for name, slot in slots.items()}
        return {name: each for name, each in filled.items() if each is not None}

    def text(self, tool: str) -> str:
        """All that is said of an offered tool, its arguments included."""
        offer = self.offers[tool]
        details = (str(each.get("description", "")) for each in offer.properties.values())
        return "\n\n".join((offer.description, *offer.properties, *details))

    def is_shop(self) -> bool:
        """Is at least one offered tool one that only a shop has, and all of it understood?"""
        return any(
            self.rank(name)[tool] >= UNDERSTOOD
            and goal.key in slots.values()
            and None not in self._needed(tool)
            for tool, slots in self.slots.items()
            for name, goal in GOALS.items()
            if not goal.general
        )

    def _fit(self, tool: str, key: str, known: set[str]) -> float:
        """How well a tool's arguments suit: those of a goal's key and those that can be filled."""
        slots = self.slots.get(tool)
        if not slots:
            return 1.0
        keyed = 1.0 if key in slots.values() else _UNSUITED
        return keyed if self._needed(tool) <= known else keyed * _UNSUITED

    def _needed(self, tool: str) -> set[str | None]:
        return {self.slots[tool].get(name) for name in self.offers[tool].required}


def kit(offers: tuple[Offer, ...], instructions: str) -> Kit:
    """The tools of a request, read together with what the instructions say of them."""
    by_name = {offer.name: offer for offer in offers}
    ticked = {name for each in sentences(instructions) for name in _TICKED.findall(each)}
    names = [*by_name, *sorted(ticked - set(by_name))]
    own = {name: _own_bag(by_name.get(name), name) for name in names}
    said = {name: bag for name in names if (bag := _mention_bag(name, instructions))}
    return Kit(
        by_name,
        {
            name: {each: _slot(offer, each) for each in offer.properties}
            for name, offer in by_name.items()
        },
        dict(_weighed(own)),
        dict(_weighed(said)),
    )


def words(text: str) -> Iterator[str]:
    """The stems of a text's words, the little ones left out."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    for word in re.findall(r"[a-z]+", spaced.lower()):
        if not _STOP_WORD.match(word):
            yield stem(word)


@cache
def _stems(text: str) -> frozenset[str]:
    return frozenset(words(text))


def stem(word: str) -> str:
    """A word without its English endings; close enough for matching, not for print."""
    for ending, instead in (("ies", "y"), ("ability", "able"), ("ing", ""), ("ed", ""), ("es", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return (word[: -len(ending)] + instead).rstrip("e")
    return word.removesuffix("s").rstrip("e") if len(word) > 3 else word


def _own_bag(offer: Offer | None, name: str) -> Counter[str]:
    bag = Counter(dict.fromkeys(words(name), 2))
    for sentence in sentences(offer.description if offer is not None else ""):
        bag.update(_bag(sentence))
    return bag


def _mention_bag(name: str, instructions: str) -> Counter[str]:
    named = re.compile(rf"\b{re.escape(name)}\b")
    bag: Counter[str] = Counter()
    for sentence in sentences(instructions):
        if named.search(sentence):
            bag.update(_bag(named.sub("", sentence)))
    return bag


def _bag(sentence: str) -> Counter[str]:
    """The words of a sentence; those after a "not" count against."""
    affirmed, *denied = _DENIAL.split(sentence, maxsplit=1)
    bag = Counter(words(affirmed))
    for word in words(" ".join(denied)):
        bag[word] -= 2
    return bag


def _weighed(bags: dict[str, Counter[str]]) -> Iterator[tuple[str, dict[str, float]]]:
    """Bags with rare words weighing more: a word that every tool has tells none apart."""
    spread = Counter(word for bag in bags.values() for word in bag)
    for name, bag in bags.items():
        yield (
            name,
            {
                word: math.copysign(math.sqrt(abs(count)), count)
                * math.log(1 + len(bags) / spread[word])
                for word, count in bag.items()
                if count
            },
        )


def _overlap(wanted: frozenset[str], document: dict[str, float]) -> float:
    size = math.sqrt(sum(weight * weight for weight in document.values()))
    shared = sum(weight for word, weight in document.items() if word in wanted)
    return shared / (size * math.sqrt(len(wanted))) if size else 0.0


def _slot(offer: Offer, name: str) -> str | None:
    """What a property is for: its name says it, else its description, else nobody knows."""
    details = str(offer.properties.get(name, {}).get("description", ""))
    for text in (name.replace("_", " ").lower(), details.lower()):
        for slot, pattern in _SLOTS.items():
            if re.search(pattern, text):
                return slot
    return None
