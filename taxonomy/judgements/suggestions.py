"""What do judges and agents suggest of a run? A class at a step with quotes, never a person's tag.

A judge's suggestion is trusted less than a rule's until its classes are approved
(`taxonomy.calibration`), an agent's always: it has read what the rules say. Rules keep theirs with
their diagnosis.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from replay.store import answers
from replay.store.handle import Store
from taxonomy.classes import Attribution, FailureClass
from taxonomy.findings import Evidence, Finding

NONE = "none"
"""What a judge answers where it sees no failure."""

_NOTE = "classified "


class Classification(Struct, frozen=True, kw_only=True):
    """What a judge said of a run, to be held against people: the class, None where it sees no
    failure or quotes nothing of the run."""

    trace: str
    by: str
    failure: FailureClass | None
    step: int | None


def classifications(store: Store) -> list[Classification]:
    """What every judge said of every run, by judge and run."""
    return answers.found(store, _NOTE, Classification)


def keep_suggestion(
    store: Store, trace: str, by: str, found: Finding | None, *, approved: bool
) -> None:
    """Keep what a judge suggests of a run in place of what it did before; None: nothing."""
    said = Classification(
        trace=trace,
        by=by,
        failure=found.failure if found else None,
        step=found.step if found else None,
    )
    with store.writing() as db:
        answers.keep(store, f"{_NOTE}{by} {trace}", said)
        db.execute(
            "DELETE FROM suggestion WHERE trace = ? AND source = 'judge' AND by = ?", (trace, by)
        )
        if found is not None:
            _insert(store, trace, found, (by, "judge", approved))


def suggest(store: Store, trace: str, found: Finding) -> bool:
    """Keep what an agent, the finding's `rule`, suggests of a step; the same class there replaces
    its own earlier one. Was there one?"""
    with store.writing():
        before = withdraw(store, trace, found)
        _insert(store, trace, found, (found.rule, "agent", False))
    return before


def withdraw(store: Store, trace: str, found: Finding) -> bool:
    """Take an agent's suggestion back; was there one?"""
    with store.writing() as db:
        done = db.execute(
            "DELETE FROM suggestion WHERE trace = ? AND source = 'agent' AND step = ?"
            " AND class = ? AND by = ?",
            (trace, found.step, found.failure.value, found.rule),
        )
    return done.rowcount > 0


def _insert(store: Store, trace: str, found: Finding, whose: tuple[str, str, bool]) -> None:
    """A row behind the others; `whose` is by whom, of what kind, and whether they are approved."""
    by, source, approved = whose
    with store.writing() as db:
        db.execute(
            "INSERT INTO suggestion (trace, place, span, step, class, sub, fault, why, by, source,"
            " confidence, evidence, approved) SELECT ?, coalesce(max(place) + 1, 0), ?, ?, ?, ?, ?,"
            " ?, ?, ?, NULL, ?, ? FROM suggestion WHERE trace = ? AND source = ?",
            (
                trace,
                found.span or "",
                found.step,
                found.failure.value,
                store.redactor.text(found.sub) if found.sub else None,
                found.attribution.value if found.attribution else None,
                store.redactor.text(found.why),
                by,
                source,
                store.redactor.encoded(found.evidence),
                approved,
                trace,
                source,
            ),
        )


def approve_suggestions(store: Store, by: str, *, approved: bool) -> None:
    """Trust what a judge suggests, or cease to."""
    with store.writing() as db:
        db.execute(
            "UPDATE suggestion SET approved = ? WHERE source = 'judge' AND by = ?", (approved, by)
        )


def judge_findings(store: Store, trace: str, step: int | None = None) -> tuple[Finding, ...]:
    """What judges and agents suggest of a run, or of one of its steps, by step and name."""
    found = store.db.execute(
        "SELECT step, span, class, sub, fault, why, by, evidence FROM suggestion"
        " WHERE trace = ? AND source IN ('judge', 'agent') AND step = coalesce(?, step)"
        " ORDER BY step, by",
        (trace, step),
    )
    return tuple(
        Finding(
            failure=FailureClass(failure),
            step=at,
            why=why,
            rule=by,
            span=span or None,
            sub=sub,
            attribution=Attribution(fault) if fault else None,
            evidence=msgspec.json.decode(evidence, type=tuple[Evidence, ...]),
        )
        for at, span, failure, sub, fault, why, by, evidence in found
    )
