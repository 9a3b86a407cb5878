"""What does a text claim: that a time has or has not passed, that something worked, how it stands?

Reads sentences one by one and takes only flat statements: a policy, a condition, a question, a
plan or a promise claims nothing. Pure text; whether a claim is true is for the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta

from msgspec import Struct

from taxonomy.evidence.pieces import without_case

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_LONGEST = 1_000
_MARKUP = re.compile(r"[*_`#]+")

_UNITS = {"hour": 1.0, "hr": 1.0, "day": 24.0, "week": 168.0}
_SPAN = (
    r"(?P<n{0}>\d{{1,3}}|twenty[- ]four|forty[- ]eight|one|two|three|seven|thirty)[- ]?"
    r"(?P<unit{0}>hours?|hrs?|days?|weeks?)\b"
)
_IN_WORDS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "seven": 7,
    "twenty-four": 24,
    "thirty": 30,
    "forty-eight": 48,
}

_INSIDE = re.compile(
    r"(?:\b(?:is|it(?:'|’)s|was|were|falls?|fell|made|booked|created|placed|purchased|ordered|opened"
    r"|issued|delivered|received|happened|occurred)\b[^.;?!]{0,40}?\b(?:within|inside|in) (?:of )?"
    rf"(?:the |a |our |your )?(?:last |past |first )?{_SPAN.format('')}"
    rf"|\b(?:less than|under|only|just) {_SPAN.format(2)} ago)",
    re.I,
)
_BEYOND = re.compile(
    r"\b(?:more than|over|past|beyond|outside(?: of)?|exceed(?:s|ed|ing)?|older than|longer than)"
    rf" (?:the |a |our |your )?(?:last |past )?{_SPAN.format('')}",
    re.I,
)
_DENIED = re.compile(r"\b(?:not|never|no longer|\w+n(?:'|’)t)\b[^,;]{0,30}$", re.I)
_UNSETTLED = re.compile(
    r"\b(?:if|unless|whether|only|must|should|would|could|(?-i:may)|might|when|until|provided"
    r"|ensure|verify|check|confirm|determine|will|shall|expect|required?|any|all|policy|normally|usually"
    r"|typically|every|each|once|need)\b",
    re.I,
)

_STEMS = (
    "updat|book|cancel|chang|process|creat|add|sent|send|appl|refund|upgrad|modif|complet|submit"
    "|remov|delet|schedul|issu|transfer|writ|fix|sav|instal"
)
_SUCCESS = re.compile(
    rf"\b(?:successfully (?:been )?|(?:has|have) (?:now |also )?been (?:successfully )?|is now )"
    rf"(?P<verb>{_STEMS})\w*",
    re.I,
)
_TROUBLE = re.compile(
    r"\b(?:unable|unfortunately|however|but|error|errors|fail\w*|issue|problem|cannot|can(?:'|’)t"
    r"|could(?:n(?:'|’)t| not)|did(?:n(?:'|’)t| not)|was(?:n(?:'|’)t| not)|not|unsuccessful\w*"
    r"|instead|retry|except|will|once|if|after|before|to be|should)\b",
    re.I,
)


STATUS_GROUPS: dict[str, str] = {
    word: group
    for group, words in {
        "delivered": "delivered",
        "shipped": "shipped dispatched",
        "pending": "pending processing",
        "cancelled": "cancelled canceled",
        "returned": "returned",
        "refunded": "refunded",
        "active": "active open enabled",
        "closed": "closed resolved inactive disabled",
        "failed": "failed declined rejected",
        "paid": "paid",
        "unpaid": "unpaid overdue",
    }.items()
    for word in words.split()
}
"""Words for how a thing stands, by what they mean; two groups exclude each other."""

_STATUS = re.compile(
    r"\b(?:is|are|was|has been|have been|status(?: is|:)|marked as) (?:now |currently |already "
    rf"|still |successfully )?(?P<word>{'|'.join(STATUS_GROUPS)})\b",
    re.I,
)


_ASSUMES = re.compile(
    r"\b(?:let(?:(?:'|’)?s| us) assume|(?:i|we)(?:'|’)?(?: will|ll| can)? assume|assuming|suppose"
    r"|i(?:'|’)?ll guess|my guess|for (?:the )?demonstration|simulat(?:e|ed|ing)"
    r"|hypothetical(?:ly)?|placeholder|made-up|mock(?:ed)? (?:data|response)|example data|dummy)\b",
    re.I,
)

_ASSUMING = (
    "assum", "suppose", "guess", "demonstration", "simulat", "hypothetical", "placeholder",
    "made-up", "mock", "example data", "dummy",
)  # fmt: skip
"""Of these one stands in every text that assumes."""

_STEM = 6
"""So many letters tell a word of the table in any of its forms."""


class Window(Struct, frozen=True, kw_only=True):
    """A claim that an event lies within (`inside`) or beyond a span of now."""

    inside: bool
    span: timedelta
    words: str
    sentence: str


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, markup dropped, and what is too long to be one."""
    parts = _SENTENCE.split(_MARKUP.sub("", text))
    return [part for part in parts if part.strip() and len(part) <= _LONGEST]


def windows(sentence: str) -> Iterator[Window]:
    """The windows of time a sentence claims flatly."""
    if sentence.rstrip().endswith("?"):
        return
    for pattern, inside in ((_INSIDE, True), (_BEYOND, False)):
        for match in pattern.finditer(sentence):
            clause = _clause(sentence, match.start(), match.end())
            if _UNSETTLED.search(clause):
                continue
            denied = _DENIED.search(sentence[: match.end()].rpartition("within")[0][-60:])
            yield Window(
                inside=inside and not denied,
                span=_span(match),
                words=_shown(match),
                sentence=sentence.strip(),
            )


def success(sentence: str) -> str | None:
    """The stem of what a sentence flatly says was done (`cancel`, `updat`), None for no claim."""
    claim = _SUCCESS.search(sentence)
    return claim["verb"].lower() if claim and not _TROUBLE.search(sentence) else None


def assumes(text: str, told: Sequence[str] = ()) -> str | None:
    """The sentence in which a text says that it assumes or invents, None where it does not.

    A word that was `told` (texts in small letters) is the task's, not the model's: one may be asked
    to simulate, or to put in placeholders.
    """
    return next(
        (
            sentence
            for stem, sentence in assumptions(text)
            if not any(stem in each for each in told)
        ),
        None,
    )


def assumptions(text: str) -> Iterator[tuple[str, str]]:
    """(stem of the word, sentence) of each word by which a text assumes or invents."""
    small = without_case(text)
    if not any(words in small for words in _ASSUMING):
        return
    for match in _ASSUMES.finditer(text):
        start = max(text.rfind(mark, 0, match.start()) for mark in ".!?\n") + 1
        yield match[0].lower().split()[-1][:_STEM], text[start : match.end() + 60].strip()


def statuses(sentence: str) -> Iterator[tuple[str, str]]:
    """(group, word) of each status a sentence flatly gives something."""
    if sentence.rstrip().endswith("?") or _UNSETTLED.search(sentence):
        return
    for match in _STATUS.finditer(sentence):
        if not _DENIED.search(sentence[: match.start("word")][-60:]):
            yield STATUS_GROUPS[match["word"].lower()], match["word"].lower()


def _clause(sentence: str, start: int, end: int) -> str:
    """The part of a sentence between commas in which a claim stands."""
    left = max(sentence.rfind(mark, 0, start) for mark in ",;:")
    rights = [at for mark in ",;" if (at := sentence.find(mark, end)) >= 0]
    return sentence[left + 1 : min(rights, default=len(sentence))]


def _span(match: re.Match[str]) -> timedelta:
    groups = match.groupdict()
    count, unit = groups["n"] or groups.get("n2"), groups["unit"] or groups.get("unit2")
    assert count is not None
    assert unit is not None
    number = int(count) if count.isdecimal() else _IN_WORDS[count.lower().replace(" ", "-")]
    return timedelta(hours=number * _UNITS[unit.lower().rstrip("s")])


def _shown(match: re.Match[str]) -> str:
    hours = _span(match).total_seconds() / 3600
    return f"{hours:g} h" if hours < 72 else f"{hours / 24:g} days"
