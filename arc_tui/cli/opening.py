"""`arc`, `arc FILE…`, `arc demo`: the app, and the demo without one."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import click

from arc_tui.cli import BUG
from arc_tui.cli.common import db_option
from arc_tui.cli.unlocking import unlock
from arc_tui.config import read_owners
from arc_tui.places import database, demo_database
from replay.errors import ArcError, NotFound
from replay.store.rows import trace_row
from taxonomy.ledger import open_ledger

NO_SCREEN = {"", "dumb", "unknown"}
"""What `TERM` says of a terminal on which nothing can be drawn."""


def run_app(
    path: Path,
    *,
    imports: tuple[Path, ...] = (),
    run: str | None = None,
    demo: bool = False,
    tour: bool = False,
) -> None:
    """Open the app on a database, or on one `run` of it; needs a terminal, and settings without a
    mistake.

    Leaves with 128 and the signal where it was told to end, and as from a bug after one.
    """
    read_owners()
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise ArcError(
            "the app needs a terminal",
            "use `arc ls`, `arc show`, `arc import` in a pipe or a script",
        )
    term = os.environ.get("TERM", "")
    if os.name == "posix" and term in NO_SCREEN:
        raise ArcError(
            f"TERM is {term!r}: nothing can be drawn on that terminal" if term
            else "TERM is not set: what can be drawn on this terminal is not known",
            "export TERM=xterm-256color where it can; `arc ls` and `arc show` need none",
        )  # fmt: skip
    unlock(path)
    gc.disable()  # what a start makes stays: the app looks for garbage once it is under way
    from arc_tui.app import ArcApp
    from arc_tui.settings import read_settings

    settings = read_settings()
    trace = trace_of(path, run) if run is not None else None
    app = ArcApp(path, imports, trace, demo=demo, tour=tour, settings=settings)
    app.run(mouse=settings.mouse)
    sys.exit(BUG if app.broke else app.return_code or 0)


def trace_of(path: Path, run: str) -> str:
    """The trace of a run that somebody named where they may have meant a file. Raises ArcError."""
    try:
        with open_ledger(path) as store:
            return trace_row(store, run).trace
    except NotFound as error:
        raise ArcError(f"{run!r} is neither a file nor a run", error.hint) from error


@click.command("open")
@click.argument("names", metavar="[RUN | FILE…]", nargs=-1)
@db_option
@click.pass_context
def open_(ctx: click.Context, names: tuple[str, ...], db: Path | None) -> None:
    """The app on one run, or on the files that it imports first.

    RUN is an id or its beginning, task/trial, or `last`. `arc FILE…` is short for `arc open FILE…`.
    """
    path = database(db or ctx.find_root().obj)
    files = [name for name in names if name == "-" or Path(name).exists()]
    if len(names) == 1 and not files:
        run_app(path, run=names[0])
    else:
        run_app(path, imports=tuple(map(Path, names)))


@click.command("demo")
@click.option("--reset", is_flag=True, help="Make the demo database anew.")
@click.option("--tour", is_flag=True, help="Show round again, as when it is first opened.")
@click.option("--headless", is_flag=True, help="Print the tour instead of opening the app.")
@db_option
@click.pass_context
def demo(ctx: click.Context, reset: bool, tour: bool, headless: bool, db: Path | None) -> None:
    """Bundled runs and a built-in demo model: no key, no network.

    The first time, a line in the app says what to press next. Where the output is no terminal, the
    tour is printed.
    """
    from arc_tui.demo import make_demo

    path = demo_database(db or ctx.find_root().obj)
    first = not path.exists()
    make_demo(path, reset=reset)
    if headless or not sys.stdout.isatty():
        from arc_tui.cli.tour import print_tour

        print_tour(path)
    else:
        run_app(path, demo=True, tour=tour or first)
