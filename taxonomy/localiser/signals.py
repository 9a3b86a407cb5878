"""What speaks against a step: signals that it may be where the run broke.

Each signal is a step, the feature it is one of, how strong it is, and a phrase; what a feature
weighs is for `candidates` to say.

A person objects by stepping in or in the next message.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from replay.trace import AgentSpan, Json
from taxonomy.classes import Attribution, FailureClass
from taxonomy.evidence.claims import assumptions
from taxonomy.evidence.reading import Reading, Turn
from taxonomy.evidence.results import Reply, cut
from taxonomy.evidence.unobserved import SeenTexts
from taxonomy.findings import Finding, StepScore
from taxonomy.localiser.features import (
    ASSUMPTION,
    BAD_CALL,
    BAD_END,
    FIRST_ERROR,
    FIRST_FINDING,
    NEW_FACTS,
    OBJECTION,
    OTHER,
    REPEATS,
    UNFOUNDED,
    StepSignal,
    spree,
)
from taxonomy.localiser.run_structure import RunStructure, structure_signals
from taxonomy.rules import rule_of
from taxonomy.rules.rule import RuleContext, statements
from taxonomy.step_scores import FRESH, GROUNDED

_OF_CLASS = {
    FailureClass.HALLUCINATED_STATE: UNFOUNDED,
    FailureClass.BAD_ARGS: BAD_CALL,
    FailureClass.WRONG_TOOL: BAD_CALL,
    FailureClass.LOOP: REPEATS,
    FailureClass.GAVE_UP: BAD_END,
    FailureClass.OTHER: OTHER,
}
_WEAK = 0.25
_LATER = 0.2
_CUT_OFF_STRENGTH = 0.7

_NOT_OF_A_STEP = {Attribution.USER, Attribution.GRADER}
"""Faults of what stands outside the run: no step of it is to blame."""

_CUT_OFF = {"length", "context", "filter", "error"}


def step_signals(
    case: RuleContext, found: Sequence[Finding], own: Sequence[StepScore]
) -> Iterator[StepSignal]:
    """Every sign against every step, but those of a terminal, which decides nothing.

    `own` are the rules' scores; they give their items: what they score is what the other signs
    say already.
    """
    terminals = {turn.index for turn in case.reading.turns if turn.observer}
    for sign in _signs(case, found, own):
        if sign.step not in terminals:
            yield sign


def strongest(found: Iterable[StepSignal]) -> dict[int, dict[str, StepSignal]]:
    """By step and feature, the strongest sign; of equal ones the first. Those of no strength are
    left out."""
    by_step: dict[int, dict[str, StepSignal]] = {}
    for sign in found:
        named = by_step.setdefault(sign.step, {})
        if sign.strength and sign.strength > strength(named, sign.feature):
            named[sign.feature] = sign
    return {step: named for step, named in by_step.items() if named}


def strength(named: Mapping[str, StepSignal], feature: str) -> float:
    """How strong a feature is at a step, 0.0 where no sign tells."""
    return (named[feature].strength or 0.0) if feature in named else 0.0


def _signs(
    case: RuleContext, found: Sequence[Finding], own: Sequence[StepScore]
) -> Iterator[StepSignal]:
    yield from _findings([each for each in found if each.attribution not in _NOT_OF_A_STEP])
    yield from _rubric(own)
    yield from _errors(case.reading)
    yield from _words(case.reading)
    if case.index.knows_task:
        yield from _new_facts(case)
    yield from (StepSignal(step, OBJECTION, phrase) for step, phrase in user_objections(case))
    yield from structure_signals(RunStructure(case.reading))


def _findings(found: Sequence[Finding]) -> Iterator[StepSignal]:
    """Each finding, as strong as it is sure; findings come earliest first."""
    first = True
    for finding in found:
        rule = rule_of(finding)
        feature = _OF_CLASS[(rule and rule.counts_as) or finding.failure]
        share = 1.0 if rule is None else rule.share
        strength = share * (1.0 if finding.confidence is None else finding.confidence)
        yield StepSignal(finding.step, feature, finding.why, strength)
        if first and feature != BAD_END and strength >= 0.5:
            yield StepSignal(finding.step, FIRST_FINDING, finding.why)
            first = False


def _rubric(scores: Iterable[StepScore]) -> Iterator[StepSignal]:
    features = {GROUNDED: UNFOUNDED, FRESH: REPEATS}
    for score in scores:
        for item in score.items:
            if item.held is False and item.name in features:
                yield StepSignal(score.step, features[item.name], item.because, _WEAK)


def _errors(reading: Reading) -> Iterator[StepSignal]:
    """Failed calls, and code that a terminal reports as failed; the first stands out."""
    strength = 1.0
    for step, phrase in _failures(reading):
        yield StepSignal(step, FIRST_ERROR, phrase, strength)
        strength = _LATER


def _failures(reading: Reading) -> Iterator[tuple[int, str]]:
    found = [
        (act.step, _failed(f"{act.name} failed", act.reply))
        for act in reading.acts
        if act.reply.failed
    ]
    for turn, reply in reading.reports():
        if reply.failed:
            found.append((turn.index, _failed("code failed", reply)))
    yield from sorted(found, key=lambda failure: failure[0])


def _failed(what: str, reply: Reply) -> str:
    """What failed, and the line of the result that says most, where one says anything."""
    if reply.gist:
        return f"{what}: {cut(reply.gist, 60)}"
    return what if reply.text.strip() else f"{what}, empty result"


def _words(reading: Reading) -> Iterator[StepSignal]:
    """What a step says: that it assumes, that it was cut off."""
    heard = SeenTexts(reading.trace.header.task or "")
    for turn, texts in _new_texts(reading):
        heard.add(texts)
        said = (
            sentence
            for each in (() if turn.observer else statements(turn))
            for stem, sentence in assumptions(each)
            if stem not in heard
        )
        words = next(filter(None, said), None)
        if words is not None:
            yield StepSignal(
                turn.index, ASSUMPTION, f"assumes instead of checking: “{cut(words, 50)}”"
            )
        if turn.ask.response.stop in _CUT_OFF:
            phrase = f"stop reason: {turn.ask.response.stop}"
            yield StepSignal(turn.index, BAD_END, phrase, _CUT_OFF_STRENGTH)


def _new_facts(case: RuleContext) -> Iterator[StepSignal]:
    """Steps that say what no message before them holds; of a run whose task was not recorded
    nothing can be said, because it may have stood there."""
    for step, facts in case.new_facts.items():
        values = "value" if len(facts) == 1 else "values"
        phrase = f"{len(facts)} {values} not found in context: {cut(', '.join(facts[:3]), 40)}"
        yield StepSignal(step, NEW_FACTS, phrase, spree(len(facts)))


def _new_texts(reading: Reading) -> Iterator[tuple[Turn, list[str]]]:
    """Each turn with the prompts and the words of others that are new to the run at it."""
    systems: set[int] = set()
    for turn in reading.turns:
        texts = [each.text for each in (*turn.heard, *turn.overheard)]
        system = turn.ask.request.system
        if system is not None and id(system) not in systems:
            systems.add(id(system))
            texts.append(str(system.body.get("content") or ""))
        yield turn, texts


_STEPPED_IN = {"denied", "rejected", "interrupt", "interrupted", "rewind", "abandoned"}
_OBJECTS = re.compile(
    r"\b(?:that(?:'|’)s (?:not (?:what|right|correct)|wrong|incorrect)|not what i (?:asked|meant"
    r"|wanted)|misunderst\w+|mis-?understanding|mix-?up|you(?:'|’)?(?:re| are) (?:wrong|mistaken)"
    r"|i (?:already|have already) (?:told|said|gave|provided)|(?:was|is) incorrect"
    r"|you didn(?:'|’)t|you did not|still (?:not|wrong|doesn(?:'|’)t))\b",
    re.I,
)


def user_objections(case: RuleContext) -> Iterator[tuple[int, str]]:
    """(step, phrase) of the step before each."""
    lines = _Lines(case.reading)
    for span in case.trace.spans:
        signals = span.extra.get("signals") if isinstance(span, AgentSpan) else None
        for signal in signals if isinstance(signals, list) else ():
            kind = signal.get("kind") if isinstance(signal, dict) else None
            step = lines.step_at(signal) if kind in _STEPPED_IN else None
            if step is not None:
                yield step, f"user intervened: {kind}"
    for turns in case.reading.threads.values():
        for before, turn in pairwise(turns):
            for heard in turn.heard:
                if heard.role == "user" and _OBJECTS.search(heard.text[:600]):
                    yield before.index, f"user objected: “{cut(heard.text, 50)}”"


class _Lines:
    """The lines of the source that the steps of a run stand in."""

    def __init__(self, reading: Reading) -> None:
        placed = sorted(
            (turn.ask.place.line, turn.index)
            for turn in reading.turns
            if turn.ask.place.line is not None and turn.ask.place.line > 0
        )
        self._lines = [line for line, _ in placed]
        self._latest = [*accumulate((index for _, index in placed), max)]

    def step_at(self, signal: dict[str, Json]) -> int | None:
        """The last step at or before the line that a signal names."""
        line = signal.get("line")
        before = bisect_right(self._lines, line) if isinstance(line, int) else 0
        return self._latest[before - 1] if before else None
