"""Which order a customer means: the number they gave, one a search shows, or one made up."""

from __future__ import annotations

import re

from replay.models.demo.mind import Mind, Move, Say, Way
from replay.models.demo.needs import Need

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
