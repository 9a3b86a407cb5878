"""A copy of a database beside it: whole, looked through, private, and under its name only then.

`VACUUM INTO` writes it out of one snapshot, so nobody has to stop writing; what was deleted is not
in it. An older database is copied like that before it is brought to the schema of today.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from pathlib import Path

from msgspec import Struct

from replay import files
from replay.errors import StoreUnusable
from replay.store.connection import connect
from replay.store.schema import BOOK, Migrations
from replay.store.trouble import describe

copied: ContextVar[Callable[[Path], None] | None] = ContextVar("copied", default=None)
"""Called with the copy that was made of an older database before it was changed."""

_BOOKKEEPING = (BOOK, "latency", "setting")
"""Tables that follow from others or are made again: nothing is lost with them."""


class Copied(Struct, frozen=True, kw_only=True):
    """A finished copy; `rows` of each table that is not an index of others."""

    path: Path
    bytes: int
    rows: dict[str, int]


def dated(path: Path) -> Path:
    """A name beside a database that says when, to the second."""
    return path.with_name(f"{path.stem}-{time.strftime('%Y%m%d-%H%M%S')}{path.suffix}")


def copy(source: sqlite3.Connection, path: Path, target: Path) -> Copied:
    """Copy the database behind a connection, whose file is `path`.

    Raises StoreUnusable where a file stands there, it cannot be written, or the database is
    damaged.
    """
    if os.path.lexists(target):
        raise already_there(target)
    with part_of(target) as part:
        _written(source, path, part, target)
        with describe(target), closing(connect(part)) as made:
            _look_through(made, target)
            rows = counts(made)
        size = put_in_place(part, target)
    return Copied(path=target, bytes=size, rows=rows)


@contextmanager
def part_of(target: Path) -> Iterator[Path]:
    """An empty private file in the folder of a target; whatever happens, it does not stay."""
    with ExitStack() as undo:
        try:
            part = undo.enter_context(files.temporary_for(target))
        except OSError as error:
            raise StoreUnusable(
                f"{target}: cannot be written: {error.strerror}", "Try: another path"
            ) from error
        yield part


def _written(source: sqlite3.Connection, path: Path, part: Path, target: Path) -> None:
    try:
        with describe(path):
            source.execute("VACUUM INTO ?", (str(part),))
    except StoreUnusable as error:
        if "full" in error.message or "refused" in error.message:  # the copy's disk, not its own
            said = error.message.removeprefix(f"{path}: ")
            raise StoreUnusable(f"{target}: {said}", error.hint) from error
        raise


def _look_through(made: sqlite3.Connection, target: Path) -> None:
    """Raises StoreUnusable where the copy does not hold together."""
    said = [row[0] for row in made.execute("PRAGMA integrity_check(1)")]
    if said != ["ok"]:
        raise StoreUnusable(
            f"{target}: the copy failed its integrity check and was deleted: {said[0]}",
            "Try: arc db verify, to check the database; arc db recover, to save what is readable",
        )


def counts(database: sqlite3.Connection) -> dict[str, int]:
    """Rows by table, without those of indices and of what SQLite keeps for itself."""
    virtual = [
        row[0]
        for row in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'"
        )
    ]
    names = [
        row[0]
        for row in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%'"
            " ESCAPE '\\' ORDER BY name"
        )
        if not any(row[0] == each or row[0].startswith(each + "_") for each in virtual)
    ]
    return {
        name: database.execute(f'SELECT count(1) FROM "{name}"').fetchone()[0] for name in names
    }


def put_in_place(part: Path, target: Path) -> int:
    """Give a finished file its name, unless something took it meanwhile; how many bytes it has."""
    files.sync(part)
    size = part.stat().st_size
    try:
        os.link(part, target)
    except FileExistsError as error:
        raise already_there(target) from error
    except OSError:  # a file system without links
        part.rename(target)
    if os.name == "posix":
        files.sync(target.parent)
    return size


def already_there(target: Path) -> StoreUnusable:
    return StoreUnusable(f"{target}: already exists", "Try: another file")


# --- before a migration


def keep_older(db: sqlite3.Connection, file: Path, sets: Iterable[Migrations]) -> Path:
    """Copy a database of an older schema to `<its name>.<schema>.bak`, and return that place.

    Whoever calls holds the write lock of it, so that it is still what it was.
    """
    schema = "-".join(done[-1].partition("_")[0] for each in sets if (done := each.applied(db)))
    target = _free(file.with_name(f"{file.name}.{schema}.bak"))
    try:
        with describe(file), closing(connect(file)) as reader:
            copy(reader, file, target)
    except StoreUnusable as error:
        raise StoreUnusable(
            f"{file}: cannot be copied: it has an older version and cannot be upgraded:"
            f" {error.message}",
            error.hint,
        ) from error
    tell_copied(target)
    return target


def tell_copied(copy: Path) -> None:
    """Say that an older database was copied, to whoever wants to know."""
    tell = copied.get()
    if tell is not None:
        tell(copy)


def _free(wanted: Path) -> Path:
    """The name, or the first free one with a number before its ending."""
    found, number = wanted, 1
    while os.path.lexists(found):
        number += 1
        found = wanted.with_name(f"{wanted.stem}.{number}.bak")
    return found


def has_something(db: sqlite3.Connection) -> bool:
    """Is there anything in a database that it would be a pity to lose?"""
    return any(rows for name, rows in counts(db).items() if name not in _BOOKKEEPING)
