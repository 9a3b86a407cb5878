"""What is expected of an answer, or of a whole run, as the user says it: from words to an oracle.

`rule` (the finding at the step), `gold` (the source's own gold actions), `judge` (a score under a
half), or an expression of `replay.predicate`.
"""

from __future__ import annotations

from msgspec import Struct

from arc_tui.jobs.replaying import break_and_notice
from replay.bisection.rollouts import Ending, Reaches
from replay.budget import Budget
from replay.errors import no_step
from replay.models.cached import Cached
from replay.models.choose import DEMO, choose
from replay.oracle import Oracle
from replay.predicate import Predicate, predicate
from replay.predicate.oracle import Unmet
from replay.store import Store, read
from replay.trace import Trace
from taxonomy import ledger
from taxonomy.expectations import (
    GoldEnding,
    GoldOracle,
    JudgeOracle,
    NothingExpected,
    judge_needed,
)
from taxonomy.oracles import oracle_at

RULE, GOLD, JUDGE = "rule", "gold", "judge"
_SAY = "say what is expected: --expect 'tool=NAME' (or gold, judge)"


class Asks(Struct, frozen=True, eq=False):
    """Who is asked: the model, and the judge where one is needed (None: the rules)."""

    model: Cached
    judge: Cached | None = None


def step_of(store: Store, trace: Trace, at: int | None) -> int:
    """The step to ask at: as said, else where the run broke.

    Raises NotFound, and NothingExpected where it is not known where it broke.
    """
    if at is not None:
        if not 0 <= at < len(trace.steps):
            raise no_step(at, len(trace.steps))
        return at
    broke, _ = break_and_notice(store, trace.id)
    if broke is None:
        known = f"0 to {len(trace.steps) - 1}" if trace.steps else "the run has none"
        raise NothingExpected(
            "it is not known where this run broke", f"--at STEP says it ({known})"
        )
    return broke


def judge_of(
    store: Store, expect: str | None, judge: str | None, model: str, *, live: bool, budget: Budget
) -> Cached | None:
    """The model that judges, None for the rules or where none is needed.

    Raises ModelRefused where a judge must be named.
    """
    if expect != JUDGE:
        return None
    named = judge_needed(judge, model)
    return None if named == DEMO else choose(named, store, live=live, budget=budget)


def oracle(
    store: Store, trace: Trace, step: int, expect: str | None, judge: Cached | None
) -> Oracle:
    """What tells a bad answer at a step. `expect` None is the rule's finding there.

    Raises BadPredicate, and NothingExpected where there is nothing to hold an answer against.
    """
    match expect:
        case None | "rule":
            said = ledger.diagnosis(store, trace.id)
            found = oracle_at(trace, said.findings if said else (), step)
            if found is None:
                raise NothingExpected(f"no rule found anything at step {step}", _SAY)
            return found
        case "gold":
            return GoldOracle(trace, step)
        case "judge":
            return JudgeOracle(trace, step, judge, scores=read.scores(store, trace.id))
        case _:
            return Unmet(expected(trace, expect, step), step)


def ending(trace: Trace, expect: str | None) -> Ending:
    """What tells whether a whole run came to what was wanted. Raises as `oracle`."""
    match expect:
        case None | "rule" | "judge":
            raise NothingExpected(
                "what a whole run should come to is not said",
                "--expect 'tool=refund_order, args.order_id=1049' (or tool!=…, or gold)",
            )
        case "gold":
            return GoldEnding(trace)
        case _:
            return Reaches(expected(trace, expect, None))


def expected(trace: Trace, text: str, step: int | None) -> Predicate:
    """The expectation, its tools held against those offered at the step (None: at any).

    Raises BadPredicate.
    """
    steps = trace.steps if step is None else (trace.steps[step],)
    offered = {tool.name for each in steps for tool in each.ask.request.tools or ()}
    found = predicate(text)
    found.check(offered)
    return found
