"""`arc audit`: does the agent do what it says and is told, and claim only what is so?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    estimate_line,
    estimate_option,
    examples,
    held_out_option,
    json_option,
    limit_option,
    limited,
    limits,
    live_options,
    open_judged,
    print_held_out,
    print_json,
    print_line,
    print_list,
    print_table,
    print_tables,
    print_view,
    progress_bar,
    refuse_missing,
    refuse_unanswered,
    show_estimate,
)
from arc_tui.experiments.models import spending_of
from arc_tui.experiments.progress import progress_line, with_bar
from arc_tui.experiments.request import views_of
from arc_tui.features.audit import judged
from arc_tui.features.audit.declared import declared_lines, declared_tables
from arc_tui.features.audit.judged import JudgedRequest, JudgedView, estimate_judged, run_judged
from arc_tui.features.audit.text import (
    RATES,
    ROWS,
    before_line,
    no_findings,
    notes,
    rate_cells,
    row_cells,
    sentence,
)
from arc_tui.features.audit.view import EMPTY, AuditRequest, AuditView, run_audit, runs_audited
from arc_tui.ui import format
from replay.store.handle import Store
from taxonomy.audit.probes import BY_NAME


@click.command(epilog=examples("arc audit", "arc audit outcome:failed --probe faithfulness"))
@click.argument("query", nargs=-1)
@click.option(
    "--probe",
    "probes",
    type=click.Choice([*BY_NAME, "feedback"]),
    multiple=True,
    help="Only this probe; may be repeated.",
)
@click.option(
    "--exploits",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Exploits and shown scores of tasks; default: exploits.toml beside the database.",
)
@click.option(
    "--judge", "by_judge", is_flag=True, help="Let --model audit whole runs, beside the rules."
)
@live_options
@estimate_option
@limit_option
@held_out_option
@json_option
@db_option
def audit(
    query: tuple[str, ...],
    probes: tuple[str, ...],
    exploits: Path | None,
    by_judge: bool,
    only_estimate: bool,
    limit: int,
    with_held_out: bool,
    as_json: bool,
    db: Path | None,
    **options: Any,
) -> int:
    """How often does an agent break its word or its instructions, claim what is not so, or game?

    Of the runs that QUERY means, as in `arc ls`. Each probe counts the chances that runs held, and
    those at which the agent failed; below are the findings, suggestions with a quote. The outcome
    of a run is not looked at. What was audited before is not audited again unless the run or a
    rule has changed.

    With --judge a model reads whole runs instead, for what names no tool, file or value. What it
    cites is looked for in the run, and it is not approved until it agrees with people's tags.
    Without --live only stored answers are read. Exit code 0: all was answered.
    """
    if by_judge and (probes or exploits):
        raise click.UsageError("--judge goes with neither --probe nor --exploits")
    if not by_judge and (only_estimate or any(options.values())):
        raise click.UsageError("--model, --live, limits and --estimate go with --judge")
    request = AuditRequest(
        query=" ".join(query), probes=probes, exploits=exploits, with_held_out=with_held_out
    )
    with open_judged(db) as store:
        if by_judge:
            options |= {"only": only_estimate, "as_json": as_json, "limit": limit}
            return _judge(store, request, options)
        before, view = _run(store, request)
    print_held_out(view.held_out)
    for error in view.failed:
        click.echo(f"arc: {format.one_line(error)}", err=True)
    if as_json:
        print_json(view)
    elif not view.runs:
        click.echo(no_findings(view), err=True)
    else:
        _print(console(), before, view, limit)
    return 3 if view.failed else 0


def _run(store: Store, request: AuditRequest) -> tuple[AuditView, AuditView]:
    """What was known before, and what is known now; progress goes to stderr."""
    before, view = None, EMPTY
    with progress_bar() as advance:
        for event in run_audit(store, request):
            if isinstance(event, AuditView):
                before, view = before or event, event
                continue
            if not event.done:
                whom = format.count(event.total, "run")
                against = "" if event.path == "audit" else f", held against {event.path}"
                click.echo(f"auditing {whom}{against}", err=True)
            advance(event.path, event.done, event.total)
    return before or EMPTY, view


# --- by a judge


def _judge(store: Store, request: AuditRequest, options: dict[str, Any]) -> int:
    only, as_json, limit = options["only"], options["as_json"], options["limit"]
    held, heads = runs_audited(store, request)
    print_held_out(held)
    asked = JudgedRequest(
        traces=tuple(head.trace for head in heads),
        model=options["model"],
        live=options["live"],
        limits=limits(options),
    )
    if not heads:
        click.echo(no_findings(AuditView(database="", query=request.query)), err=True)
        return 0
    estimated = partial(estimate_judged, store, asked)
    if show_estimate(estimated, estimate_line, only=only, live=asked.live, as_json=as_json):
        return 0
    views = with_bar(views_of(run_judged, store, asked), _progress(asked), console(err=True))
    view = _last(views, partial(_print_judged, limit=limit), as_json=as_json)
    missing = view.count("missing")
    if missing and not asked.live:
        click.echo(estimate_line(estimated()), err=True)
    refuse_missing(missing, asked.model)
    refuse_unanswered(wanted=view.count("refused") > 0, answers=view.calls + view.cached)
    return 0


def _progress(asked: JudgedRequest) -> Callable[[JudgedView], str]:
    return lambda view: progress_line(
        "Auditing run", view.done, view.total, spending_of(view), asked.limits
    )


def _last(
    views: Iterator[JudgedView], print_text: Callable[[Console, JudgedView], None], *, as_json: bool
) -> JudgedView:
    """The last of the views, printed also where it ends early: what was answered is stored."""
    last: list[JudgedView] = []
    try:
        for view in views:
            last = [view]
    finally:
        for view in last:
            print_view(view, as_json, print_text)
    return last[0]


def _print_judged(out: Console, view: JudgedView, limit: int) -> None:
    """The findings of a judge, and how far it may be relied on."""
    print_line(out, judged.sentence(view), "bold")
    if view.notice:
        print_line(out, format.plain(view.notice), "yellow")
    if view.rates:
        print_tables(out, [judged.rate_table(view)])
    out.print()
    rows: list[list[Text | str]] = [list(cells) for cells in judged.row_cells(view)]
    if rows:
        print_list(out, judged.ROWS, limited(rows, limit))
        out.print()
    print_line(out, judged.facts(view), "dim")
    print_line(out, judged.SUGGESTED, "dim")


# --- by rule


def _print(out: Console, before: AuditView, view: AuditView, limit: int) -> None:
    """The rates, the findings, and what has to be known to read them."""
    print_line(out, sentence(view), "bold")
    for line in filter(None, [before_line(before.age)]):
        print_line(out, line, "yellow" if before.age.is_stale else "dim")
    out.print()
    rates: list[list[Text | str]] = [list(rate_cells(each)) for each in view.rates]
    print_table(out, RATES, rates)
    out.print()
    if view.rows:
        rows: list[list[Text | str]] = [list(row_cells(row)) for row in limited(view.rows, limit)]
        print_list(out, ROWS, rows)
    else:
        print_line(out, no_findings(view))
    if view.declared is not None:
        print_tables(out, declared_tables(view.declared))
        for line in declared_lines(view.declared):
            print_line(out, line)
    out.print()
    for line in notes(view):
        print_line(out, line, "dim")
