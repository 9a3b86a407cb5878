"""What the demo model reads in one request (what the customer wants, what was observed), what it
believes and obeys, and how it tries to get a thing done.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct, field

from replay import digests
from replay.models.demo import request, rules
from replay.models.demo.request import GOALS, Asked, PastCall, Turn
from replay.models.demo.rules import Chance
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


class Use(Struct, frozen=True, kw_only=True):
    """A call to make now. `says` is the sentence in front of it: what the model believes."""

    goal: str
    tool: str
    arguments: dict[str, Json]
    says: str


class Say(Struct, frozen=True):
    """Words that end the turn: a question, or giving up."""

    text: str


class Met(Struct, frozen=True):
    """Nothing is left to do for a need; `text` is what the customer will read about it."""

    text: str


Move: TypeAlias = Use | Say | Met


class Way(NamedTuple):
    """One way to make a call: what to put in, and what to say first."""

    slots: dict[str, Json]
    says: str


_ABSENT_TOOL = re.compile(r"\bno (such )?tool\b|\bunknown tool\b")
_FINAL = re.compile(r"\balready\b|\bcannot be\b|\bnot allowed\b|\bwas never\b")
_PASSING = re.compile(r"\btimed out\b|\btemporar|\btry again\b")
_MISSING = re.compile(r"\bnot found\b")
_REPEAT_ONCE, _REPEAT_MORE, _MOST_REPEATS = 0.55, 0.85, 5
_FITS = 0.15
"""Below this overlap no tool is one for the goal."""

_SERVES = 0.6
"""A tool serves a goal when it fits it at least this well, beside the goal it fits best."""


class Mind:
    """The state of one request. Every question to it is answered the same way twice."""

    def __init__(self, asked: Asked, chance: Chance) -> None:
        said = "\n\n".join((asked.system, *(t.text for t in asked.turns if t.speaker == "system")))
        self.chance = chance
        self.calls = asked.calls
        self.turns = asked.turns
        self.facts = gather(asked.calls)
        self.kit = request.kit(asked.offers, said)
        self.open = open_needs(asked.turns)
        self.email = email(asked.turns)
        self.limit_cents = rules.limit_cents(said)
        self.year = next(iter(re.findall(r"\b20\d\d\b", said)), None)
        self.today = next(iter(re.findall(r"\b20\d\d-\d\d-\d\d\b", said)), None)
        by_users = (turn.text for turn in asked.turns if turn.speaker == "user")
        by_tools = (self.kit.text(name) for name in self.kit.offers)
        self._fits = {goal: self.kit.rank(goal) for goal in GOALS}
        self._habits = rules.habits("\n\n".join((said, *by_tools, *by_users)))
        self._absent = {
            call.name for call in self.calls if call.failed and _ABSENT_TOOL.search(call.text or "")
        }

    def obeys(self, habit: str) -> bool:
        """Does the model follow this rule in this answer? A hedged rule is followed in half."""
        return self.chance.happens(self._habits.get(habit, 0.0), "habit", habit)

    def pursue(self, goal: str, ways: list[Way], need: Need, ask: str | None = None) -> Move:
        """The next call towards a goal that is not reached yet, or the end of trying.

        `ways` go from the one that comes to mind first to those for after an error. `ask` is the
        question that could still help when all of them have failed.
        """
        if not self.can(goal):
            return Say("I am sorry, I have no tool for this.")
        tries = self._tries(goal, ways)
        if not tries:
            return self.use(goal, ways[0])
        last = tries[-1]
        if last.failed and _FINAL.search(last.text or ""):
            return Met(f"I am sorry: {last.text}.")
        if last.failed and _PASSING.search(last.text or "") and self._same(last) < 3:
            return self._again(goal, last)
        if self.obeys("vary"):
            other = self._another(goal, ways, tries)
            return other or self._stuck(goal, need, last, ask)
        if not self.obeys("no_repeat") and self._insists(last):
            return self._again(goal, last)
        return self._stuck(goal, need, last, None)

    def use(self, goal: str, way: Way) -> Use:
        """The call that a way comes to, with the tool that seems right."""
        tool = self.kit.choose(goal, way.slots, self._absent, self.chance)
        arguments = self.kit.arguments(tool, way.slots)
        return Use(goal=goal, tool=tool, arguments=arguments, says=way.says)

    def succeeded(self, goal: str, ways: list[Way]) -> PastCall | None:
        """The last call towards the goal that brought a result."""
        good = [call for call in self._tries(goal, ways) if not call.failed and call.text]
        return good[-1] if good else None

    def hand_over(self, need: Need, why: str) -> Move:
        """The move towards a human colleague, and what to say once the ticket exists."""
        about = f" Order {need.order}." if need.order else ""
        way = Way(
            {"summary": f"{why}.{about} The customer writes: {need.text}"},
            f"{why}. I will hand this over to a colleague.",
        )
        done = self.succeeded("hand over", [way])
        if done is None:
            return self.pursue("hand over", [way], need)
        ticket = done.value.get("ticket") if isinstance(done.value, dict) else None
        named = f", ticket {ticket}" if ticket else ""
        return Met(f"I have handed this over to a colleague{named}.")

    def missing(self, order: str) -> bool:
        """Did a tool say that there is no such order?"""
        return any(
            call.failed and order in call.arguments.values() and _MISSING.search(call.text or "")
            for call in self.calls
        )

    def last_order(self) -> str | None:
        """The number of the order the model last dealt with."""
        used = [str(value) for call in self.calls for value in call.arguments.values()]
        return next((each for each in reversed(used) if re.fullmatch(r"\d{4}", each)), None)

    def was_told(self, order: str) -> bool:
        """Did a user or a search for orders ever name this number?"""
        told = any(order in turn.text for turn in self.turns if turn.speaker == "user")
        return told or order in self.facts.listed

    def can(self, goal: str) -> bool:
        """Is there any tool for the goal?"""
        return max(self._fits[goal].values()) >= _FITS

    def serves(self, tool: str, goal: str) -> bool:
        """Is this a tool for the goal, as far as names and descriptions tell?"""
        fit = self._fits[goal].get(tool, 0.0)
        best_goal = max(fits.get(tool, 0.0) for fits in self._fits.values())
        best_tool = max(self._fits[goal].values())
        return fit > 0 and (fit >= best_tool or fit >= _SERVES * best_goal)

    def asked_before(self, question: str) -> bool:
        return any(turn.speaker == "assistant" and question in turn.text for turn in self.turns)

    def _tries(self, goal: str, ways: list[Way]) -> list[PastCall]:
        """The calls made towards a goal since it was asked for."""
        return [
            call
            for call in self.calls[self.open.since_call :]
            if call.name not in self._absent
            and self.serves(call.name, goal)
            and any(
                digests.same(self.kit.arguments(call.name, w.slots), call.arguments) for w in ways
            )
        ]

    def _same(self, call: PastCall) -> int:
        """How often this very call was made since it was asked for."""
        return sum(
            each.name == call.name and digests.same(each.arguments, call.arguments)
            for each in self.calls[self.open.since_call :]
        )

    def _insists(self, call: PastCall) -> bool:
        """Would a model without a rule against it make this failed call once more?"""
        times = self._same(call)
        often = _REPEAT_ONCE if times == 1 else _REPEAT_MORE
        return times < _MOST_REPEATS and self.chance.happens(often, "repeat", call.name)

    def _again(self, goal: str, call: PastCall) -> Use:
        return Use(
            goal=goal,
            tool=call.name,
            arguments=call.arguments,
            says="That did not work. I will try it again.",
        )

    def _another(self, goal: str, ways: list[Way], tries: list[PastCall]) -> Use | None:
        """The first of the ways that was not gone yet, None when all were."""
        made = [(call.name, call.arguments) for call in tries]
        for way in ways:
            use = self.use(goal, way)
            if not any(use.tool == name and digests.same(use.arguments, had) for name, had in made):
                return Use(
                    goal=goal,
                    tool=use.tool,
                    arguments=use.arguments,
                    says=f"That did not work, so I will do it differently. {way.says}",
                )
        return None

    def _stuck(self, goal: str, need: Need, last: PastCall, ask: str | None) -> Move:
        if ask is not None and not self.asked_before(ask):
            return Say(ask)
        trouble = last.text if last.failed else "I found nothing that helps"
        if goal != "hand over" and self.obeys("escalate"):
            return self.hand_over(need, f"I am stuck ({trouble})")
        return Say(f"I am sorry, I cannot help you with this: {trouble}.")


ASK_ORDER = "Could you tell me the order number, or the e-mail address you ordered with?"
_ASK_EMAIL = "I find no orders for that. Could you check the e-mail address you ordered with?"
_GUESSES = tuple(range(1031, 1060))
_GUESS_WITH_EMAIL, _GUESS_WITHOUT = 0.6, 0.8
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def identify(mind: Mind, need: Need) -> str | Move:
    """The number of the order a need is about, or the move that will tell it."""
    if need.order is not None:
        bare = re.sub(r"\D", "", need.order)
        known = bare in mind.facts.orders
        if known or not (mind.missing(bare) and mind.obeys("vary")):
            return bare if known else need.order
    at_hand = mind.last_order()
    if at_hand is not None and not need.products and mind.was_told(at_hand):
        return at_hand
    listed = _listed(mind, need)
    if len(listed) == 1 or (listed and not mind.obeys("ids")):
        return listed[0]
    if listed:
        return Say(f"Which order do you mean: {', '.join(listed)}?")
    if not mind.obeys("ids"):
        likely = _GUESS_WITH_EMAIL if mind.email else _GUESS_WITHOUT
        if at_hand is not None or mind.chance.happens(likely, "guess", "order"):
            return at_hand or str(mind.chance.one_of(_GUESSES, "order number"))
    if mind.email is None:
        return Say(ASK_ORDER)
    return mind.pursue("find orders", _searches(mind, need, mind.email), need, ask=_ASK_EMAIL)


def _listed(mind: Mind, need: Need) -> list[str]:
    """The orders of a search that a need can be about, latest order first."""
    wanted = [name.lower() for name in need.products]
    return sorted(
        (
            order
            for order, seen in mind.facts.listed.items()
            if not wanted or any(name in seen.text("items").lower() for name in wanted)
        ),
        reverse=True,
    )


def _searches(mind: Mind, need: Need, email: str) -> list[Way]:
    """Ways to search: as it was said first, then in the form a system is likely to want."""
    said, exact = need.since, _iso(need.since, mind.year)
    days = dict.fromkeys([exact, said, None] if mind.obeys("iso") else [said, exact, None])
    return [
        Way(
            {"email": each, "since": day} if day else {"email": each},
            f"I will search the orders of {each}{f' since {day}' if day else ''}.",
        )
        for each in dict.fromkeys([email, email.lower()])
        for day in days
    ]


def _iso(said: str | None, year: str | None) -> str | None:
    """A date as 2026-03-01; what cannot be read, or lacks a year, stays as it was said."""
    if said is None or re.fullmatch(r"\d{4}-\d\d-\d\d", said):
        return said
    day = re.search(r"\b\d{1,2}(?!\d)", said)
    month = re.search(r"[A-Za-z]{3}", said)
    given = re.search(r"\b\d{4}\b", said)
    year = given[0] if given else year
    if day is None or month is None or month[0].lower() not in _MONTHS or year is None:
        return said
    return f"{year}-{_MONTHS.index(month[0].lower()) + 1:02}-{int(day[0]):02}"
