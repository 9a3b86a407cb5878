"""Which steps are candidates by what is known for certain: a broken instruction, a failed check.

These are facts and no likelihood: they are not weighed against signs, but stand before them, first
the step that broke an instruction of the task, then the edit after which a check that had passed
failed to the end, then the steps that wrote what failing checks name, those that most of them name
first. What was written twice is judged by the last time. Given scores decide before all of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taxonomy.evidence.results import cut
from taxonomy.findings import Candidate, CheckReport, Finding, Signal
from taxonomy.localiser.candidates import MOST, SCORE
from taxonomy.rules import instruction_broken
from taxonomy.rules.rule import RuleContext

CHECK = "failed check"
INSTRUCTION = "broken instruction"
"""The names of such signs. They are no features: nothing is weighed."""

SAYS = "says"
"""The role of an answer that was wrong: it is so because something went wrong before."""

LONGEST = 160
"""Characters of what a check said in the phrase of a candidate."""


def certain_first(
    case: RuleContext,
    found: Sequence[Finding],
    checks: CheckReport,
    others: tuple[Candidate, ...],
) -> tuple[Candidate, ...]:
    """Up to three candidates: those that are certain, then `others` of other steps."""
    if any(signal.name == SCORE for each in others for signal in each.signals):
        return others
    terminals = {turn.index for turn in case.reading.turns if turn.observer}
    by_step = {each.step: each for each in others}
    certain: dict[int, Candidate] = {}
    for step, name, phrase in _certain(found, checks):
        if step not in terminals and step not in certain:
            certain[step] = _candidate(step, name, phrase, by_step.get(step))
    rest = (each for each in others if each.step not in certain)
    return (*certain.values(), *rest)[:MOST]


def _certain(found: Sequence[Finding], checks: CheckReport) -> Iterator[tuple[int, str, str]]:
    """(step, name of the sign, phrase), the strongest first."""
    for finding in found:
        if finding.rule == instruction_broken.NAME and not finding.is_hint:
            yield finding.step, INSTRUCTION, finding.why
    if checks.red_edit is not None:
        yield checks.red_edit.step, CHECK, checks.red_edit.phrase
    named: dict[int, list[str]] = {}
    for check in checks.failed:
        if check.cause is not None and check.cause.step is not None and check.cause.role != SAYS:
            what = f"{check.cause.role} {check.cause.text}; {check.phrase}"
            named.setdefault(check.cause.step, []).append(what)
    for step, phrases in sorted(named.items(), key=lambda each: -len(each[1])):
        others = len(phrases) - 1
        more = f"; {others} more failing {'check names' if others == 1 else 'checks name'} it"
        yield step, CHECK, cut(phrases[0], LONGEST) + (more if others else "")


def _candidate(step: int, name: str, phrase: str, known: Candidate | None) -> Candidate:
    """The candidate, with the other signs against its step; how often such a one is right has not
    been measured."""
    signals = (Signal(name=name, weight=1.0, phrase=phrase), *(known.signals if known else ()))
    weight = round(1.0 + (known.weight if known else 0.0), 3)
    return Candidate(step=step, weight=weight, why=phrase, signals=signals)
