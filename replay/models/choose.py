"""A model by its name: the demo model, or one that a server knows by that name.

Nothing is imported and nothing is asked until an answer is missing.
"""

from __future__ import annotations

from replay.budget import Budget
from replay.errors import ModelRefused
from replay.models import protocol
from replay.models.cached import Cached
from replay.store.handle import Store
from replay.trace import Trace

DEMO = "demo"


def choose(
    name: str | None, store: Store, *, live: bool = False, budget: Budget | None = None
) -> Cached:
    """The model of that name behind its stored answers, those of the server it is asked at.

    `live` allows asking a server, under `budget`; without it a missing answer is an OfflineMiss.
    The demo model is local and always answers. Raises ModelRefused where there is no name, and
    where a live call would have no limit.
    """
    if not name:
        raise ModelRefused("Model unknown: not recorded in the trace", "Try: --model NAME")
    if name == DEMO:
        from replay.models.demo import Demo

        return Cached(store, DEMO, Demo(), source=DEMO)
    wire = name.removeprefix("anthropic/")
    place = protocol.name(protocol.server_url())
    if not live:
        return Cached(store, wire, server=place)
    if budget is None or not budget.limits.any:
        raise ModelRefused(
            "--live needs a limit",
            "Try: --budget 0.50, or --max-calls 20, --max-tokens N or --max-minutes N",
        )
    from replay.models.claude import Claude

    claude = Claude(wire, budget=budget)
    return Cached(store, wire, claude, source="claude", price=claude.cost, server=place)


def default_name(trace: Trace) -> str | None:
    """The model that answered most steps of a trace, the first of several; None where unknown."""
    names = [step.ask.response.model or step.ask.request.model for step in trace.steps]
    known = [name for name in names if name]
    return max(dict.fromkeys(known), key=known.count, default=None)


def label(name: str) -> str:
    """How a model's name stands beside its figures."""
    return "demo, rule-based" if name == DEMO else name
