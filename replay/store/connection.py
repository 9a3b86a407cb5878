"""A connection to a database file: by which driver, with which settings, and how its rows are read.

Python's own driver, or that of encrypted databases where the file is one. A file that cannot be
written is opened to be read.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replay import files
from replay.store import encryption
from replay.store.foreign import BoundedConnection
from replay.store.trouble import cannot_write, database_errors

Row = dict[str, Any]

BUSY_TIMEOUT_S = 5.0

PAGE_BYTES = 8192
"""Of a new file: rows of a page and more, as tool results are, leave less of it empty than in the
usual 4096."""


def _opened(file: Path | None, options: str = "") -> sqlite3.Connection:
    """By Python's own driver, or the one of encrypted databases where the file is one: that one has
    no bounds, who made the file had the key. `options` are those of a URI of SQLite."""
    encryption.take_from_environment()
    encrypted = encryption.connect(file, BUSY_TIMEOUT_S, options) if file is not None else None
    if encrypted is not None:
        return encrypted
    connection = sqlite3.connect(
        encryption.uri(file, options) if file is not None else ":memory:",
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        uri=file is not None,
        factory=BoundedConnection,
    )
    if file is not None:
        connection.bound(file)
    return connection


def connect(file: Path | None) -> sqlite3.Connection:
    """A connection as every one to a database is; the file is made where there is none. Where
    nothing can be written, the connection only reads."""
    if file is not None and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    try:
        return _writing(file)
    except database_errors() as error:
        if file is None or not cannot_write(error) or not file.stat().st_size:
            raise
        return _reading(file)


def _reading(file: Path) -> sqlite3.Connection:
    """A connection that only reads. A file in WAL mode wants a shared index beside it; where none
    can be made it is read as if nobody could change it, and a copy of it where the last that was
    written to it still stands in its log."""
    try:
        return _only_reading(file, "mode=ro")
    except database_errors() as error:
        if not cannot_write(error):
            raise
    log = file.with_name(f"{file.name}-wal")
    if not log.exists() or not log.stat().st_size:
        return _only_reading(file, "mode=ro&immutable=1")
    with files.private_folder() as folder:
        copy = folder / file.name
        shutil.copyfile(file, copy)
        shutil.copyfile(log, folder / log.name)
        return _only_reading(copy, "")  # its files are open now, and need no name any more


def _only_reading(file: Path, options: str) -> sqlite3.Connection:
    connection = _opened(file, options)
    try:
        connection.execute("SELECT count(1) FROM sqlite_master").fetchone()
        connection.execute("PRAGMA query_only = ON")
    except database_errors():
        connection.close()
        raise
    return connection


def _writing(file: Path | None) -> sqlite3.Connection:
    connection = _opened(file)
    try:
        _set_up(connection, file)
    except database_errors():
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection, file: Path | None) -> None:
    if file is None or not file.stat().st_size:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA recursive_triggers = ON")
    if file is not None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a tag outlives a power cut


def dicts(cursor: sqlite3.Cursor) -> Iterator[Row]:
    """Rows by the names of their columns."""
    # Later columns of one name win: a digest selected beside `c.*` stands for the row id.
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, values, strict=True)) for values in cursor)


@contextmanager
def lenient(db: sqlite3.Connection) -> Iterator[None]:
    """Bytes that are no text come as another text, whose digest is another, and not as an error."""
    before, db.text_factory = db.text_factory, lambda raw: raw.decode(errors="replace")
    try:
        yield
    finally:
        db.text_factory = before
