"""`arc pareto`: how often each class of failure happens, whose it is, and whether it gets rarer."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple, cast

import click
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import (
    console,
    db_option,
    held_out_option,
    json_option,
    open_judged,
    print_json,
    say_apart,
)
from arc_tui.cli.pareto_table import print_agreement, print_before_after, print_runs, print_trend
from arc_tui.config import read_owners
from arc_tui.views.failures.view import NOT_AGENTS, Asked, agreements, build_failures, rows_named
from arc_tui.views.failures.words import owner
from arc_tui.views.runs.view import chosen
from replay.store import Store
from taxonomy.pareto import BYS, UNTAGGED, Bar, By, Pareto
from taxonomy.pareto import pareto as count_failures
from taxonomy.query.filter import Filter
from taxonomy.stats.holding import apart
from taxonomy.trend import before_after, trend

BAR = 40
"""Cells of the longest bar."""


@click.command()
@click.argument("query", nargs=-1)
@click.option("--by", type=click.Choice(BYS), help="Split by; `week` is a table.")
@click.option("--every", is_flag=True, help="Count each class a run shows, not the first.")
@click.option(
    "--runs",
    metavar="CLASS",
    help="The runs behind a bar: a class, its letter, a label, or `untagged`.",
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Each class before that day (UTC) and since, and whether it changed.",
)
@click.option("--agreement", is_flag=True, help="Where person, judge and rule name the same class.")
@held_out_option
@json_option
@db_option
def pareto(
    query: tuple[str, ...],
    by: str | None,
    every: bool,
    runs: str | None,
    since: datetime | None,
    agreement: bool,
    with_held_out: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """How many failed runs show each class, and whose it is. ▒ is suggested, █ tagged by a person.

    Of the runs that QUERY means, as in `arc ls`. Owners stand under [owners] in config.toml (a
    class, `other / …` or `fault:harness` = a name), and at the goals of a task.
    """
    asked = Asked(
        by=cast("By | None", by),
        every=every,
        with_held_out=with_held_out,
        query=" ".join(query),
    )
    _one_question(asked, runs, since, agreement)
    with open_judged(db) as store:
        held = apart(store, shown=with_held_out)
        say_apart(held)
        of = _Of(without=held.hidden, chosen=chosen(store, asked.query))
        if since is not None:
            return _since(store, since, of, as_json)
        if agreement:
            return _agreement(store, of, as_json)
        if runs is not None:
            return _runs(store, asked, runs, as_json)
        if by == "week":
            return _weeks(store, of, as_json)
        return _bars(store, asked, of, as_json)


class _Of(NamedTuple):
    """The runs that are counted."""

    without: frozenset[str]
    chosen: Filter


def _one_question(asked: Asked, runs: str | None, since: datetime | None, agreement: bool) -> None:
    """Refuses options that ask for two different tables."""
    alone = {"--since": since is not None, "--agreement": agreement}
    beside = {"--runs": runs is not None, "--by": asked.by is not None, "--every": asked.every}
    given = [name for name, there in (alone | beside).items() if there]
    if any(alone.values()) and len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} ask for two tables; one at a time")
    if asked.by == "week" and asked.every and runs is None:
        raise click.UsageError("--by week counts each run once; leave --every out")


def _bars(store: Store, asked: Asked, of: _Of, as_json: bool) -> int:
    counted = count_failures(
        store,
        by=asked.by,
        every=asked.every,
        owners=read_owners(),
        without=of.without,
        chosen=of.chosen,
    )
    if as_json:
        print_json(counted)
    else:
        for line in pareto_lines(counted, BAR):
            console().print(line, soft_wrap=True)
    return 0 if counted.failed else 1


def pareto_lines(counted: Pareto, width: int) -> list[Text]:
    """The Pareto as lines of text, bars at most `width` wide, owners after them."""
    most = max([bar.count for bar in counted.all_bars] + [counted.untagged, 1])
    label = max([len(format.one_line(bar.label)) for bar in counted.all_bars] + [len(UNTAGGED)])
    end = width + 1 + len(str(most))
    lines = [_bar_line(bar, most, width, label, end) for bar in counted.bars]
    if counted.apart:
        lines.append(Text(NOT_AGENTS, "dim"))
        lines += [_bar_line(bar, most, width, label, end) for bar in counted.apart]
    rest = "░" * len(format.bar(counted.untagged / most, width))
    lines.append(Text(f"{UNTAGGED:<{label}}  ").append(rest, "dim").append(f" {counted.untagged}"))
    unknown = f", {counted.unknown} of unknown outcome left out" if counted.unknown else ""
    lines.append(Text(f"{format.count(counted.failed, 'failed run')}{unknown}", "dim"))
    return lines


def _bar_line(bar: Bar, most: int, width: int, label: int, end: int) -> Text:
    whole = len(format.bar(bar.count / most, width))
    tagged = min(len(format.bar(bar.tagged / most, width)), whole)
    drawn = f"{'█' * tagged}{'▒' * (whole - tagged)} {bar.count}"
    return Text(f"{format.one_line(bar.label):<{label}}  {drawn:<{end}}  {owner(bar)}".rstrip())


def _runs(store: Store, asked: Asked, name: str, as_json: bool) -> int:
    view = build_failures(store, asked, read_owners())
    rows = rows_named(view, name)
    if as_json:
        print_json([run for row in rows for run in row.runs])
    elif rows:
        print_runs(console(), view, rows)
    else:
        click.echo(f"no failed run shows {name!r}", err=True)
    return 0 if rows else 1


def _weeks(store: Store, of: _Of, as_json: bool) -> int:
    found = trend(store, without=of.without, chosen=of.chosen)
    if as_json:
        print_json(found)
    else:
        print_trend(console(), found)
    return 0 if found.classes else 1


def _since(store: Store, since: datetime, of: _Of, as_json: bool) -> int:
    found = before_after(store, since.date(), without=of.without, chosen=of.chosen)
    if as_json:
        print_json(found)
    else:
        print_before_after(console(), found)
    return 0 if found.before and found.after else 1


def _agreement(store: Store, of: _Of, as_json: bool) -> int:
    found = agreements(store, of.without, of.chosen)
    if as_json:
        print_json(found)
    else:
        print_agreement(console(), found)
    return 0 if any(pair.same.n for pair in found) else 1
