"""`arc failures`: how often each class of failure happens, whose it is, and whether it gets rarer.

Other tables on request: runs behind a bar, weeks, before and after, who agrees with whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, cast

import click
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    examples,
    held_out_option,
    json_option,
    open_judged,
    print_held_out,
    print_json,
    print_line,
    print_table,
    print_view,
)
from arc_tui.config import find_playbook, read_owners
from arc_tui.ui import format
from arc_tui.ui.tables import counted, short
from arc_tui.views.failures import (
    NOT_HERE,
    WHO,
    BarRow,
    FailuresRequest,
    FailuresView,
    Labelled,
    agreement,
    agreements,
    build_failures,
    card,
    is_here,
    owner,
    pull_hint,
    rows_named,
    source_line,
    source_name,
)
from arc_tui.views.runs import NOT_AGENTS, bar_cells, chosen
from replay.store.handle import Store
from taxonomy.calibration.sources_agree import Differ, SourcesAgree
from taxonomy.failures import BYS, UNTAGGED, Bar, By, Pareto, RunBehind
from taxonomy.failures import pareto as count_failures
from taxonomy.judgements.scans import Scan
from taxonomy.metrics.change import Change
from taxonomy.playbook import Playbook, read_playbook
from taxonomy.query.filter import Filter
from taxonomy.query.listing import held_out_note
from taxonomy.stats.trend import BeforeAfter, Trend, Week, before_after, trend

BAR = 40
"""Cells of the longest bar."""


@click.command(epilog=examples("arc failures --by variant", "arc failures --runs loop"))
@click.argument("query", nargs=-1)
@click.option("--by", type=click.Choice(BYS), help="Split by; `week` is a table.")
@click.option("--every", is_flag=True, help="Count every class of a run, not only the first.")
@click.option(
    "--runs",
    metavar="CLASS",
    help="The runs behind a bar: a class, its letter, a label, or `untagged`.",
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Compare each class before and since that day (UTC).",
)
@click.option("--agreement", is_flag=True, help="Show how far person, judge and rule agree.")
@click.option(
    "--playbook",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Owner, rollback, guard of classes; default: playbook.toml here or beside config.toml.",
)
@click.option("--fleet", metavar="NAME", help="Of the runs that a scan of this trace store found.")
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
    playbook: Path | None,
    fleet: str | None,
    with_held_out: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """How many failed runs show each class, and whose it is. ▒ is suggested, █ tagged by a person.

    Of the runs that QUERY means, as in `arc ls`. Owners stand under [owners] in config.toml (a
    class, `other / …` or `attribution:environment` = a name), and at the goals of a task.
    """
    request = FailuresRequest(
        by=cast("By | None", by),
        every=every,
        with_held_out=with_held_out,
        query=" ".join(query),
        fleet=fleet,
    )
    if fleet is not None and (query or since is not None or agreement):
        raise click.UsageError(
            "--fleet counts the runs of a scan by what rules said there: leave QUERY, --since and"
            " --agreement out; arc fleet scan takes a QUERY"
        )
    _one_question(request, runs, since, agreement, playbook)
    written = find_playbook() if playbook is None else read_playbook(playbook)
    with open_judged(db) as store:
        held = held_out_note(store, shown=with_held_out)
        print_held_out(held)
        if fleet is not None and runs is None:
            return _scan_bars(store, request, written, as_json)
        of = _CountedRuns(without=held.hidden, chosen=chosen(store, request.query))
        if since is not None:
            return _since(store, since, of, as_json)
        if agreement:
            return _agreement(store, of, as_json)
        if runs is not None:
            return _runs(store, request, runs, written, as_json)
        if by == "week":
            return _weeks(store, of, as_json)
        return _bars(store, request, of, written, as_json)


class _CountedRuns(NamedTuple):
    """The runs that are counted."""

    without: frozenset[str]
    chosen: Filter


def _one_question(
    request: FailuresRequest,
    runs: str | None,
    since: datetime | None,
    agreement: bool,
    playbook: Path | None,
) -> None:
    """Refuses options that ask for two different tables."""
    alone = {"--since": since is not None, "--agreement": agreement}
    narrowing = {
        "--runs": runs is not None,
        "--by": request.by is not None,
        "--every": request.every,
    }
    given = [name for name, there in (alone | narrowing).items() if there]
    if any(alone.values()) and len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} cannot be combined")
    if playbook is not None and (any(alone.values()) or (request.by == "week" and runs is None)):
        raise click.UsageError("--playbook is shown with the bars: leave the other table out")
    if request.by == "week" and request.every and runs is None:
        raise click.UsageError("--by week counts each run once: leave --every out")


def _bars(
    store: Store, request: FailuresRequest, of: _CountedRuns, playbook: Playbook, as_json: bool
) -> int:
    counted = count_failures(
        store,
        by=request.by,
        every=request.every,
        owners=read_owners(playbook=playbook),
        playbook=playbook,
        without=of.without,
        chosen=of.chosen,
    )
    print_view(counted, as_json, _print_bars)
    return 0 if counted.failed else 1


class ScanFailures(Struct, frozen=True, kw_only=True):
    """What rules said of the runs that a scan found."""

    scan: Scan
    pareto: Pareto


def _scan_bars(store: Store, request: FailuresRequest, playbook: Playbook, as_json: bool) -> int:
    view = build_failures(store, request, read_owners(playbook=playbook), playbook)
    assert view.scan is not None
    if as_json:
        print_json(ScanFailures(scan=view.scan, pareto=view.pareto))
    else:
        print_line(console(err=True), source_line(view.scan))
        _print_bars(console(), view.pareto)
    return 0 if view.pareto.failed else 1


def _print_bars(out: Console, counted: Pareto) -> None:
    for line in pareto_lines(counted, BAR):
        out.print(line, soft_wrap=True)
    if counted.without_playbook is not None:
        _print_playbook(out, counted)


def _print_playbook(out: Console, counted: Pareto) -> None:
    """What the playbook has for each bar, then the failures it has nothing for."""
    written = {
        format.one_line(bar.label): (bar.rollback, bar.guard)
        for bar in counted.all_bars
        if bar.rollback or bar.guard
    }
    if written:
        out.print()
        cells = [
            [label, *(format.one_line(each) or format.UNKNOWN for each in texts)]
            for label, texts in written.items()
        ]
        print_table(out, ["playbook", "rollback", "guard"], cells)
    if counted.without_playbook:
        names = ", ".join(map(format.one_line, counted.without_playbook))
        print_line(out, f"no rollback or guard in the playbook: {names}", "yellow")


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
    tagged, suggested = bar_cells(bar.tagged, bar.count, most, width)
    drawn = f"{'█' * tagged}{'▒' * suggested} {bar.count}"
    return Text(f"{format.one_line(bar.label):<{label}}  {drawn:<{end}}  {owner(bar)}".rstrip())


def _runs(
    store: Store, request: FailuresRequest, name: str, playbook: Playbook, as_json: bool
) -> int:
    view = build_failures(store, request, read_owners(playbook=playbook), playbook)
    rows = rows_named(view, name)
    if as_json:
        print_json([run for row in rows for run in row.runs])
    elif rows:
        print_runs(console(), view, rows)
    else:
        click.echo(f"no failed run shows {name!r}", err=True)
    return 0 if rows else 1


def _weeks(store: Store, of: _CountedRuns, as_json: bool) -> int:
    found = trend(store, without=of.without, chosen=of.chosen)
    print_view(found, as_json, print_trend)
    return 0 if found.classes else 1


def _since(store: Store, since: datetime, of: _CountedRuns, as_json: bool) -> int:
    found = before_after(store, since.date(), without=of.without, chosen=of.chosen)
    print_view(found, as_json, print_before_after)
    return 0 if found.before and found.after else 1


def _agreement(store: Store, of: _CountedRuns, as_json: bool) -> int:
    found = agreements(store, of.without, of.chosen)
    print_view(found, as_json, print_agreement)
    return 0 if any(pair.same.n for pair in found) else 1


LABEL = 16

SHOWN = 5
"""Runs named for one pair of classes; `--json` names all of them."""

WEEKS = "failed: share of each week's runs; class: share of the failed runs"
OF_ALL = (
    "shares of all runs with a known outcome, 95 % Wilson intervals; p by Fisher's exact test,"
    " Holm-corrected over all classes"
)
CLUSTERED = "runs of one task are counted as independent; where they are not, p may be too small"


def print_runs(out: Console, view: FailuresView, rows: Sequence[BarRow]) -> None:
    """Each bar explained, then the runs behind it."""
    for place, row in enumerate(rows):
        if place:
            out.print()
        print_line(out, format.one_line(row.label), "bold")
        print_labelled(out, card(view, row))
        out.print()
        columns = ["", "id", "run", "step", "by", "owner", "why"]
        print_table(out, columns, [_run(view, run) for run in row.runs])
        away = next((run for run in row.runs if not is_here(run)), None)
        if away is not None:
            print_line(out, f"{NOT_HERE} not here. {pull_hint(away)}", "dim")


def print_labelled(out: Console, lines: Sequence[Labelled]) -> None:
    for label, words in lines:
        out.print(Text.assemble((f"{label:<{LABEL}}", "dim"), words), soft_wrap=True)


def _run(view: FailuresView, run: RunBehind) -> list[Text | str]:
    mark = "█" if run.accepted else "░" if run.source is None else "▒"
    return [
        mark if is_here(run) else mark + NOT_HERE,
        run.trace[:8],
        view.name(run),
        format.UNKNOWN if run.step is None else str(run.step),
        source_name(run),
        format.one_line(run.owner) or format.UNKNOWN,
        format.one_line(run.why) or format.UNKNOWN,
    ]


def print_trend(out: Console, found: Trend) -> None:
    """A row a week, a column a class."""
    columns = ["week", "failed", *(format.one_line(label) for label in found.classes)]
    print_table(out, columns, [_week(week) for week in found.weeks])
    print_line(out, f"{WEEKS}; {CLUSTERED}", "dim")


def _week(week: Week) -> list[Text | str]:
    shares = [
        f"{each.runs} {short(each.rate.value)}" if each.runs else format.UNKNOWN
        for each in week.classes
    ]
    return [week.week, counted(week.failed), *shares]


def print_before_after(out: Console, found: BeforeAfter) -> None:
    """A row a class: its share before and after, and what that shows."""
    columns = ["", f"before {found.since}", "since", "p", ""]
    print_table(out, columns, [_change(each) for each in (found.failed, *found.classes)])
    undated = format.count(found.undated, "run")
    left_out = [f"{undated} without a time left out"] if found.undated else []
    print_line(out, "; ".join([OF_ALL, CLUSTERED, *left_out]), "dim")


def _change(change: Change) -> list[Text | str]:
    style = "bold" if change.beyond_chance else "dim"
    return [
        format.one_line(change.name),
        counted(change.before),
        counted(change.since),
        "" if change.p is None else _p(change.p),
        Text(change.reading or "", style),
    ]


def _p(value: float) -> str:
    return "< .001" if value < 0.001 else f"{value:.3f}".replace("0.", ".", 1)


def print_agreement(out: Console, found: Sequence[SourcesAgree]) -> None:
    """Each pair of sources in words, then how often they said which instead of which."""
    print_labelled(out, agreement(found))
    for pair in found:
        if pair.differ:
            out.print()
            columns = [WHO[pair.first], WHO[pair.second], "runs", ""]
            print_table(out, columns, [_differ(each) for each in pair.differ])


def _differ(each: Differ) -> list[Text | str]:
    return [each.first.value, each.second.value, str(len(each.traces)),
            " ".join(trace[:8] for trace in each.traces[:SHOWN])]  # fmt: skip
