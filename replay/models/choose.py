"""A model by its name: the demo model, or one that a server knows by that name.

Nothing is imported and nothing is asked until an answer is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replay.budget import Budget
from replay.errors import ModelRefused
from replay.models.cached import Cached
from replay.models.protocol import Target
from replay.models.servers import DEMO as DEMO
from replay.models.servers import NONE, Models, resolve, wire_of
from replay.openai_settings import recorded_wire
from replay.providers import ANTHROPIC, OPENAI, RESPONSES, by_name, split_name
from replay.store.handle import Store
from replay.trace import Trace

if TYPE_CHECKING:
    from replay.models.live import Live


def choose(
    name: str | None,
    store: Store,
    *,
    live: bool = False,
    budget: Budget | None = None,
    models: Models = NONE,
) -> Cached:
    """The model of that name behind its stored answers, those of the server it is asked at.

    `live` allows asking a server, under `budget`; without it a missing answer is an OfflineMiss.
    The demo model is local and always answers. `models` are those that a person configured. Raises
    ModelRefused where there is no name, where it is not known who serves it, and where a live call
    would have no limit.
    """
    if not name:
        raise ModelRefused("Model unknown: not recorded in the trace", "Try: --model NAME")
    if name == DEMO:
        from replay.models.demo import Demo

        return Cached(store, DEMO, Demo(), source=DEMO)
    target = resolve(name, models, live=live)
    if not live:
        return Cached(store, target.model, server=target.server, target=target)
    if budget is None or not budget.limits.any:
        raise ModelRefused(
            "--live needs a limit",
            "Try: --budget 0.50, or --max-calls 20, --max-tokens N or --max-minutes N",
        )
    asked = _live(target, budget)
    return Cached(
        store,
        target.model,
        asked,
        source=_SOURCES.get(target.provider.name, "live"),
        price=asked.cost,
        server=target.server,
        target=target,
    )


_SOURCES = {ANTHROPIC.name: "claude"}


def client_of(target: Target) -> Callable[..., Live]:
    """What asks a target, to be made with its name, its API and a budget."""
    if target.provider is ANTHROPIC:
        from replay.models.claude import Claude

        return Claude
    if target.provider.batches and target.batches:
        from replay.models.openai_batches import BatchingOpenAI

        return BatchingOpenAI
    from replay.models.live import Live

    return Live


def _live(target: Target, budget: Budget) -> Live:
    """The client of a target's API."""
    return client_of(target)(
        target.model,
        budget=budget,
        wire=wire_of(target),
        base_url=target.url or "",
        where=target.address,
        rates=target.prices,
    )


def default_name(trace: Trace) -> str | None:
    """The model that answered most steps of a trace, the first of several; None where unknown.

    One that was asked by the Responses API is asked by it again, and named so.
    """
    names = [step.ask.response.model or step.ask.request.model for step in trace.steps]
    known = [name for name in names if name]
    found = max(dict.fromkeys(known), key=known.count, default=None)
    if found is None or split_name(found)[0] is not None or by_name(found) is not OPENAI:
        return found
    by_responses = trace.header.format == "codex" or any(
        recorded_wire(step.ask.request.params) == "responses" for step in trace.steps
    )
    return f"{RESPONSES.name}:{found}" if by_responses else found


def label(name: str) -> str:
    """How a model's name stands beside its figures."""
    return "demo, rule-based" if name == DEMO else name
