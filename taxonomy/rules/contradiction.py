"""Contradiction, of time: a dated event is said to lie within, or beyond, a span of now.

Now is what a prompt, a person or a clock told; the event is the date the sentence names, else the
creation time in the last observation that has one. A date without a clock time is the whole day,
and a claim is false only if it is for every instant the two can mean.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from replay.tool_errors import decoded
from taxonomy.classes import FailureClass
from taxonomy.evidence.claims import Moment, Window, moments, sentences, windows, without_case
from taxonomy.evidence.context_index import Source
from taxonomy.evidence.reading import Turn, leaves, quote_turn
from taxonomy.evidence.results import cut
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext, statements

NAME = "contradiction"

_NOW = re.compile(
    r"(?:current|present|today(?:'|’)s|local|system) (?:date|time|datetime|day)(?:[ /]*(?:and )?"
    r"(?:time|date))?(?: is| in [\w ]{2,20} is|:| =)+\s*|\btoday is (?:\w+day,? )?|\bit is (?:now"
    r"|currently) |\bnow(?: is|:) ",
    re.I,
)
_TELLS = (
    *(
        f"{what} {unit}"
        for what in ("current", "present", "today's", "today’s", "local", "system")
        for unit in ("date", "time", "day")
    ),
    "today is ",
    "it is now",
    "it is currently",
    "now is ",
    "now: ",
)
"""Of these one stands in every text that tells the time, which most texts do not."""

_CLOCKS = re.compile(r"(?:get_?)?(?:current_?)?(?:date_?time|time|date|now|clock|today)", re.I)
_BEGUN = re.compile(
    r"(?:created|booked|ordered|placed|purchased?|made|opened|issued|received|delivered|submitted"
    r"|reported)(?:_?(?:at|on|date|time))?|(?:order|booking|purchase|creation|delivery)_?(?:date|time)",
    re.I,
)
_DATED = re.compile(
    r"\b(?:booked|created|made|placed|purchased|ordered|opened|issued|delivered|received"
    r"|submitted|started|dated|reservation|booking|order|purchase)\b[^.;]{0,40}?\bon\b",
    re.I,
)


Told = TypeVar("Told")


class Event(Struct, frozen=True, kw_only=True):
    """When something began, and what says so."""

    moment: Moment
    evidence: Evidence


def find(case: RuleContext) -> Iterator[Finding]:
    """The first false window of time; later ones repeat it."""
    clock = tuple(_times_told(case))
    if not clock:
        return
    begun = tuple(_begun(case))
    for turn in case.reading.turns:
        now = _latest(clock, turn)
        if now is not None and not turn.observer:
            found = next(_false_windows(case, turn, now, begun), None)
            if found is not None:
                yield found
                return


def _false_windows(
    case: RuleContext, turn: Turn, now: Event, begun: Sequence[tuple[int, Event | None]]
) -> Iterator[Finding]:
    for text in statements(turn):
        earlier = ""
        for sentence in sentences(text):
            for window in windows(sentence):
                event = _dated(case, turn, f"{earlier} {sentence}", now.moment)
                if event is None:
                    event = _latest(begun, turn)
                if event is not None and _is_false(window, event.moment, now.moment):
                    yield _finding(turn, window, event, now)
            earlier = sentence


def _latest(told: Sequence[tuple[int, Told]], turn: Turn) -> Told | None:
    """The last of those that a turn had seen, which come in the order in which they were."""
    seen = bisect_right(told, turn.index, key=lambda each: each[0])
    return told[seen - 1][1] if seen else None


def _times_told(case: RuleContext) -> Iterator[tuple[int, Event]]:
    """(visible from step, now) for each time a prompt, a person or a clock told the time."""
    for source in case.index.sources:
        for match in _NOW.finditer(source.text) if _may_tell(source) else ():
            told = next(moments(source.text[match.end() : match.end() + 60]), None)
            if told is not None:
                words = source.text[match.start() : match.end() + len(told.text) + 1]
                yield source.visible, _event_of(told, "stated", source, words)
        if source.span is not None and _CLOCKS.fullmatch(source.place):
            told = next(moments(source.text), None)
            if told is not None:
                yield source.visible, _event_of(told, "stated", source, source.text)


def _may_tell(source: Source) -> bool:
    """May a text of a prompt or a person tell the time?"""
    small = without_case(source.text) if source.span is None else ""
    return any(words in small for words in _TELLS)


def _dated(case: RuleContext, turn: Turn, words: str, now: Moment) -> Event | None:
    """The event whose date stands in the words themselves."""
    dated = _DATED.search(words)
    named = next(moments(words[dated.end() :], year=now.at.year), None) if dated else None
    if named is None:
        return None
    return Event(moment=named, evidence=_observed(case, turn, named) or quote_turn(turn, words))


def _observed(case: RuleContext, turn: Turn, named: Moment) -> Evidence | None:
    """The observation in which the named day stood."""
    origin = case.index.origin(turn.index, named.at.strftime("%Y-%m-%d"))
    if origin is None:
        return None
    return Evidence(
        role="observed", text=origin.text, step=origin.step, span=origin.span, place=origin.place
    )


def _begun(case: RuleContext) -> Iterator[tuple[int, Event | None]]:
    """(visible from step, event) for each observation with a creation time; None for several."""
    for source in case.index.sources:
        if source.span is None or source.own:
            continue
        found = [
            (path, moment)
            for path, value in leaves(decoded(source.text))
            if isinstance(value, str) and _BEGUN.fullmatch(path.rpartition(".")[2])
            for moment in moments(value)
        ]
        if found:
            path, moment = found[0]
            event = _event_of(moment, "observed", source, f"{path} {moment.text}")
            yield source.visible, event if len(found) == 1 else None


def _event_of(moment: Moment, role: str, source: Source, words: str) -> Event:
    return Event(
        moment=moment,
        evidence=Evidence(
            role=role, text=cut(words, 160), step=source.step, span=source.span, place=source.place
        ),
    )


def _is_false(window: Window, event: Moment, now: Moment) -> bool:
    """Is the claim false for every instant that the two dates can mean?"""
    longest, shortest = now.latest - event.at, now.at - event.latest
    if longest.total_seconds() < 0:  # the event is still to come: the sentence is about that
        return False
    return shortest > window.span if window.inside else longest < window.span


def _finding(turn: Turn, window: Window, event: Event, now: Event) -> Finding:
    relation = "within" if window.inside else "more than"
    ending = "of" if window.inside else "before"
    event_day, now_day = _day(event.moment), _day(now.moment)
    return Finding(
        failure=FailureClass.OTHER,
        sub="premise not checked",
        step=turn.index,
        span=turn.ask.id,
        why=f"falsely claims {event_day} is {relation} {window.words} {ending} {now_day}",
        rule=NAME,
        evidence=(quote_turn(turn, window.sentence), event.evidence, now.evidence),
    )


def _day(moment: Moment) -> str:
    return f"{moment.at.day} {moment.at:%b}"


RULE = Rule(
    name=NAME,
    find=find,
    shown="answer",
    against="sources",
    denies="read",
    counts_as=FailureClass.HALLUCINATED_STATE,
)
