"""`arc find`: the runs that say a text."""

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
    open_store,
    print_json,
    print_table,
)
from arc_tui.views.runs.finding import MOST, FoundRun, build_found


@click.command()
@click.argument("text", nargs=-1, required=True)
@click.option(
    "--limit", type=click.IntRange(1), default=MOST, show_default=True, help="At most so many runs."
)
@click.option(
    "--on", "query", default="", metavar="QUERY", help="Only in these runs, as in `arc ls`."
)
@held_out_option
@json_option
@db_option
def find(
    text: tuple[str, ...],
    limit: int,
    query: str,
    with_held_out: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """Find the runs that say TEXT, from the beginning of a word on, case aside.

    Looks through prompts, messages, reasoning, tool arguments, results and errors.
    """
    wanted = " ".join(text)
    with open_store(db) as store:
        found = build_found(store, wanted, limit, query=query, with_held_out=with_held_out)
    if as_json:
        print_json(found.runs)
    elif found.runs:
        rows = [_cells(row) for row in found.runs]
        print_table(console(), ["", "id", "task", "trial", "step", "says"], rows)
    else:
        click.echo(f"no run says {wanted!r}", err=True)
    if found.more:
        click.echo(f"the first {limit}; --limit shows more", err=True)
    return 0 if found.runs else 1


def _cells(row: FoundRun) -> list[Text | str]:
    return [
        format.outcome_mark(row.outcome),
        row.trace[:8],
        format.cut(format.one_line(row.task or row.title or row.source_id), 32),
        format.cut(format.one_line(row.trial), 16),
        format.UNKNOWN if row.step is None else str(row.step),
        format.one_line(row.excerpt),
    ]
