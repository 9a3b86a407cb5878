"""How strong is the evidence against a run or a step?

The kinds, strongest first: `gold` (the calls that the task's gold has), `check` (what the check of
the outcome printed), `score` (a clear failure by people, judges or the source), `rule` (a rule read
it off the trace) and `guess` (only the place or the size of the step points there).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from taxonomy.classes import Attribution
from taxonomy.findings import Candidate, Finding, Signal

Kind: TypeAlias = Literal["gold", "check", "score", "rule", "guess"]

STRENGTH: tuple[Kind, ...] = ("gold", "check", "score", "rule", "guess")
"""Strongest first."""


def finding_kind(finding: Finding) -> Kind:
    """What a finding rests on."""
    return "check" if finding.attribution is Attribution.GRADER else "rule"


def by_strength(findings: Sequence[Finding]) -> list[Finding]:
    """Findings with the strongest evidence first, hints last."""
    return sorted(findings, key=lambda f: (f.is_hint, STRENGTH.index(finding_kind(f))))


def candidate_kind(candidate: Candidate) -> Kind:
    """What a candidate mainly rests on: its weightiest signal."""
    from taxonomy.localiser.candidates import SCORE  # with all rules, which no list of runs needs
    from taxonomy.localiser.known import GOLD

    first = candidate.signals[0].name if candidate.signals else ""
    if first in (GOLD, SCORE):
        return "gold" if first == GOLD else "score"
    return "guess" if candidate.is_positional else "rule"


def guesses_last(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates in their order, those that only their place speaks for behind the others."""
    return sorted(candidates, key=lambda each: candidate_kind(each) == "guess")


def candidate_phrase(candidate: Candidate) -> str:
    """The reason in one phrase, without its kind."""
    if candidate_kind(candidate) == "guess":
        return candidate.signals[0].phrase
    return candidate.why


def candidate_text(candidate: Candidate) -> str:
    """The kind of evidence and the reason: `rule · get_order failed: no such order`."""
    kind = candidate_kind(candidate)
    kind_text = "positional guess" if kind == "guess" else kind
    return f"{kind_text} · {candidate_phrase(candidate)}"


class Reason(Struct, frozen=True, kw_only=True):
    """The signals of a candidate that have one phrase; `known`: the phrase was shown before."""

    phrase: str
    signals: tuple[Signal, ...]
    known: bool

    @property
    def names(self) -> str:
        return ", ".join(signal.name for signal in self.signals)

    @property
    def weights(self) -> str:
        return ", ".join(f"{signal.name} {signal.weight:+.2g}" for signal in self.signals)


def reasons(candidate: Candidate, shown: Collection[str]) -> Iterator[Reason]:
    """The signals of a candidate by phrase, so that no fact is printed more than once; `shown`
    are the phrases that were printed before."""
    by_phrase: dict[str, list[Signal]] = {}
    for signal in candidate.signals:
        by_phrase.setdefault(signal.phrase, []).append(signal)
    for phrase, signals in by_phrase.items():
        yield Reason(phrase=phrase, signals=tuple(signals), known=phrase in shown)
