"""An edit tested on many runs: where is it tried, and what did it do?

First the steps: of a failed run the step that broke, of other runs healthy steps drawn by a fixed
seed. Then the reading of the answers: what became of each failure and of each healthy step, the
edited arm always beside control. A run is fixed, a step broken, only where its own test holds:
Fisher's exact one at .05. Many are tested at once and the tests are not corrected for that (after
Holm none of forty steps with five samples an arm could ever be broken); instead each says how
likely it would be called so by chance alone, and the sum stands beside the count. A run or a step
of which nothing can be told counts in no rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from replay import action, digests
from replay.locked.tally import BreakTest, Counts, StepResult, break_test, step_test
from replay.predicate import Detector
from replay.statistics import ALPHA, fisher
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.classes import Attribution, FailureClass
from taxonomy.detectors import TaggedCallDetector, detector_at
from taxonomy.failures import is_agents
from taxonomy.findings import Candidate, Diagnosis, Finding
from taxonomy.judgements.tags import TagRow
from taxonomy.query.failures import tag_rows

PER_RUN = 3
"""Control steps one run gives at most: the steps of a run are alike."""

PASSED = "passed: no failure to fix"
NO_BREAK = "break point unknown. Try: arc tag add TRACE STEP CLASS"

Words: TypeAlias = Mapping[str, Sequence[TagRow]]
"""What is said of each run, by its preferred recording, what the Pareto counts first."""


# --- which runs


def words_on(store: Store) -> Words:
    """What people, rules and judges say of every run."""
    said: dict[str, list[TagRow]] = {}
    for row in tag_rows(store):
        said.setdefault(row.trace, []).append(row)
    return said


class Break(Struct, frozen=True, kw_only=True):
    """Where a run broke, and who says so. `trace` is the recording whose step it is; `failure` and
    its sub-label are what the run is counted under. `span` is what a person tagged there."""

    trace: str
    step: int
    by: str
    failure: FailureClass | None
    sub: str | None = None
    span: str | None = None


class LeftOut(Struct, frozen=True, kw_only=True):
    """A run on which nothing is tried, and why."""

    trace: str
    why: str


def break_of(
    trace: str, outcome: str, said: Sequence[TagRow], diagnosis: Diagnosis | None
) -> Break | LeftOut:
    """Where a run broke: where a person tagged it, else at its first candidate.

    Of several, those of the class it is counted under go first; one after all that shows the class
    cannot have caused it. Where the rules see a failure and no candidate, it is the step of the
    failure. A failure not attributed to the agent is left out.
    """
    if outcome == "passed":
        return LeftOut(trace=trace, why=PASSED)
    attribution = _attribution(said, diagnosis)
    if not is_agents(attribution):
        return LeftOut(trace=trace, why=f"attribution: {attribution}; a prompt edit cannot fix it")
    failure, sub = (said[0].failure, said[0].sub) if said else (None, None)
    tagged = [row for row in said if row.accepted]
    if tagged:
        row = min(tagged, key=lambda each: (each.failure is not failure, each.step))
        return Break(
            trace=row.recording,
            step=row.step,
            by=f"tagged by {row.by}",
            failure=failure,
            sub=sub,
            span=row.span or None,
        )
    found = diagnosis.findings if diagnosis else ()
    candidate = _candidate(diagnosis.candidates if diagnosis else (), found, failure)
    if candidate is not None:
        by = "first candidate"
        return Break(trace=trace, step=candidate.step, by=by, failure=failure, sub=sub)
    if said:
        row = said[0]
        by = f"{row.by}, by rule"
        return Break(trace=row.recording, step=row.step, by=by, failure=failure, sub=sub)
    return LeftOut(trace=trace, why=NO_BREAK)


def _attribution(said: Sequence[TagRow], diagnosis: Diagnosis | None) -> Attribution | None:
    """The attribution of what is counted; where nothing is, of any finding on the environment."""
    if said:
        return said[0].attribution
    named = [found.attribution for found in (diagnosis.findings if diagnosis else ())]
    return Attribution.ENVIRONMENT if Attribution.ENVIRONMENT in named else None


def _candidate(
    candidates: Sequence[Candidate], found: Sequence[Finding], failure: FailureClass | None
) -> Candidate | None:
    shows = {each.step for each in found if each.failure is failure}
    of_it = (each for each in candidates if each.step in shows)
    before = (each for each in candidates if not shows or each.step < max(shows))
    return next(of_it, next(before, None))


def detector_of(trace: Trace, found: Iterable[Finding], broke: Break) -> Detector | None:
    """Who tells whether an answer at the break shows the failure: the rule that found it there,
    one of its class first. Of a call that a person tagged, what a rule says of another call tells
    nothing; where no rule can tell of other answers, those that make the tagged call show it. None
    where nobody tells: what repeats the recording shows it."""
    every = tuple(each for each in found if is_about(each, broke, trace))
    of_it = [each for each in every if each.failure is broke.failure]
    rule = detector_at(trace, of_it, broke.step) or detector_at(trace, every, broke.step)
    tagged = next((act for act in trace.steps[broke.step].acts if act.id == broke.span), None)
    if tagged is not None and (rule is None or not rule.reads_answers):
        return TaggedCallDetector(tagged, broke.step, broke.by)
    return rule


def is_about(finding: Finding, broke: Break, trace: Trace) -> bool:
    """May a finding of the same step be about what broke? One about another call is not."""
    calls = {act.id for act in trace.steps[broke.step].acts}
    return finding.span == broke.span or not {finding.span, broke.span} <= calls


# --- which healthy steps


def healthy_steps(trace: Trace, found: Iterable[Finding], before: int | None) -> list[int]:
    """The steps that went well as far as anyone says: whole answers whose calls did not fail, of
    which no rule says anything; of a run that broke, those `before` that step."""
    named = {each.step for each in found}
    return [
        step.index
        for step in trace.steps
        if (before is None or step.index < before)
        and step.index not in named
        and step.ask.status != "error"
        and action.action(step.ask.response, step.ask.error).cut is None
        and all(act.status != "error" for act in step.acts)
    ]


class Spot(NamedTuple):
    """A step that may be asked. Two that `ask` the same are one question."""

    trace: str
    step: int
    asks: str


def drawn(
    traces: Collection[str], spots_of: Callable[[str], Iterable[Spot]], most: int
) -> list[Spot]:
    """At most so many control steps: one a run in turn, at most PER_RUN of each.

    In the order of digests: as good as chance, and the same steps whenever they are drawn again,
    for every edit that reaches them. A run is looked at when its turn comes, so few of many are.
    """
    order = sorted(traces, key=lambda trace: digests.digest("control run", trace))
    left: dict[str, Iterator[Spot]] = {}
    found: list[Spot] = []
    asked: set[str] = set()
    for _ in range(PER_RUN):
        for trace in order:
            if len(found) >= most:
                return found
            if trace not in left:
                left[trace] = iter(sorted(spots_of(trace), key=_chance))
            spot = next((each for each in left[trace] if each.asks not in asked), None)
            if spot is not None:
                asked.add(spot.asks)
                found.append(spot)
    return found


def _chance(spot: Spot) -> str:
    return digests.digest("control step", spot.trace, str(spot.step))


Ruling: TypeAlias = Literal["fixed", "changed", "not fixed", "inconclusive", "unknown"]
"""Where control shows the failure in more than half of its judged answers: `fixed`: the edited arm
does in fewer than half, and the test holds; `inconclusive`: it does, and the test does not hold;
`changed`: in half or more, though more rarely, and the test holds; `not fixed`: the rest.
`unknown`: control does not, or most answers of an arm cannot be judged."""

Effect: TypeAlias = Literal["broke", "changed", "held", "inconclusive", "unknown"]
"""Where control diverges in at most half of its answers that can be compared: `broke`: the edited
arm does in more than half, and the test holds; `inconclusive`: it does, and the test does not hold;
`changed`: in at most half, though more often, and the test holds; `held`: the rest. `unknown`:
control diverges, or nothing can be compared."""

Arms: TypeAlias = tuple[int, int, int, int]
"""Control's hits, of how many; the edited arm's hits, of how many."""


class Own(NamedTuple):
    """A run's or a step's own test. `by_chance` is how likely it would be called fixed, or broken,
    if the edit did nothing and both arms together showed what they did."""

    p: float
    by_chance: float


@lru_cache(maxsize=4096)
def ruling_of(arms: Arms) -> Ruling:
    """What became of a failure, by the counts of the answers that show it."""
    control, control_n, edited, edited_n = arms
    if 2 * control <= control_n or not edited_n:
        return "unknown"
    holds = fisher(*arms) <= ALPHA and edited * control_n < control * edited_n
    if 2 * edited < edited_n:
        return "fixed" if holds else "inconclusive"
    return "changed" if holds else "not fixed"


@lru_cache(maxsize=4096)
def effect_of(arms: Arms) -> Effect:
    """What became of a step that went well, by the counts of the answers that diverge."""
    control, control_n, edited, edited_n = arms
    if not control_n or not edited_n or 2 * control > control_n:
        return "unknown"
    holds = fisher(*arms) <= ALPHA and edited * control_n > control * edited_n
    if 2 * edited > edited_n:
        return "broke" if holds else "inconclusive"
    return "changed" if holds else "held"


@lru_cache(maxsize=4096)
def own_test(arms: Arms, called: Callable[[Arms], str], name: Literal["fixed", "broke"]) -> Own:
    """The test of a row that `called` decides, and how often chance alone has it called `name`.

    The hits of both arms together are dealt to them in every way; of the ways of which something
    can be told, the share that is called so.
    """
    control, control_n, edited, edited_n = arms
    hits = control + edited
    told = named = 0
    for mine in range(max(0, hits - edited_n), min(control_n, hits) + 1):
        ways = math.comb(control_n, mine) * math.comb(edited_n, hits - mine)
        verdict = called((mine, control_n, hits - mine, edited_n))
        told += ways * (verdict != "unknown")
        named += ways * (verdict == name)
    return Own(fisher(*arms), named / told if told else 0.0)


FEWEST = next(n for n in range(1, 100) if fisher(n, n, 0, n) <= ALPHA)
"""Samples of each arm below which no test holds, whatever they show."""


class Judged(NamedTuple):
    """What became of a break, the counts behind it, and why nothing can be said where that is;
    its own test where something can."""

    ruling: Ruling
    test: BreakTest | None
    why: str = ""
    own: Own | None = None


def judged(row: StepResult) -> Judged:
    """What an edit did to the failure at a break."""
    test = break_test(row)
    if test is None:
        return Judged("unknown", None, row.refused or row.edited_refused or "not replayed")
    for whose, n, replies in (
        ("control's", test.control_n, row.control),
        ("the edit's", test.edited_n, row.edited),
    ):
        if 2 * n <= len(replies):
            few = f"only {n}" if n else "none"
            why = f"{few} of {whose} {len(replies)} answers can be judged"
            return Judged("unknown", test, why)
    if not test.is_controls:
        return Judged("unknown", test, "control arm mostly shows no failure either")
    return Judged(ruling_of(test.counts), test, own=own_test(test.counts, ruling_of, "fixed"))


class Held(NamedTuple):
    """What became of a healthy step: how often each arm diverges there. `flawed` answers of the
    edited arm are wrong whatever was meant; `own` is its test where something can be said."""

    effect: Effect
    control: Counts
    edited: Counts
    flawed: int = 0
    why: str = ""
    own: Own | None = None


def held(row: StepResult) -> Held:
    """What an edit did to a step that went well."""
    test = step_test(row)
    if test is None:
        why = row.refused or row.edited_refused or "not replayed"
        return Held("unknown", Counts(), Counts(), why=why)
    control, edited = test.control, test.edited
    flawed = sum(bool(reply.flaws) for reply in row.edited)
    if not control.decided or not edited.decided:
        whose = "control" if not control.decided else "the edited arm"
        return Held("unknown", control, edited, flawed, f"no answer of {whose} can be compared")
    if control.diverges_mostly:
        return Held("unknown", control, edited, flawed, "control arm itself mostly diverges here")
    arms = control.diverges, control.decided, edited.diverges, edited.decided
    own = own_test(arms, effect_of, "broke")
    return Held(effect_of(arms), control, edited, flawed, own=own)
