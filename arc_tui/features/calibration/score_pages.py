"""The page of one source of scores: its scores over people's, how well they agree, its trust.

The picture is drawn in cells: 0..1 across and up, with the diagonal and the borders of the bands.
A point is a quarter of a cell; where several share a cell their number stands there. Pure: figures
and a size in, lines out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from arc_tui.features.calibration.drift import drift_tables, unchecked_line
from arc_tui.features.calibration.pages import matrix
from arc_tui.features.calibration.tables import (
    BLANK,
    Column,
    KeyedWords,
    Line,
    Word,
    agreement_cells,
    folded_table,
    shown,
    side_by_side,
    table_lines,
    title,
)
from arc_tui.features.calibration.text import MAKE_SCORES, trust_lines
from arc_tui.features.calibration.view import CalibrationState, PartDrawn, Scorer
from arc_tui.ui import format
from arc_tui.ui.tables import counted, estimate, share
from taxonomy.calibration.approval import BAND_EDGES, Pair
from taxonomy.calibration.disagreement import Scatter
from taxonomy.calibration.report import ScoreAgreement

FACTS = 40
"""Cells of the figures beside the picture."""

LEAST_ROWS, MOST_ROWS = 9, 24

RANGES = ("0–.2", ".3–.5", ".6–.8", ".9–1")
"""The four bands as the judge is told them."""

CATEGORIES = (
    Column(title="tasks", style="strong", most=24),
    Column(title="n", right=True),
    Column(title="r"),
    Column(title="ρ", spare=2),
    Column(title="κ of bands", spare=3),
    Column(title="TPR", spare=5),
    Column(title="TNR", spare=6),
    Column(title="bias", right=True, spare=1),
)


ITEMS = (
    Column(title="", style="strong", most=28),
    Column(title="n", right=True),
    Column(title="agree"),
    Column(title="κ"),
    Column(title="people's yes", spare=1),
    Column(title="TPR", spare=2),
    Column(title="TNR", spare=3),
    Column(title="undecided", right=True, spare=4),
)


def scores_page(
    state: CalibrationState,
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
        lines = folded_table(MAKE_SCORES, width)
    for each in (each for each in state.view.unchecked if each.trust.by != by):
        lines += [BLANK, *folded_table(f"! {format.one_line(unchecked_line(each))}", width, "warn")]
    if state.drift is not None and state.drift.drifts:
        for table_ in drift_tables(state.drift):
            lines += [BLANK, *shown(table_, width)]
    return lines


def _place(chosen: int, sources: int, keyed: KeyedWords) -> str:
    """Which of several sources it is, with the key of the next."""
    if sources < 2:
        return ""
    return f" · {keyed('‹calibration.view›')}: source {chosen % sources + 1} of {sources}"


def _source(scorer: Scorer, place: str, width: int, height: int, keyed: KeyedWords) -> list[Line]:
    name = format.one_line(scorer.name)
    if scorer.scatter is None:
        lines = [(*title(name), (f"  no step scored by both{place}", "quiet"))]
        lines += _trust(scorer, width, keyed)
        return [*lines, BLANK, *_items(scorer, width, keyed)]
    many = format.count(len(scorer.scatter.pairs), "score")
    lines = [(*title(f"{name} ↑ over people →"), (f"  {many} by both{place}", "quiet"))]
    facts = [*_facts(scorer, keyed), BLANK, *_bands(scorer.scatter)]
    lines += side_by_side(_picture(scorer.scatter, width, height), facts, width)
    if scorer.items:
        lines += [BLANK, *_items(scorer, width, keyed)]
    if len(scorer.agreements) > 1:
        lines += [BLANK, title("by category of task"), *_categories(scorer, width)]
    return [*lines, BLANK, *folded_table(LEGEND, width)]


def _picture(found: Scatter, width: int, height: int) -> list[Line]:
    rows = max(LEAST_ROWS, min(height - 6, MOST_ROWS))
    columns = max(16, min(2 * rows + 4, width - AXIS - FACTS - 4))
    return scatter(found.pairs, columns, rows)


def _facts(scorer: Scorer, keyed: KeyedWords) -> Iterator[Line]:
    for label, value in figures(scorer.agreements[0]):
        yield ((f"{label:<6}", "strong"), (value, ""))
    yield from _trust(scorer, FACTS, keyed)


def _trust(scorer: Scorer, width: int, keyed: KeyedWords) -> Iterator[Line]:
    trusted = scorer.trust is None or scorer.trust.state == "approved"
    for words in trust_lines(scorer):
        yield from folded_table(keyed(format.one_line(words)), width, "good" if trusted else "warn")


def figures(found: ScoreAgreement) -> Iterator[tuple[str, str]]:
    """Every figure of a source, by its name."""
    yield "r", estimate(found.r)
    yield "ρ", estimate(found.rho)
    yield "κ", f"{estimate(found.kappa)} of bands"
    yield "TPR", counted(found.achieved.recall)
    yield "TNR", counted(found.achieved.specificity)
    yield "bias", f"{found.bias:+.2f} its mean − people's"


def _bands(found: Scatter) -> Iterator[Line]:
    yield title("people's bands (down), its (across)")
    yield from matrix(found.bands, RANGES)


def _items(scorer: Scorer, width: int, keyed: KeyedWords) -> Iterator[Line]:
    """A rubric item a row, and of a judge what these labels say of its trust."""
    yield title("rubric items: agreement with people")
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
    yield from table_lines(ITEMS, rows, width)
    for name, verdict in verdicts.items():
        lets = keyed("passes: ‹calibration.keep› approves it for 30 days")
        why = lets if verdict.passed else "; ".join(verdict.missing)
        yield from folded_table(f"{name}: {why}", width, "good" if verdict.passed else "warn")


def _categories(scorer: Scorer, width: int) -> list[Line]:
    rows = [
        (
            format.one_line(each.category or "all"),
            *agreement_cells(each),
            f"{each.bias:+.2f}",
        )
        for each in scorer.agreements
    ]
    return table_lines(CATEGORIES, rows, width)


QUARTERS = {(0, 0): "▘", (1, 0): "▝", (0, 1): "▖", (1, 1): "▗"}
"""By its place in the cell: (right half, lower half)."""

MANY = "#"
"""Stands for ten points and more in a cell."""

AXIS = 5
"""Cells left of the picture."""

LEGEND = f"▘ one point · 2–9 points in a cell · {MANY} ten or more · ∙ equal scores"


def scatter(pairs: Sequence[Pair], columns: int, rows: int) -> list[Line]:
    """The picture with its axes: `columns` × `rows` cells and two rows more."""
    cells = _cells(pairs, columns, rows)
    marks = {_down(edge, rows) // 2: f"{edge:.2f}"[1:] for edge in BAND_EDGES}
    marks |= {0: "1", rows - 1: "0"}
    lines: list[Line] = []
    for row in range(rows):
        label = marks.get(row, "")
        axis = f"{label:>{AXIS - 2}} {'┤' if label else '│'}"
        lines.append(((axis, "quiet"), *_joined(cells[row])))
    return [*lines, *_foot(columns)]


def _cells(pairs: Sequence[Pair], columns: int, rows: int) -> list[list[Word]]:
    cells: list[list[Word]] = [[(" ", "")] * columns for _ in range(rows)]
    for edge in BAND_EDGES:
        for row in range(rows):
            cells[row][_across(edge, columns) // 2] = ("┊", "faint")
        for column in range(columns):
            across = cells[_down(edge, rows) // 2][column][0]
            cells[_down(edge, rows) // 2][column] = ("┼" if across == "┊" else "┈", "faint")
    for column in range(columns):
        same = (2 * column + 0.5) / (2 * columns - 1)
        cells[_down(same, rows) // 2][column] = ("∙", "quiet")
    groups: dict[tuple[int, int], list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[_down(pair.other, rows) // 2, _across(pair.human, columns) // 2].append(pair)
    for (row, column), group in groups.items():
        cells[row][column] = (_mark(group, columns, rows), _point_style(group))
    return cells


def _mark(group: Sequence[Pair], columns: int, rows: int) -> str:
    if len(group) > 1:
        return str(len(group)) if len(group) < 10 else MANY
    [pair] = group
    return QUARTERS[_across(pair.human, columns) % 2, _down(pair.other, rows) % 2]


def _point_style(group: Sequence[Pair]) -> str:
    """By how many bands the farthest of them is off."""
    off = max(abs(_band(pair.human) - _band(pair.other)) for pair in group)
    return ("good", "warn", "bad")[min(off, 2)]


def _band(score: float) -> int:
    return sum(score >= edge for edge in BAND_EDGES)


def _across(value: float, columns: int) -> int:
    """The half cell of a value, from the left."""
    return round(value * (2 * columns - 1))


def _down(value: float, rows: int) -> int:
    """The half cell of a value, from the top."""
    return round((1 - value) * (2 * rows - 1))


def _joined(cells: Sequence[Word]) -> list[Word]:
    """Neighbours of one style as one word."""
    found: list[Word] = []
    for words, style in cells:
        if found and found[-1][1] == style:
            found[-1] = (found[-1][0] + words, style)
        else:
            found.append((words, style))
    return found


def _foot(columns: int) -> list[Line]:
    line, names = ["─"] * columns, [" "] * (columns + 4)
    for edge in BAND_EDGES:
        at = _across(edge, columns) // 2
        line[at] = "┴"
        names[at - 1 : at + 2] = f"{edge:.2f}"[1:]
    names[0], names[columns - 1] = "0", "1"
    ends = " " * (AXIS - 1)
    words = "".join(names).rstrip()
    return [((f"{ends}└{''.join(line)}", "quiet"),), ((f"{ends} {words}", "quiet"),)]
