"""`arc drift`: the environments of two groups of runs, printed."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    db_option,
    examples,
    held_out_option,
    json_option,
    open_store,
    print_held_out,
    print_line,
    print_table,
    print_view,
)
from arc_tui.features.drift.text import (
    HEAD,
    RATES_HEAD,
    basis,
    cells,
    notes,
    probe_lines,
    rates,
    sentence,
    sides,
    unseen_lines,
)
from arc_tui.features.drift.view import DriftRequest, DriftView, build_drift
from arc_tui.ui import format


@click.command(
    epilog=examples("arc drift variant=v4 variant=v5", "arc drift variant=v8 'not variant=v8'"),
)
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--exit-code", is_flag=True, help="Exit with 1 where the environments differ.")
@held_out_option
@json_option
@db_option
def drift(
    first: str, second: str, exit_code: bool, with_held_out: bool, as_json: bool, db: Path | None
) -> int:
    """Compare the environments of two groups of runs: tools, results, models, versions, pins.

    A and B are queries, as for `arc ls`: mostly the runs before and after a day, or of two
    variants. Beside what differs beyond chance stand the pass rates in equal and in unequal
    environments, what locked replays say of the model, and what cannot be told.
    """
    request = DriftRequest(first=first, second=second, with_held_out=with_held_out)
    with open_store(db) as store:
        view = build_drift(store, request)
    print_view(view, as_json, print_drift)
    print_held_out(view.held_out)
    return int(exit_code and any(row.held for row in view.rows))


def print_drift(out: Console, view: DriftView) -> None:
    """The verdict, the differences, the pass rates, and what has to be known besides."""
    print_line(out, sentence(view), "bold")
    for line in sides(view):
        print_line(out, line)
    if view.rows:
        out.print()
        rows: list[list[Text | str]] = [list(cells(row)) for row in view.rows]
        print_table(out, list(HEAD), rows)
    out.print()
    figures: list[list[Text | str]] = [list(row) for row in rates(view)]
    print_table(out, list(RATES_HEAD), figures)
    out.print()
    for line in (*notes(view), *probe_lines(view)):
        print_line(out, format.plain(line))
    for line in unseen_lines(view):
        print_line(out, line, "yellow")
    for line in basis(view):
        print_line(out, line, "dim")
