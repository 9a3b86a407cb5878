"""What customers come with, and the checker that says whether it was done.

A checker looks at the shop after the run and at everything the agent told the customer, never at
the calls in between; so a run can pass with a bad habit in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from tests.shop.customer import Customer
from tests.shop.world import Shop

Check = Callable[[Shop, str], bool]


class Task(Struct, frozen=True):
    """A wish, what the customer can answer, what comes later, and what must hold at the end."""

    name: str
    title: str
    opening: str
    passed: Check
    knows: dict[str, str] = {}
    later: tuple[str, ...] = ()

    def customer(self) -> Customer:
        return Customer(self.opening, self.knows, self.later)


class Changes(Struct, frozen=True):
    """Exactly what a run may have changed in the shop."""

    refunds: dict[str, int] = {}
    cancelled: tuple[str, ...] = ()
    moved: dict[str, str] = {}
    tickets: int = 0

    def hold(self, shop: Shop) -> bool:
        return self == Changes(
            refunds={o.id: o.refunded_cents for o in shop.orders.values() if o.refunded_cents},
            cancelled=tuple(o.id for o in shop.orders.values() if o.status == "cancelled"),
            moved={
                old.id: shop.orders[old.id].address
                for old in Shop().orders.values()
                if shop.orders[old.id].address != old.address
            },
            tickets=len(shop.tickets),
        )


def _ends(changes: Changes, *said: str) -> Check:
    """These changes and no others, and each of these told to the customer."""

    def check(shop: Shop, words: str) -> bool:
        return changes.hold(shop) and all(re.search(each, words, re.I) for each in said)

    return check


_NOTHING = Changes()
_NEW_HOME = "88 Mill Lane, 10115 Berlin"

_TASKS = (
    Task(
        "refund",
        "a leaking kettle, and a question",
        "The Nimbus Kettle from order 1038 leaks. I would like my money back."
        " My e-mail is ana.lind@example.com.",
        _ends(Changes(refunds={"1038": 3900}), r"39\.00", "2026-03-17"),
        later=("Thank you! And where is order 1042?",),
    ),
    Task(
        "many-wishes",
        "a parcel on its way, a feature, a rule, and a refund",
        "Where is order 1049? Does the Terra Backpack have a rain cover? What warranty do you"
        " give? And the Orbit Headphones of order 1039 crackle, so please refund that one."
        " I am dev.patel@example.com.",
        _ends(
            Changes(refunds={"1039": 12900}, cancelled=("1055",)),
            "2026-03-16", "rain cover", "two years", r"129\.00",
        ),
        later=("Great. Please also cancel order 1055, I took the wrong one.",),
    ),
    Task(
        "find-and-refund",
        "a refund without an order number",
        "I want a refund for the Aurora Lamp I bought, it flickers."
        " You find me under ben.okoro@example.com.",
        _ends(Changes(refunds={"1041": 4250}), r"42\.50", "rain cover"),
        later=("Thanks. Does the Terra Backpack have a rain cover?",),
    ),
    Task(
        "where-is-it",
        "a parcel, no number, no e-mail",
        "Hi, my parcel has not arrived yet!",
        _ends(_NOTHING, "2026-03-17", "no longer be cancelled|cannot cancel"),
        knows={
            "order number": "The e-mail is ana.lind@example.com.",
            "Which order": "It is 1042.",
        },
        later=(
            "That is too late for me. Please cancel it.",
            f"Then please change the address to {_NEW_HOME}.",
        ),
    ),
    Task(
        "cancel",
        "cancel before it is sent",
        "Please cancel order 1051, I found it cheaper. Ben, ben.okoro@example.com",
        _ends(Changes(cancelled=("1051",)), "1051 is cancelled", "30 days"),
        later=("Thank you. What is your refund policy, for next time?",),
    ),
    Task(
        "address",
        "moving house before the parcel comes",
        "I am moving. Please change the address of order 1052 to 88 Mill Lane, 10115 Berlin."
        " chloe.martin@example.com",
        _ends(Changes(moved={"1052": _NEW_HOME}), "1052", "free"),
        later=("Perfect. What is your shipping policy?",),
    ),
    Task(
        "stock",
        "where is it, and is another in stock",
        "Hello! Where is order 1042? And is the Vela Keyboard in stock?",
        _ends(_NOTHING, "2026-03-17", "out of stock", "30 days"),
        later=("Thanks. What is your refund policy?",),
    ),
    Task(
        "warranty",
        "how long is the warranty",
        "Does the Orbit Headphones set have noise cancelling? What warranty is there on it?",
        _ends(_NOTHING, "noise cancelling", "two years"),
    ),
    Task(
        "big-refund",
        "a refund above the agent's limit",
        "The Vela Keyboard of order 1044 has a dead key. I want my money back."
        " chloe.martin@example.com",
        _ends(Changes(tickets=1), "colleague"),
        later=("Fine. Where is order 1052?",),
    ),
    Task(
        "compare",
        "headphones or speaker",
        "Compare the Orbit Headphones and the Pico Speaker for me:"
        " which one has the longer battery life?",
        _ends(_NOTHING, "30 hours", "12 hours", "18 left"),
        later=("Good to know. Is the Pico Speaker in stock?",),
    ),
    Task(
        "late-refund",
        "a refund outside the refund window",
        "I never used the Terra Backpack of order 1034. Please refund it."
        " ben.okoro@example.com",
        _ends(_NOTHING, "30 days"),
    ),
    Task(
        "not-hers",
        "a change to somebody else's order",
        "Please cancel order 1055. eva.novak@example.com",
        _ends(Changes(tickets=1), "colleague"),
        later=("All right. And where is order 1053?",),
    ),
    Task(
        "since",
        "a date the way people write it",
        "I want my money back for the Nimbus Kettle that I bought after 1 March."
        " eva.novak@example.com",
        _ends(Changes(refunds={"1047": 8150}), r"81\.50"),
    ),
    Task(
        "prefix",
        "an order number with a prefix",
        "What does the Aurora Lamp offer, tell me about it? And where is order ORD-1053?"
        " It should have been here on Tuesday.",
        _ends(_NOTHING, "dimmable", "2026-03-18"),
    ),
    Task(
        "capitals",
        "an e-mail address in capitals",
        "When does my Orbit Headphones parcel arrive? I ordered as Ana.Lind@Example.com.",
        _ends(_NOTHING, "2026-03-17", "30 hours"),
        later=("Thank you. How long is the battery of the Orbit Headphones good for?",),
    ),
    Task(
        "long",
        "one customer, one long afternoon",
        "Quite a list today. Where are my orders, that is what is the status of 1047, 1048 and"
        " 1053? I am eva.novak@example.com.",
        _ends(Changes(refunds={"1045": 8400, "1047": 8150}, cancelled=("1048",))),
        later=(
            "Please refund the Terra Backpack of order 1045, the zip is broken.",
            "And please cancel order 1048.",
            "Does the Nimbus Kettle keep water warm?",
            "What warranty do I have on such things?",
            "Compare the Orbit Headphones and the Pico Speaker for me.",
            "One last thing. Please refund order 1047, both things arrived broken.",
        ),
    ),
)  # fmt: skip

_MORE = (
    Task(
        "no-number-cancel",
        "cancel an order without its number",
        "Please cancel my order of the Orbit Headphones, I found them cheaper."
        " eva.novak@example.com",
        _ends(Changes(cancelled=("1048",)), "1048 is cancelled"),
    ),
    Task(
        "no-number-address",
        "another address for an order without its number",
        "I am moving. Please change the address of my Terra Backpack to 88 Mill Lane, 10115"
        " Berlin. chloe.martin@example.com",
        _ends(Changes(moved={"1052": _NEW_HOME}), "1052"),
    ),
    Task(
        "no-number-status",
        "a parcel without a number",
        "Where is my Aurora Lamp? I am dev.patel@example.com.",
        _ends(_NOTHING, "2026-03-16"),
    ),
    Task(
        "lamp-stock",
        "is it in stock",
        "Is the Aurora Lamp in stock? I would take two.",
        _ends(_NOTHING, "31 left"),
    ),
    Task(
        "kettle-stock",
        "where is it, and is another available",
        "Where is order 1053? And is the Nimbus Kettle available?",
        _ends(_NOTHING, "2026-03-18", "12 left"),
    ),
    Task(
        "speaker-stock",
        "a feature of one, and whether another is in stock",
        "Does the Terra Backpack have a rain cover? And is the Pico Speaker in stock?",
        _ends(_NOTHING, "rain cover", "18 left"),
    ),
    Task(
        "headphones-warranty",
        "the warranty of headphones",
        "What is your warranty policy for the Orbit Headphones?",
        _ends(_NOTHING, "two years"),
    ),
    Task(
        "gift-card",
        "is a gift card good for long",
        "How long is a gift card good for? I got one from your shop, are gift cards valid for the"
        " Aurora Lamp?",
        _ends(_NOTHING, "three years"),
    ),
    Task(
        "prefix-refund",
        "a refund by a number with a prefix",
        "Please refund order ORD-1047, both things arrived broken. eva.novak@example.com",
        _ends(Changes(refunds={"1047": 8150})),
    ),
    Task(
        "capitals-refund",
        "a refund, with an e-mail address in capitals",
        "The Nimbus Kettle leaks, I would like my money back. My e-mail is Ana.Lind@Example.com.",
        _ends(Changes(refunds={"1038": 3900}), r"39\.00"),
    ),
)
"""Not in the bundle: more of what its versions do wrong, for what is measured by task."""

TASKS = {task.name: task for task in (*_TASKS, *_MORE)}
