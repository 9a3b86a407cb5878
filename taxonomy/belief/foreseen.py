"""What would asking about beliefs cost? Said before the first call."""

from __future__ import annotations

from replay import canon
from replay.locked.estimate import Estimate
from replay.prices import price
from replay.trace import Trace, Usage
from taxonomy.belief.probe import BeliefOracle

ANSWER_TOKENS = 60
"""About what an answer about one fact takes."""

NOTHING = Estimate(calls=0, stored=0, input_tokens=0, output_tokens=0, usd=0.0)

_CHARACTERS_PER_TOKEN = 4


def foreseen(trace: Trace, oracle: BeliefOracle) -> Estimate:
    """One call a step that is not answered yet: the recorded tokens of its request and the
    question's, by size where none were recorded, and an answer a fact."""
    open_ = [step for step in oracle.steps if not oracle.model.stored(oracle.sent(step), 0)]
    usages = [_usage(trace, oracle, step) for step in open_]
    costs = [price(usage, oracle.model.name) for usage in usages]
    known = [cost.usd for cost in costs if cost is not None]
    return Estimate(
        calls=len(open_),
        stored=len(oracle.steps) - len(open_),
        input_tokens=sum(usage.input_tokens or 0 for usage in usages),
        output_tokens=sum(usage.output_tokens or 0 for usage in usages),
        by_size=len(open_),
        usd=sum(known) if len(known) == len(costs) else None,
    )


def _usage(trace: Trace, oracle: BeliefOracle, step: int) -> Usage:
    body = oracle.sent(step).body()
    recorded = trace.steps[step].ask.usage
    known = recorded.input_tokens if recorded is not None else None
    asked = len(canon.encode(body["messages"][-1])) // _CHARACTERS_PER_TOKEN
    whole = len(canon.encode(body)) // _CHARACTERS_PER_TOKEN
    return Usage(
        input_tokens=whole if known is None else known + asked,
        output_tokens=ANSWER_TOKENS * len(oracle.facts),
    )
