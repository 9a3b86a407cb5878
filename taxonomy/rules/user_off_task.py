"""Other, user off task: a simulated user says that it lacks what its own instruction gives.

Only where the source keeps the instruction that the user was given, beside the run: of a value in
it that the run asked for, the user says that it does not have it, or will look for it, and never
tells. A hint: many such runs end well, because the run finds the value by another way. The failure
is attributed to the user: a prompt edit cannot fix it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taxonomy.classes import Attribution, FailureClass
from taxonomy.evidence.claims import sentences
from taxonomy.evidence.context_index import fold
from taxonomy.evidence.reading import Turn, VisibleMessage
from taxonomy.evidence.results import cut
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "user off task"
CONFIDENCE = 0.4

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
_NAMED = r"\b{0}\b[^.?!\n]{{0,24}}\b(?:id|number|code|name|details)\b"
_IT = re.compile(r"\b(?:it|them|those|either|any of)\b", re.I)
_USER = r"(?:user|customer|account|member|profile|login)"


def find(case: RuleContext) -> Iterator[Finding]:
    """The first value that a simulated user keeps back."""
    told = instruction(case)
    if case.reading.passed or not told:
        return
    words = [(turn, heard) for turn, heard in _dialogue(case)]
    spoken = fold(" ".join(heard.text for _, heard in words if heard is not None))
    for match in _ISSUED.finditer(told):
        named = None if fold(match[0]) in spoken else _name_pattern(told[: match.start()])
        if named is None:
            continue
        asked = False
        for turn, heard in words:
            if heard is None:
                asked = asked or bool(named.search(turn.said))
            elif asked and _denies(heard.text, named):
                yield _finding(turn, heard, told, match[0])
                return


def instruction(case: RuleContext) -> str:
    """What the simulated user was told to want, "" where the source does not say."""
    reference = case.trace.header.reference or {}
    told = reference.get("instruction")
    return told if isinstance(told, str) else ""


def _name_pattern(before: str) -> re.Pattern[str] | None:
    """How a run asks for a value, by the words that introduce it in the instruction."""
    if _HIMSELF.search(before):
        return re.compile(_NAMED.format(_USER), re.I)
    noun = _NOUN.search(before)
    return re.compile(_NAMED.format(re.escape(noun[1])), re.I) if noun else None


def _denies(text: str, named: re.Pattern[str]) -> bool:
    """Does a sentence say that the user lacks that very value, by its name or as `it`?"""
    return any(
        _LACKS.search(each) and (named.search(each) or _IT.search(each)) for each in sentences(text)
    )


def _dialogue(case: RuleContext) -> Iterator[tuple[Turn, VisibleMessage | None]]:
    """What was said in order: (turn, what a user said before it), then (turn, None) for itself."""
    for turn in case.reading.main:
        yield from ((turn, heard) for heard in turn.heard if heard.role == "user")
        yield turn, None


def _finding(turn: Turn, heard: VisibleMessage, told: str, value: str) -> Finding:
    return Finding(
        failure=FailureClass.OTHER,
        sub=NAME,
        attribution=Attribution.USER,
        step=turn.index,
        span=turn.ask.id,
        why=f"user never gives {value}; in the user's instruction, requested",
        rule=NAME,
        confidence=CONFIDENCE,
        evidence=(
            Evidence(role="user", text=cut(heard.text, 240), step=turn.index, span=turn.ask.id),
            Evidence(role="stated", text=cut(told, 240), place="the user's instruction"),
        ),
    )


RULE = Rule(name=NAME, find=find)
