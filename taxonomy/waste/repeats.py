"""What did a run pay for doing again what it had done: redundant calls, and the steps of loops?

A call is redundant that asks what an earlier one of its thread asked and brings the same answer,
nothing having been changed in between. What is a loop is for the rule to say; here are its steps
and their cost. A step costs what its model call costs: the tools' own cost is not recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.statistics import Rate, rate
from taxonomy.evidence.reading import Reading
from taxonomy.metrics.cost import spent
from taxonomy.rules import context, loop
from taxonomy.rules.context import brought_again
from taxonomy.waste.spending import cost_of


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
            (context.why_said(same), tuple(turn.index for turn in same[1:]))
            for same in context.speeches(reading, turns)
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
