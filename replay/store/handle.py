"""`Store`: one open database, for one thread, with the rules for secrets that hold in it.

Opening creates the file with mode 0600, applies pending migrations, and turns on WAL and foreign
keys. A handle never crosses threads; a worker opens its own with `Store.open(store.path)`.

Rules that a person adds to the built-in ones a program says once, and whoever records for what he
records; a database that is opened and writes is told them. The built-in rules are compiled only
then: a reader needs none.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from replay.errors import StoreUnusable
from replay.store.backup import Copied, copy, dated, has_something, keep_older
from replay.store.connection import (
    STEPS_BETWEEN_LOOKS,
    BoundedConnection,
    connect,
    connect_to_read,
    refuse_foreign,
)
from replay.store.schema import Migrations, migrations
from replay.store.trouble import StoreTooOld, describe, opening, unusable

if TYPE_CHECKING:
    from replay.redact.redactor import Redactor
    from replay.redact.rules import Policy


class Store:
    """An open database; `db` is its connection, shared with `taxonomy.judgements`."""

    def __init__(self, db: sqlite3.Connection, path: Path | None) -> None:
        self.db = db
        self.path = path
        self._redactor: Redactor | None = None

    @classmethod
    def open(
        cls, path: Path | str, *sets: Migrations, before: bool = False, to_read: bool = False
    ) -> Store:
        """Open or create the database at `path` (":memory:" for none on disk).

        `to_read` changes nothing: the file must be there, and up to date.

        `sets` are further migration sets to apply on the same handle. A file that cannot be written
        is opened to be read; so is, with `before`, one that the last arc before 0.1 wrote. Raises
        StoreUnusable where the file is no database, was made by a newer `arc`, or by an older one
        and cannot be brought up to date.
        """
        file = None if str(path) == ":memory:" else Path(path)
        with ExitStack() as undo, opening(path):
            try:
                db = connect_to_read(file) if to_read and file is not None else connect(file)
            except OSError as error:
                raise StoreUnusable(
                    f"{path}: cannot be used as a database: {error}",
                    "Try: another file with --db or ARC_DB",
                ) from error
            undo.callback(db.close)
            refuse_foreign(db, path)
            if before and all(_is_last_before(db, each) for each in (migrations, *sets)):
                db.execute("PRAGMA query_only = ON")
            else:
                _bring_up(db, file, (migrations, *sets), to_read=to_read)
            undo.pop_all()
        return cls(db, file)

    @property
    def read_only(self) -> bool:
        """May the file only be read, because its folder or disk takes nothing more?"""
        return bool(self.db.execute("PRAGMA query_only").fetchone()[0])

    def close(self) -> None:
        self.db.close()

    def forget_pages(self) -> None:
        """Free the pages of the file that are held in memory: they are read again when wanted."""
        self.db.execute("PRAGMA shrink_memory")

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if isinstance(self.db, BoundedConnection):
            self.db.raise_if_pressed(error)
        said = unusable(error, self.path) if isinstance(error, Exception) else None
        if said is not None:
            raise said from error

    def stop_when(self, over: Callable[[], bool]) -> None:
        """From now on a statement ends with an error soon after it is `over`, and what its
        transaction wrote is taken back: nobody waits for the answer any more."""
        if isinstance(self.db, BoundedConnection):
            self.db.stop_when(over)
        else:  # an encrypted one, by the other driver
            self.db.set_progress_handler(over, STEPS_BETWEEN_LOOKS)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the write lock from its start; rolls back on any error.

        Raises StoreUnusable where the disk is full or may not be written, or where another
        process keeps writing: nothing is changed then.
        """
        connection = self.db
        if connection.in_transaction:
            yield connection
            return
        with describe(self.path), _locked(connection):
            yield connection

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What is read together is of one moment: between two statements another process may
        replace a trace that grows."""
        if self.db.in_transaction:
            yield
            return
        self.db.execute("BEGIN")
        try:
            yield
        finally:
            if self.db.in_transaction:  # an error may have ended it
                self.db.execute("COMMIT")

    @property
    def redactor(self) -> Redactor:
        """The redactor under this database's key, made with the database unless
        `ARC_REDACT_KEY` names another."""
        if self._redactor is None:
            self._redactor = redactor(self._redact_key())
        return self._redactor

    @redactor.setter
    def redactor(self, redactor: Redactor) -> None:
        """Mask as another database does, in one that holds runs for it."""
        self._redactor = redactor

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

    def backup(self, target: Path | None = None) -> Copied:
        """Copy the database to `target`, or to a name with the date beside it.

        Raises StoreUnusable where a file stands there, it cannot be written, or the database is
        damaged.
        """
        assert self.path is not None, "a database in memory has no file to copy"
        return copy(self.db, self.path, target or dated(self.path))

    def version(self) -> int:
        """Changes whenever another connection has written; for refreshing a screen."""
        return int(self.db.execute("PRAGMA data_version").fetchone()[0])


@contextmanager
def _locked(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have ended it already
            connection.execute("ROLLBACK")
        raise


def now_ns() -> int:
    """The wall clock; stored as "when", never part of a digest."""
    return time.time_ns()


def _bring_up(
    db: sqlite3.Connection,
    file: Path | None,
    sets: tuple[Migrations, ...],
    *,
    to_read: bool = False,
) -> None:
    """Apply what is pending, under the write lock: of two that open a new file one waits.

    What an older version kept is copied before. All sets or none: a change that fails leaves the
    file as it was, and no copy.
    """
    if any(set(wanted.applied(db)) & set(wanted.before) for wanted in sets):
        raise StoreTooOld(file, last=all(_is_last_before(db, wanted) for wanted in sets))
    for wanted in sets:
        _refuse_newer(db, wanted, file)
    if not any(wanted.pending(db) for wanted in sets):
        return
    if to_read:
        raise StoreUnusable(
            f"{file}: was written by an older arc and must be upgraded before it can be read here",
            "Try: arc ls, which upgrades it and keeps a copy",
        )
    if db.execute("PRAGMA query_only").fetchone()[0]:
        raise StoreUnusable(
            f"{file}: was written by an older arc and cannot be upgraded: it is read-only here",
            "Try: copy it to a writable folder, then --db COPY",
        )
    with ExitStack() as undo:
        with _replacing(db), _locked(db):
            older = any(_is_older(db, wanted) for wanted in sets)
            if file is not None and older and has_something(db):
                kept = keep_older(db, file, sets)
                undo.callback(kept.unlink, missing_ok=True)
            for wanted in sets:
                wanted.apply(db)  # looks again at what is pending: nobody else can write now
        undo.pop_all()


@contextmanager
def _replacing(connection: sqlite3.Connection) -> Iterator[None]:
    """A table that others refer to can be dropped, and made anew with the same ids."""
    connection.execute("PRAGMA foreign_keys = OFF")
    try:
        yield
    finally:
        connection.execute("PRAGMA foreign_keys = ON")


def _is_older(db: sqlite3.Connection, wanted: Migrations) -> bool:
    """Was a part of the set applied, by an earlier version of it?"""
    return bool(wanted.applied(db) and wanted.pending(db))


def _is_last_before(db: sqlite3.Connection, wanted: Migrations) -> bool:
    """Are the tables of the set those of the last arc before 0.1?"""
    return bool(wanted.before) and set(wanted.applied(db)) == set(wanted.before)


def _refuse_newer(db: sqlite3.Connection, wanted: Migrations, file: Path | None) -> None:
    newer = sorted(set(wanted.applied(db)) - set(wanted.names))
    if newer:
        raise StoreUnusable(
            f"{file}: was written by a newer arc: this one does not support its {newer[-1]}",
            "Try: a newer arc, or another --db",
        )


_sources: list[Callable[[], Policy]] = []
_said: ContextVar[Policy | None] = ContextVar("said", default=None)


def mask_with(source: Callable[[], Policy]) -> None:
    """From now on redactors are made with what `source` says; it is asked when one is needed."""
    _sources[:] = [source]


@contextmanager
def masked_by(policy: Policy | None) -> Iterator[None]:
    """Redactors that are made in the body have this policy, whatever the program says; None: the
    program's."""
    token = _said.set(policy)
    try:
        yield
    finally:
        _said.reset(token)


def redactor(key: bytes) -> Redactor:
    """One under a database's key."""
    from replay.redact.redactor import Redactor
    from replay.redact.rules import Policy

    policy = _said.get()
    if policy is None:
        policy = _sources[0]() if _sources else Policy()
    return Redactor(key, policy)
