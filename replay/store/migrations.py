"""Named sets of migrations, several to a file: what brought its tables to what they are.

sqlite-utils applies them and keeps the book of those it did. The book is read here: hardly any
database that is opened has a migration pending, and sqlite-utils takes longer to import than a
list of runs takes to read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sqlite_utils import Database


BOOK = "_sqlite_migrations"
"""The table of sqlite-utils that says which migrations were applied."""

Migration: TypeAlias = Callable[[sqlite3.Connection], None]


class Migrations:
    """A set of migrations in the order they are applied: functions under names."""

    def __init__(self, name: str, before: tuple[str, ...] = ()) -> None:
        """`before` are the names of those that an earlier arc had in place of these: a database
        that they made cannot be brought up to date."""
        self.name = name
        self.before = before
        self._known: dict[str, Migration] = {}

    def __call__(self, name: str) -> Callable[[Migration], Migration]:
        """Add a function under that name."""

        def known(migration: Migration) -> Migration:
            self._known[name] = migration
            return migration

        return known

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._known)

    def first(self, count: int) -> Migrations:
        """The set as it was when it had so many."""
        older = Migrations(self.name, self.before)
        older._known = dict(list(self._known.items())[:count])
        return older

    def applied(self, db: sqlite3.Connection) -> list[str]:
        """The names of those that were applied to a database, in that order."""
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (BOOK,)).fetchone():
            return []
        wanted = f"SELECT name FROM {BOOK} WHERE migration_set = ? ORDER BY rowid"
        return [name for (name,) in db.execute(wanted, (self.name,))]

    def pending(self, db: sqlite3.Connection) -> bool:
        """Is there one to apply?"""
        return not self._known.keys() <= set(self.applied(db))

    def apply(self, db: sqlite3.Connection) -> None:
        """Apply those that are pending, each with its line in the book or not at all."""
        from sqlite_utils import Database, migrations

        book = migrations.Migrations(self.name)
        for name, migration in self._known.items():
            book(name=name)(_on_connection(migration))
        book.apply(Database(db))


def _on_connection(migration: Migration) -> Callable[[Database], None]:
    def apply(db: Database) -> None:
        migration(db.conn)

    return apply
