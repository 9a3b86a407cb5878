"""How strong is the evidence against a run or a step?

The kinds, strongest first: `gold` (the calls that the task's gold has), `check` (what checks that
failed printed), `score` (a clear failure by people, judges or the source), `rule` (a rule read
it off the trace), `judge` (a judge suggests it and quotes the trace), `agent` (so does a coding
agent, which has read the rest) and `guess` (only the place or the size of the step points there).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from replay.store.handle import Store, now_ns
from taxonomy.classes import Attribution
from taxonomy.findings import Candidate, Finding, Signal
from taxonomy.judgements import suggestions

Kind: TypeAlias = Literal["gold", "check", "score", "rule", "judge", "agent", "guess"]

STRENGTH: tuple[Kind, ...] = ("gold", "check", "score", "rule", "judge", "agent", "guess")
"""Strongest first."""


JUDGE = "judge "
"""How the name of a judge's finding begins."""

AGENT = "agent "
"""How that of an agent begins."""

AGENT_BY = "agent:"
"""How an agent's name begins where it is kept: no person is called so."""


def judge_findings(store: Store, trace: str, step: int | None = None) -> tuple[Finding, ...]:
    """What judges and agents suggest of a run, or of one step; a judge is named with how its
    classes stand."""
    found = suggestions.judge_findings(store, trace, step)
    if not found:
        return ()
    from arc_tui.views.scores import stands
    from taxonomy.calibration.class_gate import class_trust

    now = now_ns()

    def name(by: str) -> str:
        if by.startswith(AGENT_BY):
            return AGENT + by.removeprefix(AGENT_BY)
        model = by.removeprefix("judge:classify:").rpartition(":")[0]
        return f"{JUDGE}{model} · {stands(class_trust(store, by, now))}"

    return tuple(structs.replace(each, rule=name(each.rule)) for each in found)


def finding_kind(finding: Finding) -> Kind:
    """What a finding rests on."""
    if finding.rule.startswith(JUDGE):
        return "judge"
    if finding.rule.startswith(AGENT):
        return "agent"
    return "check" if finding.attribution is Attribution.GRADER else "rule"


def by_strength(findings: Sequence[Finding]) -> list[Finding]:
    """Findings with the strongest evidence first, hints last."""
    return sorted(findings, key=lambda f: (f.is_hint, STRENGTH.index(finding_kind(f))))


def candidate_kind(candidate: Candidate) -> Kind:
    """What a candidate mainly rests on: its weightiest signal."""
    from taxonomy.localiser.candidates import SCORE  # with all rules, which no list of runs needs
    from taxonomy.localiser.failed_checks import CHECK
    from taxonomy.localiser.known import GOLD

    kinds: dict[str, Kind] = {GOLD: "gold", CHECK: "check", SCORE: "score"}
    first = candidate.signals[0].name if candidate.signals else ""
    return kinds.get(first) or ("guess" if candidate.is_positional else "rule")


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
