"""Other, user off task: a simulated user says what its own instruction denies or lacks.

Only where the source keeps the instruction that the user was given, beside the run. Two signs
are read, both of values: an identifier, address or date that neither the instruction nor the run
had held before the user said it; and one that the instruction gives, that the run asked for, and
that the user says it does not have, or will look for, and never tells. The failure is
attributed to the user: a prompt edit cannot fix it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taxonomy.classes import Attribution, FailureClass
from taxonomy.evidence.claims import day_keys
from taxonomy.evidence.context_index import fold
from taxonomy.evidence.reading import Turn, VisibleMessage
from taxonomy.evidence.results import cut
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "user off task"

_VALUE = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b\d{4}-\d{2}-\d{2}\b"
    r"|#?\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])\w+(?:[-_]\w+)*\b"
)
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|am|pm|x|k|h|min|hrs?|lbs?|kg|gb|mb)s?", re.I)
_ISSUED = re.compile(
    r"\b(?:[A-Za-z]+_)+\d{3,}\b|\b(?=[A-Z0-9]*[A-Z])(?=[A-Z]*\d|[A-Z]{6})[A-Z0-9]{6,}\b"
)
"""Values given out by a system: `mia_li_3668`, `HXDUBJ`, `W2378156`."""

_LACKS = re.compile(
    r"\b(?:do(?:n(?:'|’)t| not)|can(?:'|’)t|cannot|no longer) (?:\w+ )?"
    r"(?:have|know|remember|recall|find)\b|\bnot sure (?:of|about|what)\b"
    r"|\bi(?:'|’)?(?:ll| will) (?:check|look|find|get back|let you know)"
    r"|\b(?:once|when|until) i (?:have|find)\b|\bwithout (?:it|that)\b",
    re.I,
)
_HIMSELF = re.compile(r"\b(?:you are|your name is|your (?:user|customer) id is)\W*$", re.I)
_NOUN = re.compile(r"(\w+)(?: (?:id|number|code|is))*[ #:(]*$", re.I)
_ASKED_FOR = r"\b{0}\b[^.?!\n]{{0,24}}\b(?:id|number|code|name|details)\b"
_USER = r"(?:user|customer|account|member|profile|login)"
_SHORTEST = 5


def find(case: RuleContext) -> Iterator[Finding]:
    """The first value a simulated user makes up, and the first it keeps back."""
    told = instruction(case)
    if case.reading.passed or not told:
        return
    yield from _made_up(case, told)
    yield from _kept_back(case, told)


def instruction(case: RuleContext) -> str:
    """What the simulated user was told to want, "" where the source does not say."""
    reference = case.trace.header.reference or {}
    told = reference.get("instruction")
    return told if isinstance(told, str) else ""


def _made_up(case: RuleContext, told: str) -> Iterator[Finding]:
    known, days = fold(told), day_keys(told)
    for turn, heard in _dialogue(case):
        if heard is None:
            known += " " + fold(turn.said)
            continue
        for value in _VALUE.findall(heard.text):
            shown = fold(value).strip("#") in known or bool(day_keys(value) & days)
            if len(value) >= _SHORTEST and not _ORDINAL.fullmatch(value) and not shown:
                why = f"user says {cut(value, 40)}; not in the user's instruction"
                yield _finding(turn, heard, told, why)
                return


def _kept_back(case: RuleContext, told: str) -> Iterator[Finding]:
    words = [(turn, heard) for turn, heard in _dialogue(case)]
    spoken = fold(" ".join(heard.text for _, heard in words if heard is not None))
    for match in _ISSUED.finditer(told):
        if fold(match[0]) in spoken:
            continue
        asked = _asking_for(told[: match.start()])
        open_question = False
        for turn, heard in words:
            if heard is None:
                open_question = open_question or bool(asked and asked.search(turn.said))
            elif open_question and _LACKS.search(heard.text):
                why = f"user never gives {match[0]}; in the user's instruction, requested"
                yield _finding(turn, heard, told, why)
                return


def _asking_for(before: str) -> re.Pattern[str] | None:
    """How a run asks for a value, by the words that introduce it in the instruction."""
    if _HIMSELF.search(before):
        return re.compile(_ASKED_FOR.format(_USER), re.I)
    noun = _NOUN.search(before)
    return re.compile(_ASKED_FOR.format(re.escape(noun[1])), re.I) if noun else None


def _dialogue(case: RuleContext) -> Iterator[tuple[Turn, VisibleMessage | None]]:
    """What was said in order: (turn, what a user said before it), then (turn, None) for itself."""
    for turn in case.reading.main:
        yield from ((turn, heard) for heard in turn.heard if heard.role == "user")
        yield turn, None


def _finding(turn: Turn, heard: VisibleMessage, told: str, why: str) -> Finding:
    return Finding(
        failure=FailureClass.OTHER,
        sub=NAME,
        attribution=Attribution.USER,
        step=turn.index,
        span=turn.ask.id,
        why=why,
        rule=NAME,
        evidence=(
            Evidence(role="user", text=cut(heard.text, 240), step=turn.index, span=turn.ask.id),
            Evidence(role="stated", text=cut(told, 240), place="the user's instruction"),
        ),
    )


RULE = Rule(name=NAME, find=find)
