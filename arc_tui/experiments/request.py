"""What a person wants asked: of whom, how often, for how much, and what is expected of an
answer.
"""

from __future__ import annotations

import re

from msgspec import Struct

from arc_tui.features.bisect.versions import BadVersions
from arc_tui.features.replay.run import Wanted
from arc_tui.ui import format
from replay.bisection.rollouts import Ending, Reaches
from replay.budget import Budget, Limits
from replay.detector import Detector
from replay.edit.changes import Edit
from replay.errors import ArcError, BadEdit, no_step
from replay.locked.estimate import Estimate
from replay.locked.row import AUTO, LEVELS, Sampling
from replay.models.cached import Cached
from replay.models.choose import DEMO, choose
from replay.predicate import BadPredicate, Predicate, Unmet, predicate
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.detectors import detector_at
from taxonomy.expectations import (
    GoldDetector,
    GoldEnding,
    JudgeDetector,
    NothingExpected,
    judge_needed,
)
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.query.failures import break_and_notice


class Wish(Struct, frozen=True, kw_only=True):
    """How to ask. `model` None is the trace's own; `resample` asks for everything afresh."""

    model: str | None = None
    sampling: Sampling = AUTO
    resample: bool = False

    def of(self, trace: str, edit: Edit | None) -> Wanted:
        """What to replay, without leave to ask a server."""
        return Wanted(
            trace=trace,
            edit=edit,
            model=self.model,
            sampling=self.sampling,
            resample=self.resample,
        )


def asked_models(model: str | None, edit: Edit | None) -> tuple[str, ...]:
    """The models of both arms, each once. () where it is not known which one to ask."""
    other = edit.model if edit is not None else None
    return tuple(dict.fromkeys(each for each in (model, other or model) if each is not None))


def is_local(models: tuple[str, ...]) -> bool:
    """Is all of it asked on this machine, for free?"""
    return set(models) == {DEMO}


def cost(estimate: Estimate) -> str:
    """What the calls of an estimate come to, at first and at the most."""
    if estimate.usd is None:
        return "no price is known for it"
    said = f"about {format.usd(estimate.usd)}"
    if estimate.most_usd is None or estimate.most_calls <= estimate.calls:
        return said
    return f"{said}, at most {format.usd(estimate.most_usd)}"


MOST_SAMPLES = 100
_CALLS = re.compile(r"(\d+)\s*calls?")
_USD = re.compile(r"\$?\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:USD|\$)?", re.IGNORECASE)


def limits_of(words: str) -> Limits:
    """What a person allows: `0.50`, `$2`, or `20 calls`. Raises BadEdit for anything else."""
    said = words.strip()
    if found := _CALLS.fullmatch(said):
        return Limits(calls=int(found[1]))
    if found := _USD.fullmatch(said):
        return Limits(usd=float(found[1]))
    raise BadEdit(
        f"{said!r} is no limit",
        "write an amount in USD, as 0.50, or a number of calls, as 20 calls",
    )


def levels_of(words: str) -> tuple[int, ...]:
    """How many samples a person wants: `auto`, or a number. Raises BadEdit for anything else."""
    said = words.strip().lower()
    if said == "auto":
        return LEVELS
    if said.isdecimal() and 1 <= int(said) <= MOST_SAMPLES:
        return (int(said),)
    raise BadEdit(f"{said!r} is neither auto nor a number from 1 to {MOST_SAMPLES}")


def levels_words(levels: tuple[int, ...]) -> str:
    """The number of samples as `levels_of` reads it."""
    return "auto" if len(levels) > 1 else str(levels[0])


def levels_meaning(levels: tuple[int, ...]) -> str:
    """What so many samples can tell."""
    if len(levels) > 1:
        first, *more = map(str, levels)
        return f"{first} of each request, then {' and '.join(more)} where it is open"
    if levels == (1,):
        return "one of each request: a look, not a result"
    return f"{levels[0]} of each request, whatever they say"


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
) -> Detector:
    """What tells a bad answer at a step. `expect` None is the rule's finding there.

    Raises BadPredicate, and NothingExpected where there is nothing to hold an answer against.
    """
    match expect:
        case None | "rule":
            said = diagnosis(store, trace.id)
            found = detector_at(trace, said.findings if said else (), step)
            if found is None:
                raise NothingExpected(f"no rule found anything at step {step}", _SAY)
            return found
        case "gold":
            return GoldDetector(trace, step)
        case "judge":
            return JudgeDetector(trace, step, judge, scores=read.scores(store, trace.id))
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


class Expected(Struct, frozen=True, kw_only=True):
    """What a good answer does, as a person says it; `judge` names who judges."""

    words: str
    judge: str | None = None


def expected_expected(store: Store, name: str, step: int | None, words: str) -> Expected:
    """The expectation in words, held against the tools offered. `judge NAME` names a judge.

    Raises BadPredicate, NothingExpected.
    """
    first, _, who = words.partition(" ")
    if first == JUDGE and "=" not in who:
        return Expected(words=JUDGE, judge=who.strip() or None)
    trace = read.load(store, trace_row(store, name).trace)
    if words == GOLD:
        GoldEnding(trace)
    elif words != RULE:
        expected(trace, words, step)
    return Expected(words=words)


READABLE: tuple[type[ArcError], ...] = (BadPredicate, NothingExpected, BadVersions)
"""What a person can put right by typing something else."""
