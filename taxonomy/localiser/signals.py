"""What speaks against a step: signals that it may be where the run broke.

Each signal is a step, the feature it is one of, how strong it is, and a phrase; what a feature
weighs is for `candidates` to say.

A new fact is a number of two digits or more, or a name: a capitalised word that does not open a
sentence. It is new where no message, result or prompt before contains its word. Code is left
out, and what a step reads out: the text of a page or a file behind the words that announce it. A
new fact may be true: it only shows that the model spoke from memory.

A person objects by stepping in or in the next message.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

from replay.trace import AgentSpan, Json
from taxonomy.classes import Attribution, FailureClass
from taxonomy.evidence.claims import assumptions, splitter, without_case
from taxonomy.evidence.reading import Reading, Turn, mutates
from taxonomy.evidence.results import Reply, cut
from taxonomy.findings import Finding, StepScore
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
from taxonomy.rules import rule_of
from taxonomy.rules.rule import RuleContext, statements
from taxonomy.step_scores import FRESH, GROUNDED

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
_WEAK = 0.25
_LATER = 0.2
_CUT_OFF_STRENGTH = 0.7
_NEARLY_ALL = 0.8
_GROWTH_STRENGTH = 0.5
_SPIKE_STRENGTH = 0.25

_NOT_OF_A_STEP = {Attribution.USER, Attribution.GRADER}
"""Faults of what stands outside the run: no step of it is to blame."""

_CUT_OFF = {"length", "context", "filter", "error"}
_CODE = "```"


class StepSignal(NamedTuple):
    """One sign against a step; `strength` 0..1 of its feature, None where it cannot be told."""

    step: int
    feature: str
    phrase: str
    strength: float | None = 1.0


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
        yield from _new_facts(case.reading)
    yield from (StepSignal(step, OBJECTION, phrase) for step, phrase in user_objections(case))
    if not case.reading.passed:
        yield from _course(case.reading)
    yield from _leaps(case.reading)


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
    heard = _SeenTexts(reading.trace.header.task or "")
    for turn, texts in new_texts(reading):
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


def _new_facts(reading: Reading) -> Iterator[StepSignal]:
    """Steps that say what no message before them holds; of a run whose task was not recorded
    nothing can be said, because it may have stood there."""
    for turn, facts in new_facts(reading):
        if facts:
            values = "value" if len(facts) == 1 else "values"
            phrase = f"{len(facts)} {values} not found in context: {cut(', '.join(facts[:3]), 40)}"
            yield StepSignal(turn.index, NEW_FACTS, phrase, spree(len(facts)))


class _SeenTexts:
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


def _course(reading: Reading) -> Iterator[StepSignal]:
    """The first step that acts, and the last that changed something.

    Where nearly every step acts, to be the first of them says nothing.
    """
    own = [turn for turn in reading.turns if not turn.observer]
    acting = [turn for turn in own if _acts(turn)]
    if acting and (acting[0] is not own[0] or len(acting) < _NEARLY_ALL * len(own)):
        name = next((act.name for act in acting[0].acts if mutates(act.span)), None)
        phrase = "first code" if name is None else f"{name} is the first known write"
        yield StepSignal(acting[0].index, FIRST_ACTION, phrase)
    changed = [
        (turn.index, act.name)
        for turn in reading.turns
        for act in turn.acts
        if mutates(act.span) and act.reply.failed is False
    ]
    if changed:
        step, name = changed[-1]
        yield StepSignal(step, LAST_CHANCE, f"{name} is the last known write")


def _acts(turn: Turn) -> bool:
    code = _CODE in turn.said and not turn.observer
    return code or any(mutates(act.span) for act in turn.acts)


def _leaps(reading: Reading) -> Iterator[StepSignal]:
    """Where length, context, latency or cost leap; time in which a tool ran is no latency."""
    asks = [turn.ask for turn in reading.turns]
    tokens = [ask.usage.input_tokens if ask.usage is not None else None for ask in asks]
    costs = [ask.cost.usd if ask.cost is not None else None for ask in asks]
    for own in _by_speaker(reading):
        longer = first_leap([_length(turn) for turn in own], _SPIKE)
        if longer is not None:
            place, times = longer
            phrase = f"message length × {times:.1f}"
            yield StepSignal(own[place].index, GROWTH, phrase, _GROWTH_STRENGTH)
    for step, times in leaps(tokens, _GROWTH):
        yield StepSignal(step, GROWTH, f"context × {times:.1f}", _GROWTH_STRENGTH)
    for what, values in (("latency", latencies_ns(reading)), ("cost", costs)):
        for step, times in leaps(values, _SPIKE):
            yield StepSignal(step, GROWTH, f"{what} × {times:.1f}", _SPIKE_STRENGTH)


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


_WORD = re.compile(r"[^\W\d_][\w'’-]+|\d[\d,.]*\d|\d")
_pieces = splitter('!"#$%&()*+/:;<=>?@[\\]^`{|}~')
"""Split at every ASCII sign that no word and no number holds."""

_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.S)
_BULLET = re.compile(r"^\s*(?:#+|\d+[.)]|[-*•])\s*")
_MARKUP = re.compile(r"[*_`]+")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+")

_READS_OUT = re.compile(
    r"^.{0,80}\b(?:screenshot|viewport|metadata|ocr|page (?:text|content)|contents? of"
    r"|(?:following|full) text|search results?|observation"
    r"|(?:tool|command|execution|console) (?:output|result))\b"
    r".{0,120}:",
    re.M | re.I,
)
"""How a step announces what it shows rather than says: a page, a file, a result."""

_SHOWS = (
    "screenshot", "viewport", "metadata", "ocr", "text", "content", "search", "observation",
    "output", "result",
)  # fmt: skip
"""Words of which one stands in every such announcement."""

_I = re.compile(r"I['’]")
"""How "I'll" and its like begin: capitalised, and no name."""

_SHORTEST = 2
"""A name has more letters than this, a number at least as many figures."""


def new_facts(reading: Reading) -> Iterator[tuple[Turn, tuple[str, ...]]]:
    """Each turn with the facts it says that nothing before it contains, terminals left out."""
    seen = _Read()
    seen.add(reading.trace.header.task or "")
    for turn, texts in new_texts(reading):
        seen.add(*texts)
        if not turn.observer:
            yield turn, tuple(fact for fact in facts(_own(turn.said)) if fact.lower() not in seen)
        seen.add(turn.said, *(act.reply.text for act in turn.acts))


class _Read:
    """The words of the texts that were added; a piece that came before is not read again."""

    def __init__(self) -> None:
        self._pieces: set[str] = set()
        self._words: set[str] = set()

    def __contains__(self, word: str) -> bool:
        return word in self._words

    def add(self, *texts: str) -> None:
        for text in texts:
            fresh = set(_pieces(text.lower()))
            fresh -= self._pieces
            self._pieces |= fresh
            for piece in fresh:
                if not piece.isalpha():
                    self._words.update(map(_plain, _WORD.findall(piece)))
                elif len(piece) > 1:
                    self._words.add(piece)


def new_texts(reading: Reading) -> Iterator[tuple[Turn, list[str]]]:
    """Each turn with the prompts and the words of others that are new to the run at it."""
    systems: set[int] = set()
    for turn in reading.turns:
        texts = [each.text for each in (*turn.heard, *turn.overheard)]
        system = turn.ask.request.system
        if system is not None and id(system) not in systems:
            systems.add(id(system))
            texts.append(str(system.body.get("content") or ""))
        yield turn, texts


def _own(text: str) -> str:
    """A text up to what it reads out."""
    small = without_case(text)
    announces = ":" in text and any(word in small for word in _SHOWS)
    read_out = _READS_OUT.search(text) if announces else None
    return text[: read_out.start()] if read_out else text


def facts(text: str) -> tuple[str, ...]:
    """The numbers and names in a text, each once, in order; `1,234` is `1234`."""
    found: dict[str, None] = {}
    for line in _CODE_BLOCK.sub(" ", text).splitlines():
        for sentence in _SENTENCE.split(_MARKUP.sub("", _BULLET.sub("", line))):
            for place, word in enumerate(_WORD.findall(sentence)):
                if word[0].isdecimal():
                    word = _plain(word)
                    is_fact = len(word) >= _SHORTEST
                else:
                    is_fact = place > 0 and word[0].isupper() and len(word) > _SHORTEST
                    is_fact = is_fact and _I.match(word) is None
                if is_fact:
                    found.setdefault(word)
    return tuple(found)


def _plain(word: str) -> str:
    return word.replace(",", "").rstrip(".") if word[0].isdecimal() else word


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
