"""How right are the judgements? Against labels, by noise, and what to look at again.

People's labels and labels made by a rule are two parts, never one figure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from arc_tui.views.calibration.drift import Unchecked, unchecked
from replay.store import Store
from replay.store.rows import trace_rows
from taxonomy import ledger
from taxonomy.calibration.agreement import Confusion
from taxonomy.calibration.audit import audit_sample
from taxonomy.calibration.confusions import Scatter, scatters, taken_for
from taxonomy.calibration.disagreement import Disagreement, disagreements
from taxonomy.calibration.gate import counts_by_item
from taxonomy.calibration.item_gate import ItemGate, item_gate
from taxonomy.calibration.items import ItemAgreement, item_agreements
from taxonomy.calibration.labelled import Labelled, labelled_runs
from taxonomy.calibration.labels import By, Label, Unusable, kept_labels, place, read_labels
from taxonomy.calibration.report import Calibration, calibrate

KEPT = "tags and scores kept here"
"""What stands for the name of a label file where there is none."""

TITLES: dict[By, str] = {
    "people": "accuracy, against people's labels",
    "rule": "conformance to labels that a rule made; this is not accuracy",
}


class Part(Struct, frozen=True, eq=False, kw_only=True):
    """Every figure on the labels of one kind, and every point of difference, worst first.

    `strengths` counts the labels that state one; `prompted` those that were given here after the
    suggestions were seen, of `placed_here` tags and runs found clean. `item_gates` are of judges.
    `taken_for` counts the runs of each labelled class (down) and each class the rules found
    (across), None where no label speaks of classes; `scatters` are of who scored what people did.
    """

    figures: Calibration
    disagreements: tuple[Disagreement, ...]
    items: tuple[ItemAgreement, ...] = ()
    item_gates: tuple[ItemGate, ...] = ()
    taken_for: Confusion | None = None
    scatters: tuple[Scatter, ...] = ()
    strengths: dict[str, int] = {}
    placed_here: int = 0
    prompted: int = 0


class CalibrationView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the calibration screen draws. `read` counts labels, those of no use included.

    `unchecked` are the judges' latest sets, a mode, that no verdict stands for today.
    """

    source: str
    read: int
    parts: tuple[Part, ...]
    unusable: tuple[Unusable, ...]
    unchecked: tuple[Unchecked, ...] = ()

    @property
    def placed(self) -> int:
        return sum(part.figures.labels for part in self.parts)


EMPTY = CalibrationView(source="", read=0, parts=(), unusable=())


def build_calibration(
    store: Store, labels: Path | Sequence[Path] | None, now_ns: int = 0
) -> CalibrationView:
    """Judgements against the labels of files, or against what people said in the database.

    Raises ArcError where a file cannot be read or none holds a label.
    """
    source, said, broken = labels_of(store, labels)
    return compared(store, source, said, broken, now_ns)


def labels_of(
    store: Store, labels: Path | Sequence[Path] | None
) -> tuple[str, tuple[Label, ...], tuple[Unusable, ...]]:
    """What the source is called, its labels, and the lines that are none. Raises ArcError."""
    paths = [labels] if isinstance(labels, Path) else list(labels or ())
    if not paths:
        return KEPT, kept_labels(store), ()
    said, broken = read_labels(*paths)
    return ", ".join(dict.fromkeys(path.name for path in paths)), said, broken


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
            parts.append(_part(made_by, runs, now_ns))
    return CalibrationView(
        source=source,
        read=len(labels) + len(broken),
        parts=tuple(parts),
        unusable=(*broken, *lost),
        unchecked=unchecked(store, now_ns),
    )


def _part(made_by: By, runs: Sequence[Labelled], now_ns: int) -> Part:
    items = item_agreements(runs)
    labels = [each.label for run in runs for each in run.labels]
    return Part(
        figures=calibrate(made_by, runs, now_ns),
        disagreements=disagreements(runs),
        items=items,
        item_gates=tuple(
            item_gate(each, now_ns)
            for each in items
            if each.source == "judge" and counts_by_item(each.by)
        ),
        taken_for=taken_for(runs, "rule"),
        scatters=tuple(scatters(runs)),
        strengths=dict(Counter(label.strength for label in labels if label.strength)),
        placed_here=sum(label.blind is not None for label in labels),
        prompted=sum(label.blind is False for label in labels),
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
        *((each.trace, each.by) for each in ledger.clearances(store)),
        *((each.trace, each.by) for each in ledger.opinions(store)),
    )
    found: dict[str, set[str]] = {}
    for trace, by in said:
        found.setdefault(trace, set()).add(by)
    return found
