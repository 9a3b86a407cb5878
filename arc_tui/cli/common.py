"""What commands share: the database option, printing a view as text or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arc_tui.places import database
from replay.store import Store
from taxonomy.ledger import open_ledger

F = TypeVar("F", bound=Callable[..., Any])

PIPED_WIDTH = 160


def db_option(command: F) -> F:
    """`--db` after the command's name too; the one before it is the default."""
    return click.option(
        "--db",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The database to use.",
    )(command)


def json_option(command: F) -> F:
    """`--json`: the view as JSON, its keys as documented."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def open_store(db: Path | None) -> Store:
    """The store that was asked for, on this command or before it."""
    outer = click.get_current_context().find_root().obj
    return open_ledger(database(db or outer))


def print_json(value: Any) -> None:
    """A value as indented JSON on stdout."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def console(*, err: bool = False) -> Console:
    """A console that colours only a terminal and gives a pipe room."""
    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else PIPED_WIDTH
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[Text | str]]) -> Table:
    """A plain table: a dim head, no lines; the last column takes what is left."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=False)
    for index, name in enumerate(columns):
        last = index == len(columns) - 1
        made.add_column(name, overflow="ellipsis", no_wrap=True, ratio=1 if last else None)
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return made
