"""Which steps contradict what had been observed or told? Read off the recording; free.

The rules that hold words and calls against what was shown say so, each with its sources. A value
that stood in nothing contradicts no single source: what was looked through is named instead. A
call that an error had just refused contradicts that error. A rule's answer is a hypothesis.

`Answer` is what every detector of steps gives: is there a contradiction by this step, and what
says so?
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct, structs

from replay.bisection.scan import Bad
from replay.tool_errors import decoded
from replay.trace import Trace
from taxonomy.evidence.claims import moments
from taxonomy.evidence.context_index import Source
from taxonomy.evidence.reading import answered, called, leaves
from taxonomy.evidence.results import cut
from taxonomy.findings import Evidence, Finding
from taxonomy.rules import findings, loop, rule_of, swapped_values
from taxonomy.rules.rule import Against, RuleContext


class Answer(Struct, frozen=True, kw_only=True):
    """What a detector says of one step. `bad` None where it cannot tell; `phrase` says why, or what
    was found, in a few words. `evidence` are the words and values that contradict each other.

    `bad_of` of `n` trials were bad where it tried several times, `lost` others gave no answer.
    """

    step: int
    bad: Bad
    phrase: str
    evidence: tuple[Evidence, ...] = ()
    bad_of: int | None = None
    n: int | None = None
    lost: int = 0


class StepDetector(Protocol):
    """A detector over the steps of a run.

    `name` stands beside every figure of it. `monotone` says that once bad it stays bad, so that it
    may be asked by halves; `calls` how many answers of a model a question takes, at the most.
    `steps` are those it can be asked about, `unasked` why the others are not.
    """

    name: str
    monotone: bool
    calls: int
    steps: tuple[int, ...]
    unasked: Mapping[int, str]

    def at(self, step: int) -> Answer:
        """Raises OfflineMiss, ModelRefused and Stopped where it asks a model."""
        ...


_SAYS = ("says", "called", "repeats")
_SOURCES = ("observed", "stated", "error")
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
    return _found(RuleContext(trace))


def _found(case: RuleContext) -> tuple[Contradiction, ...]:
    read = (_read(case, finding) for finding in (*swapped_values.find(case), *findings(case)))
    found = [each for each in read if each is not None]
    return tuple(sorted((*found, *_again(case)), key=lambda each: each.step))


def _again(case: RuleContext) -> Iterator[Contradiction]:
    """Every step of a loop that asks again what had been answered or refused to it, once each.

    A loop whose answers were not recorded contradicts nothing that is known.
    """
    steps: set[int] = set()
    for turns in case.reading.threads.values():
        for each in loop.loops(case.reading, turns):
            finding = loop.finding(each)
            for earlier, act in each.again:
                if earlier.reply.failed is not None and act.step not in steps:
                    steps.add(act.step)
                    yield Contradiction(
                        step=act.step,
                        why=each.why,
                        says=(called(act),),
                        against=(answered(earlier),),
                        finding=finding,
                    )


class ContradictionDetector:
    """As `StepDetector`: does a step contradict what had been shown?

    That some step up to one does stays so, once it is; but every step is read anyway, so all are
    looked at and none is asked.
    """

    name = "contradiction, by rule"
    monotone = False
    calls = 0

    def __init__(self, trace: Trace) -> None:
        case = RuleContext(trace)
        self.found = _found(case)
        self._unknown = set(_unknown(case))
        self._by_step: dict[int, list[Contradiction]] = {}
        for each in self.found:
            self._by_step.setdefault(each.step, []).append(each)
        self.steps = tuple(turn.index for turn in case.reading.turns if not turn.observer)
        self.unasked: Mapping[int, str] = {
            turn.index: "a terminal's message, not a model's"
            for turn in case.reading.turns
            if turn.observer
        }

    def at(self, step: int) -> Answer:
        here = self._by_step.get(step, ())
        if not here and step in self._unknown:
            return Answer(
                step=step, bad=None, phrase="it repeats a call whose result is not recorded"
            )
        if not here:
            return Answer(step=step, bad=False, phrase="")
        more = f" · {len(here) - 1} more" if len(here) > 1 else ""
        evidence = here[0].evidence
        return Answer(step=step, bad=True, phrase=f"{here[0].why}{more}", evidence=evidence)


def _unknown(case: RuleContext) -> Iterator[int]:
    """The steps of loops of which nothing tells whether the answers were the same."""
    for turns in case.reading.threads.values():
        for each in loop.loops(case.reading, turns):
            yield from (act.step for earlier, act in each.again if earlier.reply.failed is None)


def _read(case: RuleContext, finding: Finding) -> Contradiction | None:
    """A finding as a contradiction, None where it is none."""
    rule = rule_of(finding)
    if rule is None or rule.against is None or finding.is_hint:
        return None
    says = [each for each in finding.evidence if each.role in _SAYS and each.step == finding.step]
    against = tuple(_against(case, finding, rule.against))
    if not says or not against:
        return None
    return Contradiction(
        step=finding.step, why=finding.why, says=tuple(says[:1]), against=against, finding=finding
    )


def _against(case: RuleContext, finding: Finding, against: Against) -> Iterator[Evidence]:
    """The sources that a finding's step contradicts."""
    match against:
        case "context":
            yield _looked_through(case, finding.step)
        case "tools":
            offered = case.reading.turns[finding.step].ask.request.tools
            if offered and "not" in finding.why:
                names = ", ".join(tool.name for tool in offered)
                yield Evidence(role="stated", text=cut(names, _QUOTE), place="tool definitions")
        case "numbers":
            yield Evidence(role="worked out", text=finding.why, place="its own numbers")
        case "sources":
            for each in finding.evidence:
                if each.role in _SOURCES and (each.step is None or each.step < finding.step):
                    yield _sharpened(case, each)


def _looked_through(case: RuleContext, step: int) -> Evidence:
    """What was shown up to a step and holds nothing of it."""
    shown = [each for each in case.index.sources if each.visible <= step and not each.own]
    kinds = Counter(map(_kind, shown))
    parts = (f"{n} {kind}{'s' if n > 1 else ''}" if n > 1 else kind for kind, n in kinds.items())
    return Evidence(role="not found in", text=", ".join(parts) or "an empty context")


def _kind(source: Source) -> str:
    return "tool result" if source.span is not None else source.place


def _sharpened(case: RuleContext, shown: Evidence) -> Evidence:
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
