"""What a request says to the demo model: its instructions, its tools, who said and did what."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from replay import digests, messages
from replay.models.demo.rules import Chance, sentences
from replay.trace import Json, Message

_TOOL_PARTS = ("name", "description", "input_schema")


class Offer(Struct, frozen=True):
    """A tool as offered. `properties` by name, `required` in the schema's order."""

    name: str
    description: str
    properties: dict[str, dict[str, Any]]
    required: tuple[str, ...]


class PastCall(Struct, frozen=True, kw_only=True):
    """A call the model made earlier and what came back; `text` None while unanswered.

    `value` is the result as JSON, or its text where it is none. `at` counts calls from 0.
    """

    at: int
    name: str
    arguments: dict[str, Json]
    text: str | None
    failed: bool
    value: Json


class Turn(Struct, frozen=True, kw_only=True):
    """One message: what a person, the instructions, or the model itself said, and its calls."""

    speaker: Literal["user", "assistant", "system"]
    text: str
    calls: tuple[PastCall, ...] = ()


class Asked(Struct, frozen=True, eq=False, kw_only=True):
    """A whole request, read."""

    system: str
    offers: tuple[Offer, ...]
    turns: tuple[Turn, ...]
    fingerprint: str

    @property
    def calls(self) -> tuple[PastCall, ...]:
        """Every past call, oldest first."""
        return tuple(call for turn in self.turns for call in turn.calls)


def read(body: dict[str, Any]) -> Asked:
    """The request body of the Messages API as the demo model understands it."""
    said = [Message(dialect="anthropic", body=each) for each in _dicts(body.get("messages"))]
    system = messages.content_text(body.get("system"))
    tools = _dicts(body.get("tools"))
    return Asked(
        system=system,
        offers=tuple(map(_offer, tools)),
        turns=tuple(_turns(said)),
        fingerprint=_fingerprint(system, tools, said),
    )


def _dicts(value: Json) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _offer(tool: dict[str, Any]) -> Offer:
    schema = tool.get("input_schema")
    schema = schema if isinstance(schema, dict) else {}
    properties = schema.get("properties")
    required = schema.get("required")
    return Offer(
        str(tool.get("name", "")),
        str(tool.get("description") or ""),
        {name: each for name, each in properties.items() if isinstance(each, dict)}
        if isinstance(properties, dict)
        else {},
        tuple(map(str, required)) if isinstance(required, list) else (),
    )


def _turns(said: list[Message]) -> Iterator[Turn]:
    answers = {each.call_id: each for message in said for each in messages.results(message)}
    at = 0
    for message in said:
        calls: list[PastCall] = []
        for call in messages.calls(message):
            answer = answers.get(call.id)
            text = answer.text if answer is not None else None
            calls.append(
                PastCall(
                    at=at,
                    name=call.name,
                    arguments=call.arguments if isinstance(call.arguments, dict) else {},
                    text=text,
                    failed=bool(answer is not None and answer.is_error),
                    value=_value(text),
                )
            )
            at += 1
        spoken = _text_of(message)
        if message.role == "assistant":
            yield Turn(speaker="assistant", text=spoken, calls=tuple(calls))
        elif spoken:
            yield Turn(speaker="system" if message.role == "system" else "user", text=spoken)


def _text_of(message: Message) -> str:
    """The text of a message without the tool results it carries."""
    content = message.body.get("content")
    if isinstance(content, list):
        content = [each for each in _dicts(content) if each.get("type") == "text"]
    return messages.content_text(content)


def _value(text: str | None) -> Json:
    try:
        return msgspec.json.decode(text or "null")
    except msgspec.DecodeError:
        return text


def _fingerprint(system: str, tools: list[dict[str, Any]], said: list[Message]) -> str:
    order: dict[str, int] = {}
    conversation = [[each.role, _seen(each, order)] for each in said]
    offered = [[tool.get(part) for part in _TOOL_PARTS] for tool in digests.seen(tools)]
    return digests.digest("demo", digests.canonical([system, offered, conversation]))


def _seen(message: Message, order: dict[str, int]) -> list[Json]:
    """The blocks of a message, ids replaced by the order in which they first appear."""

    def number(id: Json) -> int:
        return order.setdefault(str(id), len(order))

    content = message.body.get("content")
    if not isinstance(content, list):
        return [["text", messages.content_text(content)]]
    blocks: list[Json] = []
    for block in _dicts(content):
        match block.get("type"):
            case "text":
                blocks.append(["text", str(block.get("text", ""))])
            case "tool_use":
                blocks.append(
                    ["call", number(block.get("id")), block.get("name"), block.get("input")]
                )
            case "tool_result":
                text = messages.content_text(block.get("content"))
                answered = number(block.get("tool_use_id"))
                blocks.append(["result", answered, text, bool(block.get("is_error"))])
            case "thinking" | "redacted_thinking":
                continue
            case _:
                blocks.append(digests.seen(block))
    return blocks


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
