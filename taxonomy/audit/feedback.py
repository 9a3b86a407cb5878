"""Does an agent that is shown a score get better from attempt to attempt, or only that score?

The runs of one task by the same models are its attempts, by their number where each has one, else
by time. A rise is an attempt whose shown score is better than that of the attempt before. It is
*shared* where the held-out score rose too, *shown only* where that stayed or fell. It cannot be
told where a held-out score is not known, is of two kinds, or was at its best already. A held-out
score that is pass or fail shows no progress in between: the caller says so.

Which score is shown, and which held out, a person declares (`taxonomy.audit.exploits`).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.patterns import FOREIGN_STEPS, Pattern, TooLong
from replay.statistics import Rate, clustered
from replay.trace import SourceScore, Trace
from taxonomy.audit.exploits import ShownScore
from taxonomy.classes import FailureClass
from taxonomy.evidence.gold_differences import compare_to_gold
from taxonomy.evidence.reading import Reading
from taxonomy.evidence.results import cut
from taxonomy.findings import AuditFinding, Evidence, Finding
from taxonomy.query.listing import natural

NAME = "feedback loop"

OUTCOME, GOLD = "outcome", "gold"
"""Held-out scores that every run may have; others are imported by their name."""

RiseResult: TypeAlias = Literal["shared", "shown only", "cannot be told"]


class HeldOutScore(Struct, frozen=True, kw_only=True):
    """A score that the agent was not shown. `kind` is `gold`, `outcome`, or the name of a score;
    `best` is the highest that it can be, None where that is not known; `rank` grows as it gets
    better."""

    kind: str
    value: float
    rank: float
    best: float | None = None

    @property
    def is_yes_or_no(self) -> bool:
        return self.kind == OUTCOME and self.best is not None

    @property
    def phrase(self) -> str:
        """`passed`, or `hidden_tests 0.4`."""
        if self.is_yes_or_no:
            return "passed" if self.value else "failed"
        return f"{self.kind} {self.value:g}"


class ScoredAttempt(Struct, frozen=True, kw_only=True):
    """One attempt at a task: the score it was shown last, where, and the one it was not shown.

    `number` is the trial as recorded, `start_ns` when the run began, None where that is unknown.
    `shown` grows as the score gets better, whichever way that is; `shown_text` is as it was read.
    """

    trace: str
    task: str
    models: str
    number: str | None
    start_ns: int | None
    shown: float | None
    shown_text: str
    step: int | None
    span: str | None
    quote: str
    held_out: HeldOutScore | None


class Rise(Struct, frozen=True, kw_only=True):
    """A better shown score than in the attempt before. `why` says what cannot be told, or ""."""

    earlier: ScoredAttempt
    later: ScoredAttempt
    result: RiseResult
    why: str = ""


class FeedbackLoop(Struct, frozen=True, kw_only=True):
    """The attempts at a task by the same models, in order, and the rises among them."""

    task: str
    models: str
    attempts: tuple[ScoredAttempt, ...]
    rises: tuple[Rise, ...]

    def count(self, result: RiseResult) -> int:
        return sum(each.result == result for each in self.rises)


class FeedbackRate(Struct, frozen=True, kw_only=True):
    """The share of rises that only the shown score has, of those that can be told; the interval
    minds that rises of one task are alike. `untold` are the others. `is_coarse`: some held-out
    score is pass or fail."""

    shown_only: Rate
    untold: int
    is_coarse: bool


def read_attempt(
    trace: Trace, declared: ShownScore, scores: Sequence[SourceScore], task: str, models: str
) -> ScoredAttempt:
    """What is known of a run; `scores` are those that were imported with it."""
    reading = Reading(trace)
    text, step, span, quote = _read_shown(reading, declared, scores)
    value = _number(text)
    header = trace.header
    return ScoredAttempt(
        trace=trace.id,
        task=task,
        models=models,
        number=header.trial,
        start_ns=header.start_ns,
        shown=None if value is None else _rank(value, declared),
        shown_text=text,
        step=step,
        span=span,
        quote=quote,
        held_out=_held_out(reading, declared, scores),
    )


_AROUND = 60
"""Characters on both sides of a shown score that are quoted."""


def _read_shown(
    reading: Reading, declared: ShownScore, scores: Sequence[SourceScore]
) -> tuple[str, int | None, str | None, str]:
    """(score as written, step, span, quote) of the last one shown, "" where there is none."""
    if declared.score is not None:
        given = _score_of(declared.score, scores)
        if given is None:
            return "", None, None, ""
        last = reading.turns[-1] if reading.turns else None
        where = (last.index, last.ask.id) if last else (None, None)
        return f"{given:g}", *where, f"{declared.score}: {given:g}"
    assert declared.pattern is not None
    pattern = Pattern(declared.pattern)
    for turn in reversed(reading.turns):
        texts = [(act.span.id, act.reply.text) for act in reversed(turn.acts)]
        texts += [(turn.ask.id, each.text) for each in reversed(turn.heard) if each.role == "user"]
        for span, text in texts:
            found = _last(pattern, text)
            if found is not None:
                quote = text[max(found.start() - _AROUND, 0) : found.end() + _AROUND]
                return found[1] or "", turn.index, span, cut(quote, 240)
    return "", None, None, ""


def _last(pattern: Pattern, text: str) -> re.Match[str] | None:
    """The last match in a text, None where there is none or it might take too long to find."""
    try:
        if pattern.search(text, FOREIGN_STEPS) is None:
            return None
    except TooLong:
        return None
    *_, last = pattern.compiled.finditer(text)
    return last


def _number(text: str) -> float | None:
    try:
        value = float(text.strip().replace(",", "").rstrip("%x"))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _rank(value: float, declared: ShownScore) -> float:
    return -value if declared.better == "lower" else value


def _score_of(name: str, scores: Sequence[SourceScore]) -> float | None:
    """The last imported score of a name that has a value."""
    found = [each.value for each in scores if each.name == name and each.value is not None]
    return found[-1] if found else None


def _held_out(
    reading: Reading, declared: ShownScore, scores: Sequence[SourceScore]
) -> HeldOutScore | None:
    if declared.held_out not in (None, OUTCOME, GOLD):
        value = _score_of(declared.held_out, scores)
        if value is None:
            return None
        return HeldOutScore(kind=declared.held_out, value=value, rank=_rank(value, declared))
    if declared.held_out != OUTCOME:
        gold = compare_to_gold(reading)
        if gold is not None:
            made = gold.matched / gold.gold if gold.gold else float(not gold.differences)
            return HeldOutScore(kind=GOLD, value=made, rank=made, best=1.0)
        if declared.held_out == GOLD:
            return None
    outcome = reading.trace.header.outcome
    value = _number(str(outcome.value)) if outcome.value is not None else None
    if value is not None and value not in (0.0, 1.0):
        return HeldOutScore(kind=OUTCOME, value=value, rank=value)
    if outcome.status == "unknown":
        return None
    passed = float(outcome.status == "passed")
    return HeldOutScore(kind=OUTCOME, value=passed, rank=passed, best=1.0)


# --- attempts put together


def feedback_loops(attempts: Iterable[ScoredAttempt]) -> tuple[FeedbackLoop, ...]:
    """The attempts of each task by the same models, those tasks that have two or more."""
    by_task: dict[tuple[str, str], list[ScoredAttempt]] = defaultdict(list)
    for each in attempts:
        by_task[each.task, each.models].append(each)
    return tuple(
        _loop(task, models, ordered)
        for (task, models), given in sorted(by_task.items())
        if (ordered := _in_order(given)) is not None
    )


def _in_order(given: Sequence[ScoredAttempt]) -> list[ScoredAttempt] | None:
    """The attempts in order, None where nobody knows it, or there is but one."""
    if len(given) < 2:
        return None
    numbers = [each.number for each in given]
    if None not in numbers and len({*numbers}) == len(numbers):
        return sorted(given, key=lambda each: natural(each.number))
    starts = [each.start_ns for each in given]
    if None in starts or len({*starts}) < len(starts):
        return None
    return sorted(given, key=lambda each: each.start_ns or 0)


def _loop(task: str, models: str, attempts: Sequence[ScoredAttempt]) -> FeedbackLoop:
    shown = [each for each in attempts if each.shown is not None]
    rises = (
        _rise(earlier, later)
        for earlier, later in pairwise(shown)
        if (later.shown or 0.0) > (earlier.shown or 0.0)
    )
    return FeedbackLoop(task=task, models=models, attempts=tuple(attempts), rises=tuple(rises))


def _rise(earlier: ScoredAttempt, later: ScoredAttempt) -> Rise:
    one, other = earlier.held_out, later.held_out
    why = ""
    if one is None or other is None:
        why = "held-out score unknown"
    elif one.kind != other.kind:
        why = f"held-out score of two kinds: {one.kind}, {other.kind}"
    elif one.best is not None and min(one.rank, other.rank) >= one.best:
        why = "held-out score at its best already"
    if why or one is None or other is None:
        return Rise(earlier=earlier, later=later, result="cannot be told", why=why)
    shared = other.rank > one.rank
    return Rise(earlier=earlier, later=later, result="shared" if shared else "shown only")


def feedback_rate(loops: Iterable[FeedbackLoop]) -> FeedbackRate:
    """Over the rises of all loops, grouped by task."""
    rises = [(loop.task, rise) for loop in loops for rise in loop.rises]
    told = [(task, rise) for task, rise in rises if rise.result != "cannot be told"]
    held = [rise.later.held_out for _, rise in told]
    return FeedbackRate(
        shown_only=clustered((task, rise.result == "shown only") for task, rise in told).rate,
        untold=len(rises) - len(told),
        is_coarse=any(each is not None and each.is_yes_or_no for each in held),
    )


def findings(loops: Iterable[FeedbackLoop]) -> Iterator[tuple[str, AuditFinding]]:
    """(trace, finding) of each attempt whose shown score alone rose."""
    for loop in loops:
        for rise in loop.rises:
            if rise.result == "shown only" and rise.later.step is not None:
                yield rise.later.trace, AuditFinding(result="shown only", finding=_finding(rise))


def _finding(rise: Rise) -> Finding:
    one, other = rise.earlier, rise.later
    assert one.held_out is not None
    assert other.held_out is not None
    assert other.step is not None
    held = f"{one.held_out.phrase} → {other.held_out.phrase}"
    return Finding(
        failure=FailureClass.OTHER,
        sub=NAME,
        step=other.step,
        span=other.span,
        why=f"shown score {one.shown_text} → {other.shown_text}; held out: {held}",
        rule=NAME,
        evidence=(
            Evidence(
                role="observed",
                text=other.quote,
                step=other.step,
                span=other.span,
                place="shown score",
            ),
            Evidence(role="observed", text=one.quote, place=f"attempt before: {one.trace[:8]}"),
        ),
    )
