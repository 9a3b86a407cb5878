"""Which steps contradict what had been observed or told? Read off the recording; free.

The rules that hold words and calls against what was shown say so, each with its sources. A value
that stood in nothing contradicts no single source: what was looked through is named instead. A
call that an error had just refused contradicts that error. A rule's answer is a hypothesis.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from replay.tool_errors import decoded
from replay.trace import Trace
from taxonomy.belief import mixed_up
from taxonomy.belief.oracle import Answer
from taxonomy.evidence.moments import moments
from taxonomy.evidence.reading import Act, leaves
from taxonomy.evidence.replies import cut
from taxonomy.evidence.sources import Source
from taxonomy.findings import Evidence, Finding
from taxonomy.rules import (
    arithmetic,
    contradiction,
    denied,
    findings,
    hallucinated_state,
    limits,
    loop,
    wrong_tool,
)
from taxonomy.rules.case import Case

AGAINST = frozenset(
    rule.NAME
    for rule in (
        contradiction,
        denied,
        hallucinated_state,
        limits,
        arithmetic,
        loop,
        wrong_tool,
        mixed_up,
    )
)
"""The rules that hold a step against what it had been shown."""

SURE = 0.5
"""A finding less sure than this is a hint, and no contradiction."""

_SAYS = ("says", "asked", "repeats")
_SOURCES = ("observed", "told", "error")
_QUOTE = 160


class Contradiction(Struct, frozen=True, kw_only=True):
    """A step that contradicts something, after `why`.

    `says` are its words or calls, `against` the sources: an observation or an error of an earlier
    step, the system prompt, what was looked through in vain. `finding` is the rule's.
    """

    step: int
    why: str
    says: tuple[Evidence, ...]
    against: tuple[Evidence, ...]
    finding: Finding

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return (*self.says, *self.against)


def contradictions(trace: Trace) -> tuple[Contradiction, ...]:
    """All of a run, the earliest step first."""
    return _found(Case(trace))


def _found(case: Case) -> tuple[Contradiction, ...]:
    all_findings = sorted((*mixed_up.find(case), *findings(case)), key=lambda each: each.step)
    found = (_read(case, finding) for finding in all_findings)
    return tuple(each for each in found if each is not None)


class ContradictionOracle:
    """As `StepOracle`: does a step contradict what had been shown?

    That some step up to one does stays so, once it is; but every step is read anyway, so all are
    looked at and none is asked.
    """

    name = "contradiction, by rule"
    monotone = False
    calls = 0

    def __init__(self, trace: Trace) -> None:
        case = Case(trace)
        self.found = _found(case)
        self.steps = tuple(turn.index for turn in case.reading.turns if not turn.observer)
        self.unasked: Mapping[int, str] = {
            turn.index: "a terminal's message, not a model's"
            for turn in case.reading.turns
            if turn.observer
        }

    def at(self, step: int) -> Answer:
        here = [each for each in self.found if each.step == step]
        if not here:
            return Answer(step=step, bad=False, phrase="")
        more = f" · {len(here) - 1} more" if len(here) > 1 else ""
        evidence = here[0].evidence
        return Answer(step=step, bad=True, phrase=f"{here[0].why}{more}", evidence=evidence)


def _read(case: Case, finding: Finding) -> Contradiction | None:
    """A finding as a contradiction, None where it is none."""
    unsure = finding.confidence is not None and finding.confidence < SURE
    if finding.rule not in AGAINST or unsure:
        return None
    says = [each for each in finding.evidence if each.role in _SAYS and each.step == finding.step]
    against = tuple(_against(case, finding))
    if not says or not against:
        return None
    return Contradiction(
        step=finding.step, why=finding.why, says=tuple(says[:1]), against=against, finding=finding
    )


def _against(case: Case, finding: Finding) -> Iterator[Evidence]:
    """The sources that a finding's step contradicts."""
    match finding.rule:
        case hallucinated_state.NAME:
            yield _looked_through(case, finding.step)
        case wrong_tool.NAME:
            offered = case.reading.turns[finding.step].ask.request.tools
            if offered and "not" in finding.why:
                names = ", ".join(tool.name for tool in offered)
                yield Evidence(role="told", text=cut(names, _QUOTE), place="tool definitions")
        case loop.NAME:
            yield from _refused_before(case, finding)
        case arithmetic.NAME:
            yield Evidence(role="worked out", text=finding.why, place="its own numbers")
        case _:
            for each in finding.evidence:
                if each.role in _SOURCES and (each.step is None or each.step < finding.step):
                    yield _sharpened(case, each)


def _looked_through(case: Case, step: int) -> Evidence:
    """What was shown up to a step and holds nothing of it."""
    shown = [each for each in case.index.sources if each.visible <= step and not each.own]
    kinds = Counter(map(_kind, shown))
    parts = (f"{n} {kind}{'s' if n > 1 else ''}" if n > 1 else kind for kind, n in kinds.items())
    return Evidence(role="nowhere in", text=", ".join(parts) or "nothing", place="all it saw")


def _kind(source: Source) -> str:
    return "tool result" if source.span is not None else source.place


def _refused_before(case: Case, finding: Finding) -> Iterator[Evidence]:
    """The error that had refused the same call before."""
    again = next((act for act in case.reading.acts if act.span.id == finding.span), None)
    if again is None:
        return
    before = [act for act in case.reading.acts if act.step < again.step and _same(act, again)]
    if before and before[-1].reply.failed:
        yield Evidence(
            role="error",
            text=cut(before[-1].reply.text, _QUOTE),
            step=before[-1].step,
            span=before[-1].span.id,
            place=before[-1].name,
        )


def _same(act: Act, other: Act) -> bool:
    return act.key == other.key


def _sharpened(case: Case, shown: Evidence) -> Evidence:
    """An observation quoted by the one field that counts, where it is JSON and that can be told."""
    act = next((each for each in case.reading.acts if each.span.id == shown.span), None)
    value = decoded(act.reply.text) if act is not None and shown.role == "observed" else None
    quoted = [
        (path.rpartition(".")[2], leaf)
        for path, leaf in leaves(value)
        if isinstance(leaf, str) and _quotes(shown.text, path.rpartition(".")[2], leaf)
    ]
    dated = [each for each in quoted if next(moments(each[1]), None)]
    if len(dated) != 1:
        return shown
    return structs.replace(shown, text=f"{dated[0][0]} {dated[0][1]}")


def _quotes(text: str, name: str, leaf: str) -> bool:
    """Does a text hold a field of JSON, its name and its value?"""
    return re.search(rf'"{re.escape(name)}": ?"{re.escape(leaf)}"', text) is not None
