"""`arc`, `arc FILE…`, `arc demo`: the app, and the demo without one."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from arc_tui.cli.common import db_option
from arc_tui.cli.unlocking import unlock
from arc_tui.config import read_owners
from arc_tui.places import database, demo_database
from replay.errors import ArcError


def run_app(path: Path, *, imports: tuple[Path, ...] = (), demo: bool = False) -> None:
    """Open the app on a database; needs a terminal, and settings without a mistake."""
    read_owners()
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise ArcError(
            "the app needs a terminal",
            "use `arc ls`, `arc show`, `arc import` in a pipe or a script",
        )
    unlock(path)
    from arc_tui.app import ArcApp

    app = ArcApp(path, imports=imports, demo=demo)
    app.run()
    sys.exit(app.return_code or 0)


@click.command("open", hidden=True)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@db_option
@click.pass_context
def open_files(ctx: click.Context, files: tuple[Path, ...], db: Path | None) -> None:
    """Import FILES and open the app."""
    run_app(database(db or ctx.find_root().obj), imports=files)


@click.command("demo")
@click.option("--reset", is_flag=True, help="Make the demo database anew.")
@click.option("--headless", is_flag=True, help="Print the tour instead of opening the app.")
@db_option
@click.pass_context
def demo(ctx: click.Context, reset: bool, headless: bool, db: Path | None) -> None:
    """Bundled runs and a built-in demo model: no key, no network.

    Where the output is no terminal, the tour is printed.
    """
    from arc_tui.demo import make_demo

    path = demo_database(db or ctx.find_root().obj)
    make_demo(path, reset=reset)
    if headless or not sys.stdout.isatty():
        from arc_tui.cli.tour import print_tour

        print_tour(path)
    else:
        run_app(path, demo=True)
