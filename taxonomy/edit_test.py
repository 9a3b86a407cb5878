"""An edit tested on many runs: where is it tried, and what did it do?

First the steps: of a failed run the step that broke, of other runs healthy steps drawn by a
fixed seed. Then the reading of the answers: what became of each failure and of each healthy
step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from replay import action, digests
from replay.detector import Detector
from replay.locked.tally import BreakTest, Counts, StepResult, break_test, step_test
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.classes import Attribution, FailureClass
from taxonomy.detectors import detector_at
from taxonomy.failures import is_agents
from taxonomy.findings import Candidate, Diagnosis, Finding
from taxonomy.judgements.tags import TagRow
from taxonomy.query.failures import tag_rows

PER_RUN = 3
"""Control steps one run gives at most: the steps of a run are alike."""

PASSED = "passed, so there is no failure to fix"
NO_BREAK = "no break is known; `arc tag` names one"

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
    """Where a run broke, and who says so. `trace` is the recording whose step it is."""

    trace: str
    step: int
    by: str
    failure: FailureClass | None


class LeftOut(Struct, frozen=True, kw_only=True):
    """A run on which nothing is tried, and why."""

    trace: str
    why: str


def break_of(
    trace: str, outcome: str, said: Sequence[TagRow], diagnosis: Diagnosis | None
) -> Break | LeftOut:
    """Where a run broke: where a person tagged it, else at its first candidate.

    Of several, those of the class it is counted under go first; where the rules see a failure and
    no candidate, it is the step of the failure. A failure that was not the agent's is left out.
    """
    if outcome == "passed":
        return LeftOut(trace=trace, why=PASSED)
    fault = _fault(said, diagnosis)
    if not is_agents(fault):
        return LeftOut(trace=trace, why=f"the {fault}'s doing; no prompt edit can answer it")
    failure = said[0].failure if said else None
    tagged = [row for row in said if row.accepted]
    if tagged:
        row = min(tagged, key=lambda each: (each.failure is not failure, each.step))
        return Break(trace=row.recording, step=row.step, by=f"tagged by {row.by}", failure=failure)
    found = diagnosis.findings if diagnosis else ()
    candidate = _candidate(diagnosis.candidates if diagnosis else (), found, failure)
    if candidate is not None:
        return Break(trace=trace, step=candidate.step, by="first candidate", failure=failure)
    if said:
        row = said[0]
        return Break(trace=row.recording, step=row.step, by=f"{row.by}, by rule", failure=failure)
    return LeftOut(trace=trace, why=NO_BREAK)


def _fault(said: Sequence[TagRow], diagnosis: Diagnosis | None) -> Attribution | None:
    """Whose doing it was, by what is counted; where nothing is, by any word on the harness."""
    if said:
        return said[0].fault
    faults = [found.fault for found in (diagnosis.findings if diagnosis else ())]
    return Attribution.HARNESS if Attribution.HARNESS in faults else None


def _candidate(
    candidates: Sequence[Candidate], found: Sequence[Finding], failure: FailureClass | None
) -> Candidate | None:
    shows = {each.step for each in found if each.failure is failure}
    of_it = (each for each in candidates if each.step in shows)
    return next(of_it, candidates[0] if candidates else None)


def detector_of(trace: Trace, found: Iterable[Finding], broke: Break) -> Detector | None:
    """Who tells whether an answer at the break shows the failure: the rule that found it there,
    one of its class first. None where no rule did: what repeats the recording shows it."""
    every = tuple(found)
    of_it = [each for each in every if each.failure is broke.failure]
    return detector_at(trace, of_it, broke.step) or detector_at(trace, every, broke.step)


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


Ruling: TypeAlias = Literal["fixed", "not fixed", "unknown"]
"""`fixed`: control shows the failure in more than half of its judged answers, the edited arm in
fewer than half; `not fixed`: control does, and so does the edited arm in half or more; `unknown`:
control does not, or most answers of an arm cannot be judged."""

Effect: TypeAlias = Literal["broke", "held", "unknown"]
"""`broke`: control departs in at most half of its answers that can be compared, the edited arm in
more than half; `held`: neither does; `unknown`: control departs, or nothing can be compared."""


class Judged(NamedTuple):
    """What became of a break, the counts behind it, and why nothing can be said where that is."""

    ruling: Ruling
    test: BreakTest | None
    why: str = ""


def judged(row: StepResult) -> Judged:
    """What an edit did to the failure at a break."""
    test = break_test(row)
    if test is None:
        return Judged("unknown", None, row.refused or row.edited_refused or "not asked")
    for whose, n, replies in (
        ("control's", test.control_n, row.control),
        ("the edit's", test.edited_n, row.edited),
    ):
        if 2 * n <= len(replies):
            few = f"only {n}" if n else "none"
            why = f"{few} of {whose} {len(replies)} answers can be judged"
            return Judged("unknown", test, why)
    if not test.is_controls:
        return Judged("unknown", test, "control mostly does not show the failure either")
    return Judged("fixed" if 2 * test.edited < test.edited_n else "not fixed", test)


class Held(NamedTuple):
    """What became of a healthy step: how often each arm departs there. `flawed` answers of the
    edited arm are wrong whatever was meant."""

    effect: Effect
    control: Counts
    edited: Counts
    flawed: int = 0
    why: str = ""


def held(row: StepResult) -> Held:
    """What an edit did to a step that went well."""
    test = step_test(row)
    if test is None:
        why = row.refused or row.edited_refused or "not asked"
        return Held("unknown", Counts(), Counts(), why=why)
    control, edited = test.control, test.edited
    flawed = sum(bool(reply.flaws) for reply in row.edited)
    if not control.decided or not edited.decided:
        whose = "control" if not control.decided else "the edited arm"
        return Held("unknown", control, edited, flawed, f"no answer of {whose} can be compared")
    if control.departs_mostly:
        return Held("unknown", control, edited, flawed, "control itself mostly departs here")
    return Held("broke" if edited.departs_mostly else "held", control, edited, flawed)
