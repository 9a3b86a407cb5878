"""What did each step cost, and what did a run pay for doing again what it had done?

A cost is the recorded one, else the price table's, else unknown. A sum over partly unknown costs
is the sum of the known ones and says that it is not complete.

A call is redundant that asks what an earlier one of its thread asked and brings the same answer,
nothing having been changed in between. What is a loop is for the rule to say; here are its steps
and their cost. A step costs what its model call costs: the tools' own cost is not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.prices import price
from replay.statistics import Rate, rate
from replay.trace import Step, Trace, Usage
from taxonomy.evidence.reading import Reading
from taxonomy.metrics.cost import spent
from taxonomy.rules import loop, rule
from taxonomy.rules.rule import brought_again


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


class RedundantCall(Struct, frozen=True, kw_only=True):
    """A call that brought what the same call at step `earlier` had brought."""

    step: int
    earlier: int
    span: str
    tool: str


class Redundant(Struct, frozen=True, kw_only=True):
    """The redundant calls, their share of the calls whose reply is known, and what they cost.

    `steps` called for nothing else; `cost_usd` is theirs, None where none of it is known.
    """

    calls: tuple[RedundantCall, ...]
    share: Rate
    steps: tuple[int, ...]
    cost_usd: float | None
    cost_complete: bool


class LoopCost(Struct, frozen=True, kw_only=True):
    """A loop as the rule sees it: why it is one, the steps that went through it again, their cost.

    `step` is the first of them.
    """

    step: int
    why: str
    steps: tuple[int, ...]
    cost_usd: float | None
    cost_complete: bool


def redundant(reading: Reading) -> Redundant:
    """The calls of a trace that brought nothing new."""
    calls: list[RedundantCall] = []
    decided = 0
    for turns in reading.threads.values():
        acts = [act for turn in turns for act in turn.acts if act.reply.failed is not None]
        decided += len(acts)
        calls += [
            RedundantCall(step=act.step, earlier=was.step, span=act.span.id, tool=act.name)
            for was, act in brought_again(acts)
        ]
    spans = {call.span for call in calls}
    steps = [
        turn.index
        for turn in reading.turns
        if turn.acts and all(act.span.id in spans for act in turn.acts)
    ]
    whole = spent(map(_costs(reading).__getitem__, steps))
    return Redundant(
        calls=tuple(sorted(calls, key=lambda call: call.step)),
        share=rate(len(calls), decided),
        steps=tuple(steps),
        cost_usd=whole.cost_usd,
        cost_complete=whole.cost_complete,
    )


def loops(reading: Reading) -> tuple[LoopCost, ...]:
    """The loops of a run, with what going through them again cost, by the step at which each begins
    again."""
    costs = _costs(reading)
    found = []
    for turns in reading.threads.values():
        found += [(each.why, each.steps) for each in loop.loops(reading, turns)]
        found += [
            (rule.why_said(same), tuple(turn.index for turn in same[1:]))
            for same in rule.speeches(reading, turns)
        ]
    return tuple(
        sorted((_loop(why, steps, costs) for why, steps in found), key=lambda each: each.step)
    )


def _loop(why: str, steps: tuple[int, ...], costs: Sequence[float | None]) -> LoopCost:
    whole = spent(costs[step] for step in steps)
    return LoopCost(
        step=steps[0],
        why=why,
        steps=steps,
        cost_usd=whole.cost_usd,
        cost_complete=whole.cost_complete,
    )


def _costs(reading: Reading) -> list[float | None]:
    return [cost_of(step) for step in reading.trace.steps]
