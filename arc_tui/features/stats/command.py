"""`arc stats`: how good and how reliable are these runs, and what does a success cost?

Printed as a table of figures, as a row a group, or as what changed since a day.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource
from msgspec import structs
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    FiniteRange,
    console,
    db_option,
    examples,
    held_out_option,
    json_option,
    open_judged,
    print_json,
    print_line,
    print_table,
    print_view,
)
from arc_tui.features.stats.text import (
    COMPARE,
    HEAD,
    LATENCY_HEAD,
    NOT_INDEPENDENT,
    Line,
    cells,
    cheapest,
    latency_note,
    latency_rows,
    lines,
    shape_table,
    trend_cells,
)
from arc_tui.features.stats.view import (
    CallTimes,
    Group,
    StatsRequest,
    StatsView,
    Trend,
    build_stats,
)
from arc_tui.ui import format
from arc_tui.views.runs import run_rows
from replay.compare.rules import rules_from
from replay.store.handle import Store
from replay.written import called
from taxonomy import goals, held_out
from taxonomy.held_out import hold, strata
from taxonomy.metrics.layers import MARGIN
from taxonomy.stats import recovery

_MARGIN = FiniteRange(min=0, max=1, min_open=True, max_open=True)
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
        raise click.BadParameter(f"{given!r} is not a list of lengths such as 5,10,20")
    return tuple(sorted(set(edges)))


@click.command(
    epilog=examples(
        "arc stats --by variant",
        "arc stats outcome:failed --by task --json",
        "arc stats --layers --before variant=v4 --after variant=v8",
    )
)
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
@click.option(
    "--since", type=click.DateTime(["%Y-%m-%d"]), help="Compare before and since this day."
)
@click.option("--hold-out", is_flag=True, help="Start holding out a fifth of the tasks.")
@click.option("--release", is_flag=True, help="Stop holding out tasks.")
@held_out_option
@click.option("--held-out", metavar="QUERY", help="The runs of tasks excluded from tuning.")
@click.option("--production", metavar="QUERY", help="Production runs to compare shapes with.")
@click.option(
    "--behaviours", is_flag=True, help="How often each behaviour appears, and where it begins."
)
@click.option("--goals", "goals_file", type=_FILE, help="A TOML file with goals and their weights.")
@click.option("--injections", "injected", type=_FILE, help="JSON Lines: errors injected into runs.")
@click.option("--layers", is_flag=True, help="Compare two groups layer by layer, L0 to L3.")
@click.option("--before", metavar="QUERY", help="With --layers: the runs to compare with.")
@click.option("--after", metavar="QUERY", help="With --layers: the runs that are compared.")
@click.option(
    "--asserts",
    type=_FILE,
    help="With --layers: a TOML file of asserts; default: asserts.toml beside the database.",
)
@click.option(
    "--margin",
    type=_MARGIN,
    default=MARGIN,
    show_default=True,
    help="With --layers: a layer held if it fell by less, and is down from here on.",
)
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
    behaviours: bool,
    goals_file: Path | None,
    injected: Path | None,
    layers: bool,
    before: str | None,
    after: str | None,
    asserts: Path | None,
    margin: float,
    as_json: bool,
    db: Path | None,
) -> int:
    """Pass rates, pass^k, tool-call F1, decay with length, and cost, each with n and interval.

    QUERY means runs as in `arc ls`. What cannot be computed says why. --layers compares two groups
    at every layer of the eval pyramid, the two newest variants, prompts or models unless named.
    """
    if layers:
        from arc_tui.features.stats.printed import print_layers
        from arc_tui.views.layers import LayersRequest, build_layers

        _only_layers()
        if (before is None) != (after is None):
            raise click.UsageError("--before and --after belong together")
        asked = LayersRequest(
            before=before,
            after=after,
            query=" ".join(query),
            margin=margin,
            asserts=asserts,
            with_held_out=with_held_out,
        )
        with open_judged(db) as store:
            print_view(build_layers(store, asked), as_json, print_layers)
        return 0
    if before is not None or after is not None or asserts is not None:
        raise click.UsageError("--before, --after and --asserts need --layers")
    if hold_out and release:
        raise click.UsageError("--hold-out and --release cannot be combined")
    if behaviours:
        others = (buckets, rules, since, hold_out, release, held_out, production, goals_file)
        if any(others) or injected is not None:
            raise click.UsageError("--behaviours goes with QUERY, --by and --include-held-out only")
        return _print_behaviours(" ".join(query), by, every=with_held_out, as_json=as_json, db=db)
    request = StatsRequest(
        query=" ".join(query),
        by=by,
        edges=buckets,
        rules=rules_from(rules),
        held_out=held_out,
        production=production,
        every=with_held_out,
        since=since.date() if since is not None else None,
        injections=recovery.read(injected) if injected is not None else (),
        goals=goals.read(goals_file) if goals_file is not None else None,
        goals_name=called(goals_file.name) if goals_file is not None else "",
    )
    with open_judged(db) as store:
        if hold_out or release:
            return _hold(store, request, release=release, as_json=as_json)
        view = build_stats(store, request)
    if as_json:
        print_json(_plain(view, request))
    elif view.groups:
        print_stats(console(), view, grouped=bool(request.by))
    else:
        click.echo(_nothing(view, request), err=True)
    return 0 if view.groups else 1


_LAYER_OPTIONS = {"query", "layers", "before", "after", "asserts", "margin", "with_held_out",
                  "as_json", "db"}  # fmt: skip


def _only_layers() -> None:
    """Refuses options that are of the other figures."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if given and option.name not in _LAYER_OPTIONS:
            raise click.UsageError(f"--layers and {option.opts[0]} cannot be combined")


def _print_behaviours(
    query: str, by: Sequence[str], *, every: bool, as_json: bool, db: Path | None
) -> int:
    """A row a behaviour. Exit code 1: no run names one."""
    from arc_tui.features.stats.behaviours import build_behaviours, nothing
    from arc_tui.features.stats.printed import print_behaviours

    with open_judged(db) as store:
        view = build_behaviours(store, query, by, every=every)
    if as_json or view.behaviours:
        print_view(view, as_json, print_behaviours)
    else:
        click.echo(nothing(view), err=True)
    return 0 if view.behaviours else 1


def _nothing(view: StatsView, request: StatsRequest) -> str:
    if view.hidden is not None:
        return "all of these runs are of held-out tasks; --include-held-out counts them"
    return f"no run matches {request.query!r}" if request.query else "no runs yet"


def _hold(store: Store, request: StatsRequest, *, release: bool, as_json: bool) -> int:
    """Choose the tasks to hold out, or hold out none, and say which."""
    if release:
        held_out.release(store)
        click.echo("no task is held out any more", err=True)
        return 0
    rows = run_rows(store, request.query)
    found = hold(store, rows)
    if as_json:
        print_json(found)
        return 0 if found.tasks else 1
    tasks = strata(rows)
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
        " `arc stats` shows only their gap",
        err=True,
    )
    return 0


def _plain(view: StatsView, request: StatsRequest) -> object:
    """The figures as they were asked for: of all runs, a list of groups, or with what is beside."""
    groups = [
        ({"group": each.group} if each.group else {})
        | structs.asdict(each.figures)
        | {"latencies": each.latencies}
        for each in view.groups
    ]
    figures: object = groups if request.by else groups[0] if groups else {}
    if view.hidden is None and view.trend is None:
        return figures
    return {"figures": figures, "held_out_tasks": view.hidden, "trend": view.trend}


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
        held_out = (
            f"{format.count(given.tasks, 'held-out task')} ({format.count(given.runs, 'run')})"
        )
        counting = (
            "counted like all others"
            if given.shown
            else "hidden except for the gap (--include-held-out shows them)"
        )
        print_line(out, f"{held_out} {counting}; held out since {given.since}", "yellow")


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
    print_line(
        out,
        f"{format.count(trend.before_runs, 'run')} before, {trend.since_runs} since"
        f"{undated if trend.undated else ''}; p: Fisher's exact test,"
        f" Holm-corrected over {format.count(len(trend.changes), 'change')}\n{NOT_INDEPENDENT}",
        "dim",
    )


def _print_figures(out: Console, group: Group) -> None:
    table: list[list[Text | str]] = []
    last = ""
    for line in lines(group.figures):
        table.append([line.of if line.of != last else "", *_cells(line)])
        last = line.of
    print_table(out, ["", "figure", "value", "95 %", "n", ""], table)
    print_line(out, NOT_INDEPENDENT, "dim")
    _print_latencies(out, group.latencies)


def _print_latencies(out: Console, found: Sequence[CallTimes]) -> None:
    rows = latency_rows(found)
    if rows:
        out.print()
        print_table(out, LATENCY_HEAD, rows)
    print_line(out, latency_note(found), "dim")


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
    print_line(out, f"{NOT_INDEPENDENT}\n{COMPARE}", "dim")
    warnings = {each.figures.decay_warning for each in groups} - {None}
    for warning in sorted(map(str, warnings)):
        print_line(out, f"GDS and MOP: {warning}", "yellow")


def name_of(value: str | None) -> str:
    """A task, a variant or a label in a cell."""
    return format.cut(format.one_line(value), 32) or format.UNKNOWN
