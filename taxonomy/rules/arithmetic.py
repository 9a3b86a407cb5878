"""Other, arithmetic: a sum that is written out and wrong.

Only equations of plain numbers count, `1,194 + 57 = 1,251`: what stands around them is read by
nobody. Rounding to the digits shown is allowed; code, questions, percentages, powers and what is
put in brackets are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from taxonomy.classes import FailureClass
from taxonomy.evidence.claims import sentences
from taxonomy.evidence.reading import quote_turn
from taxonomy.findings import Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "arithmetic"

_NUMBER = r"[$€£]?\d+(?:,\d{3})*(?:\.\d+)?"
_SIGN = r"(?: ?[+×*÷] ?| [-−–x/] )"
_EQUATION = re.compile(
    rf"(?<![\w.,:=^%$€£/×*÷+)(\]\[-])(?<![-+×*÷/=^(−–] )"
    rf"(?P<sum>{_NUMBER}(?:{_SIGN}{_NUMBER})+) ?= ?(?P<stated>{_NUMBER})"
    r"(?![\w%^!/)]|[.,:]\d| ?[-+×*÷/^%−–(≈x] ?[\d(]| (?:million|billion|thousand|percent|mod|r\b))"
)
_TOKEN = re.compile(rf"{_NUMBER}|[-+×*÷/−–x]")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)


def find(case: RuleContext) -> Iterator[Finding]:
    """The first wrong sum of the run; none where it passed."""
    if case.reading.passed:
        return
    for turn in case.reading.turns:
        equates = "=" in turn.said and not turn.observer
        for sentence in sentences(_CODE.sub(" ", turn.said)) if equates else ():
            wrong = next(wrong_sums(sentence), None)
            if wrong is not None:
                yield Finding(
                    failure=FailureClass.OTHER,
                    sub=NAME,
                    step=turn.index,
                    span=turn.ask.id,
                    why=f"arithmetic error: {wrong[0]}; correct: {wrong[1]}",
                    rule=NAME,
                    evidence=(quote_turn(turn, sentence),),
                )
                return


def wrong_sums(sentence: str) -> Iterator[tuple[str, str]]:
    """(equation, true value) of each equation of plain numbers that does not hold."""
    if "=" not in sentence or sentence.rstrip().endswith("?"):
        return
    for match in _EQUATION.finditer(sentence):
        true = _value(_TOKEN.findall(match["sum"]))
        if true is not None and not _holds(true, match["stated"]):
            yield " ".join(match[0].split()), f"{float(true):,.10g}"


def _holds(true: Fraction, stated: str) -> bool:
    """Is a number as stated the true one, rounded or cut to the digits shown?"""
    shown = _plain(stated)
    digits = len(shown.partition(".")[2])
    return abs(true - Fraction(shown)) < Fraction(1, 10**digits)


def _value(tokens: list[str]) -> Fraction | None:
    """The value of a sum: products first, then from left to right; None for a division by 0."""
    terms: list[Fraction] = [Fraction(_plain(tokens[0]))]
    for sign, token in zip(tokens[1::2], tokens[2::2], strict=False):
        number = Fraction(_plain(token))
        if sign in "×*x":
            terms[-1] *= number
        elif sign in "÷/":
            if not number:
                return None
            terms[-1] /= number
        else:
            terms.append(number if sign == "+" else -number)
    return sum(terms, Fraction(0))


def _plain(number: str) -> str:
    return number.strip("$€£").replace(",", "")


RULE = Rule(name=NAME, find=find, shown="answer", against="numbers", denies="read")
