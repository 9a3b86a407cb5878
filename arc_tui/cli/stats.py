"""`arc stats`: how good and how reliable are these runs, and what does a success cost?"""

from __future__ import annotations

import math
from pathlib import Path

import click
from msgspec import structs
from rich.console import Console
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import console, db_option, json_option, open_store, print_json, print_table
from arc_tui.views.stats import (
    COMPARE,
    HEAD,
    NOT_INDEPENDENT,
    Ask,
    Group,
    build_stats,
    cells,
    cheapest,
)
from arc_tui.views.stats_lines import Line, lines
from replay.compare.rules import rules_from

COLUMNS = {"variant": "variant", "model": "models", "task": "task"}
"""What `--by` may name, and the column of a run it is."""


def _columns(_: click.Context, __: click.Parameter, given: str | None) -> tuple[str, ...]:
    words = [word.strip() for word in (given or "").split(",") if word.strip()]
    unknown = [word for word in words if word not in COLUMNS]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(COLUMNS)}")
    return tuple(COLUMNS[word] for word in dict.fromkeys(words))


def _edges(_: click.Context, __: click.Parameter, given: str | None) -> tuple[float, ...]:
    try:
        edges = tuple(float(word) for word in (given or "").split(",") if word.strip())
    except ValueError:
        edges = (math.nan,)
    if not all(map(math.isfinite, edges)):
        raise click.BadParameter(f"{given!r} is no list of lengths such as 5,10,20")
    return tuple(sorted(set(edges)))


@click.command()
@click.argument("query", nargs=-1)
@click.option(
    "--by",
    callback=_columns,
    metavar="COLUMNS",
    help="A row for each variant, model or task, or several: `variant,task`.",
)
@click.option(
    "--buckets",
    callback=_edges,
    metavar="LENGTHS",
    help="Upper bounds of the task lengths, `5,10,20`; else quartiles.",
)
@click.option(
    "--compare",
    "rules",
    multiple=True,
    metavar="PATH=RULE",
    help="How an argument is compared with gold: `*.**=casefold`; repeatable.",
)
@click.option("--held-out", metavar="QUERY", help="The runs of tasks kept out of tuning.")
@click.option("--production", metavar="QUERY", help="Runs whose shapes to compare with.")
@json_option
@db_option
def stats(
    query: tuple[str, ...],
    by: tuple[str, ...],
    buckets: tuple[float, ...],
    rules: tuple[str, ...],
    held_out: str | None,
    production: str | None,
    as_json: bool,
    db: Path | None,
) -> int:
    """Pass rates, pass^k, tool-call F1, decay with length, and cost, each with n and interval.

    Words of QUERY choose runs as in `arc ls`. What cannot be computed says why.
    """
    ask = Ask(
        query=" ".join(query),
        by=by,
        edges=buckets,
        rules=rules_from(rules),
        held_out=held_out,
        production=production,
    )
    with open_store(db) as store:
        groups = build_stats(store, ask)
    if as_json:
        print_json(_plain(groups) if by else _plain(groups)[0] if groups else {})
    elif not groups:
        words = ask.query
        click.echo(f"no run matches {words!r}" if words else "no runs yet", err=True)
    elif by:
        _print_groups(console(), groups)
    else:
        _print_figures(console(), groups[0])
    return 0 if groups else 1


def _plain(groups: tuple[Group, ...]) -> list[dict[str, object]]:
    """The figures of each group, its columns beside them where there are groups."""
    return [
        ({"group": each.group} if each.group else {}) | structs.asdict(each.figures)
        for each in groups
    ]


def _print_figures(out: Console, group: Group) -> None:
    table: list[list[Text | str]] = []
    last = ""
    for line in lines(group.figures):
        table.append([line.of if line.of != last else "", *_cells(line)])
        last = line.of
    print_table(out, ["", "figure", "value", "95 %", "n", ""], table)
    out.print(Text(NOT_INDEPENDENT, "dim"), soft_wrap=True)


def _cells(line: Line) -> list[Text | str]:
    return [line.name, line.value, line.interval, line.n, Text(line.note, "dim")]


def _print_groups(out: Console, groups: tuple[Group, ...]) -> None:
    best = cheapest(groups)
    names = list(groups[0].group)
    table: list[list[Text | str]] = [
        [*(_name(each.group[name]) for name in names), *cells(each, best)] for each in groups
    ]
    print_table(out, [*names, *HEAD], table)
    out.print(Text(f"{NOT_INDEPENDENT}\n{COMPARE}", "dim"), soft_wrap=True)
    warnings = {each.figures.decay_warning for each in groups} - {None}
    for warning in sorted(map(str, warnings)):
        out.print(Text(f"GDS and MOP: {warning}", "yellow"), soft_wrap=True)


def _name(value: str | None) -> str:
    return format.cut(format.one_line(value), 32) or format.UNKNOWN
