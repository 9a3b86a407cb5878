"""What did a run pay for doing again what it had done: redundant calls, and the steps of loops?

A call is redundant that asks what an earlier one of its thread asked and brings the same answer,
nothing having been changed in between. What is a loop is for the rule to say; here are its steps
and their cost. A step costs what its model call costs: the tools' own cost is not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from replay.statistics import Rate, rate
from taxonomy.classes import FailureClass
from taxonomy.cost import spent
from taxonomy.evidence.reading import Act, Reading, Turn, mutates
from taxonomy.findings import Finding
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
    """A loop the rule found: why it is one, the steps that went through it again, their cost."""

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
        calls.extend(_again(acts))
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


def loops(reading: Reading, findings: Iterable[Finding]) -> tuple[LoopCost, ...]:
    """The loops among some findings, with what going through them again cost."""
    costs = _costs(reading)
    found = []
    for finding in findings:
        if finding.failure is FailureClass.LOOP and finding.step < len(reading.turns):
            steps = tuple(_inside(reading, finding))
            whole = spent(costs[step] for step in steps)
            found.append(
                LoopCost(
                    step=finding.step,
                    why=finding.why,
                    steps=steps,
                    cost_usd=whole.cost_usd,
                    cost_complete=whole.cost_complete,
                )
            )
    return tuple(found)


def _costs(reading: Reading) -> list[float | None]:
    return [cost_of(step) for step in reading.trace.steps]


def _again(acts: Sequence[Act]) -> Iterator[RedundantCall]:
    """The calls of a thread whose like and its answer stand before, since the last change."""
    seen: dict[tuple[str, str], int] = {}
    for act in acts:
        if act.reply.failed is False and mutates(act.span):
            seen.clear()
            continue
        asked = (act.key, act.reply.text)
        if asked in seen:
            yield RedundantCall(step=act.step, earlier=seen[asked], span=act.span.id, tool=act.name)
        seen[asked] = act.step


def _inside(reading: Reading, finding: Finding) -> Iterator[int]:
    """The steps a loop went through again: those cited, and between them what repeats its calls."""
    cited = {each.step for each in finding.evidence if each.step is not None} | {finding.step}
    first, last = min(cited), max(cited)
    before: list[Act] = []
    for turn in reading.threads[reading.turns[finding.step].thread]:
        if first <= turn.index <= last:
            if turn.index > first and (turn.index in cited or _repeats(before, turn)):
                yield turn.index
            before.extend(turn.acts)


def _repeats(before: Sequence[Act], turn: Turn) -> bool:
    """Was every call of a turn made before, or did it fail before in the same words?"""
    keys = {act.key for act in before}
    failures = {(act.name, act.reply.gist) for act in before if act.reply.failed}
    return bool(turn.acts) and all(
        act.key in keys or (act.reply.failed and (act.name, act.reply.gist) in failures)
        for act in turn.acts
    )
