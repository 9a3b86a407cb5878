"""`Store`: one open database, for one thread.

Opening creates the file with mode 0600, applies pending migrations, and turns on WAL and foreign
keys. A handle never crosses threads; a worker opens its own with `Store.open(store.path)`.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from replay.errors import StoreUnusable
from replay.store.schema import migrations

if TYPE_CHECKING:
    from replay.redact import Redactor

BUSY_TIMEOUT_S = 5.0


class Store:
    """An open database; `db` is its sqlite-utils handle, shared with `taxonomy.ledger`."""

    def __init__(self, db: Database, path: Path | None) -> None:
        self.db = db
        self.path = path
        self._redactor: Redactor | None = None

    @classmethod
    def open(cls, path: Path | str, *sets: Migrations) -> Store:
        """Open or create the database at `path` (":memory:" for none on disk).

        `sets` are further migration sets to apply on the same handle. Raises StoreUnusable where
        the file is no database, cannot be written, or was made by a newer `arc`.
        """
        file = None if str(path) == ":memory:" else Path(path)
        try:
            connection = _connect(file)
            db = Database(connection)
            for wanted in (migrations, *sets):
                _refuse_newer(db, wanted, file)
                _migrate(db, wanted)
        except (sqlite3.Error, OSError) as error:
            raise StoreUnusable(
                f"{path}: cannot be used as a database: {error}",
                "name another file with --db or ARC_DB",
            ) from error
        return cls(db, file)

    def close(self) -> None:
        self.db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the write lock from its start; rolls back on any error."""
        connection = self.db.conn
        if connection.in_transaction:
            yield connection
            return
        with _locked(connection):
            yield connection

    @property
    def redactor(self) -> Redactor:
        """The redactor under this database's key, made with the database unless
        `ARC_REDACT_KEY` names another."""
        if self._redactor is None:
            from replay.redact import Redactor  # its patterns take a while, and a reader needs none

            self._redactor = Redactor(self._redact_key())
        return self._redactor

    def _redact_key(self) -> bytes:
        given = os.environ.get("ARC_REDACT_KEY")
        if given:
            return given.encode()
        with self.writing() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO setting (name, value) VALUES ('redact_key', ?)",
                (secrets.token_hex(32),),
            )
            row = connection.execute(
                "SELECT value FROM setting WHERE name = 'redact_key'"
            ).fetchone()
        return bytes.fromhex(row[0])

    def version(self) -> int:
        """Changes whenever another connection has written; for refreshing a screen."""
        return int(self.db.execute("PRAGMA data_version").fetchone()[0])


@contextmanager
def _locked(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def now_ns() -> int:
    """The wall clock; stored as "when", never part of a digest."""
    return time.time_ns()


def _connect(file: Path | None) -> sqlite3.Connection:
    if file is not None and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    connection = sqlite3.connect(
        str(file) if file is not None else ":memory:",
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
    )
    connection.execute("PRAGMA foreign_keys = ON")
    if file is not None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _migrate(db: Database, wanted: Migrations) -> None:
    """Apply what is pending, under the write lock: of two that open a new file one waits."""
    if not wanted.pending(db):
        return
    with _locked(db.conn):
        wanted.apply(db)  # looks again at what is pending, now that nobody else can write


def _refuse_newer(db: Database, wanted: Migrations, file: Path | None) -> None:
    known = {migration.name for migration in wanted._migrations}
    newer = sorted(done.name for done in wanted.applied(db) if done.name not in known)
    if newer:
        raise StoreUnusable(
            f"{file}: was written by a newer arc: this one does not know its {newer[-1]}",
            "upgrade arc, or name another database with --db",
        )
