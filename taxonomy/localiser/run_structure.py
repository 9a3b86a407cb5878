"""The structure of a run: who only coordinates, where work begins, what changes and answers.

These are signs of where a run decides something. They say nothing of whether it decided wrongly:
a step that only they point at is a positional guess. All of them are read from structure, never
from the names of one data set's agents: who speaks without acting and leads to the others, who
quotes the task, which step changes something first, whether any result holds the answer.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from replay.effects import takes_program
from taxonomy.evidence.endings import closes
from taxonomy.evidence.final_answer import is_closing_word
from taxonomy.evidence.reading import Reading, Turn, is_person, leaves, mutates, program, speaker
from taxonomy.evidence.results import cut
from taxonomy.evidence.unobserved import facts
from taxonomy.localiser.baselines import eligible
from taxonomy.localiser.features import (
    COORDINATES,
    FIRST_ACTION,
    FIRST_WORK,
    FIRST_WRITE,
    GROWTH,
    LAST_CHANCE,
    LATE,
    THIN,
    StepSignal,
    first_leap,
    leaps,
    own_time_ns,
)

_CODE = "```"
_NEARLY_ALL = 0.8
_LEADS = 0.6
"""Who speaks right before so many of the others' turns leads the group."""

_FEWEST_SPEAKERS = 3
_QUOTED = 40
"""A task as long as this that stands whole in a turn is quoted, not met by chance."""

_GROWTH = 1.4
_SPIKE = 1.5
"""How many times the step before a leap is; it must also be above the median of the run."""

_GROWTH_STRENGTH = 0.5
_SPIKE_STRENGTH = 0.25


class RunStructure:
    """One reading, and what its structure shows. Built once a run."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.choices = eligible(reading)
        self.is_group = is_group(reading)
        self.writes = sorted({act.step for act in reading.acts if mutates(act.span)})

    @property
    def asks(self) -> bool:
        """Is it an answer that counts: was a question asked, and nothing changed?"""
        return not self.writes and _QUESTION.search(self._request_text) is not None

    @cached_property
    def _request_text(self) -> str:
        """What the run was asked, "" where that is not recorded."""
        header = self.reading.trace.header
        return plain_text("\n".join((header.task or "", header.title or "", *self._first_words)))

    @cached_property
    def _first_words(self) -> tuple[str, ...]:
        """What people said before anybody answered; a chat may hold the person as a speaker."""
        found: list[str] = []
        for turn in self.reading.turns:
            found += (each.text for each in turn.heard)
            if not is_person(turn.ask.agent):
                break
            found.append(turn.said)
        return tuple(found)

    @cached_property
    def idle(self) -> frozenset[int]:
        """The steps that only plan, route, quote the task or say that it is over."""
        return frozenset(
            turn.index
            for turn in self.reading.turns
            if not turn.observer and not turn.acts and self._is_idle(turn)
        )

    def _is_idle(self, turn: Turn) -> bool:
        if speaker(turn.ask.agent) in self._coordinators or is_closing_word(turn.said):
            return True
        if self.is_group:
            return bool(self._task) and self._task in plain_text(turn.said)
        thread = self.reading.threads[turn.thread]
        return self._works and (turn is not thread[-1] or len(thread) == 1)

    @cached_property
    def _works(self) -> bool:
        """Does any step of the run call anything?"""
        return any(each.acts for each in self.reading.turns)

    @cached_property
    def _task(self) -> str:
        """What the people asked for at the start, "" where that is too short to be recognised."""
        longest = max(map(plain_text, self._first_words), key=len, default="")
        return longest if len(longest) >= _QUOTED else ""

    @cached_property
    def _coordinators(self) -> frozenset[str]:
        """The speakers of a group that never act themselves and lead to what the others do."""
        turns = self.reading.turns
        speakers = [speaker(turn.ask.agent) for turn in turns]
        by_name: dict[str, list[Turn]] = defaultdict(list)
        for name, turn in zip(speakers, turns, strict=True):
            by_name[name].append(turn)
        if len(by_name.keys() - {""}) < _FEWEST_SPEAKERS:
            return frozenset()
        led = Counter(
            before for before, name in pairwise(speakers) if name not in (before, "") and before
        )
        spoken = len(turns) - len(by_name.get("", ()))
        found = set()
        for name, own in by_name.items():
            acts = any(turn.acts or turn.observer or program(turn.said) for turn in own)
            if name and not acts and len(own) > 1 and led[name] >= _LEADS * (spoken - len(own)):
                found.add(name)
        return frozenset(found)

    @cached_property
    def work(self) -> tuple[int, ...]:
        """The steps that do something for the task."""
        return tuple(step for step in self.choices if step not in self.idle)

    # --- the answer

    @cached_property
    def answer(self) -> tuple[str, int] | None:
        """The answer at the end of the run, or the last words, and their step; None without any.
        A step that still calls tools gives none."""
        for turn in reversed(self.reading.turns):
            ends = any(map(closes, turn.acts))
            speaks = turn.said and not turn.acts and not is_closing_word(turn.said)
            if not turn.observer and (ends or speaks):
                return marked_answer(turn) or turn.said, turn.index
        return None

    @cached_property
    def origin(self) -> int | None:
        """The step that first states the final answer, or computes it; None where the task holds
        it, or nobody states it in one place, or no answer counts."""
        if self.answer is None or not self.asks:
            return None
        asked = self._request_text
        given = plain_text(self.answer[0])
        if len(given) <= _SHORT:
            wanted = [given] if given and not stands_in(asked, given) else []
        else:
            named = dict.fromkeys(map(plain_text, facts(self.answer[0])))
            wanted = [each for each in named if not stands_in(asked, each)][:_MOST_FACTS]
        if not wanted:
            return None
        computed = self._computed
        for step in self.choices:
            if step > self.answer[1] or step in self.idle:
                continue
            text = plain_text(f"{own_words(self.reading.turns[step])}\n{computed[step]}")
            if 2 * sum(stands_in(text, each) for each in wanted) >= len(wanted):
                return step
        return None

    @cached_property
    def _computed(self) -> dict[int, str]:
        """By step what came back to the programs it wrote."""
        found: dict[int, list[str]] = defaultdict(list)
        for turn, reply in self.reading.reports():
            found[turn.index].append(reply.text)
        for act in self.reading.acts:
            if takes_program(act.span.arguments):
                found[act.step].append(act.reply.text)
        return defaultdict(str, {step: "\n".join(texts) for step, texts in found.items()})

    @cached_property
    def is_thin(self) -> bool:
        """Is the final answer a short text that nothing holds which the run was shown? Only of
        words that are marked as the answer can that be told."""
        if self.answer is None or not self.asks:
            return False
        at = self.answer[1]
        given = plain_text(marked_answer(self.reading.turns[at]))
        shown = [act.reply.text for act in self.reading.acts if act.step <= at]
        shown += [
            turn.said
            for turn in self.reading.turns[:at]
            if turn.observer and not is_person(turn.ask.agent)
        ]
        is_short = 0 < len(given) <= _SHORT
        return is_short and not any(stands_in(plain_text(each), given) for each in shown)


_QUESTION = re.compile(r"\?|\bquestions?\b")


def is_group(reading: Reading) -> bool:
    """Do several agents speak in turn?"""
    own = [turn for turn in reading.turns if not turn.observer]
    return len({speaker(turn.ask.agent) for turn in own} - {""}) > 1


_SHORT = 60
_MOST_FACTS = 12
_TAGGED = re.compile(r"<answer>(.*?)</answer>|\\boxed\{(.*?)\}", re.S | re.I)
_FINAL = re.compile(r"final answer\b\W*(?:is\b)?[\s:*`\"]*([^\n]+)", re.I)
_FENCED = re.compile(r"```[^\n]*\n([^\n(={]{1,60})\n?```")
_IS = re.compile(r"\banswer\b[^.\n]{0,80}?\b(?:is|are):?\s+([^\n]+)", re.I)
_AROUND = " \t\n.*:`\"'$"


def marked_answer(turn: Turn) -> str:
    """What a last turn hands in or marks as the answer, "" where it does neither."""
    for act in reversed(turn.acts):
        given = [value for _, value in leaves(act.span.arguments) if isinstance(value, str | int)]
        given = [value for value in given if not isinstance(value, bool)]
        if closes(act) and given:
            return max(map(str, given), key=len).strip(_AROUND)
    for marked in (_TAGGED, _FINAL, _FENCED, _IS):
        found = [next(filter(None, each.groups()), "") for each in marked.finditer(turn.said)]
        found = [value for each in found if (value := each.strip(_AROUND))]
        if found:
            return found[-1]
    return ""


def own_words(turn: Turn) -> str:
    """All that a step writes itself: its words, its thoughts, the arguments of its calls."""
    given = (str(value) for act in turn.acts for _, value in leaves(act.span.arguments))
    return "\n".join((turn.said, turn.thought, *given))


_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
_MARKUP = re.compile(r"[*`]+")


def plain_text(text: str) -> str:
    """A text without case, markup, commas of thousands and more than one space."""
    return " ".join(_MARKUP.sub("", _THOUSANDS.sub("", text.casefold())).split())


def stands_in(text: str, words: str) -> bool:
    """Do whole words stand in a text?"""
    return words in text and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None


# --- signs


def structure_signals(structure: RunStructure) -> Iterator[StepSignal]:
    """Where the run begins to work, commits itself, changes and answers.

    Where nearly every step acts, to be the first of them says little.
    """
    reading, choices = structure.reading, structure.choices
    for step in sorted(structure.idle):
        yield StepSignal(step, COORDINATES, "only plans, routes or closes")
    if structure.is_group and structure.work:
        yield StepSignal(structure.work[0], FIRST_WORK, "the first to do something for the task")
    yield from _first_action(reading)
    if structure.writes:
        step = structure.writes[0]
        rare = 1 - (len(structure.writes) - 1) / len(choices) if choices else 0.0
        phrase = f"{_writer(reading, step)} is the first known write"
        yield StepSignal(step, FIRST_WRITE, phrase, rare)
    changed = [act for act in reading.acts if mutates(act.span) and act.reply.failed is False]
    if changed:
        phrase = f"{changed[-1].name} is the last known write"
        yield StepSignal(changed[-1].step, LAST_CHANCE, phrase)
    if structure.is_thin and structure.answer is not None:
        given, at = structure.answer
        step = at if structure.origin is None else structure.origin
        phrase = f"no result holds the final answer “{cut(' '.join(given.split()), 40)}”"
        yield StepSignal(step, THIN, phrase)
    if structure.asks and not structure.is_group:
        for place, step in enumerate(structure.work):
            if place:
                share = place / (len(structure.work) - 1)
                yield StepSignal(step, LATE, "late in a run that answers a question", share)
    yield from _leaps(reading)


def _first_action(reading: Reading) -> Iterator[StepSignal]:
    own = [turn for turn in reading.turns if not turn.observer]
    acting = [turn for turn in own if _acts(turn)]
    if acting and (acting[0] is not own[0] or len(acting) < _NEARLY_ALL * len(own)):
        name = next((act.name for act in acting[0].acts if mutates(act.span)), None)
        phrase = "first code" if name is None else f"{name} is the first known write"
        yield StepSignal(acting[0].index, FIRST_ACTION, phrase)


def _acts(turn: Turn) -> bool:
    return _CODE in turn.said or any(mutates(act.span) for act in turn.acts)


def _writer(reading: Reading, step: int) -> str:
    return next(act.name for act in reading.turns[step].acts if mutates(act.span))


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


def _by_speaker(reading: Reading) -> Iterable[Sequence[Turn]]:
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
