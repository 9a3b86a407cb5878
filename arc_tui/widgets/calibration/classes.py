"""Which class, as a page: how often each is found and rightly so, and what is taken for what.

Pure: figures and a width in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from arc_tui import format
from arc_tui.views.calibration import raters
from arc_tui.views.calibration.stage import CalibrationStage, PartDrawn
from arc_tui.views.calibration.tables import estimate, share, short
from arc_tui.views.calibration.words import MAKE_CLASSES
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
from taxonomy.calibration.agreement import Confusion
from taxonomy.calibration.confusions import NOTHING
from taxonomy.calibration.report import ClassTable

COLUMNS = (
    Column(title="", ink="strong"),
    Column(title="n", right=True, spare=1),
    Column(title="found", right=True, spare=2),
    Column(title="both", right=True, spare=4),
    Column(title="precision"),
    Column(title="recall"),
    Column(title="F1"),
    Column(title="κ", spare=3),
    Column(title="true negatives", spare=5),
)


def classes_page(
    stage: CalibrationStage, drawn: PartDrawn, width: int, keyed: KeyedWords
) -> list[Line]:
    """The page, or what would make one; then how well people agree, which no rule can beat."""
    lines = _found(drawn, width, keyed)
    for each in raters.tables(stage.people):
        lines += [BLANK, *shown(each, width)]
    return lines


def _found(drawn: PartDrawn, width: int, keyed: KeyedWords) -> list[Line]:
    if drawn.part.taken_for is None:
        return folded(keyed(MAKE_CLASSES), width)
    first, *others = drawn.part.figures.classes
    matrix = list(_taken_for(drawn.part.taken_for, first.n, width))
    lines = beside(list(_table(first, width)), matrix, width)
    for each in others:
        lines += [BLANK, *_table(each, width)]
    return lines


def _table(found: ClassTable, width: int) -> Iterator[Line]:
    many = format.count(found.n, found.per)
    yield title(f"which class, per {found.per} · by {found.source} · {many}")
    rows = [
        (
            each.name,
            str(each.tp + each.fn),
            str(each.tp + each.fp),
            str(each.tp),
            share(each.precision),
            share(each.recall),
            share(each.f1),
            estimate(each.kappa),
            share(each.specificity),
        )
        for each in found.rows
        if each.f1.n
    ]
    room = min(width, 110)
    if rows:
        yield from table(COLUMNS, rows, room)
        labelled, all_ = found.macro_labelled, found.macro_all
        macro = (
            f"n: labelled so; macro-F1 {short(labelled.value)} over the {labelled.classes} labelled"
        )
        if all_.classes != labelled.classes:
            macro += f", {short(all_.value)} over the {all_.classes} labelled or found"
        yield from folded(macro, room)
    silent = [each.name for each in found.rows if not each.f1.n]
    if silent:
        yield from folded(f"neither labelled nor found: {', '.join(silent)}", room)


def _taken_for(found: Confusion, runs: int, width: int) -> Iterator[Line]:
    room = min(width, 78)
    yield title("what the labels say (down) and what the rules find (across)")
    yield from matrix(found)
    many = format.count(runs, "run")
    yield from folded(
        f"{many}; one with several classes counts in several cells. [ ] both the same; "
        f"{NOTHING}: nothing left on that side.",
        room,
    )


def matrix(found: Confusion, names: Sequence[str] = ()) -> list[Line]:
    """A table of counts, the diagonal in brackets, a word a line in its head; `names` are shorter
    ones for its columns."""
    heads = [name.split(" ") for name in names or found.columns]
    tall = max(len(words) for words in heads)
    heads = [[""] * (tall - len(words)) + words for words in heads]
    cells = [[_cell(row, at, each) for at, each in enumerate(counts)]
             for row, counts in enumerate(found.counts)]  # fmt: skip
    wide = [
        max(cell_len(each) for each in (*words, *(row[at] for row in cells)))
        for at, words in enumerate(heads)
    ]
    label = max(map(cell_len, found.rows))
    lines: list[Line] = [
        ((" " * label + _spread([words[at] for words in heads], wide), "quiet"),)
        for at in range(tall)
    ]
    for row, name in enumerate(found.rows):
        inks = [_ink(row, at, count) for at, count in enumerate(found.counts[row])]
        lines.append((
            (f"{name:<{label}}", "strong"),
            *((f"  {cell:>{wide[at]}}", inks[at]) for at, cell in enumerate(cells[row])),
        ))  # fmt: skip
    return lines


def _spread(words: Sequence[str], wide: Sequence[int]) -> str:
    return "".join(f"  {word:>{cells}}" for word, cells in zip(words, wide, strict=True))


def _cell(row: int, column: int, count: int) -> str:
    if row == column:
        return f"[{count}]"
    return f"{count} " if count else "· "


def _ink(row: int, column: int, count: int) -> str:
    if not count:
        return "faint"
    return "good" if row == column else ""
