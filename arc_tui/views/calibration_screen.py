"""Everything the calibration screen draws: the figures, and beside them what a picture needs.

Points of the scatter, who was taken for what, what stands behind a source's trust, and the runs
where judgement and label part, by names a person knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from msgspec import Struct, structs

from arc_tui.views import raters
from arc_tui.views.calibration import EMPTY as NO_FIGURES
from arc_tui.views.calibration import CalibrationView, Part, compared, labels_of
from arc_tui.views.drift import DriftView, build_drift
from arc_tui.views.raters import RatersView, build_raters
from replay.store import Store
from replay.store.rows import TraceRow, trace_rows
from taxonomy.calibration.agreement import Confusion, confusion
from taxonomy.calibration.disagreement import Disagreement
from taxonomy.calibration.gate import BANDS, Gate, Pair, band
from taxonomy.calibration.item_gate import ItemGate
from taxonomy.calibration.items import ItemAgreement
from taxonomy.calibration.labelled import Labelled, labelled_runs
from taxonomy.calibration.labels import By, Placed, place
from taxonomy.calibration.noise import Cell
from taxonomy.calibration.report import ScoreAgreement, score_pairs
from taxonomy.calibration.trust import Trust, trust
from taxonomy.classes import FailureClass
from taxonomy.findings import TRUST, Source
from taxonomy.judge.kept import parsed

NOTHING = "none"
"""The row of what nobody labelled and the column of what nobody found."""

RULES: Source = "rule"


class Scorer(Struct, frozen=True, eq=False, kw_only=True):
    """One source of scores or rubric items beside people's.

    `agreements` has all pairs first, then categories of tasks; empty where people scored no step
    of its. `bands` counts people's band down, the source's across. Of a judge, `trust` is how it
    stands today, `gate` and `item_gates` what these labels say.
    """

    by: str
    source: Source
    pairs: tuple[Pair, ...] = ()
    agreements: tuple[ScoreAgreement, ...] = ()
    bands: Confusion
    gate: Gate | None = None
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


class Apart(Struct, frozen=True, eq=False, kw_only=True):
    """A disagreement and what its run is called."""

    said: Disagreement
    run: str


class PartDrawn(Struct, frozen=True, eq=False, kw_only=True):
    """One part of the view. `taken_for` counts what labels say down, the rules across, by run;
    None where no label speaks of classes."""

    part: Part
    scorers: tuple[Scorer, ...]
    taken_for: Confusion | None
    worst: tuple[Apart, ...]

    @property
    def made_by(self) -> By:
        return self.part.figures.made_by


class CalibrationStage(Struct, frozen=True, eq=False, kw_only=True):
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


EMPTY = CalibrationStage(view=NO_FIGURES, parts=())


def build_stage(store: Store, labels: Path | None, now_ns: int) -> CalibrationStage:
    """Judgements against the labels of a file, or against what people said, with the pictures.

    Raises ArcError where the file cannot be read or holds no label.
    """
    source, said, broken = labels_of(store, labels)
    view = compared(store, source, said, broken, now_ns)
    placed, _ = place(store, said)
    names = {row.trace: called(row) for row in trace_rows(store, every=True)}
    return CalibrationStage(
        view=view,
        parts=tuple(_drawn(store, part, placed, names, now_ns) for part in view.parts),
        labels=labels,
        drift=build_drift(store, source, said, now_ns),
        people=build_raters(store),
    )


def _drawn(
    store: Store, part: Part, placed: Iterable[Placed], names: Mapping[str, str], now_ns: int
) -> PartDrawn:
    own = [each for each in placed if each.label.made_by == part.figures.made_by]
    runs = labelled_runs(store, own)
    scorers = (_scorer(part, by, source, runs) for by, source in _sources(part))
    return PartDrawn(
        part=part,
        scorers=tuple(
            structs.replace(each, trust=trust(store, each.by, now_ns))
            if each.source == "judge"
            else each
            for each in scorers
        ),
        taken_for=taken_for(runs, RULES),
        worst=tuple(Apart(said=each, run=names[each.trace]) for each in part.disagreements),
    )


def _sources(part: Part) -> list[tuple[str, Source]]:
    """Who scored or answered items, a judge before the rules."""
    known: dict[str, Source] = {each.by: each.source for each in part.figures.scores}
    known |= {each.by: each.source for each in part.items}
    return sorted(known.items(), key=lambda each: (TRUST.index(each[1]), each[0]))


def _scorer(part: Part, by: str, source: Source, runs: Sequence[Labelled]) -> Scorer:
    pairs = tuple(score_pairs(runs, by))
    return Scorer(
        by=by,
        source=source,
        pairs=pairs,
        agreements=tuple(each for each in part.figures.scores if each.by == by),
        bands=confusion(((band(pair.human), band(pair.other)) for pair in pairs), BANDS, BANDS),
        gate=next((each for each in part.figures.gates if each.by == by), None),
        items=tuple(each for each in part.items if each.by == by),
        item_gates=tuple(each for each in part.item_gates if each.by == by),
    )


def called(row: TraceRow) -> str:
    """What a run is called: its task and trial, else its title, else the source's id."""
    task = f"{row.task} {row.trial}" if row.task and row.trial else row.task
    return task or row.title or row.source_id


# --- who was taken for what


def taken_for(runs: Sequence[Labelled], source: Source) -> Confusion | None:
    """Labelled classes down, found ones across, by run; None where no label speaks of classes."""
    said = [run for run in runs if run.classes is not None]
    if not said:
        return None
    pairs = [
        pair
        for run in said
        for pair in crossed(
            run.classes or frozenset(), {each.failure for each in run.found(source)}
        )
    ]
    names = (*(each.value for each in FailureClass), NOTHING)
    shown = [name for name in names if name == NOTHING or any(name in pair for pair in pairs)]
    return confusion(pairs, shown, shown)


def crossed(
    labelled: AbstractSet[FailureClass], found: AbstractSet[FailureClass]
) -> Iterator[tuple[str, str]]:
    """The (labelled, found) pairs of a run that may have several classes.

    A class that both name meets itself. Of the rest each labelled one meets each found one; where
    one side has nothing left the other meets `NOTHING`, and a run without any is a pair of those.
    """
    both = labelled & found
    for each in sorted(both):
        yield each.value, each.value
    missed = [each.value for each in sorted(labelled - both)]
    extra = [each.value for each in sorted(found - both)]
    if not (missed or extra or both):
        yield NOTHING, NOTHING
    elif missed or extra:
        yield from ((one, other) for one in missed or [NOTHING] for other in extra or [NOTHING])
