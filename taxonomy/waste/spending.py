"""What did each step cost, and what is a token of it worth?

A cost is the recorded one, else the price table's, else unknown. A sum over partly unknown costs
is the sum of the known ones and says that it is not complete.
"""

from __future__ import annotations

from msgspec import Struct

from replay.prices import price
from replay.trace import Step, Trace, Usage
from taxonomy.metrics.cost import spent


class Rates(Struct, frozen=True):
    """What an input token of a step costs in USD: fresh, read from the cache, written to it."""

    fresh: float
    read: float
    write: float


class StepCost(Struct, frozen=True, kw_only=True):
    """Tokens and cost of a step; unknown is None. `calls` are the tools it called."""

    step: int
    thread: str
    model: str | None
    calls: tuple[str, ...]
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost_usd: float | None


class Spending(Struct, frozen=True, kw_only=True):
    """What a run spent. Sums are over the steps that say: `counted` their tokens, `priced` a cost.

    `cached` steps have both an input count and a count of what was read from the cache;
    `cached_input_tokens` is their input, `cache_read_tokens` the part of it that was read.
    `reported_usd` is the source's own total, which may rest on other prices.
    """

    steps: tuple[StepCost, ...]
    counted: int
    input_tokens: int
    output_tokens: int
    priced: int
    cost_usd: float | None
    cost_complete: bool
    cached: int
    cached_input_tokens: int
    cache_read_tokens: int
    reported_usd: float | None


def cost_of(step: Step) -> float | None:
    """The recorded cost of a step in USD, else that of its tokens by the price table."""
    ask = step.ask
    found = ask.cost or price(ask.usage, *_models(step), at_ns=ask.start_ns)
    return None if found is None else found.usd


def rates_of(step: Step) -> Rates | None:
    """The rates of the price table at the size of the step's input; None where it has none."""
    size = step.ask.usage.input_tokens if step.ask.usage is not None else None
    if not size:
        return None
    fresh = _rate(step, size, Usage(input_tokens=size, output_tokens=0))
    read = _rate(step, size, Usage(input_tokens=size, output_tokens=0, cache_read_tokens=size))
    write = _rate(step, size, Usage(input_tokens=size, output_tokens=0, cache_write_tokens=size))
    return None if fresh is None or read is None or write is None else Rates(fresh, read, write)


def unread_rate(usage: Usage, rates: Rates) -> float:
    """What a token cost that was not read from the cache: written in part, fresh in part."""
    unread = (usage.input_tokens or 0) - (usage.cache_read_tokens or 0)
    written = min(1.0, (usage.cache_write_tokens or 0) / unread) if unread > 0 else 0.0
    return written * rates.write + (1 - written) * rates.fresh


def spending(trace: Trace) -> Spending:
    """What a trace spent, step by step and in all."""
    steps = tuple(map(_step_cost, trace.steps))
    counted = [s for s in steps if s.input_tokens is not None and s.output_tokens is not None]
    cached = [s for s in steps if s.input_tokens is not None and s.cache_read_tokens is not None]
    whole = spent(each.cost_usd for each in steps)
    return Spending(
        steps=steps,
        counted=len(counted),
        input_tokens=sum(each.input_tokens or 0 for each in counted),
        output_tokens=sum(each.output_tokens or 0 for each in counted),
        priced=sum(each.cost_usd is not None for each in steps),
        cost_usd=whole.cost_usd,
        cost_complete=whole.cost_complete,
        cached=len(cached),
        cached_input_tokens=sum(each.input_tokens or 0 for each in cached),
        cache_read_tokens=sum(each.cache_read_tokens or 0 for each in cached),
        reported_usd=trace.header.reported_cost_usd,
    )


def _step_cost(step: Step) -> StepCost:
    usage = step.ask.usage or Usage()
    return StepCost(
        step=step.index,
        thread=step.thread,
        model=next(filter(None, _models(step)), None),
        calls=tuple(act.name for act in step.acts),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost_usd=cost_of(step),
    )


def _models(step: Step) -> tuple[str | None, str | None]:
    """The model that answered, then the one that was asked."""
    return step.ask.response.model, step.ask.request.model


def _rate(step: Step, size: int, usage: Usage) -> float | None:
    found = price(usage, *_models(step), at_ns=step.ask.start_ns)
    return None if found is None else found.usd / size
