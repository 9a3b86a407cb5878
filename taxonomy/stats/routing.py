"""What would the same tokens have cost at another model's price?

Cost only. Another model would count other tokens, answer otherwise, and may not solve the task:
whoever routes has to measure resolution again. A prefix cache belongs to its model, so the
answer is a range: from a cache that held for the other model what it held here, to none.

Two agents are compared at what a resolved task costs, never at what a run does (article on agent
evals, cost and token accounting): the cost of a run by the share of runs that resolve their task,
which is measured, or assumed and then said so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from replay.effects import Effects
from replay.prices import price, table
from replay.providers import Rates
from replay.statistics import Rate, clustered
from replay.store.rows import TraceRow
from replay.trace import Step, Trace, Usage
from taxonomy.metrics.cost import per_resolved_at, spent
from taxonomy.waste.repeats import cost_of

OWN_PRICES = "config.toml"

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


def what_if(
    trace: Trace, model: str, wanted: Predicate, where: str = "", rates: Rates | None = None
) -> WhatIf:
    """The run with the steps that `wanted` names at the price of `model`; `where` describes them.

    The price is that of a person's own `rates` where given. A step whose price is not known on
    either side is left out of both.
    """
    routed: list[int] = []
    unknown: list[int] = []
    now: list[float] = []
    cached: list[float] = []
    fresh: list[float] = []
    for step in trace.steps:
        cost = cost_of(step)
        there = (cost, cost) if not wanted(step) else _elsewhere(step, model, rates)
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
        prices=table() if rates is None else OWN_PRICES,
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


def _elsewhere(step: Step, model: str, rates: Rates | None) -> tuple[float | None, float | None]:
    """What a step would cost at another model: its cache as here, and without any."""
    usage = step.ask.usage
    at_ns = step.ask.start_ns
    return _usd(usage, model, at_ns, rates), _usd(_uncached(usage), model, at_ns, rates)


def _uncached(usage: Usage | None) -> Usage | None:
    if usage is None:
        return None
    return structs.replace(
        usage, cache_read_tokens=None, cache_write_tokens=None, cache_write_1h_tokens=None
    )


def _usd(usage: Usage | None, model: str, at_ns: int | None, rates: Rates | None) -> float | None:
    found = price(usage, model, at_ns=at_ns) if rates is None else rates.price(usage)
    return None if found is None else found.usd


# --- per resolved task

Span: TypeAlias = tuple[float, float]
"""The least and the most USD; equal where there is one figure."""

Verdict: TypeAlias = Literal["pays", "does not pay", "not shown", "unknown"]


class Resolution(Struct, frozen=True, kw_only=True):
    """The share of runs that resolve their task: `assumed`, or the `rate` measured on the runs `of`
    a query, its interval clustered by task. `value` None: unknown."""

    value: float | None
    assumed: bool = False
    rate: Rate | None = None
    of: str = ""


UNKNOWN = Resolution(value=None)


def assume(value: float) -> Resolution:
    return Resolution(value=value, assumed=True)


def measure(rows: Iterable[TraceRow], of: str) -> Resolution:
    """Of runs of known outcome."""
    found = clustered(
        (row.task or row.trace, row.outcome == "passed") for row in rows if row.outcome != "unknown"
    )
    return Resolution(value=found.rate.value, rate=found.rate, of=of)


class PerResolved(Struct, frozen=True, kw_only=True):
    """What an agent costs a run, a resolved task and a month; None where that is not known.

    `bounds` of a resolved task are those of the interval of a measured resolution; the upper one is
    None where none may be resolved.
    """

    run_usd: Span
    resolution: Resolution
    resolved_usd: Span | None
    bounds: tuple[float, float | None] | None
    month_usd: Span | None


class Compared(Struct, frozen=True, kw_only=True):
    """The agent as recorded, and routed where that was asked for. `break_even` is the resolution
    from which on routing pays, None where that of the recorded agent is unknown; over 1 it never
    does. Steps without a price are in none of it: then it is not `complete`."""

    recorded: PerResolved
    routed: PerResolved | None
    break_even: Span | None
    verdict: Verdict
    runs_per_month: int | None
    complete: bool


def per_resolved(run_usd: Span, resolution: Resolution, runs_per_month: int | None) -> PerResolved:
    """The figures of one agent."""
    known = None if resolution.value is None else [
        per_resolved_at(usd, resolution.value) for usd in run_usd
    ]  # fmt: skip
    low, high = known or (None, None)
    bounds = None
    if resolution.rate is not None and resolution.rate.n:
        least = per_resolved_at(run_usd[0], resolution.rate.high)
        bounds = (least or 0.0, per_resolved_at(run_usd[1], resolution.rate.low))
    month = None
    if runs_per_month is not None:
        month = (run_usd[0] * runs_per_month, run_usd[1] * runs_per_month)
    return PerResolved(
        run_usd=run_usd,
        resolution=resolution,
        resolved_usd=None if low is None or high is None else (low, high),
        bounds=bounds,
        month_usd=month,
    )


def compare_resolved(
    now_usd: float,
    routed_usd: Span | None,
    resolutions: tuple[Resolution, Resolution],
    *,
    runs_per_month: int | None = None,
    complete: bool = True,
) -> Compared:
    """Both agents; `resolutions` are those of the recorded and of the routed one."""
    recorded = per_resolved((now_usd, now_usd), resolutions[0], runs_per_month)
    if routed_usd is None:
        return Compared(
            recorded=recorded,
            routed=None,
            break_even=None,
            verdict="unknown",
            runs_per_month=runs_per_month,
            complete=complete,
        )
    routed = per_resolved(routed_usd, resolutions[1], runs_per_month)
    value = resolutions[0].value
    even = None
    if value is not None and now_usd > 0:
        even = (value * routed_usd[0] / now_usd, value * routed_usd[1] / now_usd)
    return Compared(
        recorded=recorded,
        routed=routed,
        break_even=even,
        verdict=_verdict(recorded, routed),
        runs_per_month=runs_per_month,
        complete=complete,
    )


def _verdict(recorded: PerResolved, routed: PerResolved) -> Verdict:
    """Which is cheaper a resolved task, over all that is not known of either."""
    before, after = (each.bounds or each.resolved_usd for each in (recorded, routed))
    if before is None or after is None:
        return "unknown"
    if after[1] is not None and after[1] < before[0]:
        return "pays"
    if before[1] is not None and after[0] > before[1]:
        return "does not pay"
    return "not shown"
