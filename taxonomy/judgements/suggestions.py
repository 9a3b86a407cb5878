"""What do judges suggest of a run? A class at a step with quotes, never a person's tag.

A judge's suggestion is trusted less than a rule's until its classes are approved
(`taxonomy.calibration`); rules keep theirs with their diagnosis.
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
        if found is None:
            return
        db.execute(
            "INSERT INTO suggestion (trace, place, span, step, class, sub, fault, why, by, source,"
            " confidence, evidence, approved) SELECT ?, coalesce(max(place) + 1, 0), ?, ?, ?, ?, ?,"
            " ?, ?, 'judge', NULL, ?, ? FROM suggestion WHERE trace = ? AND source = 'judge'",
            (
                trace,
                found.span or "",
                found.step,
                found.failure.value,
                store.redactor.text(found.sub) if found.sub else None,
                found.attribution.value if found.attribution else None,
                store.redactor.text(found.why),
                by,
                store.redactor.encoded(found.evidence),
                approved,
                trace,
            ),
        )


def approve_suggestions(store: Store, by: str, *, approved: bool) -> None:
    """Trust what a judge suggests, or cease to."""
    with store.writing() as db:
        db.execute(
            "UPDATE suggestion SET approved = ? WHERE source = 'judge' AND by = ?", (approved, by)
        )


def judge_findings(store: Store, trace: str, step: int | None = None) -> tuple[Finding, ...]:
    """What judges suggest of a run, or of one of its steps, by step and judge."""
    found = store.db.execute(
        "SELECT step, span, class, sub, fault, why, by, evidence FROM suggestion"
        " WHERE trace = ? AND source = 'judge' AND step = coalesce(?, step) ORDER BY step, by",
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
