"""Calibration as tables: of text, the same cells for the screen, the command and the docs, and as
the lines of a page.

A line is words with the names of their styles. A widget gives the names their colours; nothing here
means anything by colour alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from msgspec import Struct
from rich.cells import cell_len

from arc_tui.ui import format
from arc_tui.ui.format import fit, one_line, wrap
from arc_tui.ui.tables import Table, counted, estimate, share, short
from taxonomy.calibration.disagreement import NOTHING
from taxonomy.calibration.localisation import Hits, Stated
from taxonomy.calibration.noise import Cell
from taxonomy.calibration.report import Calibration, ClassTable, ScoreAgreement
from taxonomy.metrics.agreement import Confusion, Reliability

HITS = ("n", "exact", "±1", "±3", "±5", "top 3", "mean distance")

IN_HINDSIGHT = (
    "best constant step and best relative position: the best possible in hindsight, each figure"
    " fitted to these labels"
)
ALL_RUNS = "an abstention is a miss over all runs and has no distance; `answered` leaves it out"
SEVERAL_CELLS = f"a run with several classes counts in several cells; {NOTHING}: no class left"
EVERY_CLASS = "the labels of a run are assumed to name every class it shows"
ONLY_JUDGES = "used without approval: only judges need it"


def tables(figures: Calibration) -> Iterator[Table]:
    """Every table of where runs broke and which class they show."""
    if figures.decisive:
        yield localisation_table(figures)
        yield stated_table(figures)
    for found in figures.classes:
        yield class_table(found)
    if figures.classes and figures.findings.bins:
        yield reliability_table("finding", figures.findings)


# --- where it broke


def localisation_table(figures: Calibration) -> Table:
    """A row a guesser, over all runs and over the answered, and the two baselines."""
    rows: list[tuple[str, ...]] = []
    for each in figures.localisation:
        rows.append((each.name, *hit_cells(each.over_all), counted(each.abstained)))
        if each.over_all.exact.n != each.over_answered.exact.n > 0:
            rows.append((f"{each.name}, answered", *hit_cells(each.over_answered), ""))
    known = figures.baselines
    if known is not None:
        constant, relative = f"best constant step ({known.step})", "best relative position"
        rows.append((constant, *hit_cells(known.constant), ""))
        rows.append((f"{relative} ({short(known.position)})", *hit_cells(known.relative), ""))
    return Table(
        title=f"break point: {format.count(figures.decisive, 'run')} with a decisive step",
        columns=("", *HITS, "abstained"),
        rows=tuple(rows),
        notes=(*_fit_notes(figures), IN_HINDSIGHT, ALL_RUNS),
    )


def _fit_notes(figures: Calibration) -> Iterator[str]:
    """That candidates were not measured on runs that they were made with."""
    if figures.fitted:
        runs = format.count(figures.fitted, "run")
        yield (
            f"candidates are not shown on {runs} that their weights were fitted on."
            " Try: arc calibrate --sources FILE"
        )


STATED = ("at least", "right", "holds")
STATED_NOTE = "holds: at least as many were right as stated; of group chats nothing is stated"
NOTHING_STATED = "no accuracy is stated of any first candidate: not shown"


def stated_table(figures: Calibration) -> Table:
    """What first candidates state against how often they were right."""
    rows = tuple(map(stated_cells, figures.stated))
    return Table(
        title="stated accuracy of first candidates",
        columns=STATED if rows else (),
        rows=rows,
        notes=(STATED_NOTE,) if rows else (NOTHING_STATED,),
    )


def stated_cells(band: Stated) -> tuple[str, str, str]:
    """The cells under `STATED`."""
    return short(band.low), counted(band.right), "yes" if band.holds else "no"


def hit_cells(hits: Hits) -> tuple[str, ...]:
    """The cells under `HITS`."""
    rates = (hits.exact, hits.within_1, hits.within_3, hits.within_5, hits.top_3)
    far = format.UNKNOWN if hits.mean_distance is None else f"{hits.mean_distance:.1f}"
    return (str(hits.exact.n), *map(share, rates), far)


def reliability_table(what: str, found: Reliability) -> Table:
    """Stated confidence against how often it held."""
    title = f"confidence of a {what}"
    silent = f"{format.count(found.silent, what)} without a confidence"
    if not found.bins:
        return Table(title=title, columns=(), rows=(), notes=(f"{silent}: nothing to compare",))
    rows = tuple(
        (
            f"{short(each.low)}–{short(each.high)}",
            short(each.stated),
            counted(each.right),
            "yes" if each.honest else "no",
        )
        for each in found.bins
    )
    off = f"mean distance of stated and actual {short(found.error)}"
    notes = (off, silent) if found.silent else (off,)
    return Table(
        title=title,
        columns=("stated", "mean", "right", "mean within the interval"),
        rows=rows,
        notes=notes,
    )


# --- classes


def class_table(found: ClassTable) -> Table:
    """A row a class that was labelled or found."""
    rows = tuple(
        (
            each.name,
            str(each.tp + each.fn),
            str(each.tp + each.fp),
            counted(each.precision),
            counted(each.recall),
            counted(each.specificity),
            share(each.f1),
            estimate(each.kappa),
        )
        for each in found.rows
        if each.f1.n
    )
    silent = [each.name for each in found.rows if not each.f1.n]
    macro = (
        f"macro-F1 {short(found.macro_labelled.value)} over the {found.macro_labelled.classes}"
        f" labelled, {short(found.macro_all.value)} over the {found.macro_all.classes} labelled or"
        " found"
    )
    neither = (f"neither labelled nor found: {', '.join(silent)}",) if silent else ()
    return Table(
        title=f"failure class, by {found.source}, per {found.per}: "
        f"{format.count(found.n, found.per)}",
        columns=("", "labelled", "found", "precision", "recall (TPR)", "TNR", "F1", "κ"),
        rows=rows,
        notes=(macro, *neither, EVERY_CLASS),
    )


def confusion_table(title: str, found: Confusion, notes: tuple[str, ...] = ()) -> Table:
    """A count a pair of words, a dot for none."""
    rows = zip(found.rows, found.counts, strict=True)
    return Table(
        title=title,
        columns=("", *found.columns),
        rows=tuple((name, *(str(count or "·") for count in counts)) for name, counts in rows),
        notes=notes,
    )


def noise_tables(cells: Sequence[Cell]) -> Iterator[Table]:
    """A table a rule: by noise and length the share right, unclear and wrong; then confusion."""
    for rule, own in groupby(cells, key=lambda cell: cell.rule):
        found = list(own)
        yield Table(
            title=f"shape by the {rule} rule: synthetic runs of each shape, by noise and length",
            columns=("σ", "steps", "right", "unclear", "wrong"),
            rows=tuple(
                (
                    short(cell.sigma),
                    str(cell.steps),
                    counted(cell.right),
                    counted(cell.unclear),
                    counted(cell.wrong),
                )
                for cell in found
            ),
        )
        yield _confusion(rule, found)


def _confusion(rule: str, cells: Sequence[Cell]) -> Table:
    """Every cell of a rule together: the true shape down, what was said across."""
    first = cells[0].confusion
    sums = [
        [sum(cell.confusion.counts[row][column] for cell in cells)
         for column in range(len(first.columns))]
        for row in range(len(first.rows))
    ]  # fmt: skip
    return Table(
        title=f"true shape (down) and shape by the {rule} rule (across), all together",
        columns=("", *first.columns),
        rows=tuple(
            (name, *map(str, counts)) for name, counts in zip(first.rows, sums, strict=True)
        ),
    )


# --- scores


def agreement_cells(found: ScoreAgreement) -> tuple[str, ...]:
    """n, r, ρ, κ of bands, TPR and TNR of a source's scores."""
    return (
        str(found.r.n),
        *map(estimate, (found.r, found.rho, found.kappa)),
        *map(counted, (found.achieved.recall, found.achieved.specificity)),
    )


# --- lines of a page

Word: TypeAlias = tuple[str, str]
"""Some text and the name of its style, "" for none."""

Line: TypeAlias = tuple[Word, ...]

KeyedWords: TypeAlias = Callable[[str], str]
"""Words with the keys in them that they name by ids."""

BLANK: Line = ()
GAP = 2

ROOMY = 100
"""Cells from which on columns stand apart by more than one."""


class Column(Struct, frozen=True, kw_only=True):
    """A column of a table. Where there is no room the one with the highest `spare` goes first,
    and one of 0 never."""

    title: str
    right: bool = False
    spare: int = 0
    style: str = ""
    most: int = 1000


def text(line: Line) -> str:
    """The line without its styles."""
    return "".join(words for words, _ in line).rstrip()


def width_of(line: Line) -> int:
    return sum(cell_len(words) for words, _ in line)


def title(words: str) -> Line:
    return ((words, "title"),)


def folded_table(
    words: str, width: int, style: str = "quiet", label: str = "", room: int = 0
) -> list[Line]:
    """Words over as many lines as they need, a label of `room` cells before the first."""
    return [
        ((fit(label if place == 0 else "", room), "strong"), (words[start:end], style))
        for place, (start, end) in enumerate(wrap(words, width - room))
    ]


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[Line]:
    """A head and its rows, without the columns there is no room for."""
    wide = [
        min(max(cell_len(cell) for cell in (column.title, *cells)), column.most)
        for column, cells in zip(columns, zip(*rows, strict=True), strict=True)
    ] if rows else [cell_len(column.title) for column in columns]  # fmt: skip
    gap = GAP if width >= ROOMY else 1
    kept = _kept(columns, wide, width, gap)

    def line(cells: Sequence[str], head: bool) -> Line:
        return tuple(
            (fit(cells[at], wide[at], right=columns[at].right) + " " * gap,
             "quiet" if head else columns[at].style)
            for at in kept
        )  # fmt: skip

    head = [column.title for column in columns]
    return [line(head, True), *(line(row, False) for row in rows)]


def _kept(columns: Sequence[Column], wide: Sequence[int], width: int, gap: int) -> list[int]:
    kept = list(range(len(columns)))
    while sum(wide[at] + gap for at in kept) - gap > width:
        last = max(kept, key=lambda at: columns[at].spare)
        if not columns[last].spare:
            break
        kept.remove(last)
    return kept


def shown(found: Table, width: int) -> list[Line]:
    """A table of text with its title and notes; the last columns go first where there is no
    room."""
    lines = [title(found.title)]
    if found.rows:
        columns = [
            Column(title=name, spare=place, most=40, style="" if place else "strong")
            for place, name in enumerate(found.columns)
        ]
        lines += table_lines(columns, [list(map(one_line, row)) for row in found.rows], width)
    for note in found.notes:
        lines += folded_table(one_line(note), min(width, 110))
    return lines


def side_by_side(
    left: Sequence[Line], right: Sequence[Line], width: int, gap: int = 4
) -> list[Line]:
    """Two blocks next to each other where the width allows, else one below the other."""
    wide = max(map(width_of, left), default=0)
    if wide + gap + max(map(width_of, right), default=0) > width:
        return [*left, *((BLANK, *right) if left and right else right)]
    found: list[Line] = []
    for at in range(max(len(left), len(right))):
        one = left[at] if at < len(left) else BLANK
        other = right[at] if at < len(right) else BLANK
        found.append((*one, (" " * (wide - width_of(one) + gap), ""), *other) if other else one)
    return found
