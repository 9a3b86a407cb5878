"""Everything the calibration screen draws: the figures, put together by what a page shows.

A source of scores with its picture, its figures and its trust; the runs where judgement and label
part, by names a person knows; how judges changed and how far people agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from arc_tui.views.calibration import raters
from arc_tui.views.calibration.drift import DriftView, build_drift
from arc_tui.views.calibration.raters import RatersView, build_raters
from arc_tui.views.calibration.view import EMPTY as NO_FIGURES
from arc_tui.views.calibration.view import CalibrationView, Part, compared, labels_of
from replay.store import Store
from replay.store.rows import TraceRow, trace_rows
from taxonomy.calibration.confusions import Scatter
from taxonomy.calibration.disagreement import Disagreement
from taxonomy.calibration.gate import Gate
from taxonomy.calibration.item_gate import ItemGate
from taxonomy.calibration.items import ItemAgreement
from taxonomy.calibration.labels import By
from taxonomy.calibration.noise import Cell
from taxonomy.calibration.report import ScoreAgreement
from taxonomy.calibration.trust import Trust, trust
from taxonomy.findings import TRUST, Source
from taxonomy.judge.kept import parsed

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
    """One part of the view, its sources of scores and its disagreements by name."""

    part: Part
    scorers: tuple[Scorer, ...]
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
    names = {row.trace: called(row) for row in trace_rows(store, every=True)}
    return CalibrationStage(
        view=view,
        parts=tuple(_drawn(store, part, names, now_ns) for part in view.parts),
        labels=labels,
        drift=build_drift(store, source, said, now_ns),
        people=build_raters(store),
    )


def _drawn(store: Store, part: Part, names: Mapping[str, str], now_ns: int) -> PartDrawn:
    return PartDrawn(
        part=part,
        scorers=tuple(_scorer(store, part, *each, now_ns) for each in _sources(part)),
        worst=tuple(Apart(said=each, run=names[each.trace]) for each in part.disagreements),
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


def called(row: TraceRow) -> str:
    """What a run is called: its task and trial, else its title, else the source's id."""
    task = f"{row.task} {row.trial}" if row.task and row.trial else row.task
    return task or row.title or row.source_id
