"""`arc report`: the page of a run, and of what other features make of runs."""

from __future__ import annotations

from pathlib import Path

import click

from arc_tui.cli import RUN_NAME, db_option, examples, json_option, open_judged
from arc_tui.features.report.command import output_option, put_page
from arc_tui.features.report.run import build_run_page
from arc_tui.features.trace.pages import why_page


@click.command(
    epilog=examples(
        "arc report shop-many-wishes-v5-0 -o run.html",
        "arc report last --json",
    )
)
@click.argument("runs", type=RUN_NAME, nargs=-1, metavar="RUN")
@output_option
@json_option
@db_option
def report(runs: tuple[str, ...], output: Path | None, as_json: bool, db: Path | None) -> None:
    """Write a run into one HTML file that anybody can open: no server, no request, no install.

    `arc import FILE` of the report brings the run back. Secrets are masked again.
    """
    if len(runs) != 1:
        raise click.UsageError("name one run. Try: arc report last")
    with open_judged(db) as store:
        page = build_run_page(store, runs[0], why_page)
        put_page(page, store.redactor, output, as_json=as_json)
