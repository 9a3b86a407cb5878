"""What the figures mean, as a page: when to distrust which, and what did not count. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from arc_tui import format
from arc_tui.views.calibration.stage import CalibrationStage
from arc_tui.views.calibration.tables import short
from arc_tui.views.calibration.words import LABEL_LINES, NO_LABELS, meanings
from arc_tui.widgets.calibration.ink import BLANK, KeyedWords, Line, folded, title
from taxonomy.calibration.labels import Unusable
from taxonomy.calibration.noise import Cell

LABEL = 16
SHARE = 10

READ = 100
"""Cells of a line that is still easy to read."""


def notes_page(stage: CalibrationStage, width: int, keyed: KeyedWords) -> list[Line]:
    """Labels that did not count, the noise where it was counted, then the meanings."""
    room = min(width, READ)
    lines = unusable_lines(stage, room)
    lines += noise_lines(stage.noise) if stage.noise else []
    lines += [title("what the figures mean, and when to distrust them")]
    for figure, words in meanings():
        lines += folded(keyed(words), room, "", figure, LABEL)
    return lines


def noise_lines(cells: Sequence[Cell]) -> Iterator[Line]:
    """A table a rule: noise down, length across, the share of shapes told rightly."""
    for rule, own in groupby(cells, key=lambda cell: cell.rule):
        found = list(own)
        lengths = tuple(dict.fromkeys(cell.steps for cell in found))
        at = {(cell.sigma, cell.steps): cell.right for cell in found}
        yield title(f"shape by the {rule} rule: how often it is told rightly")
        head = "".join(f"{f'{steps} steps':>{SHARE}}" for steps in lengths)
        yield ((f"{'noise σ':<{SHARE}}{head}", "quiet"),)
        for sigma in dict.fromkeys(cell.sigma for cell in found):
            shares = (short(at[sigma, steps].value) for steps in lengths)
            yield (
                (f"{short(sigma):<{SHARE}}", "strong"),
                ("".join(f"{said:>{SHARE}}" for said in shares), ""),
            )
        yield BLANK
    runs = {cell.right.n for cell in cells}
    wide = max((cell.right.high - cell.right.low) / 2 for cell in cells)
    many = " or ".join(map(str, sorted(runs)))
    said = f"{many} made runs a figure, ± {short(wide)} at most; arc calibrate --noise has all"
    yield ((said, "quiet"),)
    yield BLANK


def missing_page(stage: CalibrationStage, width: int, keyed: KeyedWords) -> list[Line]:
    """What stands everywhere while no label points at a run."""
    lines = unusable_lines(stage, min(width, READ))
    if stage.view.read:
        hint = (
            "arc import PATH brings the runs in; ‹calibration.labels› reads another file of labels"
        )
        return [*lines, *folded(keyed(hint), width, "")]
    tag, labels = keyed("‹trace.tag:t› in a run"), keyed("‹calibration.labels›")
    said = NO_LABELS.format(tag=tag, labels=labels) + LABEL_LINES
    return [((line, ""),) for line in said.split("\n")]


def unusable_lines(stage: CalibrationStage, width: int) -> list[Line]:
    """Each label that did not count and why; none where all did."""
    found = stage.view.unusable
    if not found:
        return []
    lines = [title(f"left out · {format.count(len(found), 'label')}")]
    for each in sorted(found, key=lambda each: each.line or 0):
        lines += folded(_why(each), width, "", _line(each), LABEL)
    return [*lines, BLANK]


def _why(each: Unusable) -> str:
    return format.one_line(" ".join(filter(None, (each.trace, each.why))))


def _line(each: Unusable) -> str:
    return "kept here" if each.line is None else f"line {each.line}"
