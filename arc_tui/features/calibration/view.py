"""How right are the judgements? The figures against labels, what a screen draws of them, and the
verdicts on judges that come of it.

People's labels and labels made by a rule are two parts, never one figure. A part has its sources
of scores with picture, figures and trust, and its disagreements, each with the name of its run.
A verdict takes effect once it is kept: the candidates of a run rest on the scores that may be
trusted, so the rules look again at the runs concerned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from arc_tui.features.calibration.drift import DriftView, Unchecked, build_drift, unchecked
from arc_tui.importing import diagnose_new, diagnose_one
from arc_tui.views import raters
from arc_tui.views.columns import run_name
from arc_tui.views.raters import RatersView, build_raters
from replay.store.handle import Store, now_ns
from replay.store.rows import trace_rows
from taxonomy.calibration import approval
from taxonomy.calibration.approval import (
    ItemAgreement,
    ItemGate,
    JudgeApproval,
    Trust,
    counts_by_item,
    item_agreements,
    item_gate,
    trust,
)
from taxonomy.calibration.class_gate import ClassGate, class_gates, keep_gate
from taxonomy.calibration.disagreement import (
    Disagreement,
    Scatter,
    audit_sample,
    disagreements,
    scatters,
    taken_for,
)
from taxonomy.calibration.drift import judge_sets
from taxonomy.calibration.labelled import Labelled, labelled_runs
from taxonomy.calibration.labels import By, Label, Unusable, kept_labels, place, read_labels
from taxonomy.calibration.noise import Cell
from taxonomy.calibration.report import Calibration, ScoreAgreement, calibrate
from taxonomy.findings import TRUST, Source
from taxonomy.judge.scores import parsed
from taxonomy.judgements.scores import opinions
from taxonomy.judgements.suggestions import classifications
from taxonomy.judgements.tags import clean_marks, human_tags
from taxonomy.metrics.agreement import Confusion

KEPT = "labels of this database"
"""What stands for the name of a label file where there is none."""

TITLES: dict[By, str] = {
    "people": "accuracy, against people's labels",
    "rule": "conformance to a rule's labels; not accuracy",
}


class Part(Struct, frozen=True, eq=False, kw_only=True):
    """Every figure on the labels of one kind, and every point of difference, worst first.

    `strengths` counts the labels that state one; `prompted` those that were given here after the
    suggestions were seen, of `placed_here` tags and runs found clean. `item_gates` and
    `class_gates` are of judges.
    `taken_for` counts the runs of each labelled class (down) and each class the rules found
    (across), None where no label speaks of classes; `scatters` are of who scored what people did.
    """

    figures: Calibration
    disagreements: tuple[Disagreement, ...]
    items: tuple[ItemAgreement, ...] = ()
    item_gates: tuple[ItemGate, ...] = ()
    class_gates: tuple[ClassGate, ...] = ()
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
    source, given, broken = labels_of(store, labels)
    return compared(store, source, given, broken, now_ns)


def labels_of(
    store: Store, labels: Path | Sequence[Path] | None
) -> tuple[str, tuple[Label, ...], tuple[Unusable, ...]]:
    """What the source is called, its labels, and the lines that are none. Raises ArcError."""
    paths = [labels] if isinstance(labels, Path) else list(labels or ())
    if not paths:
        return KEPT, kept_labels(store), ()
    given, broken = read_labels(*paths)
    return ", ".join(dict.fromkeys(path.name for path in paths)), given, broken


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
            parts.append(_part(store, made_by, runs, now_ns))
    return CalibrationView(
        source=source,
        read=len(labels) + len(broken),
        parts=tuple(parts),
        unusable=(*broken, *lost),
        unchecked=unchecked(store, now_ns),
    )


def _part(store: Store, made_by: By, runs: Sequence[Labelled], now_ns: int) -> Part:
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
        class_gates=class_gates(runs, classifications(store), now_ns),
        taken_for=taken_for(runs, "rule"),
        scatters=tuple(scatters(runs)),
        strengths=dict(Counter(label.strength for label in labels if label.strength)),
        placed_here=sum(label.blind is not None for label in labels),
        prompted=sum(label.blind is False for label in labels),
    )


# --- the audit sample


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
    marks: Iterable[tuple[str, str]] = (
        *((tag.trace, tag.by) for tag in human_tags(store)),
        *((each.trace, each.by) for each in clean_marks(store)),
        *((each.trace, each.by) for each in opinions(store)),
    )
    found: dict[str, set[str]] = {}
    for trace, by in marks:
        found.setdefault(trace, set()).add(by)
    return found


# --- as it is drawn

RULES: Source = "rule"


class Scorer(Struct, frozen=True, eq=False, kw_only=True):
    """One source of scores or rubric items beside people's.

    `scatter` holds the pairs, `agreements` their figures, all of them first, then by category of
    tasks; None and empty where people scored no step of its. Of a judge, `trust` is how it stands
    today, `gate` and `item_gates` what these labels say.
    """

    by: str
    source: Source
    scatter: Scatter | None = None
    agreements: tuple[ScoreAgreement, ...] = ()
    gate: JudgeApproval | None = None
    trust: Trust | None = None
    items: tuple[ItemAgreement, ...] = ()
    item_gates: tuple[ItemGate, ...] = ()

    @property
    def name(self) -> str:
        """Who scored, in the words of a sentence."""
        return "rules" if self.source == RULES else who(self.by)


def who(by: str) -> str:
    """The judge and its mode behind a source of scores, else the source as it is."""
    known = parsed(by)
    return by if known is None else f"judge {known.model} ({known.mode})"


class NamedDisagreement(Struct, frozen=True, eq=False, kw_only=True):
    """A disagreement and what its run is called."""

    disagreement: Disagreement
    run: str


class PartDrawn(Struct, frozen=True, eq=False, kw_only=True):
    """One part of the view, its sources of scores and its disagreements by name."""

    part: Part
    scorers: tuple[Scorer, ...]
    worst: tuple[NamedDisagreement, ...]

    @property
    def made_by(self) -> By:
        return self.part.figures.made_by


class CalibrationState(Struct, frozen=True, eq=False, kw_only=True):
    """The view and its parts as they are drawn. `labels` None: what people said in the database.

    `drift` holds judges' sets side by side, `people` those who tagged. `trouble` is why nothing
    could be read; `noise` how often a run's shape is told rightly, empty until it was counted.
    """

    view: CalibrationView
    parts: tuple[PartDrawn, ...]
    labels: Path | None = None
    drift: DriftView | None = None
    people: RatersView = raters.EMPTY
    trouble: str = ""
    noise: tuple[Cell, ...] = ()


EMPTY_STATE = CalibrationState(view=EMPTY, parts=())


def build_state(store: Store, labels: Path | None, now_ns: int) -> CalibrationState:
    """Judgements against the labels of a file, or against what people said, with the pictures.

    Raises ArcError where the file cannot be read or holds no label.
    """
    source, given, broken = labels_of(store, labels)
    view = compared(store, source, given, broken, now_ns)
    names = {row.trace: run_name(row, " ") for row in trace_rows(store, every=True)}
    return CalibrationState(
        view=view,
        parts=tuple(_drawn(store, part, names, now_ns) for part in view.parts),
        labels=labels,
        drift=build_drift(store, source, given, now_ns),
        people=build_raters(store),
    )


def _drawn(store: Store, part: Part, names: Mapping[str, str], now_ns: int) -> PartDrawn:
    return PartDrawn(
        part=part,
        scorers=tuple(_scorer(store, part, *each, now_ns) for each in _sources(part)),
        worst=tuple(
            NamedDisagreement(disagreement=each, run=names[each.trace])
            for each in part.disagreements
        ),
    )


def _sources(part: Part) -> list[tuple[str, Source]]:
    """Who scored or answered items, a judge before the rules."""
    known: dict[str, Source] = {each.by: each.source for each in part.figures.scores}
    known |= {each.by: each.source for each in part.items}
    return sorted(known.items(), key=lambda each: (TRUST.index(each[1]), each[0]))


def _scorer(store: Store, part: Part, by: str, source: Source, now_ns: int) -> Scorer:
    return Scorer(
        by=by,
        source=source,
        scatter=next((each for each in part.scatters if each.by == by), None),
        agreements=tuple(each for each in part.figures.scores if each.by == by),
        gate=next((each for each in part.figures.gates if each.by == by), None),
        trust=trust(store, by, now_ns) if source == "judge" else None,
        items=tuple(each for each in part.items if each.by == by),
        item_gates=tuple(each for each in part.item_gates if each.by == by),
    )


# --- verdicts


class Kept(Struct, frozen=True, kw_only=True):
    """How many verdicts were kept, and the runs that the rules looked at again."""

    verdicts: int
    again: tuple[str, ...]


def keep_verdicts(store: Store, view: CalibrationView, now_ns: int) -> Kept:
    """Keep every verdict that people's labels gave, in place of the last on the same thing.

    Labels that a rule made decide nothing.
    """
    parts = [part for part in view.parts if part.figures.made_by == "people"]
    gates = [each for part in parts for each in part.figures.gates]
    items = [each for part in parts for each in part.item_gates]
    checked = {each.by for each in gates} | {each.by for each in items}
    sets = [each for each in judge_sets(store) if each.by in checked]
    before = {each.by: _use(store, each.by, now_ns) for each in sets}
    for verdict in gates:
        approval.keep(store, verdict)
    for answer in items:
        approval.keep_item(store, answer)
    classes = [each for part in parts for each in part.class_gates]
    for verdict_on_classes in classes:
        keep_gate(store, verdict_on_classes)
    changed = [each for each in sets if _use(store, each.by, now_ns) != before[each.by]]
    runs = sorted({place.trace for each in changed for place in each.given.scores})
    for run in runs:
        diagnose_one(store, run)
    return Kept(verdicts=len(gates) + len(items) + len(classes), again=tuple(runs))


def _use(store: Store, by: str, now_ns: int) -> object:
    """What of a set may be used."""
    stands = trust(store, by, now_ns)
    return stands.state == "approved", stands.categories, stands.items


def held_against(
    store: Store, labels: Path | None, is_cancelled: Callable[[], bool]
) -> CalibrationState:
    """Judgements against labels, with what the rules say today; `EMPTY_STATE` where cancelled."""
    for _ in diagnose_new(store):
        if is_cancelled():
            return EMPTY_STATE
    return build_state(store, labels, now_ns())
