"""Pages of a calibration: where it broke, which class, and what the figures mean. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len

from arc_tui.features.calibration.tables import (
    BLANK,
    NOTHING_STATED,
    Column,
    KeyedWords,
    Line,
    folded_table,
    hit_cells,
    shown,
    side_by_side,
    stated_cells,
    table_lines,
    title,
)
from arc_tui.features.calibration.text import (
    LABEL_LINES,
    MAKE_CLASSES,
    MAKE_DECISIVE,
    NO_LABELS,
    meanings,
)
from arc_tui.features.calibration.view import CalibrationState, PartDrawn
from arc_tui.ui import format
from arc_tui.ui.format import fit
from arc_tui.ui.tables import counted, estimate, share, short
from arc_tui.views import raters
from taxonomy.calibration.disagreement import NOTHING
from taxonomy.calibration.labels import Unusable
from taxonomy.calibration.noise import Cell
from taxonomy.calibration.report import BAD, CANDIDATES, Calibration, ClassTable
from taxonomy.judge.scores import parsed
from taxonomy.metrics.agreement import Bin, Confusion, Reliability

TRACK = 25
"""Cells from 0 to 1."""

VAGUE = 0.5
"""An interval wider than this says nothing."""

LABELS = ("n", "exact", "±1", "±3", "±5", "top 3", "mean dist")
"""The rows of the table, as `hit_cells` gives them."""

LABEL, CELL, GAP = 9, 15, 2


class Guesser(NamedTuple):
    """Who names steps, in a word and another, its cells under `LABELS`, how often it abstained."""

    kind: str
    name: str
    cells: tuple[str, ...]
    abstained: str = ""


def break_page(figures: Calibration, width: int) -> list[Line]:
    """The page, or what would make one."""
    confidence = list(_accuracy_lines(figures)) if figures.decisive else []
    if figures.findings.bins:
        confidence += [*([BLANK] if confidence else []), *reliability("finding", figures.findings)]
    if not figures.decisive:
        return [*folded_table(MAKE_DECISIVE, width), *([BLANK] if confidence else []), *confidence]
    return side_by_side(list(_localisation(figures, width)), confidence, width)


def _accuracy_lines(figures: Calibration) -> Iterator[Line]:
    """A line a band of stated accuracy: what was right."""
    yield title("first candidates: stated and right")
    for each in figures.stated:
        low, right, holds = stated_cells(each)
        verdict = ("holds", "strong") if holds == "yes" else ("does not hold", "bad")
        yield ((f"at least {low}  ", ""), (f"{right}  ", ""), verdict)
    if not figures.stated:
        yield ((NOTHING_STATED, "quiet"),)


def _localisation(figures: Calibration, width: int) -> Iterator[Line]:
    """A column a guesser, so that the figures to compare stand side by side."""
    runs = format.count(figures.decisive, "run")
    yield title(f"break point · {runs} with a labelled step")
    for place, each in enumerate(blocks(list(guessers(figures)), width)):
        if place:
            yield BLANK
        yield from _block(each)
    room = min(width, 4 * (CELL + GAP) + LABEL)
    yield from folded_table("naive: the best possible, chosen in hindsight on these labels", room)
    if any(each.abstained.value for each in figures.localisation):
        yield from folded_table(
            "abstaining is a miss without a distance; `answered` leaves it out", room
        )


def guessers(figures: Calibration) -> Iterator[Guesser]:
    """Ours, the two naive baselines, then everyone else who names steps."""
    for ours in figures.localisation:
        if ours.name == CANDIDATES:
            yield Guesser(ours.name, "", hit_cells(ours.over_all), share(ours.abstained))
            if ours.over_all.exact.n != ours.over_answered.exact.n > 0:
                yield Guesser(ours.name, "answered", hit_cells(ours.over_answered))
    known = figures.baselines
    if known is not None:
        yield Guesser("naive", f"step {known.step}", hit_cells(known.constant))
        yield Guesser("naive", f"position {short(known.position)}", hit_cells(known.relative))
    for each in figures.localisation:
        if each.name == CANDIDATES:
            continue
        kind, name = _words(each.name)
        yield Guesser(kind, name, hit_cells(each.over_all), share(each.abstained))


def _words(name: str) -> tuple[str, str]:
    """A guesser's name over two lines; of a first bad score, whose."""
    kind, _, by = name.partition(" · ")
    judge = parsed(by)
    if judge is not None:
        return format.one_line(judge.model), f"{judge.mode} < {short(BAD)}"
    if by:
        return format.one_line(by), f"score < {short(BAD)}"
    first, _, rest = kind.partition(" ")
    return first, rest


def blocks(found: Sequence[Guesser], width: int) -> list[list[Guesser]]:
    """As many guessers side by side as a width holds; ours leads every block."""
    each = max(1, min((width - LABEL) // (CELL + GAP), 7) - 1)
    ours, others = found[0], found[1:]
    return [[ours, *others[at : at + each]] for at in range(0, max(len(others), 1), each)]


def _block(found: Sequence[Guesser]) -> Iterator[Line]:
    yield _row("", [each.kind for each in found], "quiet")
    if any(each.name for each in found):
        yield _row("", [each.name for each in found], "quiet")
    for at, label in enumerate(LABELS):
        yield _row(label, [each.cells[at] for each in found])
    yield _row("abstained", [each.abstained or format.UNKNOWN for each in found])


def _row(label: str, cells: Sequence[str], style: str = "") -> Line:
    """Ours is the first of the cells, and strong."""
    gap = " " * GAP
    words = [(f"{gap}{fit(cell, CELL)}", style or ("" if place else "strong"))
             for place, cell in enumerate(cells)]  # fmt: skip
    return ((f"{label:<{LABEL}}", "quiet"), *words)


# --- as sure as right?


def reliability(what: str, found: Reliability) -> Iterator[Line]:
    """A line a bin of stated confidence: where it was, and where the truth lies."""
    yield title(f"confidence of a {what}: stated and actual")
    if not found.bins:
        silent = format.count(found.silent, what)
        yield ((f"{silent} without a confidence: nothing to compare", "quiet"),)
        return
    head = f"{'said':<6}0{'.5':^{TRACK - 2}}1  {'was right':<21}"
    yield ((head, "quiet"),)
    for each in found.bins:
        yield from _bin(each)
    silent = f" · {found.silent} unstated" if found.silent else ""
    yield (
        (f"◇ stated  ● was right  ─ its interval · off by {short(found.error)}{silent}", "quiet"),
    )


def _bin(each: Bin) -> Iterator[Line]:
    verdict, style = _verdict(each)
    yield (
        (f"{short(each.stated):<6}", "strong"),
        (track(each), ""),
        (f"  {counted(each.right):<21}", ""),
        (f"  {verdict}", style),
    )


def _verdict(each: Bin) -> tuple[str, str]:
    if each.right.high - each.right.low > VAGUE:
        return "inconclusive", "quiet"
    if each.honest:
        return "holds", "good"
    return ("overconfident", "bad") if each.stated > each.right.high else ("underconfident", "warn")


def track(each: Bin) -> str:
    """What was stated and what was right on one axis from 0 to 1."""
    cells = ["·"] * TRACK
    low, high = _at(each.right.low), _at(each.right.high)
    cells[low : high + 1] = "─" * (high + 1 - low)
    stated, right = _at(each.stated), _at(each.right.value or 0.0)
    cells[stated] = "◇"
    cells[right] = "◈" if stated == right else "●"
    return "".join(cells)


def _at(value: float) -> int:
    return round(value * (TRACK - 1))


COLUMNS = (
    Column(title="", style="strong"),
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
    state: CalibrationState, drawn: PartDrawn, width: int, keyed: KeyedWords
) -> list[Line]:
    """The page, or what would make one; then how well people agree, which no rule can beat."""
    lines = _found(drawn, width, keyed)
    for each in raters.tables(state.people):
        lines += [BLANK, *shown(each, width)]
    return lines


def _found(drawn: PartDrawn, width: int, keyed: KeyedWords) -> list[Line]:
    if drawn.part.taken_for is None:
        return folded_table(keyed(MAKE_CLASSES), width)
    first, *others = drawn.part.figures.classes
    matrix = list(_taken_for(drawn.part.taken_for, first.n, width))
    lines = side_by_side(list(_table(first, width)), matrix, width)
    for each in others:
        lines += [BLANK, *_table(each, width)]
    return lines


def _table(found: ClassTable, width: int) -> Iterator[Line]:
    many = format.count(found.n, found.per)
    yield title(f"failure class, per {found.per} · by {found.source} · {many}")
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
        yield from table_lines(COLUMNS, rows, room)
        labelled, all_ = found.macro_labelled, found.macro_all
        macro = f"n: labels; macro-F1 {short(labelled.value)} over the {labelled.classes} labelled"
        if all_.classes != labelled.classes:
            macro += f", {short(all_.value)} over the {all_.classes} labelled or found"
        yield from folded_table(macro, room)
    silent = [each.name for each in found.rows if not each.f1.n]
    if silent:
        yield from folded_table(f"neither labelled nor found: {', '.join(silent)}", room)


def _taken_for(found: Confusion, runs: int, width: int) -> Iterator[Line]:
    room = min(width, 78)
    yield title("labels (down) and findings of the rules (across)")
    yield from matrix(found)
    many = format.count(runs, "run")
    yield from folded_table(
        f"{many}; one with several classes counts in several cells. [ ] both the same; "
        f"{NOTHING}: no class left on that side.",
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
        styles = [_cell_style(row, at, count) for at, count in enumerate(found.counts[row])]
        lines.append((
            (f"{name:<{label}}", "strong"),
            *((f"  {cell:>{wide[at]}}", styles[at]) for at, cell in enumerate(cells[row])),
        ))  # fmt: skip
    return lines


def _spread(words: Sequence[str], wide: Sequence[int]) -> str:
    return "".join(f"  {word:>{cells}}" for word, cells in zip(words, wide, strict=True))


def _cell(row: int, column: int, count: int) -> str:
    if row == column:
        return f"[{count}]"
    return f"{count} " if count else "· "


def _cell_style(row: int, column: int, count: int) -> str:
    if not count:
        return "faint"
    return "good" if row == column else ""


NOTES_LABEL = 16
SHARE = 10

READ = 100
"""Cells of a line that is still easy to read."""


def notes_page(state: CalibrationState, width: int, keyed: KeyedWords) -> list[Line]:
    """Labels that did not count, the noise where it was counted, then the meanings."""
    room = min(width, READ)
    lines = unusable_lines(state, room)
    lines += noise_lines(state.noise) if state.noise else []
    lines += [title("what the figures mean, and their limits")]
    for figure, words in meanings():
        lines += folded_table(keyed(words), room, "", figure, NOTES_LABEL)
    return lines


def noise_lines(cells: Sequence[Cell]) -> Iterator[Line]:
    """A table a rule: noise down, length across, the share of shapes told rightly."""
    for rule, own in groupby(cells, key=lambda cell: cell.rule):
        found = list(own)
        lengths = tuple(dict.fromkeys(cell.steps for cell in found))
        at = {(cell.sigma, cell.steps): cell.right for cell in found}
        yield title(f"shape by the {rule} rule: share classified correctly")
        head = "".join(f"{f'{steps} steps':>{SHARE}}" for steps in lengths)
        yield ((f"{'noise σ':<{SHARE}}{head}", "quiet"),)
        for sigma in dict.fromkeys(cell.sigma for cell in found):
            shares = (short(at[sigma, steps].value) for steps in lengths)
            yield (
                (f"{short(sigma):<{SHARE}}", "strong"),
                ("".join(f"{cell:>{SHARE}}" for cell in shares), ""),
            )
        yield BLANK
    runs = {cell.right.n for cell in cells}
    wide = max((cell.right.high - cell.right.low) / 2 for cell in cells)
    many = " or ".join(map(str, sorted(runs)))
    note = (
        f"{many} synthetic runs per figure, ± {short(wide)} at most; arc calibrate --noise has all"
    )
    yield ((note, "quiet"),)
    yield BLANK


def missing_page(state: CalibrationState, width: int, keyed: KeyedWords) -> list[Line]:
    """What stands everywhere while no label points at a run."""
    lines = unusable_lines(state, min(width, READ))
    if state.view.read:
        hint = (
            "Try: arc import PATH, to import the runs · ‹calibration.labels› read another label"
            " file"
        )
        return [*lines, *folded_table(keyed(hint), width, "")]
    tag, labels = keyed("‹trace.tag:t› in a run"), keyed("‹calibration.labels›")
    text = NO_LABELS.format(tag=tag, labels=labels) + LABEL_LINES
    return [((line, ""),) for line in text.split("\n")]


def unusable_lines(state: CalibrationState, width: int) -> list[Line]:
    """Each label that did not count and why; none where all did."""
    found = state.view.unusable
    if not found:
        return []
    lines = [title(f"left out · {format.count(len(found), 'label')}")]
    for each in sorted(found, key=lambda each: each.line or 0):
        lines += folded_table(_why(each), width, "", _line(each), NOTES_LABEL)
    return [*lines, BLANK]


def _why(each: Unusable) -> str:
    return format.one_line(" ".join(filter(None, (each.trace, each.why))))


def _line(each: Unusable) -> str:
    return "this database" if each.line is None else f"line {each.line}"
