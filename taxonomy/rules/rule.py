"""What a rule is and what it is given, how it cites that, and when calls or speeches are alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct, structs
from rapidfuzz import fuzz

from replay.effects import Effects, words_of
from replay.trace import Outcome, Trace
from taxonomy.classes import FailureClass
from taxonomy.evidence.checks import StepChecks, check_runs
from taxonomy.evidence.context_index import Index
from taxonomy.evidence.file_edits import FileWrite, file_writes
from taxonomy.evidence.reading import Act, Reading, Schemas, Turn, leaves, mutates, quote_turn
from taxonomy.evidence.results import cut
from taxonomy.evidence.unobserved import new_facts, shows_page
from taxonomy.evidence.value_origins import Value, values
from taxonomy.findings import Finding

Shown: TypeAlias = Literal["answer", "repeated calls", "no calls", "later"]
"""Where the failure shows in another answer to the same request: in the answer itself, in calls
that were all made before, in an answer that calls nothing, or only in what comes back later."""

Against: TypeAlias = Literal["sources", "context", "tools", "numbers"]
"""What a step that contradicts something is held against: the sources that the finding cites, all
that was to be read before, the tools on offer, or its own numbers."""

Item: TypeAlias = Literal["fits", "grounded", "read", "fresh", "ended"]
"""An item of a step's score: its calls fit their tools, their arguments have an origin, results
were read, nothing was repeated, the run ended well."""


class Rule(Struct, frozen=True, kw_only=True):
    """`find` yields findings that bear the `name`. Rules of one name agree in all the rest.

    `against` is None where a finding contradicts nothing that was shown, `denies` where no item of
    a step's score asks about it. A finding counts against a step as those of the class `counts_as`
    do, where that is not its own, and for a `share` of what they count. `advice` is told to a model
    that takes the step again, after the sources; None: that it must agree with them.
    """

    name: str
    find: Callable[[RuleContext], Iterator[Finding]]
    shown: Shown = "later"
    against: Against | None = None
    denies: Item | None = None
    counts_as: FailureClass | None = None
    share: float = 1.0
    advice: str | None = None


_THOUGHTS = re.compile(r"thoughts?|reasoning|plan|analysis", re.I)


class RuleContext:
    """One trace before the rules: its turns, what it had seen, and which values came from where."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.reading = Reading(trace)
        self.schemas = Schemas()

    def unjudged(self) -> RuleContext:
        """The same case as it is where nobody knows how the run ended."""
        other = copy(self)
        other.trace = structs.replace(
            self.trace, header=structs.replace(self.trace.header, outcome=Outcome())
        )
        other.reading = copy(self.reading)
        other.reading.trace = other.trace
        return other

    @cached_property
    def index(self) -> Index:
        return Index(self.reading)

    @cached_property
    def writes(self) -> tuple[FileWrite, ...]:
        """What calls wrote into files, in step order."""
        return file_writes(self.reading)

    @cached_property
    def check_runs(self) -> tuple[StepChecks, ...]:
        """What the tests that the run started itself said, in step order."""
        return check_runs(self.reading)

    @cached_property
    def effects(self) -> Effects:
        """What each tool does to the world, called or only offered."""
        calls = [act.span for act in self.reading.acts]
        return Effects(calls, self.reading.offers.values())

    @cached_property
    def new_facts(self) -> dict[int, tuple[str, ...]]:
        """The facts of each step that nothing before it holds, steps without one left out."""
        found = new_facts(self.reading, self.index.sources)
        return {turn.index: facts for turn, facts in found if facts}

    @cached_property
    def grounding(self) -> dict[int, tuple[Value, ...]]:
        """The values of each step that need an origin, steps without one left out."""
        found = (
            (turn.index, tuple(values(self.index, turn, self.reading.calls(turn))))
            for turn in self.reading.turns
        )
        return {step: named for step, named in found if named}


def statements(turn: Turn) -> Iterator[str]:
    """What a turn says: its text, its reasoning, and thoughts written as a call of a tool."""
    if turn.said:
        yield turn.said
    if turn.thought:
        yield turn.thought
    for act in turn.acts:
        for path, value in leaves(act.span.arguments):
            if isinstance(value, str) and _THOUGHTS.fullmatch(path):
                yield value


_DIGITS = re.compile(r"\d+")
_MOMENT = re.compile(
    r"0x[0-9a-f]+|\b(?=\w*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\b\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|\b\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|s|secs?|seconds?|milliseconds?)\b",
    re.I,
)
"""What is of the moment alone: an address, an id, the time of day, how long it took."""

_BLANK = re.compile(r"\\[nrt]")
_MARK = re.compile(r"\w+|[^\w\s]")
_NOTES = {"todo", "think", "thought", "plan", "note", "write"}


def same_call(left: Act, right: Act) -> bool:
    """Do two calls ask the same, give or take a few letters?"""
    if left.key == right.key:
        return True
    if left.name != right.name or _digits(left.key) != _digits(right.key):
        return False
    return alike(left.key, right.key)


def same_reply(left: Act, right: Act) -> bool:
    """Did two calls bring the same answer? An unknown answer is equal to none."""
    if left.reply.failed is None or right.reply.failed is None:
        return False
    return left.reply.text == right.reply.text or (
        bool(left.reply.failed and right.reply.failed)
        and left.key == right.key
        and reply_words(left) == reply_words(right)
    )


def reply_words(act: Act) -> str:
    """What came back; of a failure without what is of the moment alone, which is no news to
    whoever asked the very same."""
    return _MOMENT.sub("#", act.reply.text) if act.reply.failed else act.reply.text


def repeats(left: Act, right: Act) -> bool:
    """Is the later call the earlier one again, with no news in its reply?

    An acknowledgement is no news of a changed call (a list written anew is acknowledged in the
    same words), so a call that differs at all repeats only as a failure, or as a question.
    """
    if not same_reply(left, right):
        return False
    if left.key == right.key or _same_marks(left.key, right.key):
        return True
    return bool(right.reply.failed or _asks(right)) and same_call(left, right)


def brought_again(acts: Iterable[Act]) -> Iterator[tuple[Act, Act]]:
    """(the earlier, the later) of calls of a thread where the very same brought the same answer,
    nothing having been changed in between; both replies are known."""
    seen: dict[tuple[str, str], Act] = {}
    for act in acts:
        if act.reply.failed is False and mutates(act.span):
            seen.clear()
        elif act.reply.failed is not None:
            asked = (act.key, reply_words(act))
            if asked in seen:
                yield seen[asked], act
            seen[asked] = act


def _asks(act: Act) -> bool:
    """Is it a question to the world, rather than a note to itself?"""
    return mutates(act.span) is False and not _NOTES & set(words_of(act.name))


def _same_marks(left: str, right: str) -> bool:
    """Do two calls have the same words and signs, white space aside?"""
    return _letters(left) == _letters(right) and _marks(left) == _marks(right)


@lru_cache(maxsize=2_000)
def _letters(key: str) -> str:
    """A call without its white space: what differs here differs in its words or signs."""
    return "".join(_BLANK.sub(" ", key).split())


def _marks(key: str) -> list[str]:
    """The words and signs of a call, its white space left out."""
    return _MARK.findall(_BLANK.sub(" ", key))


@lru_cache(maxsize=2_000)
def _digits(key: str) -> list[str]:
    return _DIGITS.findall(key)


SPEECH_TIMES = 3
ALIKE = 95.0
"""Likeness in per cent from which two long texts are the same but for a few letters."""

LONGEST_ROUND = 3
"""So many speakers may take turns in saying the same again."""

_NEAR = 6
"""So many turns later a page is no longer shown again, but once more."""

_LONG = 80
_COMPARED = 4_000


def repeated_speeches(reading: Reading, turns: Sequence[Turn], rule: str) -> Iterator[Finding]:
    """The first words, or round of words, given three times with no call between."""
    found = next(speeches(reading, turns), None)
    if found is not None:
        yield Finding(
            failure=FailureClass.LOOP,
            step=found[1].index,
            span=found[1].ask.id,
            why=why_said(found),
            rule=rule,
            evidence=tuple(quote_turn(each, each.said) for each in found[: SPEECH_TIMES + 1]),
        )


def why_said(told: Sequence[Turn]) -> str:
    """What a run of the same speech is, in a phrase."""
    return f"repeats the same message {len(told)}×: “{cut(told[0].said, 40)}”"


def speeches(reading: Reading, turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """The earliest speech, or round of them, that is given again in each silent stretch."""
    for run in _silent_runs(reading, turns):
        told = [*_rounds(run), *_returns(run)]
        found = min(told, key=lambda round_: round_[1].index, default=None)
        if found is not None:
            yield found


def alike(left: str, right: str) -> bool:
    """Are two texts the same but for a few letters?"""
    shorter, longer = sorted((len(left), len(right)))
    if shorter < 0.9 * longer:
        return False
    return fuzz.ratio(left[:_COMPARED], right[:_COMPARED], score_cutoff=ALIKE) >= ALIKE


def _silent_runs(reading: Reading, turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """Stretches of turns that only speak, at length."""
    run: list[Turn] = []
    for turn in turns:
        if turn.observer:
            continue
        if len(turn.said) < _LONG or reading.calls(turn):
            yield run
            run = []
        else:
            run.append(turn)
    yield run


def _returns(run: Sequence[Turn]) -> Iterator[list[Turn]]:
    """The same page, shown three times within a few turns by the browser of a group chat."""
    told: dict[tuple[str | None, str], list[Turn]] = {}
    for turn in filter(shows_page, run):
        same = told.setdefault((turn.ask.agent, turn.said), [])
        if same and turn.index - same[-1].index > _NEAR:
            same.clear()
        same.append(turn)
    yield from (same for same in told.values() if len(same) >= SPEECH_TIMES)


def _rounds(run: Sequence[Turn]) -> Iterator[list[Turn]]:
    """The speeches at the same place of a round that is gone through three times or more."""
    for period in range(1, LONGEST_ROUND + 1):
        start = 0
        for at in range(period, len(run) + 1):
            if at < len(run) and alike(run[at - period].said, run[at].said):
                continue
            if at - start >= SPEECH_TIMES * period:
                yield list(run[start:at:period])
            start = at - period + 1
