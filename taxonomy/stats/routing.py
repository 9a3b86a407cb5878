"""What would the same tokens have cost at another model's price?

Cost only. Another model would count other tokens, answer otherwise, and may not solve the task:
whoever routes has to measure resolution again. A prefix cache belongs to its model, so the
answer is a range: from a cache that held for the other model what it held here, to none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, structs

from replay.effects import Effects
from replay.prices import price, table
from replay.trace import Step, Trace, Usage
from taxonomy.metrics.cost import spent
from taxonomy.waste.repeats import cost_of

REMEASURE = "cost only: resolution must be re-measured"

SHORT_TOKENS = 200
"""An answer of so many tokens or fewer is short."""

Predicate: TypeAlias = Callable[[Step], bool]


class WhatIf(Struct, frozen=True, kw_only=True):
    """The cost of a run with some steps at another model's price.

    `routed` are the steps at the other price; `unknown` steps of the run have no price, here or
    there, and are left out of both sums. `now_usd` is what the others cost; `cached_usd` and
    `fresh_usd` are what they would, the cache of the other model holding what it held here, or
    nothing. All None where no step has a price.
    """

    model: str
    prices: str
    where: str
    routed: tuple[int, ...]
    unknown: tuple[int, ...]
    now_usd: float | None
    cached_usd: float | None
    fresh_usd: float | None
    caveat: str = REMEASURE


def what_if(trace: Trace, model: str, wanted: Predicate, where: str = "") -> WhatIf:
    """The run with the steps that `wanted` names at the price of `model`; `where` describes them.

    A step whose price is not known on either side is left out of both.
    """
    routed: list[int] = []
    unknown: list[int] = []
    now: list[float] = []
    cached: list[float] = []
    fresh: list[float] = []
    for step in trace.steps:
        cost = cost_of(step)
        there = (cost, cost) if not wanted(step) else _elsewhere(step, model)
        if cost is None or there[0] is None or there[1] is None:
            unknown.append(step.index)
            continue
        if wanted(step):
            routed.append(step.index)
        now.append(cost)
        cached.append(there[0])
        fresh.append(there[1])
    return WhatIf(
        model=model,
        prices=table(),
        where=where,
        routed=tuple(routed),
        unknown=tuple(unknown),
        now_usd=spent(now).cost_usd if now else None,
        cached_usd=spent(cached).cost_usd if now else None,
        fresh_usd=spent(fresh).cost_usd if now else None,
    )


def everything(_: Step) -> bool:
    """Every step."""
    return True


def short(step: Step) -> bool:
    """Steps with a short answer; one whose length is not known is none."""
    usage = step.ask.usage
    written = usage.output_tokens if usage is not None else None
    return written is not None and written <= SHORT_TOKENS


def read_only(trace: Trace) -> Predicate:
    """Steps that called tools, all of which are known or guessed to change nothing."""
    calls = [act for step in trace.steps for act in step.acts]
    tools = {tool.name: tool for step in trace.steps for tool in step.ask.request.tools or ()}
    effects = Effects(calls, tools.values())
    return lambda step: (
        bool(step.acts) and all(effects.of(act.name, act.arguments).reads for act in step.acts)
    )


def _elsewhere(step: Step, model: str) -> tuple[float | None, float | None]:
    """What a step would cost at another model: its cache as here, and without any."""
    usage = step.ask.usage
    at_ns = step.ask.start_ns
    return _usd(usage, model, at_ns), _usd(_uncached(usage), model, at_ns)


def _uncached(usage: Usage | None) -> Usage | None:
    if usage is None:
        return None
    return structs.replace(
        usage, cache_read_tokens=None, cache_write_tokens=None, cache_write_1h_tokens=None
    )


def _usd(usage: Usage | None, model: str, at_ns: int | None) -> float | None:
    found = price(usage, model, at_ns=at_ns)
    return None if found is None else found.usd
