"""The queue, the agreement of people and the runs found right, as `arc tags` prints them."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.text import Text

from arc_tui import format
from arc_tui.cli.calibration_table import print_tables
from arc_tui.cli.common import console, print_json, print_table
from arc_tui.views.calibration.raters import RatersView, head, tables
from arc_tui.views.runs.queue import nothing_waits
from taxonomy.ledger import Clearance
from taxonomy.queue import Queue, Waiting


def print_queue(found: Queue, as_json: bool) -> int:
    """What waits, and how much of it; 1 where nothing does."""
    if as_json:
        print_json(found)
        return 0 if found.waiting else 1
    if not found.waiting:
        click.echo(nothing_waits(found), err=True)
        return 1
    counts = " · ".join(f"{kind.reason} {kind.waiting} of {kind.of}" for kind in found.kinds)
    left = f"{format.count(len(found.waiting), 'run')} left for {format.one_line(found.by)}"
    if found.held_out:
        hidden = format.count(found.held_out, "run")
        click.echo(f"{hidden} of held-out tasks left out", err=True)
    out = console()
    out.print(Text.assemble((left, "bold"), f": {counts}"), soft_wrap=True)
    names = ["id", "task", "trial", "outcome", "step", "reason", "title"]
    print_table(out, names, [_cells(each) for each in found.waiting])
    return 0


def print_agreement(view: RatersView, as_json: bool) -> int:
    """Two by two, then where they part; 1 where no two people have a word on one run."""
    if as_json:
        print_json(view)
    else:
        out = console()
        out.print(Text(head(view), "bold"), soft_wrap=True)
        print_tables(out, tables(view))
    return 0 if view.pairs else 1


def print_cleared(found: Sequence[Clearance], as_json: bool) -> int:
    """The runs that people saw nothing wrong in; 1 where there is none."""
    if as_json:
        print_json(found)
    elif found:
        rows: list[list[Text | str]] = [
            [
                each.trace[:8],
                format.one_line(each.by),
                "blind" if each.blind else "",
                format.one_line(each.note),
            ]
            for each in found
        ]
        print_table(console(), ["id", "by", "", "note"], rows)
    else:
        click.echo("nobody said of a run that nothing is wrong with it", err=True)
    return 0 if found else 1


def _cells(each: Waiting) -> list[Text | str]:
    return [
        each.trace[:8],
        format.cut(format.one_line(each.task), 28),
        format.one_line(each.trial),
        each.outcome,
        str(each.step),
        each.reason,
        format.cut(format.one_line(each.title), 60),
    ]
