"""`arc db backup`: a copy of the database, looked through before it gets its name."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import Struct

from arc_tui import format
from arc_tui.cli.common import db_option, json_option, open_store, print_json
from arc_tui.places import database
from replay.errors import NotFound
from replay.store.backup import backup as copy


class BackupView(Struct, frozen=True, kw_only=True):
    """A copy: where it is, its size, and how many rows each table has."""

    path: str
    bytes: int
    rows: dict[str, int]


COUNTED = {
    "trace": "trace", "answer": "answer", "replay": "replay", "edit": "edit", "tag": "tag",
    "clearance": "clearance", "score": "score",
}  # fmt: skip
"""What a person asks of a copy: the table, and what one row of it is."""


def told(rows: dict[str, int]) -> str:
    """How much there is of what a person recorded, paid for or said."""
    return ", ".join(format.count(rows.get(table, 0), name) for table, name in COUNTED.items())


def existing(db: Path | None) -> Path:
    """The database that was asked for. Raises NotFound where there is none."""
    path = database(db or click.get_current_context().find_root().obj)
    if not path.exists():
        raise NotFound("database", str(path), hint="--db or ARC_DB names another")
    return path


@click.command()
@click.argument("path", required=False, type=click.Path(dir_okay=False, path_type=Path))
@json_option
@db_option
def backup(path: Path | None, as_json: bool, db: Path | None) -> int:
    """Copy the database to PATH, or to a name with the date beside it.

    Others may go on writing. The copy is private (0600), without what was deleted, and looked
    through before it gets its name; an existing file is never written over.
    """
    existing(db)
    with open_store(db) as store:
        made = copy(store, path)
    if as_json:
        print_json(BackupView(path=str(made.path), bytes=made.bytes, rows=made.rows))
        return 0
    click.echo(f"{format.one_line(str(made.path))}  {made.bytes / 1e6:.1f} MB: {told(made.rows)}")
    return 0
