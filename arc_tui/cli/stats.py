"""`arc stats`: how good and how reliable are these runs, and what does a success cost?"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from pathlib import Path

import click
from msgspec import structs

from arc_tui import format
from arc_tui.cli.common import (
    console,
    db_option,
    held_out_option,
    json_option,
    open_judged,
    print_json,
    print_table,
)
from arc_tui.cli.stats_table import name_of, print_stats
from arc_tui.views.runs.view import run_rows
from arc_tui.views.stats.view import Ask, StatsView, build_stats
from replay.compare.rules import rules_from
from replay.store import Store
from replay.written import called
from taxonomy import goals as goal_files
from taxonomy.stats import holding, injections

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

COLUMNS = {"variant": "variant", "model": "models", "task": "task", "week": "week"}
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
    help="A row for each variant, model, task or week, or several: `variant,task`.",
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
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Before this day against since.")
@click.option("--hold-out", is_flag=True, help="Hold out a fifth of the tasks from now on.")
@click.option("--release", is_flag=True, help="Hold out nothing any more.")
@held_out_option
@click.option("--held-out", metavar="QUERY", help="The runs of tasks kept out of tuning.")
@click.option("--production", metavar="QUERY", help="Runs whose shapes to compare with.")
@click.option("--goals", "goals_file", type=_FILE, help="A TOML file with goals and their weights.")
@click.option("--injections", "injected", type=_FILE, help="JSON lines: errors put into runs.")
@json_option
@db_option
def stats(
    query: tuple[str, ...],
    by: tuple[str, ...],
    buckets: tuple[float, ...],
    rules: tuple[str, ...],
    since: datetime.datetime | None,
    hold_out: bool,
    release: bool,
    with_held_out: bool,
    held_out: str | None,
    production: str | None,
    goals_file: Path | None,
    injected: Path | None,
    as_json: bool,
    db: Path | None,
) -> int:
    """Pass rates, pass^k, tool-call F1, decay with length, and cost, each with n and interval.

    QUERY means runs as in `arc ls`. What cannot be computed says why.
    """
    if hold_out and release:
        raise click.UsageError("--hold-out begins it, --release ends it: give one")
    ask = Ask(
        query=" ".join(query),
        by=by,
        edges=buckets,
        rules=rules_from(rules),
        held_out=held_out,
        production=production,
        every=with_held_out,
        since=since.date() if since is not None else None,
        injections=injections.read(injected) if injected is not None else (),
        goals=goal_files.read(goals_file) if goals_file is not None else None,
        goals_name=called(goals_file.name) if goals_file is not None else "",
    )
    with open_judged(db) as store:
        if hold_out or release:
            return _hold(store, ask, release=release, as_json=as_json)
        view = build_stats(store, ask)
    if as_json:
        print_json(_plain(view, ask))
    elif view.groups:
        print_stats(console(), view, grouped=bool(ask.by))
    else:
        click.echo(_nothing(view, ask), err=True)
    return 0 if view.groups else 1


def _nothing(view: StatsView, ask: Ask) -> str:
    if view.hidden is not None:
        return "all of these runs are of held-out tasks; --with-held-out counts them"
    return f"no run matches {ask.query!r}" if ask.query else "no runs yet"


def _hold(store: Store, ask: Ask, *, release: bool, as_json: bool) -> int:
    """Choose the tasks to hold out, or hold out none, and say which."""
    if release:
        holding.release(store)
        click.echo("no task is held out any more", err=True)
        return 0
    rows = run_rows(store, ask.query)
    found = holding.hold(store, rows)
    if as_json:
        print_json(found)
        return 0 if found.tasks else 1
    tasks = holding.strata(rows)
    if not found.tasks:
        click.echo(f"{format.count(len(tasks), 'task')}: too few to hold any out", err=True)
        return 1
    held = Counter(found.strata.values())
    of = Counter({**tasks, **found.strata}.values())
    print_table(
        console(),
        ["held-out task", "type and difficulty"],
        [[name_of(task), name_of(stratum)] for task, stratum in found.strata.items()],
    )
    shares = ", ".join(f"{name or 'no label'} {held[name]} of {of[name]}" for name in sorted(of))
    click.echo(
        f"{len(found.tasks)} of {format.count(sum(of.values()), 'task')} held out ({shares});"
        " `arc stats` shows of them the gap alone",
        err=True,
    )
    return 0


def _plain(view: StatsView, ask: Ask) -> object:
    """The figures as they were asked for: of all runs, a list of groups, or with what is beside."""
    groups = [
        ({"group": each.group} if each.group else {})
        | structs.asdict(each.figures)
        | {"latencies": each.latencies}
        for each in view.groups
    ]
    figures: object = groups if ask.by else groups[0] if groups else {}
    if view.hidden is None and view.trend is None:
        return figures
    return {"figures": figures, "held_out_tasks": view.hidden, "trend": view.trend}
