"""What the demo model answers: one plan a kind of need, the first unfinished one decides.

A plan (`orders`, `catalogue`) looks at what has been observed so far and returns the
next move, or what to tell the customer when nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from replay import canon
from replay.models.demo import catalogue, orders
from replay.models.demo.mind import Met, Mind, Move, Say, Use
from replay.models.demo.needs import Need
from replay.models.demo.tools import GOALS


def _human(mind: Mind, need: Need) -> Move:
    return mind.hand_over(need, "The customer wants to speak to a person")


PLANS: dict[str, Callable[[Mind, Need], Move]] = {
    "status": orders.status,
    "refund": orders.refund,
    "cancel": orders.cancel,
    "address": orders.address,
    "stock": catalogue.stock,
    "product": catalogue.product,
    "compare": catalogue.compare,
    "policy": catalogue.policy,
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
                uses = (move, *_beside(mind, move, needs[index + 1 :]))
                return Act(" ".join(dict.fromkeys(use.says for use in uses)), uses)
    return Act(" ".join(dict.fromkeys(told)))


def _beside(mind: Mind, first: Use, later: tuple[Need, ...]) -> list[Use]:
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
    return left.tool == right.tool and canon.same(left.arguments, right.arguments)
