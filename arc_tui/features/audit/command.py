"""`arc audit`: does the agent do what it says and is told, and claim only what is so?"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    examples,
    held_out_option,
    json_option,
    limit_option,
    limited,
    open_judged,
    print_held_out,
    print_json,
    print_line,
    print_list,
    print_table,
    print_tables,
    progress_bar,
)
from arc_tui.features.audit.declared import declared_lines, declared_tables
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
from arc_tui.features.audit.view import EMPTY, AuditRequest, AuditView, run_audit
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
@limit_option
@held_out_option
@json_option
@db_option
def audit(
    query: tuple[str, ...],
    probes: tuple[str, ...],
    exploits: Path | None,
    limit: int,
    with_held_out: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """How often does an agent break its word or its instructions, claim what is not so, or game?

    Of the runs that QUERY means, as in `arc ls`. Each probe counts the chances that runs held, and
    those at which the agent failed; below are the findings, suggestions with a quote. The outcome
    of a run is not looked at. What was audited before is not audited again unless the run or a
    rule has changed.
    """
    request = AuditRequest(
        query=" ".join(query), probes=probes, exploits=exploits, with_held_out=with_held_out
    )
    with open_judged(db) as store:
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
