"""`arc last`: the newest trace that an agent left of its work here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import click

from arc_tui.cli.common import (
    console,
    db_option,
    json_option,
    open_store,
    print_json,
    print_table,
)
from arc_tui.cli.importing import drain
from arc_tui.cli.opening import run_app
from arc_tui.format import count, one_line
from arc_tui.jobs import importing
from arc_tui.jobs.finding import MOST, Offer, look
from arc_tui.places import database
from arc_tui.views.runs.offers import offer_words
from arc_tui.views.trace.brief import brief_text
from replay.store import Store
from replay.store.handle import now_ns

NOTHING = (
    "nothing to open here: no session of Claude Code or Codex in this folder, no trace in it; "
    "`arc import PATH` reads others, `arc demo` shows bundled runs"
)


@click.command()
@click.option("--list", "listed", is_flag=True, help="List what is here instead of opening it.")
@json_option
@db_option
@click.pass_context
def last(ctx: click.Context, listed: bool, as_json: bool, db: Path | None) -> int:
    """Import the newest trace of this folder and open it: a session, a log, a file.

    In a pipe, and with --json, its brief is printed. What was imported last is not asked: that is
    the TRACE `last` of other commands.
    """
    folder = Path.cwd()
    offers = list(islice(look(folder), MOST if listed else 1))
    if not offers:
        click.echo(NOTHING, err=True)
        return 1
    if listed:
        print_json(offers) if as_json else _print(offers, folder)
        return 0
    newest = Path(offers[0].path)
    if not as_json and sys.stdout.isatty() and sys.stdin.isatty():
        run_app(database(db or ctx.find_root().obj), imports=(newest,))
        return 0
    with open_store(db) as store:
        return _brief(store, newest, as_json)


def _print(offers: Sequence[Offer], folder: Path) -> None:
    now = now_ns()
    rows = []
    for offer in offers:
        words = offer_words(offer, folder, now)
        rows.append([words.age, offer.format, words.size, words.title, words.file])
    print_table(console(), ["written", "format", "size", "about", "file"], rows)


def _brief(store: Store, file: Path, as_json: bool) -> int:
    """Import the file and print the brief of its last run."""
    report = drain(importing.import_paths(store, [file]))
    for error in report.errors:
        click.echo(f"arc: {one_line(error)}", err=True)
    traces = [trace.id for each in report.files for trace in each.traces]
    if not traces:
        return report.exit_code or 2
    text = brief_text(store, traces[-1])
    if as_json:
        print_json({"path": str(file), "traces": traces, "brief": text})
    else:
        others = f", the last of {count(len(traces), 'run')}" if len(traces) > 1 else ""
        click.echo(f"{one_line(str(file))}{others}", err=True)
        click.echo(text)
    return report.exit_code
