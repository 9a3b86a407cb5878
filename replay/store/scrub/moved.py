"""Which digest became which, and which row goes into which: tables of one connection, in no memory.

Digests stand in names, in notes and in what was kept of a replay; wherever one is met that moved,
the new one takes its place.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

_TABLES = (
    "moved_message(id INTEGER PRIMARY KEY, was TEXT UNIQUE, now TEXT, role TEXT, body TEXT,"
    " masked INTEGER, into_row INTEGER)",
    "moved_toolset(id INTEGER PRIMARY KEY, was TEXT UNIQUE, now TEXT, body TEXT, into_row INTEGER)",
    "moved_context(id INTEGER PRIMARY KEY, was TEXT, now TEXT, into_row INTEGER)",
    "moved_digest(was TEXT PRIMARY KEY, now TEXT) WITHOUT ROWID",
    "moved_trace(id INTEGER PRIMARY KEY)",
    "moved_answer(server TEXT, key TEXT, PRIMARY KEY (server, key)) WITHOUT ROWID",
    "asked(key TEXT, trace TEXT, edit TEXT, model TEXT, step INTEGER, side TEXT, sample INTEGER)",
)

_INDICES = (
    "moved_message_now ON moved_message(now)",
    "moved_toolset_now ON moved_toolset(now)",
    "asked_of ON asked(trace, edit, model)",
    "asked_key ON asked(key)",
)

_HEX = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@contextmanager
def remembering(db: sqlite3.Connection) -> Iterator[None]:
    """The tables exist within. They hold ids, digests and masked texts: SQLite may put them into a
    file for a while."""
    _forget(db)
    for table in _TABLES:
        db.execute(f"CREATE TEMP TABLE {table}")
    for index in _INDICES:
        db.execute(f"CREATE INDEX temp.{index}")
    yield
    _forget(db)


def _forget(db: sqlite3.Connection) -> None:
    for table in _TABLES:
        db.execute(f"DROP TABLE IF EXISTS temp.{table.partition('(')[0]}")


def move(db: sqlite3.Connection, was: str, now: str) -> None:
    """A digest became another one. The first word counts."""
    if was != now:
        pair = (was.rpartition(":")[2], now.rpartition(":")[2])
        db.execute("INSERT OR IGNORE INTO moved_digest VALUES (?, ?)", pair)


class Digests:
    """Puts new digests where old ones stand."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def now(self, text: str) -> str:
        """The text with every digest that moved as it is now."""
        return _HEX.sub(self._one, text)

    def _one(self, met: re.Match[str]) -> str:
        found = self._db.execute("SELECT now FROM moved_digest WHERE was = ?", (met.group(),))
        row = found.fetchone()
        return met.group() if row is None else str(row[0])


def ids(db: sqlite3.Connection, table: str, key: str = "id") -> Iterator[int]:
    """The rows of a table by their ids, so many at a time: they may be changed meanwhile, and the
    texts of one are in memory, however long they are."""
    sql = f"SELECT {key} FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT {_TOGETHER}"
    after = -1
    while found := db.execute(sql, (after,)).fetchall():
        yield from (row[0] for row in found)
        after = found[-1][0]


_TOGETHER = 1000
