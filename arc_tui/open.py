"""`arc`, `arc FILE…`, `arc open`, `arc demo`: what is opened in the app; the demo without one.

What only prints or imports is loaded where that is done: the app is to be drawn first.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from arc_tui.cli import (
    console,
    copies_told,
    database_path,
    db_option,
    drain_import,
    examples,
    json_option,
    open_store,
    print_json,
    print_table,
    unlock,
)
from arc_tui.config import read_owners
from arc_tui.exit_codes import BUG
from arc_tui.places import demo_database, fixtures
from arc_tui.ui.format import count, one_line
from replay.errors import ArcError, NotFound
from replay.store.handle import Store, now_ns
from replay.store.rows import trace_row
from taxonomy.judgements.schema import open_ledger
from taxonomy.playbook import NO_PLAYBOOK

if TYPE_CHECKING:
    from arc_tui.features.runs.offers import Offer

NO_SCREEN = {"", "dumb", "unknown"}
"""What `TERM` says of a terminal on which nothing can be drawn."""


def run_app(
    path: Path,
    *,
    imports: tuple[Path, ...] = (),
    run: str | None = None,
    fleet: str | None = None,
    demo: bool = False,
    tour: bool = False,
) -> None:
    """Open the app on a database, on one `run` of it, or on the store `fleet`; needs a terminal,
    and settings without a mistake.

    Leaves with 128 and the signal where it was told to end, and as from a bug after one.
    """
    read_owners(playbook=NO_PLAYBOOK)  # only what asks for a playbook is refused for a bad one
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise ArcError(
            "the app needs a terminal",
            "Try: arc ls, arc show TRACE or arc import PATH, which need none",
        )
    term = os.environ.get("TERM", "")
    if os.name == "posix" and term in NO_SCREEN:
        raise ArcError(
            f"The app cannot draw on this terminal: TERM is '{term}'" if term
            else "The app cannot draw on this terminal: TERM is not set",
            "Try: export TERM=xterm-256color. `arc ls` and `arc show` work without it.",
        )  # fmt: skip
    unlock(path)
    gc.disable()  # what a start makes stays: the app looks for garbage once it is under way
    from arc_tui.app import ArcApp
    from arc_tui.settings import read_settings

    settings = read_settings()
    trace = trace_of(path, run) if run is not None else None
    app = ArcApp(path, imports, trace, fleet, demo=demo, tour=tour, settings=settings)
    app.run(mouse=settings.mouse)
    sys.exit(BUG if app.broke else app.return_code or 0)


def trace_of(path: Path, run: str) -> str:
    """The trace of a run that somebody named where they may have meant a file. Raises ArcError."""
    try:
        with open_ledger(path) as store:
            return trace_row(store, run).trace
    except NotFound as error:
        raise ArcError(f"'{run}' is neither a file nor a run", error.hint) from error


@click.command("open", epilog=examples("arc open last", "arc open --latest --list"))
@click.argument("names", metavar="[RUN | FILE…]", nargs=-1)
@click.option("--latest", is_flag=True, help="Import the newest trace of this folder.")
@click.option("--list", "listed", is_flag=True,
              help="With --latest: list the traces of this folder instead.")  # fmt: skip
@click.option("--fleet", metavar="NAME", help="Open on the runs of this trace store.")
@json_option
@db_option
def open_(
    names: tuple[str, ...],
    latest: bool,
    listed: bool,
    fleet: str | None,
    as_json: bool,
    db: Path | None,
) -> int:
    """Open the app on one run, or import files and open them.

    RUN is a run id or a prefix of it, task/trial, or `last`. `arc FILE…` is short for
    `arc open FILE…`. --latest takes the newest session, log or trace file of this folder; in a
    pipe, or with --json, it prints a brief instead.
    """
    path = database_path(db)
    if fleet is not None:
        if names or latest or listed or as_json:
            raise click.UsageError("--fleet takes no RUN, no FILE and no --latest")
        from arc_tui.features.fleet.run import stores_file
        from replay.fleet.stores import find_store

        find_store(stores_file(), fleet)
        run_app(path, fleet=fleet)
        return 0
    if latest:
        if names:
            raise click.UsageError("--latest takes no RUN and no FILE")
        return _open_latest(path, listed=listed, as_json=as_json)
    if listed or as_json:
        raise click.UsageError("--list and --json need --latest")
    files = [name for name in names if name == "-" or Path(name).exists()]
    if len(names) == 1 and not files:
        run_app(path, run=names[0])
    else:
        run_app(path, imports=tuple(map(Path, names)))
    return 0


@click.command("demo", epilog=examples("arc demo --tour", "arc demo --headless"))
@click.option("--reset", is_flag=True, help="Delete the demo database and import the runs again.")
@click.option("--tour", is_flag=True, help="Start the guided tour again.")
@click.option("--headless", is_flag=True, help="Print the tour instead of opening the app.")
@db_option
@click.pass_context
def demo(ctx: click.Context, reset: bool, tour: bool, headless: bool, db: Path | None) -> None:
    """Open bundled runs with a built-in demo model: no key, no network.

    The first time it starts a guided tour. Without a terminal it prints a tour instead.
    """
    from arc_tui import importing

    path = demo_database(db or _named_before(ctx))
    first = not path.exists()
    printed = headless or not sys.stdout.isatty()
    with copies_told():
        if printed:
            importing.make_demo(path, reset=reset)
        else:  # the app shows how far the import is
            missing = importing.begin_demo(path, reset=reset)
    if printed:
        print_tour(path)
    else:
        run_app(path, imports=missing, demo=True, tour=tour or first)


def _named_before(ctx: click.Context) -> Path | None:
    """The database of `arc --db FILE demo`. ARC_DB names the one of a person's own runs: the demo
    neither shows nor resets that."""
    root = ctx.find_root()
    if root.get_parameter_source("db") is not ParameterSource.COMMANDLINE:
        return None
    named: Path | None = root.obj
    return named


def _open_latest(path: Path, *, listed: bool, as_json: bool) -> int:
    from arc_tui.features.runs.offers import MOST, look

    folder = Path.cwd()
    offers = list(islice(look(folder), MOST if listed else 1))
    if listed:
        print_json(offers) if as_json else _print(offers, folder)
        return 0
    if not offers:
        raise ArcError(
            "No traces in this folder, and no Claude Code or Codex sessions of it",
            "Try: arc import PATH, or arc demo",
        )
    newest = Path(offers[0].path)
    if not as_json and sys.stdout.isatty() and sys.stdin.isatty():
        run_app(path, imports=(newest,))
        return 0
    with open_store(path) as store:
        return _brief(store, newest, as_json)


def _print(offers: Sequence[Offer], folder: Path) -> None:
    from arc_tui.features.runs.offers import offer_words

    now = now_ns()
    rows = []
    for offer in offers:
        words = offer_words(offer, folder, now)
        rows.append([words.age, offer.format, words.size, words.title, words.file])
    print_table(console(), ["written", "format", "size", "about", "file"], rows)


def _brief(store: Store, file: Path, as_json: bool) -> int:
    """Import the file and print the brief of its last run."""
    from arc_tui import importing
    from arc_tui.views.brief import brief_text

    report = drain_import(importing.import_paths(store, [file]))
    for error in report.errors:
        click.echo(f"arc: {one_line(error)}", err=True)
    traces = [trace.id for each in report.files for trace in each.traces]
    if not traces:
        return report.exit_code or 2
    text = brief_text(store, traces[-1])
    if as_json:
        print_json({"path": str(file), "traces": traces, "brief": text})
    else:
        others = f", last of {count(len(traces), 'run')}" if len(traces) > 1 else ""
        click.echo(f"{one_line(str(file))}{others}", err=True)
        click.echo(text)
    return report.exit_code


TRACE = "shop-many-wishes-v5-0"
PROMPT = "demo/prompts/v4.md"


def print_tour(path: Path) -> None:
    """Runs and what they fail of, one broken run, another prompt tried on it."""
    from arc_tui.experiments.request import ReplayRequest, views_of
    from arc_tui.features.failures.command import pareto_lines
    from arc_tui.features.replay.command import drained
    from arc_tui.features.replay.run import run_replay
    from arc_tui.features.replay.text import print_replay
    from arc_tui.views.runs import build_runs
    from arc_tui.views.trace import build_diagnose
    from replay.edit.files import from_files

    out = console()
    prompt = fixtures() / PROMPT
    with open_ledger(path) as store:
        runs = build_runs(store)
        _head(
            f"arc --db {path} failures",
            "1. failure classes of the bundled runs: suggested tags",
        )
        for line in pareto_lines(runs.pareto, 30):
            out.print(line)
        _head(f"arc --db {path} diagnose {TRACE}", "2. the break candidates of one failed run")
        for said in build_diagnose(store, TRACE).lines():
            out.print(said, soft_wrap=True)
        _head(
            f"arc --db {path} replay {TRACE} --system {prompt}",
            "3. an older prompt, replayed at every recorded step",
        )
        wanted = ReplayRequest(trace=TRACE, edit=from_files(prompt, []))
        print_replay(out, drained(views_of(run_replay, store, wanted), wanted.limits))
    click.echo("\nIn a terminal, `arc demo` opens the app on these runs.")


def _head(command: str, title: str) -> None:
    click.echo(f"\n{title}\n$ {command}\n")
