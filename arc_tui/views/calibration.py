"""How right are the judgements? Against labels, by noise, and what to look at again.

People's labels and labels made by a rule are two parts, never one figure.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from replay.store import Store
from replay.store.rows import trace_rows
from taxonomy import ledger
from taxonomy.calibration.audit import audit_sample
from taxonomy.calibration.disagreement import Disagreement, disagreements
from taxonomy.calibration.labelled import labelled_runs
from taxonomy.calibration.labels import By, Label, Unusable, kept_labels, place, read_labels
from taxonomy.calibration.report import Calibration, calibrate

KEPT = "tags and scores kept here"
"""What stands for the name of a label file where there is none."""

TITLES: dict[By, str] = {
    "people": "accuracy, against people's labels",
    "rule": "conformance to labels that a rule made; this is not accuracy",
}


class Part(Struct, frozen=True, eq=False, kw_only=True):
    """Every figure on the labels of one kind, and every point of difference, worst first."""

    figures: Calibration
    disagreements: tuple[Disagreement, ...]


class CalibrationView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the calibration screen draws. `read` counts labels, those of no use included."""

    source: str
    read: int
    parts: tuple[Part, ...]
    unusable: tuple[Unusable, ...]

    @property
    def placed(self) -> int:
        return sum(part.figures.labels for part in self.parts)


EMPTY = CalibrationView(source="", read=0, parts=(), unusable=())


def build_calibration(store: Store, labels: Path | None, now_ns: int = 0) -> CalibrationView:
    """Judgements against the labels of a file, or against what people said in the database.

    Raises ArcError where the file cannot be read or holds no label.
    """
    if labels is None:
        return compared(store, KEPT, kept_labels(store), now_ns=now_ns)
    said, broken = read_labels(labels)
    return compared(store, labels.name, said, broken, now_ns)


def compared(
    store: Store,
    source: str,
    labels: tuple[Label, ...],
    broken: tuple[Unusable, ...] = (),
    now_ns: int = 0,
) -> CalibrationView:
    """The same of labels already read."""
    placed, lost = place(store, labels)
    parts = []
    for made_by in TITLES:
        own = [each for each in placed if each.label.made_by == made_by]
        runs = labelled_runs(store, own)
        if runs:
            figures = calibrate(made_by, runs, now_ns)
            parts.append(Part(figures=figures, disagreements=disagreements(runs)))
    return CalibrationView(
        source=source,
        read=len(labels) + len(broken),
        parts=tuple(parts),
        unusable=(*broken, *lost),
    )


class AuditRow(Struct, frozen=True, kw_only=True):
    """A run of the audit sample and who tagged or scored it already."""

    trace: str
    task: str | None
    trial: str | None
    title: str | None
    outcome: str
    seen_by: tuple[str, ...]


class AuditView(Struct, frozen=True, eq=False, kw_only=True):
    """The sample for a second look: `share` of `runs`, each run counted once."""

    share: float
    runs: int
    rows: tuple[AuditRow, ...]


def build_audit(store: Store, share: float) -> AuditView:
    """The audit sample of a database, in its own order."""
    rows = {row.trace: row for row in trace_rows(store)}
    seen = _seen_by(store)
    return AuditView(
        share=share,
        runs=len(rows),
        rows=tuple(
            AuditRow(
                trace=key,
                task=rows[key].task,
                trial=rows[key].trial,
                title=rows[key].title,
                outcome=rows[key].outcome,
                seen_by=tuple(sorted(seen.get(key, ()))),
            )
            for key in audit_sample(rows, share)
        ),
    )


def _seen_by(store: Store) -> dict[str, set[str]]:
    said: Iterable[tuple[str, str]] = (
        *((tag.trace, tag.by) for tag in ledger.human_tags(store)),
        *((score.trace, score.by) for score in ledger.human_scores(store)),
    )
    found: dict[str, set[str]] = {}
    for trace, by in said:
        found.setdefault(trace, set()).add(by)
    return found
