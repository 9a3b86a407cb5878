"""Which score, as a page: one source's scores over people's, how well they go together, its trust.

Pure: figures and a size in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui import format
from arc_tui.views.calibration.drift_tables import drift_tables, unchecked_line
from arc_tui.views.calibration.stage import CalibrationStage, PartDrawn, Scorer
from arc_tui.views.calibration.tables import counted, estimate, share
from arc_tui.views.calibration.words import MAKE_SCORES, trust_lines
from arc_tui.widgets.calibration.classes import matrix
from arc_tui.widgets.calibration.ink import (
    BLANK,
    Column,
    KeyedWords,
    Line,
    beside,
    folded,
    shown,
    table,
    title,
)
from arc_tui.widgets.calibration.scatter import AXIS, LEGEND, scatter
from taxonomy.calibration.confusions import Scatter
from taxonomy.calibration.report import ScoreAgreement

FACTS = 40
"""Cells of the figures beside the picture."""

LEAST_ROWS, MOST_ROWS = 9, 24

RANGES = ("0–.2", ".3–.5", ".6–.8", ".9–1")
"""The four bands as the judge is told them."""

CATEGORIES = (
    Column(title="tasks", ink="strong", most=24),
    Column(title="n", right=True),
    Column(title="r"),
    Column(title="ρ", spare=2),
    Column(title="κ of bands", spare=3),
    Column(title="TPR", spare=5),
    Column(title="TNR", spare=6),
    Column(title="bias", right=True, spare=1),
)


ITEMS = (
    Column(title="", ink="strong", most=28),
    Column(title="n", right=True),
    Column(title="agree"),
    Column(title="κ"),
    Column(title="people's yes", spare=1),
    Column(title="TPR", spare=2),
    Column(title="TNR", spare=3),
    Column(title="undecided", right=True, spare=4),
)


def scores_page(
    stage: CalibrationStage,
    drawn: PartDrawn,
    chosen: int,
    width: int,
    height: int,
    keyed: KeyedWords,
) -> list[Line]:
    """The page of one of the sources, or what would make one; then how judges changed."""
    by = None
    if drawn.scorers:
        scorer = drawn.scorers[chosen % len(drawn.scorers)]
        by = scorer.by
        place = _place(chosen, len(drawn.scorers), keyed)
        lines = _source(scorer, place, width, height, keyed)
    else:
        lines = folded(MAKE_SCORES, width)
    for each in (each for each in stage.view.unchecked if each.trust.by != by):
        lines += [BLANK, *folded(f"! {format.one_line(unchecked_line(each))}", width, "warn")]
    if stage.drift is not None and stage.drift.drifts:
        for table_ in drift_tables(stage.drift):
            lines += [BLANK, *shown(table_, width)]
    return lines


def _place(chosen: int, sources: int, keyed: KeyedWords) -> str:
    """Which of several sources it is, with the key of the next."""
    if sources < 2:
        return ""
    return f" · {keyed('‹calibration.source›')}: source {chosen % sources + 1} of {sources}"


def _source(scorer: Scorer, place: str, width: int, height: int, keyed: KeyedWords) -> list[Line]:
    name = format.one_line(scorer.name)
    if scorer.scatter is None:
        lines = [(*title(name), (f"  scored no step that people did{place}", "quiet"))]
        lines += _trust(scorer, width, keyed)
        return [*lines, BLANK, *_items(scorer, width, keyed)]
    many = format.count(len(scorer.scatter.pairs), "score")
    lines = [(*title(f"{name} ↑ over people →"), (f"  {many} of both{place}", "quiet"))]
    facts = [*_facts(scorer, keyed), BLANK, *_bands(scorer.scatter)]
    lines += beside(_picture(scorer.scatter, width, height), facts, width)
    if scorer.items:
        lines += [BLANK, *_items(scorer, width, keyed)]
    if len(scorer.agreements) > 1:
        lines += [BLANK, title("by category of task"), *_categories(scorer, width)]
    return [*lines, BLANK, *folded(LEGEND, width)]


def _picture(found: Scatter, width: int, height: int) -> list[Line]:
    rows = max(LEAST_ROWS, min(height - 6, MOST_ROWS))
    columns = max(16, min(2 * rows + 4, width - AXIS - FACTS - 4))
    return scatter(found.pairs, columns, rows)


def _facts(scorer: Scorer, keyed: KeyedWords) -> Iterator[Line]:
    for label, value in figures(scorer.agreements[0]):
        yield ((f"{label:<6}", "strong"), (value, ""))
    yield from _trust(scorer, FACTS, keyed)


def _trust(scorer: Scorer, width: int, keyed: KeyedWords) -> Iterator[Line]:
    trusted = scorer.trust is None or scorer.trust.state == "trusted"
    for words in trust_lines(scorer):
        yield from folded(keyed(format.one_line(words)), width, "good" if trusted else "warn")


def figures(found: ScoreAgreement) -> Iterator[tuple[str, str]]:
    """Every figure of a source, by its name."""
    yield "r", estimate(found.r)
    yield "ρ", estimate(found.rho)
    yield "κ", f"{estimate(found.kappa)} of bands"
    yield "TPR", counted(found.achieved.recall)
    yield "TNR", counted(found.achieved.specificity)
    yield "bias", f"{found.bias:+.2f} theirs − people's"


def _bands(found: Scatter) -> Iterator[Line]:
    yield title("people's bands (down), its (across)")
    yield from matrix(found.bands, RANGES)


def _items(scorer: Scorer, width: int, keyed: KeyedWords) -> Iterator[Line]:
    """A rubric item a row, and of a judge what these labels say of its trust."""
    yield title("rubric items: as people answered them?")
    verdicts = {each.item: each for each in scorer.item_gates}
    rows = [
        (
            each.item,
            str(each.held.kappa.n),
            share(each.agreed),
            estimate(each.held.kappa),
            share(each.yes),
            counted(each.held.recall),
            counted(each.held.specificity),
            str(each.undecided),
        )
        for each in scorer.items
    ]
    yield from table(ITEMS, rows, width)
    for name, verdict in verdicts.items():
        lets = keyed("passes: ‹calibration.keep› trusts it for 30 days")
        said = lets if verdict.passed else "; ".join(verdict.missing)
        yield from folded(f"{name}: {said}", width, "good" if verdict.passed else "warn")


def _categories(scorer: Scorer, width: int) -> list[Line]:
    rows = [
        (
            format.one_line(each.category or "all"),
            str(each.r.n),
            estimate(each.r),
            estimate(each.rho),
            estimate(each.kappa),
            counted(each.achieved.recall),
            counted(each.achieved.specificity),
            f"{each.bias:+.2f}",
        )
        for each in scorer.agreements
    ]
    return table(CATEGORIES, rows, width)
