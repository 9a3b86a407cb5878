"""`arc fleet scan`: the rules look at runs where they are; what they say is kept here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arc_tui.cli import (
    console,
    db_option,
    examples,
    open_store,
    print_json,
    print_line,
    progress_bar,
    require,
)
from arc_tui.features.fleet.command import fleet_request, window_options
from arc_tui.features.fleet.text import moment_text
from arc_tui.ui import format
from replay.errors import ArcError

if TYPE_CHECKING:
    from arc_tui.features.fleet.scan import ScanPlan, ScanReport

LONG_S = 600
"""A scan that is expected to take more CPU seconds is asked about before it begins."""

LISTED = 20
"""So many runs that could not be read are named; `--json` names all."""


@click.command(
    epilog=examples(
        "arc fleet scan prod outcome:failed --since 1d",
        "arc fleet scan prod --since 1d --into team/arc_findings",
        "arc fleet scan prod --since 2026-11-20 --dask tcp://scheduler.example.com:8786 --yes",
    )
)
@click.argument("name")
@window_options
@click.option(
    "--workers", type=click.IntRange(1, 256), metavar="N", help="Processes; default: one a core."
)
@click.option("--dask", metavar="ADDRESS", help="Use the workers of this dask scheduler.")
@click.option(
    "--into", metavar="[NAME/]TABLE", help="Write the findings to this table in ClickHouse too."
)
@click.option("--anew", is_flag=True, help="Do not go on with an unfinished scan.")
@click.option("--yes", is_flag=True, help="Do not ask before a long scan.")
@db_option
def scan(
    name: str,
    workers: int | None,
    dask: str | None,
    into: str | None,
    anew: bool,
    yes: bool,
    as_json: bool,
    db: Path | None,
    **asked: Any,
) -> int:
    """Let the rules look at runs of a store without copying them.

    Runs are pulled, masked and diagnosed by workers; what the rules say is kept here, for
    `arc failures --fleet NAME`. A scan that was stopped goes on when it is given again.

    With --into the findings are also written to a table, which is made if there is none, in the
    database of NAME, else of this store. Nothing else is ever written there.

    Needs the extra `fleet`, and with --dask `cluster`: pip install 'arc-tui[fleet,cluster]'
    """
    request = fleet_request(name, asked)
    if dask is not None:
        require("arc fleet scan --dask", "distributed", extra="cluster")
        if workers is not None:
            raise click.UsageError("--workers and --dask cannot be combined")
    from arc_tui.features.fleet.scan import (
        in_processes,
        on_cluster,
        open_findings,
        plan_scan,
        run_scan,
    )
    from arc_tui.workers import cores

    err = console(err=True)
    with open_store(db) as store, open_findings(name, into, request.bounds) as table:
        plan = plan_scan(store, request, asked["since"], asked["until"], anew=anew)
        for line in plan_lines(plan):
            print_line(err, line)
        if plan.cpu_s > LONG_S and not yes:
            _ask(plan)
        many = max(min(workers or cores(), len(plan.partitions)), 1)
        given = in_processes(plan, many) if dask is None else on_cluster(plan, dask)
        work = run_scan(store, plan, given, table)
        with progress_bar() as advance:
            while True:
                try:
                    now = next(work)
                except StopIteration as ended:
                    report: ScanReport = ended.value
                    break
                advance(f"scan of {name}", now.done, now.total)
    if as_json:
        print_json(report)
        return report.exit_code
    for line in report_lines(report):
        print_line(console(), line)
    for line in failed_lines(report):
        print_line(err, line, "red")
    return report.exit_code


def _ask(plan: ScanPlan) -> None:
    """Raises ArcError where nobody can be asked or the answer is no."""
    takes = f"the scan takes about {hours(plan.cpu_s)}"
    if not sys.stdin.isatty():
        raise ArcError(takes, "Try: --yes, to begin all the same; or a later --since")
    if not click.confirm("Begin?", err=True):
        raise ArcError("nothing was scanned", "Try: a later --since, or a narrower QUERY")


def plan_lines(plan: ScanPlan) -> Iterator[str]:
    """What is to be done, how long it may take, and what that rests on."""
    name = plan.question.fleet
    if plan.begun is not None:
        of = format.count(plan.begun.partitions, "partition")
        done = f"{format.number(plan.begun.done)} of {of}"
        began = moment_text(plan.begun.started_ns)
        yield f"{name}: goes on with the scan begun {began}, {done} done (--anew begins again)"
    parts = format.count(len(plan.partitions), "partition")
    of = "measured on this store" if plan.measured else "assumed until a scan has measured it"
    yield (
        f"{name} ({plan.dialect}): at most {format.count(plan.traces, 'run')} in {parts},"
        f" about {hours(plan.cpu_s)}; {plan.pace_s * 1000:.0f} ms a run, {of}"
    )
    yield from plan.notes


def hours(seconds: float) -> str:
    """CPU time in the unit that says it best."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} core hours"
    if seconds >= 60:
        return f"{seconds / 60:.0f} core minutes"
    return format.count(max(round(seconds), 1), "core second")


def report_lines(report: ScanReport) -> Iterator[str]:
    """What was found, and where to read it."""
    scan = report.scan
    unread = f", {format.number(scan.unread)} could not be read" if scan.unread else ""
    pace = ""
    if scan.runs and scan.cpu_ns:
        pace = f" · {scan.runs * 1e9 / scan.cpu_ns:.0f} runs a second of CPU"
    yield f"{scan.fleet}: {format.count(scan.runs, 'run')} scanned{unread}{pace}"
    for run in report.unread[:LISTED]:
        yield f"  {format.one_line(run.trace)}: {format.one_line(run.why)}"
    if len(report.unread) > LISTED:
        yield f"  and {len(report.unread) - LISTED} more (--json lists them)"
    if report.table is not None:
        findings = format.count(scan.findings, "finding")
        yield f"{findings} in the table {report.table}: count them with FINAL"
    if not report.failed:
        yield f"Try: arc failures --fleet {scan.fleet}"


def failed_lines(report: ScanReport) -> Iterator[str]:
    """The partitions that failed, and what to do about them."""
    for each in report.failed:
        part = each.partition
        yield (
            f"arc: the {format.count(part.traces, 'run')} of partition {part.place + 1}, begun"
            f" {moment_text(part.from_ns)[:10]}: failed 3 times: {format.one_line(each.why)}"
        )
    if report.failed:
        left = format.count(len(report.failed), "partition")
        yield f"arc: {left} left. Try: the same command again, which tries these alone"
