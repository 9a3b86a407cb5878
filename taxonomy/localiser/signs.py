"""What speaks against a step: signs that it may be where the run broke.

Each sign is a step, the feature it is one of, how strong it is, and a phrase; what a feature
weighs is for `candidates` to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from taxonomy.classes import FailureClass, Fault
from taxonomy.evidence.claims import assumptions
from taxonomy.evidence.reading import Reading, Turn, mutates
from taxonomy.evidence.replies import Reply, cut
from taxonomy.findings import Finding, StepScore
from taxonomy.localiser.facts import new_facts, told
from taxonomy.localiser.features import (
    ASSUMPTION,
    BAD_CALL,
    BAD_END,
    FIRST_ACTION,
    FIRST_ERROR,
    FIRST_FINDING,
    GROWTH,
    LAST_CHANCE,
    NEW_FACTS,
    OBJECTION,
    OTHER,
    REPEATS,
    UNFOUNDED,
    first_leap,
    leaps,
    own_time_ns,
    spree,
)
from taxonomy.localiser.objections import objections
from taxonomy.rules import cap_hit, contradiction, malformed
from taxonomy.rules.case import Case, statements
from taxonomy.scores import FRESH, GROUNDED

_GROWTH = 1.4
_SPIKE = 1.5
"""How many times the step before a leap is; it must also be above the median of the run."""

_OF_CLASS = {
    FailureClass.HALLUCINATED_STATE: UNFOUNDED,
    FailureClass.BAD_ARGS: BAD_CALL,
    FailureClass.WRONG_TOOL: BAD_CALL,
    FailureClass.LOOP: REPEATS,
    FailureClass.GAVE_UP: BAD_END,
    FailureClass.OTHER: OTHER,
}
_OF_RULE = {
    malformed.NAME: (BAD_CALL, 1.0),
    contradiction.NAME: (UNFOUNDED, 1.0),
    cap_hit.NAME: (BAD_END, 0.4),
}
_WEAK = 0.25
_LATER = 0.2
_CUT_OFF_STRENGTH = 0.7
_NEARLY_ALL = 0.8
_GROWTH_STRENGTH = 0.5
_SPIKE_STRENGTH = 0.25

_NOT_OF_A_STEP = {Fault.USER, Fault.CHECK}
"""Faults of what stands outside the run: no step of it is to blame."""

_CUT_OFF = {"length", "context", "filter", "error"}
_CODE = "```"


class Sign(NamedTuple):
    """One sign against a step; `strength` 0..1 of its feature, None where it cannot be told."""

    step: int
    feature: str
    phrase: str
    strength: float | None = 1.0


def signs(case: Case, found: Sequence[Finding], own: Sequence[StepScore]) -> Iterator[Sign]:
    """Every sign against every step, but those of a terminal, which decides nothing.

    `own` are the rules' scores; they give their items: what they score is what the other signs
    say already.
    """
    terminals = {turn.index for turn in case.reading.turns if turn.observer}
    for sign in _signs(case, found, own):
        if sign.step not in terminals:
            yield sign


def strongest(found: Iterable[Sign]) -> dict[int, dict[str, Sign]]:
    """By step and feature, the strongest sign; of equal ones the first. Those of no strength are
    left out."""
    by_step: dict[int, dict[str, Sign]] = {}
    for sign in found:
        named = by_step.setdefault(sign.step, {})
        if sign.strength and sign.strength > strength(named, sign.feature):
            named[sign.feature] = sign
    return {step: named for step, named in by_step.items() if named}


def strength(named: Mapping[str, Sign], feature: str) -> float:
    """How strong a feature is at a step, 0.0 where no sign tells."""
    return (named[feature].strength or 0.0) if feature in named else 0.0


def _signs(case: Case, found: Sequence[Finding], own: Sequence[StepScore]) -> Iterator[Sign]:
    yield from _findings([each for each in found if each.fault not in _NOT_OF_A_STEP])
    yield from _rubric(own)
    yield from _errors(case.reading)
    yield from _words(case.reading)
    if case.index.knows_task:
        yield from _new_facts(case.reading)
    yield from (Sign(step, OBJECTION, phrase) for step, phrase in objections(case))
    if not case.reading.passed:
        yield from _course(case.reading)
    yield from _leaps(case.reading)


def _findings(found: Sequence[Finding]) -> Iterator[Sign]:
    """Each finding, as strong as it is sure; findings come earliest first."""
    first = True
    for finding in found:
        feature, share = _OF_RULE.get(finding.rule, (_OF_CLASS[finding.failure], 1.0))
        strength = share * (1.0 if finding.confidence is None else finding.confidence)
        yield Sign(finding.step, feature, finding.why, strength)
        if first and feature != BAD_END and strength >= 0.5:
            yield Sign(finding.step, FIRST_FINDING, finding.why)
            first = False


def _rubric(scores: Iterable[StepScore]) -> Iterator[Sign]:
    features = {GROUNDED: UNFOUNDED, FRESH: REPEATS}
    for score in scores:
        for item in score.items:
            if item.held is False and item.name in features:
                yield Sign(score.step, features[item.name], item.because, _WEAK)


def _errors(reading: Reading) -> Iterator[Sign]:
    """Failed calls, and code that a terminal reports as failed; the first stands out."""
    strength = 1.0
    for step, phrase in _failures(reading):
        yield Sign(step, FIRST_ERROR, phrase, strength)
        strength = _LATER


def _failures(reading: Reading) -> Iterator[tuple[int, str]]:
    found = [
        (act.step, _failed(f"{act.name} failed", act.reply))
        for act in reading.acts
        if act.reply.failed
    ]
    for turn, reply in reading.reports():
        if reply.failed:
            found.append((turn.index, _failed("its code failed", reply)))
    yield from sorted(found, key=lambda failure: failure[0])


def _failed(what: str, reply: Reply) -> str:
    """What failed, and the line of the result that says most, where one says anything."""
    if reply.gist:
        return f"{what}: {cut(reply.gist, 60)}"
    return what if reply.text.strip() else f"{what}, empty result"


def _words(reading: Reading) -> Iterator[Sign]:
    """What a step says: that it assumes, that it was cut off."""
    heard = _Told(reading.trace.header.task or "")
    for turn, texts in told(reading):
        heard.add(texts)
        said = (
            sentence
            for each in (() if turn.observer else statements(turn))
            for stem, sentence in assumptions(each)
            if stem not in heard
        )
        words = next(filter(None, said), None)
        if words is not None:
            yield Sign(turn.index, ASSUMPTION, f"assumes instead of looking: “{cut(words, 50)}”")
        if turn.ask.response.stop in _CUT_OFF:
            phrase = f"stopped by {turn.ask.response.stop}"
            yield Sign(turn.index, BAD_END, phrase, _CUT_OFF_STRENGTH)


def _new_facts(reading: Reading) -> Iterator[Sign]:
    """Steps that say what no message before them holds; of a run whose task was not recorded
    nothing can be said, because it may have stood there."""
    for turn, facts in new_facts(reading):
        if facts:
            values = "value" if len(facts) == 1 else "values"
            phrase = f"{len(facts)} {values} not found in context: {cut(', '.join(facts[:3]), 40)}"
            yield Sign(turn.index, NEW_FACTS, phrase, spree(len(facts)))


class _Told:
    """What others told a run so far; a text is looked through once for each part of a word."""

    def __init__(self, task: str) -> None:
        self._texts = [task.lower()]
        self._looked: dict[str, int] = {}
        self._held: set[str] = set()

    def add(self, texts: Iterable[str]) -> None:
        self._texts += map(str.lower, texts)

    def __contains__(self, part: str) -> bool:
        if part not in self._held:
            fresh = islice(self._texts, self._looked.get(part, 0), None)
            if any(part in each for each in fresh):
                self._held.add(part)
            self._looked[part] = len(self._texts)
        return part in self._held


def _course(reading: Reading) -> Iterator[Sign]:
    """The first step that acts, and the last that changed something.

    Where nearly every step acts, to be the first of them says nothing.
    """
    own = [turn for turn in reading.turns if not turn.observer]
    acting = [turn for turn in own if _acts(turn)]
    if acting and (acting[0] is not own[0] or len(acting) < _NEARLY_ALL * len(own)):
        name = next((act.name for act in acting[0].acts if mutates(act.span)), None)
        phrase = "first code" if name is None else f"first known write: {name}"
        yield Sign(acting[0].index, FIRST_ACTION, phrase)
    changed = [
        (turn.index, act.name)
        for turn in reading.turns
        for act in turn.acts
        if mutates(act.span) and act.reply.failed is False
    ]
    if changed:
        step, name = changed[-1]
        yield Sign(step, LAST_CHANCE, f"last known write: {name}")


def _acts(turn: Turn) -> bool:
    code = _CODE in turn.said and not turn.observer
    return code or any(mutates(act.span) for act in turn.acts)


def _leaps(reading: Reading) -> Iterator[Sign]:
    """Where length, context, latency or cost leap; time in which a tool ran is no latency."""
    asks = [turn.ask for turn in reading.turns]
    tokens = [ask.usage.input_tokens if ask.usage is not None else None for ask in asks]
    costs = [ask.cost.usd if ask.cost is not None else None for ask in asks]
    for own in _by_speaker(reading):
        longer = first_leap([_length(turn) for turn in own], _SPIKE)
        if longer is not None:
            place, times = longer
            phrase = f"the first step to say much more: × {times:.1f}"
            yield Sign(own[place].index, GROWTH, phrase, _GROWTH_STRENGTH)
    for step, times in leaps(tokens, _GROWTH):
        yield Sign(step, GROWTH, f"context × {times:.1f}", _GROWTH_STRENGTH)
    for what, values in (("latency", latencies_ns(reading)), ("cost", costs)):
        for step, times in leaps(values, _SPIKE):
            yield Sign(step, GROWTH, f"{what} × {times:.1f}", _SPIKE_STRENGTH)


def _by_speaker(reading: Reading) -> Iterable[list[Turn]]:
    """The turns of each speaker of each thread: in a group chat one talks more than another."""
    found: dict[tuple[str, str | None], list[Turn]] = {}
    for turn in reading.turns:
        if not turn.observer:
            found.setdefault((turn.thread, turn.ask.agent), []).append(turn)
    return found.values()


def _length(turn: Turn) -> int:
    """Characters a step wrote: its words and the arguments of its calls."""
    return len(turn.said) + sum(len(act.key) for act in turn.acts)


def latencies_ns(reading: Reading) -> list[int | None]:
    """The time of each step's model call in which no tool of it or of the step before ran."""
    found: list[int | None] = []
    for place, turn in enumerate(reading.turns):
        ask = turn.ask
        if ask.duration_ns is None or ask.start_ns is None or ask.end_ns is None:
            found.append(None)
            continue
        near = reading.turns[max(0, place - 1) : place + 1]
        spans = [act.span for each in near for act in each.acts]
        ran = [(s.start_ns, s.end_ns) for s in spans if s.start_ns is not None and s.end_ns]
        found.append(own_time_ns(ask.start_ns, ask.end_ns, ran))
    return found
