"""Other, policy violation: a call breaks a limit that the prompt or the tool states as a number.

Two forms of limit are read, flat and without conditions: at most so many things in one call
("at most one certificate, three gift cards"), held against the lists among its arguments; and
sums above which something is not to be done ("refunds above $200 are not yours to make"), held
against the amounts. Every other policy needs judgement and is left to it. A limit that is broken
by a call that the tool refused broke nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from replay.effects import words_of
from replay.trace import Json
from taxonomy.classes import FailureClass
from taxonomy.evidence.claims import sentences, without_case
from taxonomy.evidence.context_index import Source
from taxonomy.evidence.reading import Act, called, leaves, mutates
from taxonomy.evidence.results import cut
from taxonomy.findings import Evidence, Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "policy violation"

_COUNTS = {
    word: count
    for count, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
}
_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)})"
_AT_MOST = re.compile(
    rf"\b(?:at most|no more than|not more than|a maximum of|maximum of|limited to) {_COUNT} "
    r"(?P<what>[a-z]+(?:[ -](?!and\b|or\b|per\b|in\b|of\b|for\b|to\b|at\b|on\b|with\b)[a-z]+)?)",
    re.I,
)
_LIMITS = ("at most", "more than", "maximum of", "limited to")
_SUM = (
    r"(?:above|over|of more than|more than|exceeding|greater than|larger than) \$(?P<sum>[\d,.]*\d)"
)
_ABOVE = re.compile(
    rf"\b(?P<what>[a-z]+?)s? {_SUM},? (?:(?:are|is) not|must not|must never|cannot|can(?:'|’)t"
    r"|may not|are forbidden|is forbidden)"
    rf"|\b(?:do not|don(?:'|’)t|never|must not|may not|cannot) (?P<verb>[a-z]+)"
    rf"(?: (?:anything|amounts?|sums?|a total))? {_SUM.replace('<sum>', '<most>')}",
    re.I,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|when|except|otherwise|without|until|free|approv\w+|members?|each day"
    r"|per (?:day|week|month|hour)|at a time|recommend\w*|prefer\w*|about|around)\b",
    re.I,
)
_AMOUNT = re.compile(r"amount|price|total|sum|value|refund|payment|cents")
_CENTS = re.compile(r"\bcents\b", re.I)
_PLACES = ("system prompt", "tool definitions")


class Limit(Struct, frozen=True, kw_only=True):
    """`most` things that `what` names in one call, or that sum of money, in dollars."""

    what: str
    most: float
    money: bool
    words: str
    place: str


def find(case: RuleContext) -> Iterator[Finding]:
    """The first call that breaks each stated limit; none where the run passed."""
    if case.reading.passed:
        return
    told = [source for source in case.index.sources if source.place in _PLACES]
    limits = [limit for source in told for limit in stated(source)]
    if not limits:
        return
    cents = any(_CENTS.search(source.text) for source in told)
    broken: dict[tuple[str, float, bool], tuple[Act, str] | None] = {}
    for limit in limits:
        said = (limit.what, limit.most, limit.money)
        if said not in broken:
            broken[said] = _first(limit, case.reading.acts, cents=cents)
        found = broken[said]
        if found is not None:
            yield _finding(limit, *found)


def stated(source: Source) -> Iterator[Limit]:
    """The limits that a prompt states flatly."""
    for sentence in sentences(source.text):
        if not _may_limit(sentence) or _CONDITION.search(sentence):
            continue
        for match in _AT_MOST.finditer(sentence):
            count = _COUNTS.get(match["count"].lower()) or int(match["count"])
            yield _limit(match["what"], count, sentence, source, money=False)
        for match in _ABOVE.finditer(sentence):
            most = float((match["sum"] or match["most"]).replace(",", ""))
            yield _limit(match["what"] or match["verb"], most, sentence, source, money=True)


def _may_limit(sentence: str) -> bool:
    """May a sentence state a limit? Most hold no word of one."""
    small = without_case(sentence)
    return "$" in sentence or any(words in small for words in _LIMITS)


def _limit(what: str, most: float, sentence: str, source: Source, *, money: bool) -> Limit:
    words = cut(sentence.strip(" -•\t"), 160)
    return Limit(what=what.lower(), most=most, money=money, words=words, place=source.place)


def _first(limit: Limit, acts: Sequence[Act], *, cents: bool) -> tuple[Act, str] | None:
    """The first call that breaks a limit, and how."""
    ways = ((act, _broken(limit, act, cents=cents)) for act in acts)
    return next(((act, over) for act, over in ways if over), None)


def _broken(limit: Limit, act: Act, *, cents: bool) -> str:
    """How a call breaks a limit, in a phrase; "" where it does not."""
    if act.reply.failed or mutates(act.span) is False or not isinstance(act.span.arguments, dict):
        return ""
    if limit.money:
        return _too_much(limit, act, cents=cents)
    names = {_singular(word) for word in re.split(r"[ -]", limit.what)}
    for name, value in act.span.arguments.items():
        count = _counted(names, name, value)
        if count > limit.most:
            return f"{count} × {limit.what}"
    return ""


def _counted(names: set[str], name: str, value: Json) -> int:
    """How many of the named things a list holds: all of it, or its ids that begin with the name."""
    if not isinstance(value, list):
        return 0
    if {_singular(word) for word in words_of(name)} == names:
        return len(value)
    prefixed = 0
    for entry in value:
        texts = [leaf for _, leaf in leaves(entry) if isinstance(leaf, str)]
        prefixed += any(_kind_of_id(text) and _kind_of_id(text) <= names for text in texts)
    return prefixed


def _kind_of_id(value: str) -> set[str]:
    """`gift`, `card` of `gift_card_4643416`; nothing of other values."""
    match = re.fullmatch(r"([a-z]+(?:[_-][a-z]+)*)[_-]\d{3,}", value)
    return set(re.split(r"[_-]", match[1])) if match else set()


def _too_much(limit: Limit, act: Act, *, cents: bool) -> str:
    """An amount of a call that is named like the limit, above it; cents where the prompt has it."""
    named = {_singular(word) for word in words_of(act.name)}
    for path, value in leaves(act.span.arguments):
        words = words_of(path.rpartition(".")[2])
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not words:
            continue
        about = _singular(limit.what) in named | set(words)
        if about and any(map(_AMOUNT.fullmatch, words)):
            dollars = value / 100 if cents and isinstance(value, int) else value
            if dollars > limit.most:
                return f"${dollars:,.2f}"
    return ""


def _singular(word: str) -> str:
    return word.lower().removesuffix("s")


def _finding(limit: Limit, act: Act, over: str) -> Finding:
    most = f"${limit.most:,.2f}" if limit.money else f"{limit.most:g}"
    return Finding(
        failure=FailureClass.OTHER,
        sub=NAME,
        step=act.step,
        span=act.span.id,
        why=f"{act.name} with {over} exceeds the limit of {most}",
        rule=NAME,
        evidence=(called(act), Evidence(role="stated", text=limit.words, place=limit.place)),
    )


RULE = Rule(
    name=NAME,
    find=find,
    shown="answer",
    against="sources",
    denies="read",
    advice="Keep to it.",
)
