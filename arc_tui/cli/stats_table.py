"""`arc stats` as text: a table of figures, a row a group, or what moved since a day."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import print_table
from arc_tui.views.stats.cells import (
    COMPARE,
    HEAD,
    NOT_INDEPENDENT,
    cells,
    cheapest,
    shape_table,
    trend_cells,
)
from arc_tui.views.stats.latency import HEAD as HEAD_OF_LATENCIES
from arc_tui.views.stats.latency import CallTimes, latency_note, latency_rows
from arc_tui.views.stats.line import Line
from arc_tui.views.stats.lines import lines
from arc_tui.views.stats.view import Group, StatsView, Trend


def print_stats(out: Console, view: StatsView, *, grouped: bool) -> None:
    """What was asked for, and last how many tasks are held out of it."""
    if view.trend is not None:
        _print_trend(out, view.trend)
    elif grouped:
        _print_groups(out, view.groups)
    else:
        _print_figures(out, view.groups[0])
    if view.hidden is not None:
        given = view.hidden
        said = f"{format.count(given.tasks, 'held-out task')} ({format.count(given.runs, 'run')})"
        told = (
            "counted like all others"
            if given.shown
            else "hidden but for the gap (--with-held-out shows)"
        )
        out.print(Text(f"{said} {told}; held out since {given.since}", "yellow"), soft_wrap=True)


def _print_trend(out: Console, trend: Trend) -> None:
    """What moved between before a day and since."""
    head = [
        "",
        "before",
        "95 %",
        "n",
        f"since {trend.since}",
        "95 %",
        "n",
        "difference",
        "95 %",
        "p",
        "",
    ]
    print_table(out, head, [trend_cells(each) for each in trend.changes])
    undated = f", {format.count(trend.undated, 'run')} of unknown start left out"
    out.print(
        Text(
            f"{format.count(trend.before_runs, 'run')} before, {trend.since_runs} since"
            f"{undated if trend.undated else ''}; p by Fisher, read for these"
            f" {len(trend.changes)} together (Holm)\n{NOT_INDEPENDENT}",
            "dim",
        ),
        soft_wrap=True,
    )


def _print_figures(out: Console, group: Group) -> None:
    table: list[list[Text | str]] = []
    last = ""
    for line in lines(group.figures):
        table.append([line.of if line.of != last else "", *_cells(line)])
        last = line.of
    print_table(out, ["", "figure", "value", "95 %", "n", ""], table)
    out.print(Text(NOT_INDEPENDENT, "dim"), soft_wrap=True)
    _print_latencies(out, group.latencies)


def _print_latencies(out: Console, found: Sequence[CallTimes]) -> None:
    rows = latency_rows(found)
    if rows:
        out.print()
        print_table(out, HEAD_OF_LATENCIES, rows)
    out.print(Text(latency_note(found), "dim"), soft_wrap=True)


def _cells(line: Line) -> list[Text | str]:
    return [line.name, line.value, line.interval, line.n, Text(line.note, "dim")]


def _print_groups(out: Console, groups: tuple[Group, ...]) -> None:
    best = cheapest(groups)
    names = list(groups[0].group)
    table: list[list[Text | str]] = [
        [*(name_of(each.group[name]) for name in names), *cells(each, best)] for each in groups
    ]
    print_table(out, [*names, *HEAD], table)
    shapes = shape_table(groups)
    if names == ["week"] and len(shapes) > 1:
        out.print()
        print_table(out, shapes[0], shapes[1:])
    out.print(Text(f"{NOT_INDEPENDENT}\n{COMPARE}", "dim"), soft_wrap=True)
    warnings = {each.figures.decay_warning for each in groups} - {None}
    for warning in sorted(map(str, warnings)):
        out.print(Text(f"GDS and MOP: {warning}", "yellow"), soft_wrap=True)


def name_of(value: str | None) -> str:
    """A task, a variant or a label in a cell."""
    return format.cut(format.one_line(value), 32) or format.UNKNOWN
