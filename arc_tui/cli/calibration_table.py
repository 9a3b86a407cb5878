"""A calibration, a noise table and an audit sample as commands print them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import print_table
from arc_tui.views.calibration.drift import DriftView
from arc_tui.views.calibration.drift_tables import drift_tables, unchecked_line
from arc_tui.views.calibration.noise_tables import noise_tables
from arc_tui.views.calibration.tables import Table
from arc_tui.views.calibration.trust_tables import part_tables
from arc_tui.views.calibration.view import TITLES, AuditView, CalibrationView, Part
from taxonomy.calibration.disagreement import Disagreement
from taxonomy.calibration.labels import Unusable
from taxonomy.calibration.noise import Cell

WORST = 5
"""Disagreements of each kind that are printed, and labels of no use; `--json` has all."""


def print_calibration(out: Console, view: CalibrationView) -> None:
    """What was read, then for each kind of label the tables and the worst disagreements."""
    used = f"{view.placed} of {format.count(view.read, 'label')} point at a run of this database"
    out.print(Text(f"{format.one_line(view.source)}: {used}"), soft_wrap=True)
    _print_unusable(out, view.unusable)
    for each in view.unchecked:
        out.print(Text(format.one_line(unchecked_line(each)), "yellow"), soft_wrap=True)
    for part in view.parts:
        _print_part(out, part)


def _print_unusable(out: Console, unusable: Sequence[Unusable]) -> None:
    for each in unusable[:WORST]:
        line = None if each.line is None else f"line {each.line}:"
        said = " ".join(filter(None, ("left out:", each.file, line, each.trace, each.why)))
        out.print(Text(format.one_line(said), "yellow"), soft_wrap=True)
    _more(out, len(unusable) - WORST)


def _print_part(out: Console, part: Part) -> None:
    figures = part.figures
    counts = f"{format.count(figures.labels, 'label')} on {format.count(figures.runs, 'run')}"
    strengths = ", ".join(f"{count} {name}" for name, count in part.strengths.items())
    said = f"{TITLES[figures.made_by]}: {counts}{f' ({strengths})' if strengths else ''}"
    out.print()
    out.print(Text(format.one_line(said), "bold"), soft_wrap=True)
    if part.prompted:
        out.print(Text(prompted_line(part), "yellow"), soft_wrap=True)
    print_tables(out, part_tables(part))
    _print_worst(out, part.disagreements)


def prompted_line(part: Part) -> str:
    """What tags are worth that were given after the rules' word was seen."""
    return (
        f"{part.prompted} of {format.count(part.placed_here, 'tag')} and runs found clean were"
        " given beside the rules' suggestions, which makes the rules look better than they are;"
        " a blind pass does not"
    )


def print_tables(out: Console, found: Iterable[Table]) -> None:
    """Each under its title, its notes below it."""
    for table in found:
        out.print()
        out.print(Text(table.title, "bold"), soft_wrap=True)
        if table.rows:
            print_table(out, table.columns, [list(row) for row in table.rows])
        for note in table.notes:
            out.print(Text(format.one_line(note), "dim"), soft_wrap=True)


def _print_worst(out: Console, found: Sequence[Disagreement]) -> None:
    for about, own in groupby(found, key=lambda each: each.about):
        each_kind = list(own)
        out.print()
        out.print(Text(f"worst disagreements, {about}: {len(each_kind)}", "bold"))
        print_table(
            out,
            ["id", "step", "labelled", "found", "label by", "note"],
            [_cells(each) for each in each_kind[:WORST]],
        )
        _more(out, len(each_kind) - WORST)


def _cells(each: Disagreement) -> list[Text | str]:
    strength = f" ({each.strength})" if each.strength and each.strength != each.by else ""
    return [
        each.trace[:8],
        format.UNKNOWN if each.step is None else str(each.step),
        format.one_line(each.labelled),
        format.cut(format.one_line(each.found), 60),
        format.one_line(f"{each.by or format.UNKNOWN}{strength}"),
        format.cut(format.one_line(each.note), 60),
    ]


def _more(out: Console, count: int) -> None:
    if count > 0:
        out.print(Text(f"… {format.number(count)} more (--json has all)", "dim"))


def print_noise(out: Console, cells: Sequence[Cell]) -> None:
    """Both rules, by noise and length."""
    print_tables(out, noise_tables(cells))


def print_drift(out: Console, view: DriftView) -> None:
    """The sets and how each stands, then every two of one mode."""
    counted = f"{format.count(len(view.sets), 'set')} of judges' scores"
    said = f"{counted}, and {format.one_line(view.source)}: {format.count(view.labels, 'step')}"
    out.print(Text(f"{said} that people scored or answered items of", "bold"), soft_wrap=True)
    print_tables(out, drift_tables(view))


def print_audit(out: Console, view: AuditView) -> None:
    """The sample, and whether somebody has looked already."""
    counts = f"{len(view.rows)} of {format.count(view.runs, 'run')}"
    said = f"to look at again: {counts} (about {view.share:.0%}, drawn by a digest of the id)"
    out.print(Text(said, "bold"), soft_wrap=True)
    if view.rows:
        rows = [
            [
                row.trace[:8],
                format.one_line(row.task),
                format.one_line(row.trial),
                format.cut(format.one_line(row.title), 60),
                row.outcome,
                format.one_line(", ".join(row.seen_by)) or format.UNKNOWN,
            ]
            for row in view.rows
        ]
        print_table(out, ["id", "task", "trial", "title", "outcome", "said something"], rows)
