"""What is expected of an answer or of a whole run, and who tells: a rule, the gold actions, a
judge, or a predicate of the user.
"""

from __future__ import annotations

from msgspec import Struct

from arc_tui.experiments.models import ModelPool
from replay.bisection.trials import Ending, Reaches
from replay.errors import no_step
from replay.models.cached import Cached
from replay.models.choose import DEMO
from replay.predicate import Detector, Predicate, Unmet, predicate
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.detectors import (
    GoldDetector,
    GoldEnding,
    JudgeDetector,
    NothingExpected,
    detector_at,
    judge_needed,
)
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.judgements.golds import with_own_gold
from taxonomy.query.failures import break_and_notice

RULE, GOLD, JUDGE = "rule", "gold", "judge"
_TRY = "Try: --expect 'tool=NAME' (or gold, judge)"


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
        known = f"0 to {len(trace.steps) - 1}" if trace.steps else "the run has no step"
        raise NothingExpected("no break candidate in this run", f"Try: --step STEP ({known})")
    return broke


def judge_of(models: ModelPool, expect: str | None, judge: str | None, model: str) -> Cached | None:
    """The model that judges, None for the rules or where none is needed.

    Raises ModelRefused where a judge must be named.
    """
    if expect != JUDGE:
        return None
    named = judge_needed(judge, model)
    return None if named == DEMO else models.named(named)


def detector_of(
    store: Store, trace: Trace, step: int, expect: str | None, judge: Cached | None
) -> Detector:
    """What tells a bad answer at a step. `expect` None is the rule's finding there.

    Raises BadPredicate, and NothingExpected where there is nothing to hold an answer against.
    """
    match expect:
        case None | "rule":
            said = diagnosis(store, trace.id)
            found = detector_at(trace, said.findings if said else (), step)
            if found is None:
                raise NothingExpected(f"no finding at step {step}", _TRY)
            return found
        case "gold":
            return GoldDetector(trace, step)
        case "judge":
            return JudgeDetector(trace, step, judge, scores=read.scores(store, trace.id))
        case _:
            return Unmet(expected(trace, expect, step), step)


def ending(trace: Trace, expect: str | None) -> Ending:
    """What tells whether a whole run came to what was wanted. Raises as `detector_of`."""
    match expect:
        case None | "rule" | "judge":
            raise NothingExpected(
                "no expectation for a whole run",
                "Try: --expect 'tool=refund_order, args.order_id=1049' (or tool!=…, or gold)",
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


class Expected(Struct, frozen=True, kw_only=True):
    """What a good answer does, as a person says it; `judge` names who judges."""

    words: str
    judge: str | None = None


def parse_expectation(store: Store, name: str, step: int | None, words: str) -> Expected:
    """The expectation in words, held against the tools offered. `judge NAME` names a judge.

    Raises BadPredicate, NothingExpected.
    """
    first, _, who = words.partition(" ")
    if first == JUDGE and "=" not in who:
        return Expected(words=JUDGE, judge=who.strip() or None)
    trace = with_own_gold(store, read.load(store, trace_row(store, name).trace))
    if words == GOLD:
        GoldEnding(trace)
    elif words != RULE:
        expected(trace, words, step)
    return Expected(words=words)
