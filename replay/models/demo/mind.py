"""What the demo model believes and obeys in one request, and how it tries to get a thing done."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from replay import digests
from replay.models.demo import needs, request, rules
from replay.models.demo.needs import Need
from replay.models.demo.request import GOALS, Asked, PastCall
from replay.models.demo.rules import Chance
from replay.trace import Json


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
        self.facts = needs.gather(asked.calls)
        self.kit = request.kit(asked.offers, said)
        self.open = needs.open_needs(asked.turns)
        self.email = needs.email(asked.turns)
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
