"""`arc ls`: the runs, one line each."""

from __future__ import annotations

from pathlib import Path

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
    print_table,
    say_apart,
)
from arc_tui.views.runs.view import phrase, run_rows, total_cost
from taxonomy.query.listing import RunRow
from taxonomy.stats.holding import Apart, hidden, parted


@click.command()
@click.argument("query", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every recording of a run, not the fullest.")
@held_out_option
@json_option
@db_option
def ls(
    query: tuple[str, ...], every: bool, with_held_out: bool, as_json: bool, db: Path | None
) -> int:
    """List the runs that QUERY means: `outcome:failed tag:loop cost>0.5`; see `arc help query`.

    A plain word stands in the row of a run, a "quoted text" in what it said. In a shell the whole
    query is best put in quotes.
    """
    with open_judged(db) as store:
        words = " ".join(query)
        found = run_rows(store, words, every=every)
        tasks = hidden(store)
    visible, held = parted(found, tasks)
    say_apart(Apart(tasks=tasks, runs=len(held), shown=with_held_out))
    rows = found if with_held_out else visible
    if as_json:
        print_json(rows)
        return 0 if rows else 1
    if not rows and held:
        return 1
    if not rows:
        nothing = "no runs yet; `arc last --list` shows what is here, `arc demo` shows some"
        click.echo(f"no run matches {words!r}" if words else nothing, err=True)
        return 1
    names = ["", "id", "task", "trial", "outcome", "steps", "tokens", "cost", "time", "why"]
    print_table(console(), names, [_cells(row) for row in rows])
    cost, complete = total_cost(rows)
    failed = sum(row.outcome == "failed" for row in rows)
    shown = format.usd(cost, complete=complete) if cost is not None else "unknown"
    click.echo(f"{format.count(len(rows), 'run')}, {failed} failed, cost {shown}", err=True)
    return 0


def _cells(row: RunRow) -> list[Text | str]:
    return [
        format.outcome_mark(row.outcome, warned=bool(row.warnings), live=row.live),
        row.trace[:8],
        format.cut(format.one_line(row.task or row.title or row.source_id), 32),
        format.cut(format.one_line(row.trial), 16),
        format.outcome_value(row.outcome_value),
        str(row.steps),
        format.tokens(row.input_tokens),
        format.usd(row.cost_usd, complete=row.cost_complete),
        format.duration(row.duration_ns),
        phrase(row),
    ]
