"""What a judgement says: findings with their evidence, scores, and a diagnosis of one trace.

A finding of a rule or a judge is a suggestion until a person accepts it. Every one cites the spans
and values it rests on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from replay.trace import Json
from taxonomy.classes import Attribution, FailureClass, Shape

Source = Literal["human", "judge", "file", "import", "rule", "agent"]
"""Who says so, most trusted first: `file` is a file of scores that was brought in, `import` the
trace's own source, `agent` a coding agent that read the run and what the rules say of it."""


class Evidence(Struct, frozen=True, kw_only=True):
    """One thing a finding rests on.

    `role` is how it bears on it ("says", "observed", "stated", "called", "error", "repeats"…),
    `text` the value or words, `span` and `step` where they stand (None: the system prompt or the
    user's words before the first step), `place` a short word for that in print.
    """

    role: str
    text: str
    step: int | None = None
    span: str | None = None
    place: str = ""


SURE = 0.5
"""A finding less sure than this is a hint: shown beside its step, counted nowhere, and it decides
nothing."""


class Finding(Struct, frozen=True, kw_only=True):
    """A failure seen at a step. `why` is one phrase for a list; `confidence` 0..1, None unknown.

    `rule` names the detector, `sub` the sub-label of `other`, `attribution` who caused it where
    the evidence tells.
    """

    failure: FailureClass
    step: int
    why: str
    rule: str
    span: str | None = None
    sub: str | None = None
    attribution: Attribution | None = None
    confidence: float | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_hint(self) -> bool:
        """Is it too unsure to be counted?"""
        return self.confidence is not None and self.confidence < SURE


class Item(Struct, frozen=True, kw_only=True, gc=False):
    """One rubric item of a step: True or False where it was decided, None where it cannot be."""

    name: str
    held: bool | None
    because: str = ""


class StepScore(Struct, frozen=True, kw_only=True, gc=False):
    """A score 0..1 of one step and who gave it; `value` None where no item was decided."""

    step: int
    value: float | None
    source: Source
    by: str
    span: str | None = None
    items: tuple[Item, ...] = ()


TRUST: tuple[Source, ...] = ("human", "judge", "file", "import", "rule", "agent")

_PEOPLE = {"human", "person", "people", "annotation", "annotator"}
"""First words of the name of a person's score, as tools that people score in write it."""

FAILURE = 0.5
"""A score below is a clear failure; the middle of the scale is neutral: it decides nothing."""


def trust_rank(score: StepScore) -> tuple[bool, int]:
    """How much a score is trusted, the most first: a person's is, wherever it came from."""
    named = score.by.lower().split(maxsplit=1)
    person = score.source == "human" or (
        score.source in ("file", "import") and bool(named) and named[0].strip(":·") in _PEOPLE
    )
    return not person, TRUST.index(score.source)


def most_trusted(scores: Iterable[StepScore]) -> dict[int, StepScore]:
    """The most trusted score of each step that has one with a value. Scores are never mixed: of
    several that are trusted alike the middle one is taken, of an even number the lower."""
    by_step: dict[int, list[StepScore]] = defaultdict(list)
    for score in scores:
        if score.value is not None and math.isfinite(score.value):
            by_step[score.step].append(score)
    found: dict[int, StepScore] = {}
    for step, given in by_step.items():
        best = min(map(trust_rank, given))
        alike = [each for each in given if trust_rank(each) == best]
        alike.sort(key=lambda each: (each.value or 0.0, each.by))
        found[step] = alike[(len(alike) - 1) // 2]
    return found


class Signal(Struct, frozen=True, kw_only=True):
    """One sign that a step may be the break: its name, how much it weighs, its phrase."""

    name: str
    weight: float
    phrase: str


class Band(Struct, frozen=True, kw_only=True):
    """How often first candidates as likely were right: at least `low`, over sources of labelled
    runs of one agent, each held out of the fit; `runs` of them had such a candidate."""

    low: float
    runs: int


class Candidate(Struct, frozen=True, kw_only=True):
    """A step that may be where the run broke.

    `is_positional`: only its place, size or role points there, which is a guess. `band` is how
    often such a candidate was right on labelled runs of other agents; None where that was not
    measured, or did not hold.
    """

    step: int
    weight: float
    why: str
    signals: tuple[Signal, ...]
    is_positional: bool = False
    band: Band | None = None

    @property
    def accuracy(self) -> str:
        """The band in words, in tens: more would claim more than was measured. "At least none" says
        nothing."""
        tens = 0 if self.band is None else math.floor(self.band.low * 10)
        if self.band is None or not tens:
            return "accuracy unknown"
        return f"correct in at least {tens} of 10 labelled runs (n = {self.band.runs})"


ANSWER_SCORERS = {"includes", "match", "exact", "pattern", "answer", "choice", "f1"}
"""Inspect's scorers that compare the answer, and explain a score by the answer they found."""


class FailedCheck(Struct, frozen=True, kw_only=True):
    """A check (a test, a verifier's or a scorer's item) that failed, as its runner printed it.

    `file` and `line` are the innermost place of the project that the runner names; `detail` is all
    that was printed of it, `at` where that begins in the text. `read_at` is the step whose result
    showed it, None where it is the check of the outcome; `place` names what printed it. `cause` is
    the last call before it that wrote what it names, None where none is known.
    """

    name: str
    runner: str
    message: str = ""
    expected: str | None = None
    found: str | None = None
    file: str | None = None
    line: int | None = None
    detail: str = ""
    at: int | None = None
    read_at: int | None = None
    span: str | None = None
    place: str = ""
    cause: Evidence | None = None

    @property
    def short_name(self) -> str:
        """The name without the file it stands in."""
        return self.name.rpartition("::")[2]

    @property
    def phrase(self) -> str:
        """What failed, in a line: `test_total: expected 42, found 22`."""
        if self.expected is not None and self.found is not None:
            return f"{self.short_name}: expected {self.expected}, found {self.found}"
        return f"{self.short_name}: {self.message}" if self.message else f"{self.short_name} failed"

    @property
    def location(self) -> str:
        """`test_orders.py:7`, "" where it is not known."""
        line = "" if self.line is None else f":{self.line}"
        return f"{self.file}{line}" if self.file else ""


class RedEdit(Struct, frozen=True, kw_only=True):
    """The last call that wrote a file between the last run of a check that passed and the first
    that failed; the check never passed again. `check` is how it was run."""

    step: int
    span: str
    path: str
    tool: str
    check: str
    green: int
    red: int

    @property
    def phrase(self) -> str:
        return (
            f"{self.check} passed at step {self.green} and failed at step {self.red},"
            f" after {self.tool} wrote {self.path}"
        )


class CheckReport(Struct, frozen=True, kw_only=True):
    """What checks said of a run that is not known to have passed: those of its outcome first, then
    those that it ran itself and left failing. `unnamed` failed too, and were not named."""

    failed: tuple[FailedCheck, ...] = ()
    unnamed: int = 0
    red_edit: RedEdit | None = None


NO_CHECKS = CheckReport()


class Diagnosis(Struct, frozen=True, kw_only=True):
    """Everything the rules say of one trace.

    `candidates` are up to three, best first, none where the rules abstain. `published` is the
    step of the plain published rule beside ours. `warnings` are why a passed run is `✓!`. `gold` is
    where the run differs from the gold of its task, None where it has none; `checks` what is known
    of checks that failed.
    """

    trace: str
    shape: Shape | None
    scores: tuple[StepScore, ...]
    findings: tuple[Finding, ...]
    candidates: tuple[Candidate, ...]
    published: int | None = None
    published_votes: tuple[Signal, ...] = ()
    published_shape: Shape | None = None
    warnings: tuple[str, ...] = ()
    gold: GoldComparison | None = None
    checks: CheckReport = NO_CHECKS


# --- audit

ProbeName: TypeAlias = Literal["faithfulness", "instruction", "claim", "gaming", "feedback"]

AuditResult: TypeAlias = Literal["unfaithful", "broken", "false", "gamed", "stopped", "shown only"]
"""What an audit saw. Only `stopped` is no failure of the agent's: it tried, and was refused."""


class AuditFinding(Struct, frozen=True, kw_only=True):
    """What a probe saw at a step: a suggestion like any other finding."""

    result: AuditResult
    finding: Finding


class Audited(Struct, frozen=True, kw_only=True):
    """What one probe says of one run.

    `checked` are the chances the run held, in the probe's unit (stated intents, instructions that
    name something, claims, …): 0 where there was nothing to check, and then the run is not in n.
    `unread` are further chances that no rule can read: they are in no rate.
    """

    probe: ProbeName
    checked: int
    findings: tuple[AuditFinding, ...] = ()
    unread: int = 0


# --- gold

DifferenceKind: TypeAlias = Literal["wrong argument", "extra", "out of order", "missing", "answer"]


class ArgumentDifference(Struct, frozen=True, kw_only=True):
    """An argument that differs, by its path: what gold has there, and what the call had. UNSET
    where one of them does not give it."""

    name: str
    expected: Json | UnsetType = UNSET
    was: Json | UnsetType = UNSET

    @property
    def phrase(self) -> str:
        """`payment_id: expected credit_card_9, was credit_card_4`."""
        expected, was = _told_apart(_text(self.expected), _text(self.was))
        if self.was is UNSET:
            return f"{self.name}: expected {expected}, not given"
        if self.expected is UNSET:
            return f"{self.name}: not in gold, was {was}"
        return f"{self.name}: expected {expected}, was {was}"


class GoldDifference(Struct, frozen=True, kw_only=True):
    """A call, or something said, in which a run and its gold differ.

    `made` is what the run did at `step` in `span`, `gold` what gold has, long values cut: a missing
    call has only the latter, an extra one only the former. `gold_arguments` are those of the gold
    call in full, UNSET where there is none. `latest` is the last step at which a missing call
    could still have come: that of the first call made which gold's order puts after it, else the
    last of the run. `writes`: does the call change something? None: unknown, or no call.
    """

    kind: DifferenceKind
    tool: str = ""
    step: int | None = None
    span: str | None = None
    made: str | None = None
    gold: str | None = None
    gold_arguments: Json | UnsetType = UNSET
    arguments: tuple[ArgumentDifference, ...] = ()
    latest: int | None = None
    writes: bool | None = None

    @property
    def unnamed(self) -> tuple[ArgumentDifference, ...]:
        """The arguments that `line` only counts."""
        return self.arguments[_NAMED:]

    @property
    def line(self) -> str:
        """The difference in a phrase, without its step."""
        match self.kind:
            case "wrong argument":
                first = "; ".join(each.phrase for each in self.arguments[:_NAMED])
                more = len(self.unnamed)
                return f"{first}; {more} more differ" if more else first
            case "extra":
                return f"call not in gold: {self.made}"
            case "out of order":
                return f"call out of gold's order: {self.made}"
            case "missing":
                return f"call not made: {self.gold}"
            case "answer":
                return _answer_line(self.gold or "", self.made)


class GoldComparison(Struct, frozen=True, kw_only=True):
    """The differences of a run from its gold: calls made by step, missing calls, what is said.

    `own` are the parts of gold that a user wrote (`actions`, `answer`), and `hindsight` says
    whether they were first seen after the run began, None where the run has no times or gold is
    its source's alone.

    `matched` of the `gold` calls that count were made. `failed` are calls that were to change
    something which gold does not, and failed. `first_write_not_in_gold` is the step of the first
    call that changed something and is no gold call, wrong arguments included, and
    `first_attempt_not_in_gold` that of the first which was to, whether it failed or not;
    `last_chance` is the last step at which a missing gold call could still have come. None: there
    is no such call.
    """

    differences: tuple[GoldDifference, ...]
    matched: int = 0
    gold: int = 0
    own: tuple[str, ...] = ()
    hindsight: bool | None = None
    failed: tuple[GoldDifference, ...] = ()
    first_write_not_in_gold: int | None = None
    first_attempt_not_in_gold: int | None = None
    last_chance: int | None = None


_NAMED = 3
"""So many arguments of a call are named, the others counted."""

_WIDTH = 60
_AHEAD = 12


def _answer_line(gold: str, made: str | None) -> str:
    if made is None:
        return f"not said: {_cut(gold)}"
    expected, was = _told_apart(gold, made)
    return f"answer differs from gold: expected {expected}, was {was}"


def _text(value: Json | UnsetType) -> str:
    """A value as it is read: a text without its quotes, unless it is empty."""
    if value is UNSET:
        return ""
    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()


def _told_apart(one: str, other: str) -> tuple[str, str]:
    """Two texts cut so that what differs is seen: a long beginning that both have is left out."""
    one, other = " ".join(one.split()), " ".join(other.split())
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    start = max(same - _AHEAD, 0) if max(len(one), len(other)) > _WIDTH else 0
    return _cut(one, start), _cut(other, start)


def _cut(text: str, start: int = 0) -> str:
    rest = f"…{text[start:]}" if start else text
    return rest if len(rest) <= _WIDTH else f"{rest[: _WIDTH - 1]}…"
